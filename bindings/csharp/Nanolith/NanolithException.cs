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

        /// <summary>
        /// Which element of the list that was given, from 0: the cache of <see cref="Cache.DecodeStep"/>, say.
        /// </summary>
        public long? Index { get; internal set; }

        /// <summary>
        /// What the call needed: pages (Status.OutOfPages), tokens (Status.ContextFull), bytes (Status.OutOfMemory).
        /// </summary>
        public long? Needed { get; internal set; }

        /// <summary>What there was of it.</summary>
        public long? Available { get; internal set; }

        /// <summary>The kind's name in the header, for example "NL_ERROR_OUT_OF_PAGES".</summary>
        public string StatusName
        {
            get { return Text.FromNative(Native.nl_status_name((int)Status)); }
        }
    }
}
