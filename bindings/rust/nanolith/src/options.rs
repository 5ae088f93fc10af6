//! Options are lists of what was set, and become the library's own when a call takes them. `setters.rs` has a setter for
//! each option.

use crate::error::check;
use crate::{ffi, OptionsKind, Result, Severity};
use nanolith_sys as sys;
use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) type Log = Arc<dyn Fn(Severity, &str) + Send + Sync>;
type Progress = dyn Fn(f64) -> ControlFlow<()> + Send + Sync;
pub(crate) type Logits = dyn Fn(&[i32], &mut [f32]) -> ControlFlow<()> + Send + Sync;

#[derive(Clone, Debug)]
enum Value {
    Int(i64),
    Float(f64),
    Text(String),
}

/// Options in the order in which they were set: of one that is set twice the later value counts, and a list gets
/// both.
#[derive(Clone, Debug, Default)]
struct Values(Vec<(i32, Value)>);

impl Values {
    /// The library's options of a kind with these values.
    fn apply(&self, kind: OptionsKind) -> Result<NativeOptions> {
        ffi::ready()?;
        // SAFETY: there is room for one handle.
        let native = NativeOptions(ffi::create(|options| unsafe { sys::nl_options_create(kind.0, options) })?);
        for (key, value) in &self.0 {
            // SAFETY: the handle lives, and the text goes with its length.
            check(unsafe {
                match value {
                    Value::Int(value) => sys::nl_options_set_int(native.0, *key, *value),
                    Value::Float(value) => sys::nl_options_set_float(native.0, *key, *value),
                    Value::Text(text) => sys::nl_options_set_text(native.0, *key, text.as_ptr().cast(), text.len()),
                }
            })?;
        }
        Ok(native)
    }
}

pub(crate) struct NativeOptions(pub *mut sys::nl_options);
impl Drop for NativeOptions {
    fn drop(&mut self) {
        // SAFETY: made by nl_options_create, freed once.
        unsafe { sys::nl_options_free(self.0) }
    }
}

/// What the types of options have in common; `setters.rs` calls the last three.
macro_rules! options {
    ($name:ident) => {
        impl $name {
            /// Options with every default.
            pub fn new() -> $name {
                $name::default()
            }

            pub(crate) fn set_int(mut self, key: i32, value: i64) -> Self {
                self.values.0.push((key, Value::Int(value)));
                self
            }

            #[allow(dead_code)] // some have no such option
            pub(crate) fn set_float(mut self, key: i32, value: f64) -> Self {
                self.values.0.push((key, Value::Float(value)));
                self
            }

            #[allow(dead_code)]
            pub(crate) fn set_text(mut self, key: i32, value: &str) -> Self {
                self.values.0.push((key, Value::Text(value.to_string())));
                self
            }
        }
    };
}
options!(EngineOptions);
options!(CacheOptions);
options!(SamplingOptions);
options!(GenerationOptions);

/// How to load a model. What is not set keeps the library's default.
#[derive(Clone, Default)]
pub struct EngineOptions {
    values: Values,
    log: Option<Log>,
    progress: Option<Arc<Progress>>,
}

/// How a cache composes its chunks. What is not set keeps the library's default.
#[derive(Clone, Debug, Default)]
pub struct CacheOptions {
    values: Values,
}

/// How to draw tokens: greedily, unless a temperature is set. What is not set keeps the library's default.
#[derive(Clone, Debug, Default)]
pub struct SamplingOptions {
    values: Values,
}

/// When a generation ends, and how it hands over. What is not set keeps the library's default.
#[derive(Clone, Default)]
pub struct GenerationOptions {
    values: Values,
    logits: Option<Arc<Logits>>,
}

impl fmt::Debug for GenerationOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logits = self.logits.as_ref().map(|_| "a function");
        f.debug_struct("GenerationOptions").field("values", &self.values).field("logits", &logits).finish()
    }
}

impl CacheOptions {
    pub(crate) fn apply(&self) -> Result<NativeOptions> {
        self.values.apply(OptionsKind::CACHE)
    }
}

impl SamplingOptions {
    pub(crate) fn apply(&self) -> Result<NativeOptions> {
        self.values.apply(OptionsKind::SAMPLING)
    }
}

impl GenerationOptions {
    /// Sees the logits from which each token is about to be drawn, one for each token of the vocabulary, and may change
    /// them: `f32::NEG_INFINITY` for a token that must not be drawn. The first argument is all tokens of the cache.
    /// Sampling options, constraints and log-probabilities come after it, on what it leaves.
    ///
    /// With [`ControlFlow::Break`] the generation ends with [`EndReason::CANCELLED`](crate::EndReason::CANCELLED).
    /// Logits that it leaves NaN or plus infinity, or all of them minus infinity, end it with
    /// [`Status::INVALID_ARGUMENT`](crate::Status::INVALID_ARGUMENT). A panic in it ends the generation too, and goes on
    /// where the next piece is asked for, after the pieces that came before.
    ///
    /// It is called on the engine's own thread, while all conversations of the engine wait, and must not use this crate.
    /// Dropping the generation waits for a call that is under way.
    ///
    /// ```
    /// use nanolith::GenerationOptions;
    /// use std::ops::ControlFlow;
    ///
    /// // Never a token that stands in the cache already.
    /// let options = GenerationOptions::new().logits(|tokens, logits| {
    ///     for &token in tokens {
    ///         logits[token as usize] = f32::NEG_INFINITY;
    ///     }
    ///     ControlFlow::Continue(())
    /// });
    /// ```
    pub fn logits(mut self, logits: impl Fn(&[i32], &mut [f32]) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.logits = Some(Arc::new(logits));
        self
    }

