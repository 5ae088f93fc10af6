using System;

namespace Nanolith
{
    /// <summary>
    /// What a <see cref="Generation"/> gave since it was asked last: tokens, text or both. They go their own ways: a token
    /// may come before or after its text.
    /// </summary>
    public sealed class Piece
    {
        internal Piece(int[] tokens, string text)
        {
            Tokens = tokens;
            Text = text;
        }

        /// <summary>Tokens, the one that ended it included.</summary>
        public int[] Tokens { get; }

        /// <summary>
        /// What tokens say: whole characters. Text that may yet become a stop text is held back.
        /// </summary>
        public string Text { get; }
    }

    /// <summary>How a generation went so far, or all in all.</summary>
    public struct Statistics
    {
        /// <summary>Tokens drawn.</summary>
        public long Tokens { get; internal set; }

        /// <summary>Of the context at its start, the tokens that were computed already.</summary>
        public long TokensReused { get; internal set; }

        /// <summary>Tokens computed for it, those that it drew included.</summary>
        public long TokensComputed { get; internal set; }

        /// <summary>From its start to its first step.</summary>
        public TimeSpan Queued { get; internal set; }

        /// <summary>From its start to its first token; null until there is one.</summary>
        public TimeSpan? FirstToken { get; internal set; }

        /// <summary>From its start to its end, or until now.</summary>
        public TimeSpan Total { get; internal set; }

        /// <summary>After the first token, rounded down; 0 while there is one or none.</summary>
        public long TokensPerSecond { get; internal set; }
    }
}
