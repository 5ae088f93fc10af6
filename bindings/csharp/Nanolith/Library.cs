using System;

namespace Nanolith
{
    /// <summary>The library itself.</summary>
    public static class Library
    {
        /// <summary>The version of libnanolith at run time, as "0.1.0".</summary>
        public static string Version
        {
            get { return Text.FromNative(Native.nl_version()); }
        }

        /// <summary>
        /// What the Hugging Face folder at <paramref name="path"/> is and what of it can be used, without loading
        /// weights: lines "name: value", for people to read. "model", "tokenizer" and "chat format" are among them, each
        /// "supported" (or the format's name), or "none", "not supported" or "not usable" and the reason. A part that
        /// can't be used is no error.
        /// </summary>
        public static string DescribeModel(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            return Call.FillText(1024, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.nl_model_describe(text, Call.Size(text), buffer, capacity, out length));
        }
    }
}