    /// The library's options, and what the logits callback needs while the generation lives.
    pub(crate) fn apply(&self) -> Result<(NativeOptions, Option<Box<Function<Logits>>>)> {
        let native = self.values.apply(OptionsKind::GENERATION)?;
        let logits = self.logits.clone().map(Function::new);
        if let Some(logits) = &logits {
            // SAFETY: the handle lives, and so does the function while a generation has it.
            check(unsafe { sys::nl_options_set_logits(native.0, Some(forward_logits), logits.user_data()) })?;
        }
        Ok((native, logits))
    }
}

/// What the library's callbacks need: the log while an engine lives, the progress while it is created.
pub(crate) struct Callbacks {
    pub native: NativeOptions,
    pub log: Option<Box<Log>>,
    progress: Option<Box<Function<Progress>>>,
}

impl Callbacks {
    /// Goes on with the panic of the progress function, if there was one. After nl_engine_create.
    pub fn resume_panic(&self) {
        if let Some(progress) = &self.progress {
            progress.resume_panic();
        }
    }
}

/// A function that the library calls for one engine or generation, and its panic.
pub(crate) struct Function<F: ?Sized> {
    call: Arc<F>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<F: ?Sized> Function<F> {
    fn new(call: Arc<F>) -> Box<Self> {
        Box::new(Function { call, panic: Mutex::new(None) })
    }

    fn user_data(&self) -> *mut c_void {
        self as *const Self as *mut c_void
    }

    /// The callback's result for the library. No panic leaves.
    fn run(&self, body: impl FnOnce(&F) -> ControlFlow<()>) -> i32 {
        match catch_unwind(AssertUnwindSafe(|| body(&self.call))) {
            Ok(ControlFlow::Continue(())) => 0,
            Ok(ControlFlow::Break(())) => 1,
            Err(panic) => {
                *self.lock() = Some(panic);
                1
            }
        }
    }

    /// Goes on with the panic, if there was one that has not gone on yet.
    pub fn resume_panic(&self) {
        let panic = self.lock().take();
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineOptions {
    /// Receives log lines, from any thread. It must not use this crate; a panic in it is caught and ignored.
    pub fn log(mut self, log: impl Fn(Severity, &str) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Hears how far [`Engine::load`](crate::Engine::load) has come, from 0 to 1, on the thread that loads. With
    /// [`ControlFlow::Break`] loading ends with [`Status::CANCELLED`](crate::Status::CANCELLED). It must not use this
    /// crate; a panic in it ends loading too, and goes on in `Engine::load`.
    pub fn progress(mut self, progress: impl Fn(f64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// The library's options with these values and callbacks.
    pub(crate) fn apply(&self) -> Result<Callbacks> {
        let native = self.values.apply(OptionsKind::ENGINE)?;
        let log = self.log.clone().map(Box::new);
        if let Some(log) = &log {
            let user_data = &**log as *const Log as *mut c_void;
            // SAFETY: the handle lives, and so does the log function while an engine has it.
            check(unsafe { sys::nl_options_set_log(native.0, Some(forward_log), user_data) })?;
        }
        let progress = self.progress.clone().map(Function::new);
        if let Some(progress) = &progress {
            // SAFETY: the same; it is called by nl_engine_create alone.
            check(unsafe { sys::nl_options_set_progress(native.0, Some(forward_progress), progress.user_data()) })?;
        }
        Ok(Callbacks { native, log, progress })
    }
}

/// Called by the library. No panic may leave.
unsafe extern "C" fn forward_log(user_data: *mut c_void, severity: i32, message: *const c_char, length: usize) {
    let log = &*(user_data as *const Log);
    let message = String::from_utf8_lossy(std::slice::from_raw_parts(message.cast::<u8>(), length));
    let _ = catch_unwind(AssertUnwindSafe(|| log(Severity(severity), &message)));
}

/// Called by the library.
unsafe extern "C" fn forward_progress(user_data: *mut c_void, done: f64) -> i32 {
    let function = &*(user_data as *const Function<Progress>);
    function.run(|progress| progress(done))
}

/// Called by the library.
unsafe extern "C" fn forward_logits(
    user_data: *mut c_void,
    tokens: *const i32,
    num_tokens: usize,
    logits: *mut f32,
    num_logits: usize,
) -> i32 {
    let function = &*(user_data as *const Function<Logits>);
    let tokens = std::slice::from_raw_parts(tokens, num_tokens);
    let changed = std::slice::from_raw_parts_mut(logits, num_logits);
    function.run(|logits| logits(tokens, changed))
}
