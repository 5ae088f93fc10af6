use crate::error::check;
use crate::options::Log;
use crate::{ffi, Cache, CacheOptions, Chunk, EngineFact, EngineOptions, Level, Result, Tokenizer};
use nanolith_sys as sys;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A loaded model and its page pool. Clones are cheap and mean the same engine, which lives until the last of them and
/// of the chunks, caches, generations and tokenizers made from it is dropped.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<EngineHandle>,
}

/// Shared by everything that is made from the engine, and so freed last.
pub(crate) struct EngineHandle {
    pub(crate) raw: *mut sys::nl_engine,
    _log: Option<Box<Log>>,         // dropped after the engine is freed
    _of: Option<Arc<EngineHandle>>, // of a tenant: the engine that it is a tenant of
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for EngineHandle {}
unsafe impl Sync for EngineHandle {}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        // SAFETY: made by nl_engine_create or nl_engine_tenant, freed once.
        unsafe { sys::nl_engine_free(self.raw) }
    }
}

impl Engine {
    /// Loads the model at `path`, a Hugging Face folder or a GGUF file, and reserves the page pool. Blocks while the
    /// weights load. The weight files stay mapped while the engine lives: do not truncate them.
    pub fn load(path: impl AsRef<Path>, options: &EngineOptions) -> Result<Engine> {
        let options = options.apply()?;
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length; what the log callback needs stays with the engine.
        let raw = ffi::create(|engine| unsafe {
            sys::nl_engine_create(path.as_ptr().cast(), path.len(), options.native.0, engine)
        });
        options.resume_panic();
        Ok(Engine { handle: Arc::new(EngineHandle { raw: raw?, _log: options.log, _of: None }) })
    }

    /// The same engine for one of several parties that must learn nothing of each other, named by `salt` (1 to 4096
    /// bytes): its chunks and caches are found again by engines of the same salt alone. Chunks of the engine itself may
    /// stand in every tenant's caches.
    pub fn tenant(&self, salt: &str) -> Result<Engine> {
        // SAFETY: the text goes with its length; the handle lives.
        let raw = ffi::create(|tenant| unsafe {
            sys::nl_engine_tenant(self.handle.raw, salt.as_ptr().cast(), salt.len(), tenant)
        })?;
        let of = Some(self.handle.clone());
        Ok(Engine { handle: Arc::new(EngineHandle { raw, _log: None, _of: of }) })
    }

    /// Cancels all calls and generations that are under way on the engine: calls end with
    /// [`Status::CANCELLED`](crate::Status::CANCELLED), generations with
    /// [`EndReason::CANCELLED`](crate::EndReason::CANCELLED), when the step that runs now is over. What is asked for
    /// afterwards is not concerned. Returns at once.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::nl_engine_cancel(self.handle.raw) })
    }

    /// A fact about the engine.
    pub fn query(&self, fact: EngineFact) -> Result<i64> {
        // SAFETY: the handle lives.
        ffi::value(|value| unsafe { sys::nl_engine_query(self.handle.raw, fact.0, value) })
    }

    /// A JSON object with all facts about the engine, under their names in lower case, and with "tiers", an array of the
    /// places where it keeps chunks: the chunks, bytes, hits and moves of each.
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle lives, and the buffer has the given capacity.
        ffi::fill_text(8192, |buffer, capacity, length| unsafe {
            sys::nl_engine_describe(self.handle.raw, buffer, capacity, length)
        })
    }

    /// What the engine has counted, in Prometheus' text format: pages, chunks by tier, requests, and histograms of steps
    /// and of generations. Not for a tenant's handle.
    pub fn metrics(&self) -> Result<String> {
        // SAFETY: the handle lives, and the buffer has the given capacity.
        ffi::fill_text(16384, |buffer, capacity, length| unsafe {
            sys::nl_engine_metrics(self.handle.raw, buffer, capacity, length)
        })
    }

    /// The device in words, for example "cpu (2 threads)".
    pub fn device(&self) -> Result<String> {
        // SAFETY: the handle lives, and the buffer has the given capacity.
        ffi::fill_text(128, |buffer, capacity, length| unsafe {
            sys::nl_engine_device(self.handle.raw, buffer, capacity, length)
        })
    }

    /// Whether `token` ends an answer by the model's files.
    pub fn is_end_token(&self, token: i32) -> Result<bool> {
        // SAFETY: the handle lives.
        Ok(ffi::value(|is_end: *mut i32| unsafe { sys::nl_engine_is_end_token(self.handle.raw, token, is_end) })? != 0)
    }

    /// The model's tokenizer; an error with [`Status::NOT_FOUND`](crate::Status::NOT_FOUND) where its files have none.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        // SAFETY: the handle lives.
        let raw = ffi::create(|tokenizer| unsafe { sys::nl_engine_tokenizer(self.handle.raw, tokenizer) })?;
        Ok(Tokenizer::from_raw(raw, Some(self.handle.clone())))
    }

    /// Prefills `tokens` (at least one) into a chunk, with the chunks `before` in view, in that order. `level` is its
    /// place in the cascade; when pages run short, chunks that nobody holds are evicted from [`Level::QUERY`] first. A
    /// chunk that is still in the store is returned again at no cost. Blocks until it is computed.
    pub fn prefill(&self, tokens: &[i32], level: Level, before: &[&Chunk]) -> Result<Chunk> {
        let before: Vec<_> = before.iter().map(|chunk| chunk.raw()).collect();
        // SAFETY: arrays go with their lengths; the chunks live.
        let raw = ffi::create(|chunk| unsafe {
            let (tokens, num_tokens) = (tokens.as_ptr(), tokens.len());
            sys::nl_chunk_prefill(self.handle.raw, tokens, num_tokens, level.0, before.as_ptr(), before.len(), chunk)
        })?;
        Ok(Chunk::from_raw(raw, self.handle.clone()))
    }

    /// The chunk of a file that [`Chunk::save`] wrote, with nothing computed; an error with
    /// [`Status::BAD_FILE`](crate::Status::BAD_FILE) where it is damaged or of another model.
    pub fn load_chunk(&self, path: impl AsRef<Path>) -> Result<Chunk> {
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length; the handle lives.
        let raw = ffi::create(|chunk| unsafe {
            sys::nl_chunk_load(self.handle.raw, path.as_ptr().cast(), path.len(), chunk)
        })?;
        Ok(Chunk::from_raw(raw, self.handle.clone()))
    }

    /// The conversation of a file that [`Cache::save`] wrote: it goes on as if it had never been away.
    pub fn load_cache(&self, path: impl AsRef<Path>) -> Result<Cache> {
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length; the handle lives.
        let raw = ffi::create(|cache| unsafe {
            sys::nl_cache_load(self.handle.raw, path.as_ptr().cast(), path.len(), cache)
        })?;
        Ok(Cache::from_raw(raw, self.handle.clone()))
    }

    /// A context that begins with `chunks` in this order; the same chunk may stand in it twice. Blocks only where exact
    /// composition must compute.
    pub fn cache(&self, chunks: &[&Chunk], options: &CacheOptions) -> Result<Cache> {
        let options = options.apply()?;
        let chunks: Vec<_> = chunks.iter().map(|chunk| chunk.raw()).collect();
        // SAFETY: the array goes with its length; the chunks live.
        let raw = ffi::create(|cache| unsafe {
            sys::nl_cache_create(self.handle.raw, options.0, chunks.as_ptr(), chunks.len(), cache)
        })?;
        Ok(Cache::from_raw(raw, self.handle.clone()))
    }
}
