using System;

namespace Nanolith
{
    /// <summary>Text to tokens and back. All members may be used from any thread.</summary>
    public sealed class Tokenizer : IDisposable
    {
        private readonly NativeHandle handle;

        internal Tokenizer(IntPtr raw, NativeHandle engine)
        {
            handle = new NativeHandle(raw, Native.nl_tokenizer_free, engine);
        }

        /// <summary>The tokenizer of a model folder or GGUF file, without loading weights.</summary>
        public Tokenizer(string path) : this(Load(path), null)
        {
        }

        private static IntPtr Load(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            IntPtr raw;
            Call.Check(Native.nl_tokenizer_load(text, Call.Size(text), out raw));
            return raw;
        }

        /// <summary>Drops the tokenizer. May be called again.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>
        /// Text to tokens. Symbols that the tokenizer file defines (for example "&lt;|user|&gt;") are recognised in the
        /// text.
        /// </summary>
        public int[] Encode(string text, EncodeFlags flags = EncodeFlags.None)
        {
            byte[] bytes = Text.ToNative(text, nameof(text));
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.Fill(bytes.Length / 2 + 8, (int[] tokens, UIntPtr capacity, out UIntPtr count) =>
                    Native.nl_tokenizer_encode(use.Raw, bytes, Call.Size(bytes), (uint)flags, tokens, capacity,
                        out count));
            }
        }

        /// <summary>Tokens to text; control tokens give no text, and ill-formed bytes U+FFFD.</summary>
        public string Decode(int[] tokens)
        {
            Call.NotNull(tokens, nameof(tokens));
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.FillText(8 * tokens.Length, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.nl_tokenizer_decode(use.Raw, tokens, Call.Size(tokens), buffer, capacity, out length));
            }
        }

        /// <summary>A fact about the tokenizer; a special token that the model does not have is -1.</summary>
        public long Query(TokenizerFact fact)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                long value;
                Call.Check(Native.nl_tokenizer_query(use.Raw, (int)fact, out value));
                return value;
            }
        }

        /// <summary>The token written exactly so in the vocabulary (for example "&lt;|user|&gt;").</summary>
        public int Find(string piece)
        {
            byte[] bytes = Text.ToNative(piece, nameof(piece));
            using (NativeHandle.Use use = handle.Using())
            {
                int token;
                Call.Check(Native.nl_tokenizer_find(use.Raw, bytes, Call.Size(bytes), out token));
                return token;
            }
        }

        /// <summary>
        /// The vocabulary's spelling of a token; of byte tokens "&lt;0x41&gt;", of control tokens their name.
        /// </summary>
        public string Piece(int token)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                return Call.FillText(32, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.nl_tokenizer_piece(use.Raw, token, buffer, capacity, out length));
            }
        }

        /// <summary>A stream that has seen no token. It keeps this tokenizer alive.</summary>
        public TextStream CreateTextStream()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_text_stream_create(use.Raw, out raw));
                return new TextStream(raw, handle);
            }
        }

        /// <summary>
        /// The chat format called <paramref name="name"/>, for example "chatml" or "llama-3"; the library's header
        /// lists them. With the empty name it is the chat template of the model folder that this tokenizer is from:
        /// an error with Status.NotFound where the folder has none, and with Status.Unsupported where it has what the
        /// library can't run. The format keeps this tokenizer alive.
        /// </summary>
        public ChatFormat CreateChatFormat(string name = "")
        {
            byte[] text = Text.ToNative(name, nameof(name));
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_chat_format_create(use.Raw, text, Call.Size(text), out raw));
                return new ChatFormat(raw, handle);
            }
        }
    }
}
