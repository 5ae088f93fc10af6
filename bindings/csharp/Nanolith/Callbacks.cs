using System;
using System.Collections.Concurrent;
using System.Runtime.ExceptionServices;
using System.Threading;

namespace Nanolith
{
    /// <summary>
    /// The functions of one engine that the library calls. It knows them by a number, so that it never holds a reference
    /// to a managed object.
    /// </summary>
    internal sealed class Callbacks
    {
        // Never collected, as the library may call them at any time.
        private static readonly NativeLogCallback LogCallback = ForwardLog;
        private static readonly NativeProgressCallback ProgressCallback = ForwardProgress;

        private static readonly ConcurrentDictionary<long, Callbacks> All = new ConcurrentDictionary<long, Callbacks>();
        private static long last;

        private readonly long id = Interlocked.Increment(ref last);
        private readonly Action<Severity, string> log;
        private readonly Action<double> progress;
        private ExceptionDispatchInfo problem;

        internal Callbacks(EngineOptions options)
        {
            log = options.Log;
            progress = options.Progress;
            if (log != null || progress != null) All[id] = this;
        }

        internal void Set(IntPtr options)
        {
            if (log != null) Call.Check(Native.nl_options_set_log(options, LogCallback, (IntPtr)id));
            if (progress != null) Call.Check(Native.nl_options_set_progress(options, ProgressCallback, (IntPtr)id));
        }

        /// <summary>Throws what the progress function threw, if it did.</summary>
        internal void ThrowProblem()
        {
            if (problem != null) problem.Throw();
        }

        /// <summary>The library calls none of them from here on. May be called again.</summary>
        internal void Remove()
        {
            Callbacks removed;
            All.TryRemove(id, out removed);
        }

        /// <summary>Called by the library. No exception may leave.</summary>
        private static void ForwardLog(IntPtr id, int severity, IntPtr message, UIntPtr length)
        {
            try
            {
                Callbacks callbacks;
                if (All.TryGetValue((long)id, out callbacks))
                {
                    callbacks.log((Severity)severity, Text.FromNative(message, (int)length));
                }
            }
            catch (Exception)
            {
                // The library couldn't do anything with it either.
            }
        }

        /// <summary>Called by nl_engine_create. No exception may leave.</summary>
        private static int ForwardProgress(IntPtr id, double done)
        {
            Callbacks callbacks;
            if (!All.TryGetValue((long)id, out callbacks)) return 0;
            try
            {
                callbacks.progress(done);
                return 0;
            }
            catch (Exception exception)
            {
                callbacks.problem = ExceptionDispatchInfo.Capture(exception);
                return 1;
            }
        }
    }
}
