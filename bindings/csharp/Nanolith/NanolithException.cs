using System;

namespace Nanolith
{
    /// <summary>What went wrong in the library. The message names the argument, its value and what was expected.</summary>
    public sealed class NanolithException : Exception
    {
        internal NanolithException(Status status, string message) : base(message)
        {
            Status = status;
        }

        /// <summary>The kind of error.</summary>
        public Status Status { get; }

        /// <summary>The kind's name in the header, for example "NL_ERROR_OUT_OF_PAGES".</summary>
        public string StatusName
        {
            get { return Text.FromNative(Native.nl_status_name((int)Status)); }
        }
    }
}
