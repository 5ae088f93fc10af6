using System;

namespace Nanolith
{
    /// <summary>How to load a model. What is null keeps the library's default.</summary>
    public sealed class EngineOptions
    {
        /// <summary>
        /// "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
        /// </summary>
        public string Device { get; set; }

        /// <summary>The number format of weights, activations and the key-value cache.</summary>
        public Dtype? Dtype { get; set; }

        /// <summary>Tokens a page: a power of two from 16 to 256. Default 64.</summary>
        public int? PageSize { get; set; }

        /// <summary>Pages in the pool; 0 (default) sizes it from the model and the memory that is free.</summary>
        public long? NumPages { get; set; }

        /// <summary>Longest context of a cache in tokens; 0 (default) takes the model's.</summary>
        public long? MaxContext { get; set; }

        /// <summary>Most tokens computed in one step, 1 to 65536. Default 512.</summary>
        public int? MaxBatchTokens { get; set; }

        /// <summary>CPU threads, 1 to 1024; 0 (default) takes the cores that the process may use.</summary>
        public int? Threads { get; set; }

        /// <summary>
        /// Receives log lines, on any thread. It must not use this library; an exception in it is caught and ignored.
        /// </summary>
        public Action<Severity, string> Log { get; set; }

        /// <summary>The library's options. The handle is the caller's to dispose of.</summary>
        internal NativeHandle ToNative(long log)
        {
            IntPtr raw;
            Call.Check(Native.nl_engine_options_create(out raw));
            var handle = new NativeHandle(raw, Native.nl_engine_options_free, null);
            try
            {
                Set(raw, log);
                return handle;
            }
            catch
            {
                handle.Dispose();
                throw;
            }
        }

        private void Set(IntPtr raw, long log)
        {
            if (Device != null)
            {
                byte[] device = Text.ToNative(Device, nameof(Device));
                Call.Check(Native.nl_engine_options_set_device(raw, device, Call.Size(device)));
            }
            if (Dtype != null) Call.Check(Native.nl_engine_options_set_dtype(raw, (int)Dtype.Value));
            if (PageSize != null) Call.Check(Native.nl_engine_options_set_page_size(raw, PageSize.Value));
            if (NumPages != null) Call.Check(Native.nl_engine_options_set_num_pages(raw, NumPages.Value));
            if (MaxContext != null) Call.Check(Native.nl_engine_options_set_max_context(raw, MaxContext.Value));
            if (MaxBatchTokens != null)
            {
                Call.Check(Native.nl_engine_options_set_max_batch_tokens(raw, MaxBatchTokens.Value));
            }
            if (Threads != null) Call.Check(Native.nl_engine_options_set_threads(raw, Threads.Value));
            if (log != 0) Call.Check(Native.nl_engine_options_set_log(raw, Nanolith.Log.Callback, (IntPtr)log));
        }
    }
}
