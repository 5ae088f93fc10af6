using System;

namespace Nanolith
{
    /// <summary>The library's options, and how those of this library set themselves there.</summary>
    internal static class NativeOptions
    {
        /// <summary>Options of a kind, as <paramref name="setValues"/> sets them. The caller disposes of them.</summary>
        internal static NativeHandle Create(OptionsKind kind, Action<IntPtr> setValues)
        {
            IntPtr raw;
            Call.Check(Native.nl_options_create((int)kind, out raw));
            var handle = new NativeHandle(raw, Native.nl_options_free, null);
            try
            {
                setValues(raw);
                return handle;
            }
            catch
            {
                handle.Dispose();
                throw;
            }
        }

        internal static void Set(IntPtr options, int key, long value)
        {
            Call.Check(Native.nl_options_set_int(options, key, value));
        }

        internal static void Set(IntPtr options, int key, double value)
        {
            Call.Check(Native.nl_options_set_float(options, key, value));
        }

        internal static void Set(IntPtr options, int key, string value)
        {
            byte[] text = Text.ToNative(value, "value");
            Call.Check(Native.nl_options_set_text(options, key, text, Call.Size(text)));
        }
    }

    public sealed partial class CacheOptions
    {
        internal NativeHandle ToNative()
        {
            return NativeOptions.Create(OptionsKind.Cache, SetValues);
        }
    }

    public sealed partial class SamplingOptions
    {
        internal NativeHandle ToNative()
        {
            return NativeOptions.Create(OptionsKind.Sampling, SetValues);
        }
    }
}
