namespace Nanolith
{
    /// <summary>
    /// One message of a chat. Its content is text and nothing else: special tokens written in it are not read.
    /// </summary>
    public sealed class Message
    {
        /// <summary>What somebody says.</summary>
        public Message(Role role, string content)
        {
            Call.NotNull(content, nameof(content));
            Role = role;
            Content = content;
        }

        /// <summary>Whose message it is.</summary>
        public Role Role { get; }

        /// <summary>What it says.</summary>
        public string Content { get; }
    }
}
