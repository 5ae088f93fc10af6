using System;
using System.Collections.Concurrent;
using System.Runtime.InteropServices;
using System.Threading;

namespace Nanolith
{
    /// <summary>
    /// Owns one handle of the library. It is freed when it is disposed of, or found unreachable, and no call is using
    /// it, and nothing that was made from it (its children) is left.
    /// </summary>
    internal sealed class NativeHandle : SafeHandle
    {
        private static readonly bool OnMono = Type.GetType("Mono.Runtime") != null;
        private static readonly ConcurrentDictionary<long, WeakReference<NativeHandle>> Living =
            new ConcurrentDictionary<long, WeakReference<NativeHandle>>();
        private static long last;
        private static int closesAtExit;

        private readonly long id;
        private readonly Action<IntPtr> free;
        private readonly Func<IntPtr, int> cancel;
        private readonly NativeHandle parent;
        private volatile bool disposed;

        /// <summary>
        /// Keeps the parent, which may be null, until this handle is freed. An engine's handle can cancel all that is under
        /// way.
        /// </summary>
        internal NativeHandle(IntPtr raw, Action<IntPtr> free, NativeHandle parent, Func<IntPtr, int> cancel = null)
            : base(IntPtr.Zero, true)
        {
            this.free = free;
            this.cancel = cancel;
            if (parent != null)
            {
                bool added = false;
                parent.DangerousAddRef(ref added);
                this.parent = parent;
            }
            SetHandle(raw);
            if (OnMono)
            {
                id = Interlocked.Increment(ref last);
                Living[id] = new WeakReference<NativeHandle>(this);
            }
        }

        /// <summary>
        /// Mono's programs end when all threads have ended that ever called managed code, an engine's among them. That ends
        /// with the engine: from here on, handles that are still open then are freed. Other runtimes don't wait.
        /// </summary>
        internal static void CloseAtExit()
        {
            if (OnMono && Interlocked.Exchange(ref closesAtExit, 1) == 0)
            {
                AppDomain.CurrentDomain.ProcessExit += (sender, arguments) => CloseAll();
            }
        }

        private static void CloseAll()
        {
            NativeHandle handle;
            foreach (WeakReference<NativeHandle> living in Living.Values)
            {
                if (living.TryGetTarget(out handle) && handle.cancel != null) handle.CancelUnlessFreed();
            }
            foreach (WeakReference<NativeHandle> living in Living.Values)
            {
                if (living.TryGetTarget(out handle)) handle.Dispose();
            }
            GC.WaitForPendingFinalizers(); // of handles that were garbage already
        }

        private void CancelUnlessFreed()
        {
            bool added = false;
            try
            {
                DangerousAddRef(ref added);
                cancel(handle);
            }
            catch (ObjectDisposedException)
            {
                // It was freed meanwhile.
            }
            finally
            {
                if (added) DangerousRelease();
            }
        }

        public override bool IsInvalid
        {
            get { return handle == IntPtr.Zero; }
        }

        internal NativeHandle Parent
        {
            get { return parent; }
        }

        protected override bool ReleaseHandle()
        {
            if (OnMono)
            {
                WeakReference<NativeHandle> removed;
                Living.TryRemove(id, out removed);
            }
            free(handle);
            if (parent != null)
            {
                parent.DangerousRelease();
            }
            return true;
        }

        /// <summary>Children keep the handle, but nobody else may use it from here on.</summary>
        protected override void Dispose(bool disposing)
        {
            disposed = true;
            base.Dispose(disposing);
        }

        /// <summary>The raw handle for the length of a call. Throws ObjectDisposedException after Dispose.</summary>
        internal Use Using()
        {
            return new Use(this);
        }

        internal struct Use : IDisposable
        {
            private readonly NativeHandle handle;

            internal Use(NativeHandle handle)
            {
                bool added = false;
                handle.DangerousAddRef(ref added);
                if (handle.disposed)
                {
                    handle.DangerousRelease();
                    throw new ObjectDisposedException("a handle of Nanolith");
                }
                this.handle = handle;
                Raw = handle.DangerousGetHandle();
            }

            internal IntPtr Raw { get; }

            public void Dispose()
            {
                if (handle != null)
                {
                    handle.DangerousRelease();
                }
            }
        }

        /// <summary>Several raw handles at once. A null stays NULL, which the library names in its error.</summary>
        internal sealed class UseAll : IDisposable
        {
            private readonly Use[] uses;

            internal UseAll(NativeHandle[] handles)
            {
                uses = new Use[handles.Length];
                Raw = new IntPtr[handles.Length];
                try
                {
                    for (int i = 0; i < handles.Length; ++i)
                    {
                        if (handles[i] != null)
                        {
                            uses[i] = handles[i].Using();
                            Raw[i] = uses[i].Raw;
                        }
                    }
                }
                catch
                {
                    Dispose();
                    throw;
                }
            }

            internal IntPtr[] Raw { get; }

            public void Dispose()
            {
                foreach (Use use in uses)
                {
                    use.Dispose();
                }
            }
        }
    }
}
