using System;

namespace Nanolith
{
    /// <summary>
    /// Turns tokens into text one by one and never splits a character: bytes of an unfinished one wait for the next
    /// token. Threads that share a stream take turns.
    /// </summary>
    public sealed class TextStream : IDisposable
    {
        private readonly NativeHandle handle;
        private readonly object turn = new object();

        internal TextStream(IntPtr raw, NativeHandle tokenizer)
        {
            handle = new NativeHandle(raw, Native.nl_text_stream_free, tokenizer);
        }

        /// <summary>Drops the stream. May be called again.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>The text that <paramref name="token"/> completes, perhaps empty.</summary>
        public string Push(int token)
        {
            lock (turn)
            {
                using (NativeHandle.Use use = handle.Using())
                {
                    return Call.FillText(64, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                        Native.nl_text_stream_push(use.Raw, token, buffer, capacity, out length));
                }
            }
        }

        /// <summary>What still waits, as U+FFFD where it is ill-formed; the stream is then as new.</summary>
        public string Finish()
        {
            lock (turn)
            {
                using (NativeHandle.Use use = handle.Using())
                {
                    return Call.FillText(64, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                        Native.nl_text_stream_finish(use.Raw, buffer, capacity, out length));
                }
            }
        }
    }
}
