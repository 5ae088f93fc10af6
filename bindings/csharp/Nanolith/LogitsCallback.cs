using System;
using System.Collections.Concurrent;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Nanolith
{
    /// <summary>
    /// A function that is called before each token is drawn, and may change the logits that it is drawn from. It is set as
    /// <see cref="GenerationOptions.Logits"/>, which tells when it is called and what it may do.
    /// </summary>
    /// <param name="tokens">All tokens of the cache.</param>
    /// <param name="logits">
    /// One for each token of the vocabulary: minus infinity for a token that must not be drawn. The array comes again in
    /// the next call, with other logits.
    /// </param>
    /// <returns>Whether the generation goes on. Where it does not, it ends with EndReason.Cancelled.</returns>
    public delegate bool LogitsFunction(int[] tokens, float[] logits);

    /// <summary>
    /// The logits function of one generation. The library knows it by a number, so that a function that refers to its own
    /// generation is garbage together with that.
    /// </summary>
    internal sealed class LogitsCallback
    {
        // Never collected, as the library may call it at any time.
        private static readonly NativeLogitsCallback Callback = Forward;

        private static readonly ConcurrentDictionary<long, WeakReference<LogitsCallback>> All =
            new ConcurrentDictionary<long, WeakReference<LogitsCallback>>();
        private static long last;

        private readonly long id = Interlocked.Increment(ref last);
        private readonly LogitsFunction function;
        private float[] room = new float[0];
        private ExceptionDispatchInfo problem;

        internal LogitsCallback(LogitsFunction function)
        {
            this.function = function;
        }

        /// <summary>Hands it to a generation's options. <see cref="Remove"/> is to follow.</summary>
        internal void Set(IntPtr options)
        {
            All[id] = new WeakReference<LogitsCallback>(this);
            Call.Check(Native.nl_options_set_logits(options, Callback, (IntPtr)id));
        }

        /// <summary>
        /// If the function threw an exception during a call of the library, throws it in the calling thread; only the first
        /// time.
        /// </summary>
        internal void ThrowProblem()
        {
            ExceptionDispatchInfo thrown = Interlocked.Exchange(ref problem, null);
            if (thrown != null) thrown.Throw();
        }

        /// <summary>The library calls it no more from here on. May be called again.</summary>
        internal void Remove()
        {
            WeakReference<LogitsCallback> removed;
            All.TryRemove(id, out removed);
        }

        /// <summary>
        /// The callback that the library gets, called on an engine's thread with a callback's number. It catches every
        /// exception, since none may unwind through the library's C++, and then ends the generation.
        /// </summary>
        private static int Forward(IntPtr id, IntPtr tokens, UIntPtr numTokens, IntPtr logits, UIntPtr numLogits)
        {
            WeakReference<LogitsCallback> reference;
            LogitsCallback callback;
            // Where it is gone, its generation is about to be freed.
            if (!All.TryGetValue((long)id, out reference) || !reference.TryGetTarget(out callback)) return 1;
            try
            {
                var context = new int[(int)numTokens];
                Marshal.Copy(tokens, context, 0, context.Length);
                if (callback.room.Length != (int)numLogits) callback.room = new float[(int)numLogits];
                Marshal.Copy(logits, callback.room, 0, callback.room.Length);
                if (!callback.function(context, callback.room)) return 1;
                Marshal.Copy(callback.room, 0, logits, callback.room.Length);
                return 0;
            }
            catch (Exception exception)
            {
                callback.problem = ExceptionDispatchInfo.Capture(exception);
                return 1;
            }
        }
    }
}
