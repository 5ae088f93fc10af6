using System;

namespace Nanolith
{
    /// <summary>What an option may be, and what it is where nobody sets it (of lists 0, which means nothing).</summary>
    public struct Bounds<T>
    {
        internal Bounds(T least, T most, T standard)
        {
            Least = least;
            Most = most;
            Default = standard;
        }

        /// <summary>The least value.</summary>
        public T Least { get; }

        /// <summary>The greatest value.</summary>
        public T Most { get; }

        /// <summary>The value where nobody sets it.</summary>
        public T Default { get; }
    }

    /// <summary>The library itself.</summary>
    public static class Library
    {
        /// <summary>The version of libnanolith at run time, as "0.2.0".</summary>
        public static string Version
        {
            get { return Text.FromNative(Native.nl_version()); }
        }

        /// <summary>The same as one number, to compare: 200 is 0.2.0, 10203 is 1.2.3.</summary>
        public static int VersionNumber
        {
            get { return Native.nl_version_number(); }
        }

        /// <summary>
        /// What the Hugging Face folder or GGUF file at <paramref name="path"/> is and what of it can be used, without
        /// loading weights: lines "name: value", for people to read, or a JSON object with the same names. "model",
        /// "tokenizer" and "chat format" are among them, each "supported" (or the format's name), or "none", "not
        /// supported" or "not usable" and the reason. A part that can't be used is no error.
        /// </summary>
        public static string DescribeModel(string path, DescribeFormat format = DescribeFormat.Text)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            return Call.FillText(1024, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.nl_model_describe(text, Call.Size(text), (int)format, buffer, capacity, out length));
        }

        /// <summary>
        /// The options of a kind as a JSON array of objects: "name", "key", "type", "least", "most", "default" and "doc".
        /// </summary>
        public static string DescribeOptions(OptionsKind kind)
        {
            return Call.FillText(4096, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.nl_option_describe((int)kind, buffer, capacity, out length));
        }

        /// <summary>The facts of a kind as a JSON array of objects: "name", "key", "unit" and "doc".</summary>
        public static string DescribeFacts(FactsKind kind)
        {
            return Call.FillText(4096, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.nl_fact_describe((int)kind, buffer, capacity, out length));
        }

        /// <summary>
        /// The bounds of an option that takes integers; the key is one of EngineOption, CacheOption, SamplingOption or
        /// GenerationOption: <c>IntBounds((int)EngineOption.PageSize)</c>.
        /// </summary>
        public static Bounds<long> IntBounds(int option)
        {
            long least, most, standard;
            Call.Check(Native.nl_option_bounds_int(option, out least, out most, out standard));
            return new Bounds<long>(least, most, standard);
        }

        /// <summary>The bounds of an option that takes floats: <c>FloatBounds((int)SamplingOption.TopP)</c>.</summary>
        public static Bounds<double> FloatBounds(int option)
        {
            double least, most, standard;
            Call.Check(Native.nl_option_bounds_float(option, out least, out most, out standard));
            return new Bounds<double>(least, most, standard);
        }
    }
}
