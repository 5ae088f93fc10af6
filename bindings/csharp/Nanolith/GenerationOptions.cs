using System;

namespace Nanolith
{
    public sealed partial class GenerationOptions
    {
        /// <summary>
        /// Sees the logits from which each token is about to be drawn, and may change them. Sampling options, constraints
        /// and log-probabilities come after it, on what it leaves; NaN or plus infinity there, or nothing but minus
        /// infinity, ends the generation with Status.InvalidArgument. An exception in it ends the generation too, and is
        /// thrown where the next piece is asked for, after the pieces that came before.
        ///
        /// It is called on the engine's own thread, while all conversations of the engine wait, and must not use this
        /// library. Disposing of the generation waits for a call that is under way.
        /// </summary>
        public LogitsFunction Logits { get; set; }

        internal NativeHandle ToNative(LogitsCallback logits)
        {
            return NativeOptions.Create(OptionsKind.Generation, raw =>
            {
                SetValues(raw);
                if (logits != null) logits.Set(raw);
            });
        }
    }
}
