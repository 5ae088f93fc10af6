using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;

namespace Nanolith
{
    /// <summary>
    /// How a chat model wants its messages: with which tokens around them, and in which order. Made by
    /// <see cref="Tokenizer.CreateChatFormat"/>. All members may be used from any thread.
    /// </summary>
    public sealed class ChatFormat : IDisposable
    {
        private readonly NativeHandle handle;

        internal ChatFormat(IntPtr raw, NativeHandle tokenizer)
        {
            handle = new NativeHandle(raw, Native.nl_chat_format_free, tokenizer);
        }

        /// <summary>Drops the format. May be called again.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>The format's name.</summary>
        public string Name
        {
            get
            {
                using (NativeHandle.Use use = handle.Using())
                {
                    return Call.FillText(32, (byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                        Native.nl_chat_format_name(use.Raw, buffer, capacity, out length));
                }
            }
        }

        /// <summary>The tokens that the model's own template gives for these messages, at least one.</summary>
        /// <exception cref="NanolithException">
        /// Status.InvalidArgument: the format has no place for a message, which the exception's message names.
        /// </exception>
        public RenderedChat Render(IReadOnlyList<Message> messages, ChatFlags flags = ChatFlags.None)
        {
            Call.NotNull(messages, nameof(messages));
            var roles = new int[messages.Count];
            var lengths = new UIntPtr[messages.Count];
            var text = new MemoryStream();
            for (int i = 0; i < roles.Length; ++i)
            {
                Call.NotNull(messages[i], nameof(messages) + "[" + i + "]");
                byte[] content = Text.ToNative(messages[i].Content, nameof(messages));
                roles[i] = (int)messages[i].Role;
                lengths[i] = Call.Size(content);
                text.Write(content, 0, content.Length);
            }
            var ends = new UIntPtr[roles.Length];
            int[] tokens = RenderTexts(roles, text.ToArray(), lengths, (uint)flags, ends);
            return new RenderedChat(tokens, Array.ConvertAll(ends, end => (int)end));
        }

        /// <summary>
        /// The tokens of a chat that is a JSON object with "messages" and, where they are wanted, "tools", "documents",
        /// "date" and "variables"; the library's header says more. <paramref name="numMessages"/> is how many messages
        /// it has, or 0: then the answer knows no ends.
        /// </summary>
        public RenderedChat RenderJson(string request, int numMessages = 0, ChatFlags flags = ChatFlags.None)
        {
            byte[] text = Text.ToNative(request, nameof(request));
            var ends = new UIntPtr[numMessages];
            using (NativeHandle.Use use = handle.Using())
            {
                int[] all = Call.Fill(text.Length / 2 + 64,
                    (int[] tokens, UIntPtr capacity, out UIntPtr count) => Native.nl_chat_format_render_json(use.Raw,
                        text, Call.Size(text), (uint)flags, ends, Call.Size(ends), tokens, capacity, out count));
                return new RenderedChat(all, Array.ConvertAll(ends, end => (int)end));
            }
        }

        /// <summary>With the texts one after the other.</summary>
        private int[] RenderTexts(int[] roles, byte[] text, UIntPtr[] lengths, uint flags, UIntPtr[] ends)
        {
            GCHandle pinned = GCHandle.Alloc(text, GCHandleType.Pinned);
            try
            {
                var contents = new IntPtr[lengths.Length];
                IntPtr at = pinned.AddrOfPinnedObject();
                for (int i = 0; i < contents.Length; ++i)
                {
                    contents[i] = at;
                    at = IntPtr.Add(at, (int)lengths[i]);
                }
                using (NativeHandle.Use use = handle.Using())
                {
                    return Call.Fill(text.Length / 2 + 16 * roles.Length + 16,
                        (int[] tokens, UIntPtr capacity, out UIntPtr count) => Native.nl_chat_format_render(use.Raw,
                            roles, contents, lengths, Call.Size(roles), flags, ends, tokens, capacity, out count));
                }
            }
            finally
            {
                pinned.Free();
            }
        }
    }
}
