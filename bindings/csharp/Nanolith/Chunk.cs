using System;
using System.Collections.Generic;

namespace Nanolith
{
    /// <summary>
    /// A prefilled span of tokens; immutable. Made by <see cref="Engine.Prefill"/>. All members may be used from any
    /// thread.
    /// </summary>
    public sealed class Chunk : IDisposable
    {
        private readonly NativeHandle handle;

        internal Chunk(IntPtr raw, NativeHandle engine)
        {
            handle = new NativeHandle(raw, Native.nl_chunk_free, engine);
        }

        internal static NativeHandle.UseAll UseAll(IReadOnlyList<Chunk> chunks)
        {
            var handles = new NativeHandle[chunks == null ? 0 : chunks.Count];
            for (int i = 0; i < handles.Length; ++i)
            {
                handles[i] = chunks[i] == null ? null : chunks[i].handle;
            }
            return new NativeHandle.UseAll(handles);
        }

        /// <summary>Drops the handle. May be called again.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }

        /// <summary>A second handle for the same chunk, to be disposed of on its own.</summary>
        public Chunk Retain()
        {
            using (NativeHandle.Use use = handle.Using())
            {
                IntPtr raw;
                Call.Check(Native.nl_chunk_retain(use.Raw, out raw));
                return new Chunk(raw, handle.Parent);
            }
        }

        /// <summary>
        /// Saves the chunk with its keys and values to the file at <paramref name="path"/>, for
        /// <see cref="Engine.LoadChunk"/>. The file is whole or not there.
        /// </summary>
        public void Save(string path)
        {
            byte[] text = Text.ToNative(path, nameof(path));
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_chunk_save(use.Raw, text, Call.Size(text)));
            }
        }

        /// <summary>
        /// Sets the chunk's priority: when pages run short, unused chunks of lower priority are evicted first within
        /// their level. A chunk with Priority.Pinned is never evicted; other priorities are from Priority.Lowest to
        /// Priority.Highest.
        /// </summary>
        public void SetPriority(Priority priority)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                Call.Check(Native.nl_chunk_set_priority(use.Raw, (int)priority));
            }
        }

        /// <summary>A fact about the chunk.</summary>
        public long Query(ChunkFact fact)
        {
            using (NativeHandle.Use use = handle.Using())
            {
                long value;
                Call.Check(Native.nl_chunk_query(use.Raw, (int)fact, out value));
                return value;
            }
        }
    }
}
