using System;
using System.Collections.Generic;

namespace Nanolith
{
    /// <summary>
    /// One conversation's context: chunks and a private tail. Made by <see cref="Engine.CreateCache"/>. All members may
    /// be used from any thread; calls on the same cache take turns. While it is generating, most of them are errors with
    /// Status.Busy.
    /// </summary>
    public sealed class Cache : IDisposable
    {
        private readonly NativeHandle handle;

        internal Cache(IntPtr raw, NativeHandle engine)
        {
            handle = new NativeHandle(raw, Native.nl_cache_free, engine);
        }

        /// <summary>
        /// Ends the conversation: private pages go back, each chunk loses one user. A generation upon it goes on. May be
        /// called again.
        /// </summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>Appends tokens and computes them.</summary>
        public void Extend(int[] tokens)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_cache_extend(use.Raw, tokens, Call.Size(tokens)));
            }
        }

        /// <summary>
        /// Appends tokens, computes them, and gives the log-probability of each after all that stands before it, of the
        /// model's own distribution. The first token of an empty cache has none: NaN.
        /// </summary>
        public float[] Score(int[] tokens)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(tokens.Length, (float[] logprobs, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_cache_score(use.Raw, tokens, Call.Size(tokens), logprobs, capacity, out count));
            }
        }

        /// <summary>
        /// Appends tokens, computes them, and gives the log-probability of each candidate as the token after them, of
        /// the model's own distribution. A reranker that answers yes or no has both in one call.
        /// </summary>
        public float[] ScoreNext(int[] tokens, int[] candidates)
        {
            Call.NotNull(tokens, nameof(tokens));
            Call.NotNull(candidates, nameof(candidates));
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(candidates.Length, (float[] logprobs, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_cache_score_next(use.Raw, tokens, Call.Size(tokens), candidates, Call.Size(candidates),
                        logprobs, capacity, out count));
            }
        }

        /// <summary>
        /// Appends tokens, computes them, and gives hidden states after the model's final norm: with
        /// <see cref="Pooling.Last"/> the last token's (of the cache, where there are no tokens), with
        /// <see cref="Pooling.Mean"/> the mean of those of the tokens, and with <see cref="Pooling.None"/> one vector
        /// after the other.
        /// </summary>
        public float[] Embed(int[] tokens, Pooling pooling = Pooling.Last, EmbedFlags flags = EmbedFlags.None)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(0, (float[] vectors, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_cache_embed(use.Raw, tokens, Call.Size(tokens), (int)pooling, (uint)flags, vectors,
                        capacity, out count));
            }
        }

        /// <summary>A second cache with the same context and sampling options. Full pages are shared.</summary>
        public Cache Fork()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_cache_fork(use.Raw, out raw));
                return new Cache(raw, handle.Parent);
            }
        }

        /// <summary>
        /// Saves the conversation with its chunks, keys and values to the file at <paramref name="path"/>, for
        /// <see cref="Engine.LoadCache"/>. The file is whole or not there.
        /// </summary>
        public void Save(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_cache_save(use.Raw, text, Call.Size(text)));
            }
        }

        /// <summary>
        /// Keeps the first <paramref name="numTokens"/> tokens, at most what the cache holds, and forgets the rest.
        /// </summary>
        public void Truncate(long numTokens)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_cache_truncate(use.Raw, (UIntPtr)unchecked((ulong)numTokens)));
            }
        }

        /// <summary>All tokens of the context, chunks first.</summary>
        public int[] Tokens()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(256, (int[] tokens, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_cache_tokens(use.Raw, tokens, capacity, out count));
            }
        }

        /// <summary>The logits for the token after the last one. The cache must not be empty.</summary>
        public float[] Logits()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(0, (float[] logits, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_cache_logits(use.Raw, logits, capacity, out count));
            }
        }

        /// <summary>A fact about the cache.</summary>
        public long Query(CacheFact fact)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                long value;
                Call.Check(Native.nl_cache_query(use.Raw, (int)fact, out value));
                return value;
            }
        }

        /// <summary>A JSON object with all facts about the cache, under their names in lower case ("private_pages").</summary>
        public string Describe()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.FillText(1024, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.nl_cache_describe(use.Raw, buffer, capacity, out length));
            }
        }

        /// <summary>Sets how this cache draws from now on.</summary>
        public void SetSampling(SamplingOptions options)
        {
            Call.NotNull(options, nameof(options));
            using (NativeHandle.Use use = handle.Using())
            using (NativeHandle native = options.ToNative())
            using (NativeHandle.Use nativeUse = native.Using())
            {
                Call.Check(Native.nl_cache_set_sampling(use.Raw, nativeUse.Raw));
            }
        }

        /// <summary>
        /// Appends tokens (perhaps none; the cache must not be empty then) and has the engine draw tokens after them, in
        /// batches with all else that it has to do. Returns at once; the generation gives what was drawn. An error with
        /// Status.Busy where the cache is generating already, or as many requests wait as the engine allows.
        /// </summary>
        public Generation Generate(int[] tokens, GenerationOptions options = null)
        {
            Call.NotNull(tokens, nameof(tokens));
            options = options ?? new GenerationOptions();
            LogitsCallback logits = options.Logits == null ? null : new LogitsCallback(options.Logits);
            try
            {
                using (NativeHandle.Use use = handle.Using())
                using (NativeHandle native = options.ToNative(logits))
                using (NativeHandle.Use nativeUse = native.Using())
                {
                    IntPtr raw;
                    Call.Check(Native.nl_generation_start(use.Raw, tokens, Call.Size(tokens), nativeUse.Raw, out raw));
                    return new Generation(raw, handle.Parent, logits);
                }
            }
            catch
            {
                if (logits != null) logits.Remove();
                throw;
            }
        }

        /// <summary>
        /// Cancels what is under way on this cache: a call ends with Status.Cancelled, a generation with
        /// EndReason.Cancelled, when the step that runs now is over. Where nothing is under way it does nothing. Returns
        /// at once.
        /// </summary>
        public void Cancel()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_cache_cancel(use.Raw));
            }
        }

        /// <summary>
        /// For programs that choose tokens themselves or bring their own loop; all others start generations.
        /// Draws one token for each of <paramref name="caches"/> in one batch, and appends it to its cache. The caches
        /// must be different, of one engine, and not empty. Either all of them advance or, on an error, none.
        /// </summary>
        public static int[] DecodeStep(IReadOnlyList<Cache> caches)
        {
            Call.NotNull(caches, nameof(caches));
            var handles = new NativeHandle[caches.Count];
            for (int i = 0; i < handles.Length; ++i)
            {
                handles[i] = caches[i] == null ? null : caches[i].handle;
            }
            using (var uses = new NativeHandle.UseAll(handles))
            {
                var tokens = new int[handles.Length];
                Call.Check(Native.nl_decode_step(uses.Raw, Call.Size(uses.Raw), tokens));
                return tokens;
            }
        }
    }
}
