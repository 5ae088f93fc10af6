use crate::engine::EngineHandle;
use crate::error::check;
use crate::{ffi, CacheFact, Result, SamplingOptions, TextPieces, TextStream, Tokenizer};
use nanolith_sys as sys;
use std::sync::Arc;

/// One conversation's context: chunks and a private tail. Made by [`Engine::cache`](crate::Engine::cache). Calls on the
/// same cache from several threads take turns. Dropping it ends the conversation.
pub struct Cache {
    raw: *mut sys::nl_cache,
    engine: Arc<EngineHandle>,
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for Cache {}
unsafe impl Sync for Cache {}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_cache_free(self.raw) }
    }
}

impl Cache {
    pub(crate) fn from_raw(raw: *mut sys::nl_cache, engine: Arc<EngineHandle>) -> Cache {
        Cache { raw, engine }
    }

    pub(crate) fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// Appends tokens and computes them.
    pub fn extend(&self, tokens: &[i32]) -> Result<()> {
        // SAFETY: the array goes with its length.
        check(unsafe { sys::nl_cache_extend(self.raw, tokens.as_ptr(), tokens.len()) })
    }

    /// A second cache with the same context and sampling options. Full pages are shared.
    pub fn fork(&self) -> Result<Cache> {
        // SAFETY: the handle lives.
        let raw = ffi::create(|fork| unsafe { sys::nl_cache_fork(self.raw, fork) })?;
        Ok(Cache::from_raw(raw, self.engine.clone()))
    }

    /// Keeps the first `num_tokens` tokens, at most what the cache holds, and forgets the rest.
    pub fn truncate(&self, num_tokens: usize) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::nl_cache_truncate(self.raw, num_tokens) })
    }

    /// All tokens of the context, chunks first.
    pub fn tokens(&self) -> Result<Vec<i32>> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill(256, |tokens, capacity, count| unsafe { sys::nl_cache_tokens(self.raw, tokens, capacity, count) })
    }

    /// The logits for the token after the last one. The cache must not be empty.
    pub fn logits(&self) -> Result<Vec<f32>> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill(0, |logits, capacity, count| unsafe { sys::nl_cache_logits(self.raw, logits, capacity, count) })
    }

    /// A fact about the cache.
    pub fn query(&self, fact: CacheFact) -> Result<i64> {
        // SAFETY: the handle lives.
        ffi::value(|value| unsafe { sys::nl_cache_query(self.raw, fact.0, value) })
    }

    /// Sets how this cache draws from now on.
    pub fn set_sampling(&self, options: SamplingOptions) -> Result<()> {
        let options = options.apply()?;
        // SAFETY: both handles live; the library copies the options.
        check(unsafe { sys::nl_cache_set_sampling(self.raw, options.0) })
    }

    /// Draws tokens until the model ends its answer, at most `max_tokens`, and gives their text piece by piece. Each
    /// piece is computed when it is asked for.
    pub fn stream_text(&self, tokenizer: &Tokenizer, max_tokens: usize) -> Result<TextPieces<'_>> {
        Ok(TextPieces::new(self, TextStream::new(tokenizer)?, max_tokens))
    }
}

/// Draws one token for each of `caches` in one batch, and appends it to its cache. The caches must be different, of one
/// engine, and not empty. Either all of them advance or, on an error, none.
pub fn decode_step(caches: &[&Cache]) -> Result<Vec<i32>> {
    ffi::ready()?;
    let caches: Vec<_> = caches.iter().map(|cache| cache.raw).collect();
    let mut tokens = vec![0; caches.len()];
    // SAFETY: there is room for one token a cache.
    check(unsafe { sys::nl_decode_step(caches.as_ptr(), caches.len(), tokens.as_mut_ptr()) })?;
    Ok(tokens)
}
