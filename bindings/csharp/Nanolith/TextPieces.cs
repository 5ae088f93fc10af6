using System;
using System.Collections;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Nanolith
{
    /// <summary>
    /// An answer's text, piece by piece; see <see cref="Cache.StreamText"/>. With foreach each piece is computed on the
    /// calling thread, with await foreach on a thread of the pool. A cancellation takes effect between two tokens; the
    /// cache keeps those drawn so far.
    /// </summary>
    public sealed class TextPieces : IEnumerable<string>, IAsyncEnumerable<string>
    {
        private readonly Cache cache;
        private readonly Tokenizer tokenizer;
        private readonly int maxTokens;

        internal TextPieces(Cache cache, Tokenizer tokenizer, int maxTokens)
        {
            this.cache = cache;
            this.tokenizer = tokenizer;
            this.maxTokens = maxTokens;
        }

        /// <inheritdoc/>
        public IEnumerator<string> GetEnumerator()
        {
            return new Enumerator(cache, tokenizer, maxTokens, CancellationToken.None);
        }

        IEnumerator IEnumerable.GetEnumerator()
        {
            return GetEnumerator();
        }

        /// <inheritdoc/>
        public IAsyncEnumerator<string> GetAsyncEnumerator(CancellationToken cancellationToken = default(CancellationToken))
        {
            return new Enumerator(cache, tokenizer, maxTokens, cancellationToken);
        }

        private sealed class Enumerator : IEnumerator<string>, IAsyncEnumerator<string>
        {
            private readonly Cache cache;
            private readonly TextStream stream;
            private readonly CancellationToken cancellation;
            private int tokensLeft;
            private bool done;

            internal Enumerator(Cache cache, Tokenizer tokenizer, int maxTokens, CancellationToken cancellation)
            {
                this.cache = cache;
                this.cancellation = cancellation;
                stream = tokenizer.CreateTextStream();
                tokensLeft = maxTokens;
            }

            public string Current { get; private set; }

            object IEnumerator.Current
            {
                get { return Current; }
            }

            public bool MoveNext()
            {
                Current = null;
                while (!done)
                {
                    done = true; // also where an exception ends the answer
                    cancellation.ThrowIfCancellationRequested();
                    string text = Step();
                    done = text == null;
                    text = text ?? stream.Finish();
                    if (text.Length > 0)
                    {
                        Current = text;
                        return true;
                    }
                }
                return false;
            }

            /// <summary>The text of one more token; null where there is none.</summary>
            private string Step()
            {
                if (tokensLeft <= 0)
                {
                    return null;
                }
                --tokensLeft;
                int token = Cache.DecodeStep(new[] { cache })[0];
                return cache.IsEndToken(token) ? null : stream.Push(token);
            }

            public ValueTask<bool> MoveNextAsync()
            {
                return new ValueTask<bool>(Task.Run(() => MoveNext(), cancellation));
            }

            public void Reset()
            {
                throw new NotSupportedException();
            }

            public void Dispose()
            {
                stream.Dispose();
            }

            public ValueTask DisposeAsync()
            {
                Dispose();
                return default(ValueTask);
            }
        }
    }
}
