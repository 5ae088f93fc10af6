using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Nanolith
{
    /// <summary>
    /// Tokens that the engine draws for a cache, in the same steps as its other work. Made by
    /// <see cref="Cache.Generate"/>. Its pieces come with foreach, where the calling thread waits for each, with await
    /// foreach, or one by one; each comes once. Disposing of it cancels it. All members may be used from any thread;
    /// those who ask for the next piece take turns.
    /// </summary>
    public sealed class Generation : IEnumerable<Piece>, IAsyncEnumerable<Piece>, IDisposable
    {
        // What one call fetches at most: what is more waits for the next.
        private const int PieceTokens = 64;
        private const int PieceBytes = 1024;

        private readonly NativeHandle handle;
        private readonly LogitsCallback logits; // null where no function changes them
        private readonly WaitingThread thread = new WaitingThread();
        private int end;

        internal Generation(IntPtr raw, NativeHandle engine, LogitsCallback logits)
        {
            this.logits = logits;
            handle = new NativeHandle(raw, generation =>
            {
                Native.nl_generation_free(generation);
                if (logits != null) logits.Remove();
            }, engine);
        }

        /// <summary>
        /// Cancels the generation where it still runs, and drops it. Waits for a call of its logits function that is
        /// under way. May be called again.
        /// </summary>
        public void Dispose()
        {
            try
            {
                Cancel(); // so that nobody waits on
            }
            catch (ObjectDisposedException)
            {
            }
            handle.Dispose();
        }

        /// <summary>
        /// Ends the generation when the step that runs now is over; what it has drawn can still be fetched, and its end
        /// is then EndReason.Cancelled. Returns at once, and does nothing where the generation has ended.
        /// </summary>
        public void Cancel()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_generation_cancel(use.Raw));
            }
        }

        /// <summary>
        /// Why it ended; EndReason.None until all pieces have been fetched. Query(GenerationFact.End) tells it before.
        /// </summary>
        public EndReason End
        {
            get { return (EndReason)Volatile.Read(ref end); }
        }

        /// <summary>
        /// Waits for the next piece; null at the end. What <see cref="GenerationOptions.Logits"/> threw is thrown here, once,
        /// in place of the end.
        /// </summary>
        public Piece Next()
        {
            Piece piece;
            Fetch(-1, out piece);
            return piece;
        }

        /// <summary>
        /// The next piece, null at the end; an error with Status.Timeout where there is none within
        /// <paramref name="timeout"/> (rounded down to milliseconds). It may be asked again.
        /// </summary>
        public Piece Next(TimeSpan timeout)
        {
            Piece piece;
            if (!Fetch(Math.Max(0, (long)timeout.TotalMilliseconds), out piece))
            {
                throw new NanolithException(Status.Timeout, "no piece came within " + timeout);
            }
            return piece;
        }

        /// <summary>Whether the next piece came in time: null is the end. Negative: waits for ever.</summary>
        private bool Fetch(long timeoutMs, out Piece piece)
        {
            piece = null;
            var tokens = new int[PieceTokens];
            var text = new byte[PieceBytes];
            UIntPtr numTokens, length;
            int reason;
            using (NativeHandle.Use use = handle.Using())
            {
                if (IsOver()) return true;
                int status = Native.nl_generation_next(use.Raw, timeoutMs, tokens, Call.Size(tokens), out numTokens, text,
                    Call.Size(text), out length, out reason);
                if (status == (int)Status.Timeout) return false;
                bool isEmpty = (ulong)numTokens + (ulong)length == 0;
                if (status == (int)Status.Ok)
                {
                    Volatile.Write(ref end, reason);
                }
                else if (isEmpty) // else the next call gives the error again
                {
                    Volatile.Write(ref end, (int)EndReason.Error);
                    IsOver();
                    Call.Check(status);
                }
                if (isEmpty && IsOver()) return true; // it came with the end
            }
            Array.Resize(ref tokens, (int)numTokens);
            piece = new Piece(tokens, Encoding.UTF8.GetString(text, 0, (int)length));
            return true;
        }

        /// <summary>Whether all pieces have been fetched. Throws what the logits function threw.</summary>
        private bool IsOver()
        {
            bool isOver = End != EndReason.None;
            if (isOver && logits != null) logits.ThrowProblem();
            return isOver;
        }

        /// <summary>
        /// The next piece, null at the end. Where there is none yet, a thread of this generation's own waits for it; no
        /// thread of the pool does. A cancellation cancels the generation.
        /// </summary>
        public Task<Piece> NextAsync(CancellationToken cancellation = default(CancellationToken))
        {
            if (cancellation.IsCancellationRequested)
            {
                TryCancel();
                return Cancelled(cancellation);
            }
            try
            {
                Piece piece;
                if (Fetch(0, out piece)) return Task.FromResult(piece);
            }
            catch (Exception problem)
            {
                return Failed(problem);
            }
            var source = new TaskCompletionSource<Piece>(TaskCreationOptions.RunContinuationsAsynchronously);
            CancellationTokenRegistration registration = cancellation.Register(TryCancel);
            thread.Run(() =>
            {
                Complete(source, cancellation);
                registration.Dispose();
            });
            return source.Task;
        }

        private void Complete(TaskCompletionSource<Piece> source, CancellationToken cancellation)
        {
            try
            {
                Piece piece = Next();
                if (piece == null && End == EndReason.Cancelled && cancellation.IsCancellationRequested)
                {
                    source.TrySetCanceled(cancellation);
                }
                else
                {
                    source.TrySetResult(piece);
                }
            }
            catch (Exception problem)
            {
                source.TrySetException(problem);
            }
        }

        private static Task<Piece> Cancelled(CancellationToken cancellation)
        {
            var source = new TaskCompletionSource<Piece>();
            source.TrySetCanceled(cancellation);
            return source.Task;
        }

        private static Task<Piece> Failed(Exception problem)
        {
            var source = new TaskCompletionSource<Piece>();
            source.SetException(problem);
            return source.Task;
        }

        private void TryCancel()
        {
            try
            {
                Cancel();
            }
            catch (ObjectDisposedException)
            {
                // Which cancelled it too.
            }
        }

        /// <summary>Waits for the end, and gives all the text that was still to come. The tokens are dropped.</summary>
        public string ReadText()
        {
            return string.Concat(this.AsEnumerable().Select(piece => piece.Text));
        }

        /// <summary>As <see cref="ReadText"/>, without a thread that waits. A cancellation cancels the generation.</summary>
        public async Task<string> ReadTextAsync(CancellationToken cancellation = default(CancellationToken))
        {
            var text = new StringBuilder();
            for (Piece piece; (piece = await NextAsync(cancellation).ConfigureAwait(false)) != null;)
            {
                text.Append(piece.Text);
            }
            return text.ToString();
        }

        /// <summary>
        /// Log-probabilities of the latest piece's tokens, of the model's own distribution. Needs
        /// GenerationOptions.Logprobs.
        /// </summary>
        public float[] Logprobs()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(PieceTokens, (float[] logprobs, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_generation_logprobs(use.Raw, logprobs, capacity, out count));
            }
        }

        /// <summary>
        /// The tokens most probable in the place of each of the latest piece's tokens, the most probable first, with
        /// their log-probabilities: as many for each as GenerationOptions.TopLogprobs says, one token's after the
        /// other's.
        /// </summary>
        public KeyValuePair<int, float>[] TopLogprobs()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                var logprobs = new float[0];
                int[] tokens = Call.Fill(0, (int[] room, UIntPtr capacity, out UIntPtr count) =>
                {
                    logprobs = new float[room.Length];
                    return Native.nl_generation_top_logprobs(use.Raw, room, logprobs, capacity, out count);
                });
                return tokens.Select((token, i) => new KeyValuePair<int, float>(token, logprobs[i])).ToArray();
            }
        }

        /// <summary>A fact about the generation.</summary>
        public long Query(GenerationFact fact)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                long value;
                Call.Check(Native.nl_generation_query(use.Raw, (int)fact, out value));
                return value;
            }
        }

        /// <summary>How it went so far.</summary>
        public Statistics Statistics
        {
            get
            {
                long first = Query(GenerationFact.FirstTokenUs);
                return new Statistics
                {
                    Tokens = Query(GenerationFact.Tokens),
                    TokensReused = Query(GenerationFact.TokensReused),
                    TokensComputed = Query(GenerationFact.TokensComputed),
                    Queued = Microseconds(Query(GenerationFact.QueuedUs)),
                    FirstToken = first < 0 ? (TimeSpan?)null : Microseconds(first),
                    Total = Microseconds(Query(GenerationFact.TotalUs)),
                    TokensPerSecond = Query(GenerationFact.TokensPerSecond),
                };
            }
        }

        private static TimeSpan Microseconds(long count)
        {
            return TimeSpan.FromTicks(10 * count);
        }

        /// <summary>
        /// A file descriptor to poll, select or epoll: readable while <see cref="Next()"/> would not wait. It belongs to
        /// the generation: do not read from it, write to it or close it. An error with Status.Io where the process has
        /// no descriptors left.
        /// </summary>
        public int Descriptor
        {
            get
            {
                using (NativeHandle.Use use = handle.Using())
                {
                    int descriptor;
                    Call.Check(Native.nl_generation_descriptor(use.Raw, out descriptor));
                    return descriptor;
                }
            }
        }

        /// <summary>The pieces that are still to come. Going through them does not dispose of the generation.</summary>
        public IEnumerator<Piece> GetEnumerator()
        {
            for (Piece piece; (piece = Next()) != null;)
            {
                yield return piece;
            }
        }

        IEnumerator IEnumerable.GetEnumerator()
        {
            return GetEnumerator();
        }

        /// <summary>
        /// The pieces that are still to come, as <see cref="NextAsync"/> gives them. A cancellation cancels the
        /// generation.
        /// </summary>
        public IAsyncEnumerator<Piece> GetAsyncEnumerator(CancellationToken cancellationToken = default(CancellationToken))
        {
            return new AsyncEnumerator(this, cancellationToken);
        }

        private sealed class AsyncEnumerator : IAsyncEnumerator<Piece>
        {
            private readonly Generation generation;
            private readonly CancellationToken cancellation;

            internal AsyncEnumerator(Generation generation, CancellationToken cancellation)
            {
                this.generation = generation;
                this.cancellation = cancellation;
            }

            public Piece Current { get; private set; }

            public async ValueTask<bool> MoveNextAsync()
            {
                Current = await generation.NextAsync(cancellation).ConfigureAwait(false);
                return Current != null;
            }

            public ValueTask DisposeAsync()
            {
                return default(ValueTask);
            }
        }
    }
}
