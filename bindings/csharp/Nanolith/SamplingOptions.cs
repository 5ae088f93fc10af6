using System;

namespace Nanolith
{
    /// <summary>
    /// How to draw tokens: greedily, unless a temperature is set. What is null keeps the library's default.
    /// </summary>
    public sealed class SamplingOptions
    {
        /// <summary>0 (greedy, default) or a finite positive number.</summary>
        public float? Temperature { get; set; }

        /// <summary>Keeps the k highest logits (and ties with the k-th); 0 (default) keeps all.</summary>
        public int? TopK { get; set; }

        /// <summary>
        /// Keeps the most probable tokens until their share reaches it, in (0, 1]; 1 (default) keeps all.
        /// </summary>
        public float? TopP { get; set; }

        /// <summary>
        /// Keeps tokens at least this many times as probable as the best, in [0, 1]; 0 (default) keeps all.
        /// </summary>
        public float? MinP { get; set; }

        /// <summary>
        /// Draws depend on the logits, the options, the seed and the position alone. Default 0.
        /// </summary>
        public ulong? Seed { get; set; }

        /// <summary>The library's options. The handle is the caller's to dispose of.</summary>
        internal NativeHandle ToNative()
        {
            IntPtr raw;
            Call.Check(Native.nl_sampling_options_create(out raw));
            var handle = new NativeHandle(raw, Native.nl_sampling_options_free, null);
            try
            {
                if (Temperature != null)
                {
                    Call.Check(Native.nl_sampling_options_set_temperature(raw, Temperature.Value));
                }
                if (TopK != null) Call.Check(Native.nl_sampling_options_set_top_k(raw, TopK.Value));
                if (TopP != null) Call.Check(Native.nl_sampling_options_set_top_p(raw, TopP.Value));
                if (MinP != null) Call.Check(Native.nl_sampling_options_set_min_p(raw, MinP.Value));
                if (Seed != null) Call.Check(Native.nl_sampling_options_set_seed(raw, Seed.Value));
                return handle;
            }
            catch
            {
                handle.Dispose();
                throw;
            }
        }
    }
}
