//! Options are lists of what was set, and become the library's own when a call takes them. `setters.rs` has a setter for
//! each option.

use crate::error::check;
use crate::{ffi, OptionsKind, Result, Severity};
use nanolith_sys as sys;
use std::any::Any;
use std::ops::ControlFlow;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) type Log = Arc<dyn Fn(Severity, &str) + Send + Sync>;
type Progress = Arc<dyn Fn(f64) -> ControlFlow<()> + Send + Sync>;

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
    progress: Option<Progress>,
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
#[derive(Clone, Debug, Default)]
pub struct GenerationOptions {
    values: Values,
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
    pub(crate) fn apply(&self) -> Result<NativeOptions> {
        self.values.apply(OptionsKind::GENERATION)
    }
}

/// What the library's callbacks need: the log while an engine lives, the progress while it is created.
pub(crate) struct Callbacks {
    pub native: NativeOptions,
    pub log: Option<Box<Log>>,
    progress: Option<Box<ProgressState>>,
}

struct ProgressState {
    call: Progress,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Callbacks {
    /// Goes on with the panic of the progress function, if there was one. After nl_engine_create.
    pub fn resume_panic(&self) {
        let panic = self.progress.as_ref().and_then(|state| lock(&state.panic).take());
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let progress = self.progress.clone().map(|call| Box::new(ProgressState { call, panic: Mutex::new(None) }));
        if let Some(progress) = &progress {
            let user_data = &**progress as *const ProgressState as *mut c_void;
            // SAFETY: the same; it is called by nl_engine_create alone.
            check(unsafe { sys::nl_options_set_progress(native.0, Some(forward_progress), user_data) })?;
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

/// Called by the library. No panic may leave.
unsafe extern "C" fn forward_progress(user_data: *mut c_void, done: f64) -> i32 {
    let state = &*(user_data as *const ProgressState);
    match catch_unwind(AssertUnwindSafe(|| (state.call)(done))) {
        Ok(ControlFlow::Continue(())) => 0,
        Ok(ControlFlow::Break(())) => 1,
        Err(panic) => {
            *lock(&state.panic) = Some(panic);
            1
        }
    }
}
