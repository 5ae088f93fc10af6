using System;
using System.Collections.Generic;

namespace Nanolith
{
    /// <summary>
    /// A loaded model and its page pool. It lives until it is disposed of, and so is every chunk, cache and tokenizer
    /// made from it. All members may be used from any thread.
    /// </summary>
    public sealed class Engine : IDisposable
    {
        private readonly NativeHandle handle;

        /// <summary>
        /// Loads the Hugging Face folder at <paramref name="path"/> and reserves the page pool. Blocks while the
        /// weights load. The weight files stay mapped while the engine lives: do not truncate them.
        /// </summary>
        /// <exception cref="NanolithException">The model or the options can't be had; the message says why.</exception>
        public Engine(string path, EngineOptions options = null)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            options = options ?? new EngineOptions();
            long log = options.Log == null ? 0 : Log.Add(options.Log);
            try
            {
                using (NativeHandle native = options.ToNative(log))
                using (NativeHandle.Use use = native.Using())
                {
                    IntPtr raw;
                    Call.Check(Native.nl_engine_create(text, Call.Size(text), use.Raw, out raw));
                    handle = new NativeHandle(raw, engine =>
                    {
                        Native.nl_engine_free(engine);
                        Log.Remove(log);
                    }, null);
                }
            }
            catch
            {
                Log.Remove(log);
                throw;
            }
        }

        /// <summary>Drops the engine. May be called again.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>A fact about the engine.</summary>
        public long Query(EngineFact fact)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                long value;
                Call.Check(Native.nl_engine_query(use.Raw, (int)fact, out value));
                return value;
            }
        }

        /// <summary>The device in words, for example "cpu (2 threads)".</summary>
        public string Device
        {
            get
            {
                using (NativeHandle.Use use = handle.Using())
                {
                    return Call.FillText(128, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                        Native.nl_engine_device(use.Raw, buffer, capacity, out length));
                }
            }
        }

        /// <summary>Whether <paramref name="token"/> ends an answer by the model's files.</summary>
        public bool IsEndToken(int token)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return IsEndToken(use.Raw, token);
            }
        }

        internal static bool IsEndToken(IntPtr engine, int token)
        {
            int isEnd;
            Call.Check(Native.nl_engine_is_end_token(engine, token, out isEnd));
            return isEnd != 0;
        }

        /// <summary>A tokenizer for the model; an error with Status.NotFound where its folder has none.</summary>
        public Tokenizer CreateTokenizer()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_engine_tokenizer(use.Raw, out raw));
                return new Tokenizer(raw, handle);
            }
        }

        /// <summary>
        /// Prefills <paramref name="tokens"/> (at least one) into a chunk, with the chunks <paramref name="before"/> in
        /// view, in that order. A chunk that is still in the store is returned again at no cost. Blocks until it is
        /// computed.
        /// </summary>
        /// <param name="tokens">Token ids.</param>
        /// <param name="level">
        /// The chunk's place in the cascade: 0 system, 1 context, 2 query. When pages run short, chunks that nobody
        /// holds are evicted from level 2 first.
        /// </param>
        /// <param name="before">Chunks that the tokens are computed with; null for none.</param>
        public Chunk Prefill(int[] tokens, int level, IReadOnlyList<Chunk> before = null)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            using (NativeHandle.UseAll chunks = Chunk.UseAll(before))
            {
                IntPtr raw;
                Call.Check(Native.nl_chunk_prefill(use.Raw, tokens, Call.Size(tokens), level, chunks.Raw,
                    Call.Size(chunks.Raw), out raw));
                return new Chunk(raw, handle);
            }
        }

        /// <summary>
        /// A context that begins with <paramref name="chunks"/> in this order; the same chunk may stand in it twice.
        /// Blocks only where exact composition must compute.
        /// </summary>
        public Cache CreateCache(IReadOnlyList<Chunk> chunks = null, Composition composition = Composition.Exact)
        {
            using (NativeHandle.Use use = handle.Using())
            using (NativeHandle.UseAll uses = Chunk.UseAll(chunks))
            using (NativeHandle options = CacheOptions(composition))
            using (NativeHandle.Use native = options.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_cache_create(use.Raw, native.Raw, uses.Raw, Call.Size(uses.Raw), out raw));
                return new Cache(raw, handle);
            }
        }

        private static NativeHandle CacheOptions(Composition composition)
        {
            IntPtr raw;
            Call.Check(Native.nl_cache_options_create(out raw));
            var options = new NativeHandle(raw, Native.nl_cache_options_free, null);
            try
            {
                Call.Check(Native.nl_cache_options_set_composition(raw, (int)composition));
                return options;
            }
            catch
            {
                options.Dispose();
                throw;
            }
        }
    }
}
