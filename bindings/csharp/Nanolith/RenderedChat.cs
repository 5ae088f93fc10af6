using System;

namespace Nanolith
{
    /// <summary>
    /// The tokens of a chat, and where each message's part of them ends. Made by <see cref="ChatFormat.Render"/>.
    /// </summary>
    public sealed class RenderedChat
    {
        internal RenderedChat(int[] tokens, int[] ends)
        {
            Tokens = tokens;
            Ends = ends;
        }

        /// <summary>All tokens.</summary>
        public int[] Tokens { get; }

        /// <summary>
        /// For each message, where its part ends. It begins where the part before it ends, the first one at 0; the
        /// generation prompt follows the last one.
        /// </summary>
        public int[] Ends { get; }

        /// <summary>The tokens of message <paramref name="index"/>, perhaps none: those to prefill a chunk of.</summary>
        public int[] Message(int index)
        {
            return Slice(index, Ends[index]);
        }

        /// <summary>
        /// The tokens from message <paramref name="index"/> to the end, generation prompt included; after the last
        /// message the generation prompt alone.
        /// </summary>
        public int[] From(int index)
        {
            return Slice(index, Tokens.Length);
        }

        private int[] Slice(int index, int end)
        {
            int begin = index == 0 ? 0 : Ends[index - 1];
            var tokens = new int[end - begin];
            Array.Copy(Tokens, begin, tokens, 0, tokens.Length);
            return tokens;
        }
    }
}
