use crate::engine::EngineHandle;
use crate::error::check;
use crate::{ffi, CacheFact, EmbedFlags, Generation, GenerationOptions, Pooling, Result, SamplingOptions};
use nanolith_sys as sys;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// One conversation's context: chunks and a private tail. Made by [`Engine::cache`](crate::Engine::cache). Calls on the
/// same cache from several threads take turns; while it is generating, most of them end with
/// [`Status::BUSY`](crate::Status::BUSY). Dropping it ends the conversation, but not a generation upon it.
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

    /// Appends tokens and computes them.
    pub fn extend(&self, tokens: &[i32]) -> Result<()> {
        // SAFETY: the array goes with its length.
        check(unsafe { sys::nl_cache_extend(self.raw, tokens.as_ptr(), tokens.len()) })
    }

    /// Appends tokens, computes them, and gives the log-probability of each after all that stands before it, of the
    /// model's own distribution. The first token of an empty cache has none: NaN.
    pub fn score(&self, tokens: &[i32]) -> Result<Vec<f32>> {
        // SAFETY: the array goes with its length, and the buffer has the given capacity.
        ffi::fill(tokens.len(), |logprobs, capacity, count| unsafe {
            sys::nl_cache_score(self.raw, tokens.as_ptr(), tokens.len(), logprobs, capacity, count)
        })
    }

    /// Appends tokens, computes them, and gives the log-probability of each candidate as the token after them, of the
    /// model's own distribution. A reranker that answers yes or no has both in one call.
    pub fn score_next(&self, tokens: &[i32], candidates: &[i32]) -> Result<Vec<f32>> {
        // SAFETY: the arrays go with their lengths, and the buffer has the given capacity.
        ffi::fill(candidates.len(), |logprobs, capacity, count| unsafe {
            sys::nl_cache_score_next(
                self.raw,
                tokens.as_ptr(),
                tokens.len(),
                candidates.as_ptr(),
                candidates.len(),
                logprobs,
                capacity,
                count,
            )
        })
    }

    /// Appends tokens, computes them, and gives hidden states after the model's final norm: with [`Pooling::LAST`] the
    /// last token's (of the cache, where there are no tokens), with `MEAN` the mean of those of the tokens, and with
    /// `NONE` one vector after the other. With `normalized` each is divided by its length.
    pub fn embed(&self, tokens: &[i32], pooling: Pooling, normalized: bool) -> Result<Vec<f32>> {
        let flags = if normalized { EmbedFlags::NORMALIZED.0 } else { 0 };
        // SAFETY: the array goes with its length, and the buffer has the given capacity.
        ffi::fill(0, |vectors, capacity, count| unsafe {
            sys::nl_cache_embed(self.raw, tokens.as_ptr(), tokens.len(), pooling.0, flags, vectors, capacity, count)
        })
    }

    /// A second cache with the same context and sampling options. Full pages are shared.
    pub fn fork(&self) -> Result<Cache> {
        // SAFETY: the handle lives.
        let raw = ffi::create(|fork| unsafe { sys::nl_cache_fork(self.raw, fork) })?;
        Ok(Cache::from_raw(raw, self.engine.clone()))
    }

    /// Saves the conversation with its chunks, keys and values to the file at `path`, for
    /// [`Engine::load_cache`](crate::Engine::load_cache). The file is whole or not there.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length; the handle lives.
        check(unsafe { sys::nl_cache_save(self.raw, path.as_ptr().cast(), path.len()) })
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

    /// A JSON object with all facts about the cache, under their names in lower case (`private_pages`).
    pub fn describe(&self) -> Result<String> {
        // SAFETY: the handle lives, and the buffer has the given capacity.
        ffi::fill_text(1024, |buffer, capacity, length| unsafe {
            sys::nl_cache_describe(self.raw, buffer, capacity, length)
        })
    }

    /// Sets how this cache draws from now on.
    pub fn set_sampling(&self, options: &SamplingOptions) -> Result<()> {
        let options = options.apply()?;
        // SAFETY: both handles live; the library copies the options.
        check(unsafe { sys::nl_cache_set_sampling(self.raw, options.0) })
    }

    /// Appends `tokens` (perhaps none; the cache must not be empty then) and has the engine draw tokens after them, in
    /// batches with all else that it has to do. Returns at once; the [`Generation`] gives what was drawn. Where as many
    /// requests wait as the engine allows it is an error with [`Status::BUSY`](crate::Status::BUSY).
    pub fn generate(&self, tokens: &[i32], options: &GenerationOptions) -> Result<Generation> {
        let (options, logits) = options.apply()?;
        // SAFETY: the array goes with its length; the library copies the options, and what the logits callback needs
        // stays with the generation.
        let raw = ffi::create(|generation| unsafe {
            sys::nl_generation_start(self.raw, tokens.as_ptr(), tokens.len(), options.0, generation)
        })?;
        Ok(Generation::from_raw(raw, self.engine.clone(), logits))
    }

    /// Cancels what is under way on this cache: a call ends with [`Status::CANCELLED`](crate::Status::CANCELLED), a
    /// generation with [`EndReason::CANCELLED`](crate::EndReason::CANCELLED), when the step that runs now is over. Where
    /// nothing is under way it does nothing. Returns at once.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::nl_cache_cancel(self.raw) })
    }
}

/// For programs that choose tokens themselves or bring their own loop; all others start generations
/// ([`Cache::generate`]). Draws one token for each of `caches` in one batch, and appends it to its cache. The caches must be different, of one
/// engine, and not empty. Either all of them advance or, on an error, none; [`Error::index`](crate::Error::index) tells
/// which cache it was.
pub fn decode_step(caches: &[&Cache]) -> Result<Vec<i32>> {
    ffi::ready()?;
    let caches: Vec<_> = caches.iter().map(|cache| cache.raw).collect();
    let mut tokens = vec![0; caches.len()];
    // SAFETY: there is room for one token a cache.
    check(unsafe { sys::nl_decode_step(caches.as_ptr(), caches.len(), tokens.as_mut_ptr()) })?;
    Ok(tokens)
}
