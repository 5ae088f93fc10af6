using System;
using System.Collections.Concurrent;
using System.Threading;

namespace Nanolith
{
    /// <summary>
    /// Log functions of living engines. The library knows each by a number, so that it never holds a reference to a
    /// managed object.
    /// </summary>
    internal static class Log
    {
        /// <summary>Never collected, as the library may call it at any time.</summary>
        internal static readonly NativeLogCallback Callback = Forward;

        private static readonly ConcurrentDictionary<long, Action<Severity, string>> Functions =
            new ConcurrentDictionary<long, Action<Severity, string>>();

        private static long last;

        internal static long Add(Action<Severity, string> function)
        {
            long id = Interlocked.Increment(ref last);
            Functions[id] = function;
            return id;
        }

        internal static void Remove(long id)
        {
            Action<Severity, string> function;
            Functions.TryRemove(id, out function);
        }

        /// <summary>Called by the library. No exception may leave.</summary>
        private static void Forward(IntPtr id, int severity, IntPtr message, UIntPtr length)
        {
            try
            {
                Action<Severity, string> function;
                if (Functions.TryGetValue((long)id, out function))
                {
                    function((Severity)severity, Text.FromNative(message, (int)length));
                }
            }
            catch (Exception)
            {
                // The library couldn't do anything with it either.
            }
        }
    }
}
