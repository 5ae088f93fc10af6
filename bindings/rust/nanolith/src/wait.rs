//! The thread that waits for one generation, for tasks that can't.

use crate::generation::GenerationHandle;
use crate::{Error, Result, Status};
use std::os::raw::{c_int, c_short, c_ulong};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

// Part of the C library, which every Rust program on Linux is linked to.
#[repr(C)]
struct PollFd {
    descriptor: c_int,
    events: c_short,
    returned: c_short,
}
extern "C" {
    fn poll(descriptors: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
}
const POLLIN: c_short = 1;

/// Belongs to a generation, which cancels itself when it is dropped: that makes the descriptor readable and so ends the
/// thread.
pub(crate) struct Waiter(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waker: Option<Waker>, // who is to be woken; nobody waits without
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, descriptor: c_int) {
        loop {
            let mut state = self.lock();
            while state.waker.is_none() && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            drop(state);
            let mut waited = PollFd { descriptor, events: POLLIN, returned: 0 };
            // SAFETY: one element, which lives. A signal may end it early: then whoever is woken waits again.
            unsafe { poll(&mut waited, 1, -1) };
            let waker = self.lock().waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Waiter {
    pub fn start(generation: Arc<GenerationHandle>) -> Result<Waiter> {
        let descriptor = generation.descriptor()?;
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("nanolith wait".to_string());
        let started = thread.spawn(move || {
            theirs.run(descriptor);
            drop(generation); // which kept the descriptor open
        });
        match started {
            Ok(_) => Ok(Waiter(shared)),
            Err(error) => Err(Error::new(Status::IO, format!("no thread can wait for the generation: {}", error))),
        }
    }

    /// Wakes `waker` once, when there is something to fetch or before.
    pub fn wake_when_ready(&self, waker: &Waker) {
        self.0.lock().waker = Some(waker.clone());
        self.0.changed.notify_one();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.waker = None;
        self.0.changed.notify_one();
    }
}
