using System;
using System.Runtime.InteropServices;

namespace Nanolith
{
    /// <summary>
    /// Owns one handle of the library. It is freed when it is disposed of, or found unreachable, and no call is using
    /// it, and nothing that was made from it (its children) is left.
    /// </summary>
    internal sealed class NativeHandle : SafeHandle
    {
        private readonly Action<IntPtr> free;
        private readonly NativeHandle parent;
        private volatile bool disposed;

        /// <summary>Keeps the parent, which may be null, until this handle is freed.</summary>
        internal NativeHandle(IntPtr raw, Action<IntPtr> free, NativeHandle parent) : base(IntPtr.Zero, true)
        {
            this.free = free;
            if (parent != null)
            {
                bool added = false;
                parent.DangerousAddRef(ref added);
                this.parent = parent;
            }
            SetHandle(raw);
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
