//! Options: values are kept here and handed to the library, which checks them, when they are used.

use crate::error::check;
use crate::{ffi, Composition, Dtype, Result, Severity};
use nanolith_sys as sys;
use std::ffi::c_void;
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

pub(crate) type Log = Arc<dyn Fn(Severity, &str) + Send + Sync>;

/// How to load a model. What is not set keeps the library's default.
#[derive(Clone, Default)]
pub struct EngineOptions {
    device: Option<String>,
    dtype: Option<Dtype>,
    page_size: Option<i32>,
    num_pages: Option<i64>,
    max_context: Option<i64>,
    max_batch_tokens: Option<i32>,
    threads: Option<i32>,
    log: Option<Log>,
}

impl EngineOptions {
    /// Options with every default.
    pub fn new() -> EngineOptions {
        EngineOptions::default()
    }

    /// "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// The number format of weights, activations and the key-value cache. Default [`Dtype::AUTO`].
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Tokens a page: a power of two from 16 to 256. Default 64.
    pub fn page_size(mut self, page_size: i32) -> Self {
        self.page_size = Some(page_size);
        self
    }

    /// Pages in the pool; 0 (default) sizes it from the model and the memory that is free.
    pub fn num_pages(mut self, num_pages: i64) -> Self {
        self.num_pages = Some(num_pages);
        self
    }

    /// Longest context of a cache in tokens; 0 (default) takes the model's.
    pub fn max_context(mut self, max_context: i64) -> Self {
        self.max_context = Some(max_context);
        self
    }

    /// Most tokens computed in one step, 1 to 65536. Default 512.
    pub fn max_batch_tokens(mut self, max_batch_tokens: i32) -> Self {
        self.max_batch_tokens = Some(max_batch_tokens);
        self
    }

    /// CPU threads, 1 to 1024; 0 (default) takes the cores that the process may use.
    pub fn threads(mut self, threads: i32) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Receives log lines, from any thread. It must not use this crate; a panic in it is caught and ignored.
    pub fn log(mut self, log: impl Fn(Severity, &str) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// The library's options with these values, and what the log callback needs while an engine lives.
    pub(crate) fn apply(&self) -> Result<(NativeEngineOptions, Option<Box<Log>>)> {
        ffi::ready()?;
        // SAFETY: each call gets a living handle, and strings with their lengths.
        unsafe {
            let native = NativeEngineOptions(ffi::create(|options| sys::nl_engine_options_create(options))?);
            if let Some(device) = &self.device {
                check(sys::nl_engine_options_set_device(native.0, device.as_ptr().cast(), device.len()))?;
            }
            if let Some(dtype) = self.dtype {
                check(sys::nl_engine_options_set_dtype(native.0, dtype.0))?;
            }
            if let Some(page_size) = self.page_size {
                check(sys::nl_engine_options_set_page_size(native.0, page_size))?;
            }
            if let Some(num_pages) = self.num_pages {
                check(sys::nl_engine_options_set_num_pages(native.0, num_pages))?;
            }
            if let Some(max_context) = self.max_context {
                check(sys::nl_engine_options_set_max_context(native.0, max_context))?;
            }
            if let Some(max_batch_tokens) = self.max_batch_tokens {
                check(sys::nl_engine_options_set_max_batch_tokens(native.0, max_batch_tokens))?;
            }
            if let Some(threads) = self.threads {
                check(sys::nl_engine_options_set_threads(native.0, threads))?;
            }
            let log = self.log.clone().map(Box::new);
            if let Some(log) = &log {
                let user_data = &**log as *const Log as *mut c_void;
                check(sys::nl_engine_options_set_log(native.0, Some(forward_log), user_data))?;
            }
            Ok((native, log))
        }
    }
}

/// Called by the library. No panic may leave.
unsafe extern "C" fn forward_log(user_data: *mut c_void, severity: i32, message: *const c_char, length: usize) {
    let log = &*(user_data as *const Log);
    let message = String::from_utf8_lossy(std::slice::from_raw_parts(message.cast::<u8>(), length));
    let _ = catch_unwind(AssertUnwindSafe(|| log(Severity(severity), &message)));
}

pub(crate) struct NativeEngineOptions(pub *mut sys::nl_engine_options);
impl Drop for NativeEngineOptions {
    fn drop(&mut self) {
        // SAFETY: made by nl_engine_options_create, freed once.
        unsafe { sys::nl_engine_options_free(self.0) }
    }
}

/// How a cache composes its chunks. What is not set keeps the library's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheOptions {
    composition: Option<Composition>,
}

