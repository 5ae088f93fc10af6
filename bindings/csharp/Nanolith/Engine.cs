using System;
using System.Collections.Generic;

namespace Nanolith
{
    /// <summary>
    /// A loaded model and its page pool. It lives until it is disposed of, and so is every chunk, cache, generation
    /// and tokenizer made from it. All members may be used from any thread.
    /// </summary>
    public sealed class Engine : IDisposable
    {
        private readonly NativeHandle handle;

        /// <summary>
        /// Loads the model at <paramref name="path"/>, a Hugging Face folder or a GGUF file, and reserves the page pool.
        /// Blocks while the weights load. The weight files stay mapped while the engine lives: do not truncate them.
        /// </summary>
        /// <exception cref="NanolithException">The model or the options can't be had; the message says why.</exception>
        public Engine(string path, EngineOptions options = null)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            options = options ?? new EngineOptions();
            var callbacks = new Callbacks(options);
            try
            {
                using (NativeHandle native = options.ToNative(callbacks))
                using (NativeHandle.Use use = native.Using())
                {
                    IntPtr raw;
                    int status = Native.nl_engine_create(text, Call.Size(text), use.Raw, out raw);
                    if (status != (int)Status.Ok) callbacks.ThrowProblem();
                    Call.Check(status);
                    handle = new NativeHandle(raw, engine =>
                    {
                        Native.nl_engine_free(engine);
                        callbacks.Remove();
                    }, null);
                }
            }
            catch
            {
                callbacks.Remove();
                throw;
            }
        }

        private Engine(IntPtr raw, NativeHandle of)
        {
            handle = new NativeHandle(raw, Native.nl_engine_free, of);
        }

        /// <summary>
        /// The same engine for one of several parties that must learn nothing of each other, named by
        /// <paramref name="salt"/> (1 to 4096 bytes): its chunks and caches are found again by engines of the same salt
        /// alone. Chunks of the engine itself may stand in every tenant's caches. To be disposed of on its own.
        /// </summary>
        public Engine CreateTenant(string salt)
        {
            byte[] text = Text.ToNative(salt, nameof(salt));
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_engine_tenant(use.Raw, text, Call.Size(text), out raw));
                return new Engine(raw, handle);
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

        /// <summary>
        /// A JSON object with all facts about the engine, under their names in lower case, and with "tiers", an array of
        /// the places where it keeps chunks: the chunks, bytes, hits and moves of each.
        /// </summary>
        public string Describe()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.FillText(8192, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.nl_engine_describe(use.Raw, buffer, capacity, out length));
            }
        }

        /// <summary>
        /// What the engine has counted, in Prometheus' text format: pages, chunks by tier, requests, and histograms of
        /// steps and of generations. Not for a tenant's handle.
        /// </summary>
        public string Metrics()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.FillText(16384, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.nl_engine_metrics(use.Raw, buffer, capacity, out length));
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
                int isEnd;
                Call.Check(Native.nl_engine_is_end_token(use.Raw, token, out isEnd));
                return isEnd != 0;
            }
        }

        /// <summary>
        /// Cancels all calls and generations that are under way on the engine: calls end with Status.Cancelled,
        /// generations with EndReason.Cancelled, when the step that runs now is over. What is asked for afterwards is not
        /// concerned. Returns at once.
        /// </summary>
        public void Cancel()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_engine_cancel(use.Raw));
            }
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
        /// The chunk's place in the cascade. When pages run short, chunks that nobody holds are evicted from Level.Query
        /// first.
        /// </param>
        /// <param name="before">Chunks that the tokens are computed with; null for none.</param>
        public Chunk Prefill(int[] tokens, Level level, IReadOnlyList<Chunk> before = null)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            using (NativeHandle.UseAll chunks = Chunk.UseAll(before))
            {
                IntPtr raw;
                Call.Check(Native.nl_chunk_prefill(use.Raw, tokens, Call.Size(tokens), (int)level, chunks.Raw,
                    Call.Size(chunks.Raw), out raw));
                return new Chunk(raw, handle);
            }
        }

        /// <summary>
        /// The chunk of a file that <see cref="Chunk.Save"/> wrote, with nothing computed; Status.BadFile where it is
        /// damaged or of another model.
        /// </summary>
        public Chunk LoadChunk(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_chunk_load(use.Raw, text, Call.Size(text), out raw));
                return new Chunk(raw, handle);
            }
        }

        /// <summary>
        /// The conversation of a file that <see cref="Cache.Save"/> wrote: it goes on as if it had never been away.
        /// </summary>
        public Cache LoadCache(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_cache_load(use.Raw, text, Call.Size(text), out raw));
                return new Cache(raw, handle);
            }
        }

        /// <summary>
        /// A context that begins with <paramref name="chunks"/> in this order; the same chunk may stand in it twice.
        /// Blocks only where exact composition must compute.
        /// </summary>
        public Cache CreateCache(IReadOnlyList<Chunk> chunks = null, CacheOptions options = null)
        {
            using (NativeHandle.Use use = handle.Using())
            using (NativeHandle.UseAll uses = Chunk.UseAll(chunks))
            using (NativeHandle native = (options ?? new CacheOptions()).ToNative())
            using (NativeHandle.Use nativeUse = native.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_cache_create(use.Raw, nativeUse.Raw, uses.Raw, Call.Size(uses.Raw), out raw));
                return new Cache(raw, handle);
            }
        }
    }
}
