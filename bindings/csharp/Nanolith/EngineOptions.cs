using System;

namespace Nanolith
{
    public sealed partial class EngineOptions
    {
        /// <summary>
        /// Receives log lines, on any thread. It must not use this library; an exception in it is caught and ignored.
        /// </summary>
        public Action<Severity, string> Log { get; set; }

        /// <summary>
        /// Hears how far the engine's creation has come, from 0 to 1, on the thread that creates it. It must not use
        /// this library. An exception in it ends the creation, and is what the constructor throws:
        /// <c>Progress = done => token.ThrowIfCancellationRequested()</c>.
        /// </summary>
        public Action<double> Progress { get; set; }

        internal NativeHandle ToNative(Callbacks callbacks)
        {
            return NativeOptions.Create(OptionsKind.Engine, raw =>
            {
                SetValues(raw);
                callbacks.Set(raw);
            });
        }
    }
}