impl CacheOptions {
    /// Options with every default.
    pub fn new() -> CacheOptions {
        CacheOptions::default()
    }

    /// Default [`Composition::EXACT`].
    pub fn composition(mut self, composition: Composition) -> Self {
        self.composition = Some(composition);
        self
    }

    pub(crate) fn apply(&self) -> Result<NativeCacheOptions> {
        // SAFETY: each call gets a living handle.
        unsafe {
            let native = NativeCacheOptions(ffi::create(|options| sys::nl_cache_options_create(options))?);
            if let Some(composition) = self.composition {
                check(sys::nl_cache_options_set_composition(native.0, composition.0))?;
            }
            Ok(native)
        }
    }
}

pub(crate) struct NativeCacheOptions(pub *mut sys::nl_cache_options);
impl Drop for NativeCacheOptions {
    fn drop(&mut self) {
        // SAFETY: made by nl_cache_options_create, freed once.
        unsafe { sys::nl_cache_options_free(self.0) }
    }
}

/// How to draw tokens: greedily, unless a temperature is set. What is not set keeps the library's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplingOptions {
    temperature: Option<f32>,
    top_k: Option<i32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    seed: Option<u64>,
}

impl SamplingOptions {
    /// Options with every default.
    pub fn new() -> SamplingOptions {
        SamplingOptions::default()
    }

    /// 0 (greedy, default) or a finite positive number.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Keeps the k highest logits (and ties with the k-th); 0 (default) keeps all.
    pub fn top_k(mut self, top_k: i32) -> Self {
        self.top_k = Some(top_k);
        self
    }

    /// Keeps the most probable tokens until their share reaches p, in (0, 1]; 1 (default) keeps all.
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.top_p = Some(top_p);
        self
    }

    /// Keeps tokens at least this many times as probable as the best, in \[0, 1]; 0 (default) keeps all.
    pub fn min_p(mut self, min_p: f32) -> Self {
        self.min_p = Some(min_p);
        self
    }

    /// Draws depend on the logits, the options, the seed and the position alone. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) fn apply(&self) -> Result<NativeSamplingOptions> {
        // SAFETY: each call gets a living handle.
        unsafe {
            let native = NativeSamplingOptions(ffi::create(|options| sys::nl_sampling_options_create(options))?);
            if let Some(temperature) = self.temperature {
                check(sys::nl_sampling_options_set_temperature(native.0, temperature))?;
            }
            if let Some(top_k) = self.top_k {
                check(sys::nl_sampling_options_set_top_k(native.0, top_k))?;
            }
            if let Some(top_p) = self.top_p {
                check(sys::nl_sampling_options_set_top_p(native.0, top_p))?;
            }
            if let Some(min_p) = self.min_p {
                check(sys::nl_sampling_options_set_min_p(native.0, min_p))?;
            }
            if let Some(seed) = self.seed {
                check(sys::nl_sampling_options_set_seed(native.0, seed))?;
            }
            Ok(native)
        }
    }
}

pub(crate) struct NativeSamplingOptions(pub *mut sys::nl_sampling_options);
impl Drop for NativeSamplingOptions {
    fn drop(&mut self) {
        // SAFETY: made by nl_sampling_options_create, freed once.
        unsafe { sys::nl_sampling_options_free(self.0) }
    }
}
