using System;

namespace Nanolith
{
    internal delegate int FillCall<T>(T[] buffer, UIntPtr capacity, out UIntPtr needed);

    /// <summary>What all calls into the library share.</summary>
    internal static class Call
    {
        /// <summary>Throws unless the call that this thread just made succeeded.</summary>
        internal static void Check(int status)
        {
            if (status != (int)Status.Ok)
            {
                throw new NanolithException((Status)status, Text.FromNative(Native.nl_last_error()))
                {
                    Index = LastDetail(Detail.Index),
                    Needed = LastDetail(Detail.Needed),
                    Available = LastDetail(Detail.Available),
                };
            }
        }

        /// <summary>A number of this thread's latest error, where that has it.</summary>
        private static long? LastDetail(Detail detail)
        {
            long value;
            return Native.nl_last_error_detail((int)detail, out value) == (int)Status.Ok ? value : (long?)null;
        }

        /// <summary>
        /// Calls a function that fills a buffer and tells the size it needs: with room for a guess first, and again
        /// with what was asked for. Another thread may make it more in between.
        /// </summary>
        internal static T[] Fill<T>(int guess, FillCall<T> call)
        {
            var buffer = new T[guess];
            while (true)
            {
                UIntPtr needed;
                int status = call(buffer, Size(buffer), out needed);
                if (status != (int)Status.BufferTooSmall || (ulong)needed <= (ulong)buffer.Length)
                {
                    Check(status);
                    Array.Resize(ref buffer, (int)needed);
                    return buffer;
                }
                buffer = new T[(int)needed];
            }
        }

        /// <summary>Fill for text.</summary>
        internal static string FillText(int guess, FillCall<byte> call)
        {
            return System.Text.Encoding.UTF8.GetString(Fill(guess, call));
        }

        internal static UIntPtr Size(Array array)
        {
            return (UIntPtr)(uint)array.Length;
        }

        internal static void NotNull(object argument, string name)
        {
            if (argument == null)
            {
                throw new ArgumentNullException(name);
            }
        }
    }
}
