use crate::engine::EngineHandle;
use crate::error::check;
use crate::{ffi, ChunkFact, Priority, Result};
use nanolith_sys as sys;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A prefilled span of tokens; immutable. Clones are cheap and share one handle. Made by
/// [`Engine::prefill`](crate::Engine::prefill).
#[derive(Clone)]
pub struct Chunk {
    handle: Arc<ChunkHandle>,
}

struct ChunkHandle {
    raw: *mut sys::nl_chunk,
    engine: Arc<EngineHandle>,
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for ChunkHandle {}
unsafe impl Sync for ChunkHandle {}

impl Drop for ChunkHandle {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_chunk_free(self.raw) }
    }
}

impl Chunk {
    pub(crate) fn from_raw(raw: *mut sys::nl_chunk, engine: Arc<EngineHandle>) -> Chunk {
        Chunk { handle: Arc::new(ChunkHandle { raw, engine }) }
    }

    pub(crate) fn raw(&self) -> *const sys::nl_chunk {
        self.handle.raw
    }

    /// A second handle of the library for the same chunk, which [`ChunkFact::USERS`] counts on its own.
    pub fn retain(&self) -> Result<Chunk> {
        // SAFETY: the handle lives.
        let raw = ffi::create(|again| unsafe { sys::nl_chunk_retain(self.raw(), again) })?;
        Ok(Chunk::from_raw(raw, self.handle.engine.clone()))
    }

    /// Saves the chunk with its keys and values to the file at `path`, for
    /// [`Engine::load_chunk`](crate::Engine::load_chunk). The file is whole or not there.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length; the handle lives.
        check(unsafe { sys::nl_chunk_save(self.raw(), path.as_ptr().cast(), path.len()) })
    }

    /// Sets the chunk's priority: when pages run short, unused chunks of lower priority are evicted first within their
    /// level. A chunk with [`Priority::PINNED`] is never evicted; other priorities are from [`Priority::LOWEST`] to
    /// [`Priority::HIGHEST`].
    pub fn set_priority(&self, priority: Priority) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::nl_chunk_set_priority(self.raw(), priority.0) })
    }

    /// A fact about the chunk.
    pub fn query(&self, fact: ChunkFact) -> Result<i64> {
        // SAFETY: the handle lives.
        ffi::value(|value| unsafe { sys::nl_chunk_query(self.raw(), fact.0, value) })
    }
}
