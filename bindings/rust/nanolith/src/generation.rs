use crate::engine::EngineHandle;
use crate::error::check;
use crate::options::{Function, Logits};
use crate::wait::Waiter;
use crate::{ffi, EndReason, GenerationFact, Result, Status};
use nanolith_sys as sys;
use std::future::Future;
use std::os::unix::io::BorrowedFd;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// Tokens and bytes of text that one call fetches at most: what is more waits for the next.
const PIECE_TOKENS: usize = 64;
const PIECE_BYTES: usize = 1024;

/// What a generation gave since it was asked last: tokens, text or both. They go their own ways: a token may come before
/// or after its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Tokens, the one that ended it included.
    pub tokens: Vec<i32>,
    /// What tokens say: whole characters. Text that may yet become a stop text is held back.
    pub text: String,
}

/// How a generation went so far, or all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Tokens drawn.
    pub tokens: i64,
    /// Of the context at its start, the tokens that were computed already.
    pub tokens_reused: i64,
    /// Tokens computed for it, those that it drew included.
    pub tokens_computed: i64,
    /// From its start to its first step.
    pub queued: Duration,
    /// From its start to its first token; `None` until there is one.
    pub first_token: Option<Duration>,
    /// From its start to its end, or until now.
    pub total: Duration,
    /// After the first token, rounded down; 0 while there is one or none.
    pub tokens_per_second: i64,
}

/// Tokens that the engine draws for a cache. Made by [`Cache::generate`](crate::Cache::generate). Dropping it cancels
/// it.
///
/// It is an iterator over its pieces, each of which waits for the engine; with [`Generation::next_timeout`] not for
/// ever. In async programs [`Generation::next_piece`] can be awaited, and [`Generation::poll_next`] has the shape of
/// `Stream`. After an error it is over, and so it is after a panic of
/// [`GenerationOptions::logits`](crate::GenerationOptions::logits), which goes on where the next piece is asked for.
///
/// ```
/// use nanolith::{CacheOptions, EncodeFlags, EndReason, Engine, EngineOptions, GenerationOptions};
///
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
/// let engine = Engine::load(model, &EngineOptions::new().device("cpu"))?;
/// let cache = engine.cache(&[], &CacheOptions::new())?;
/// let prompt = engine.tokenizer()?.encode("<|doc|> Boso Polm", EncodeFlags::ADD_BOS)?;
/// let mut generation = cache.generate(&prompt, &GenerationOptions::new().max_tokens(5).end_tokens(false))?;
/// let mut tokens = 0;
/// for piece in &mut generation {
///     let piece = piece?;
///     tokens += piece.tokens.len();
///     print!("{}", piece.text);
/// }
/// assert_eq!((tokens, generation.end()), (5, EndReason::LENGTH));
/// # Ok::<(), nanolith::Error>(())
/// ```
pub struct Generation {
    handle: Arc<GenerationHandle>,
    end: EndReason,
    waiter: Option<Waiter>,
}

/// Shared with whoever may cancel the generation, and with the thread that waits for it.
pub(crate) struct GenerationHandle {
    raw: *mut sys::nl_generation,
    _engine: Arc<EngineHandle>,            // dropped after the generation is freed
    logits: Option<Box<Function<Logits>>>, // the same
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for GenerationHandle {}
unsafe impl Sync for GenerationHandle {}

impl Drop for GenerationHandle {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_generation_free(self.raw) }
    }
}

impl GenerationHandle {
    fn cancel(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::nl_generation_cancel(self.raw) })
    }

    /// Readable while a call would not wait.
    pub(crate) fn descriptor(&self) -> Result<i32> {
        // SAFETY: the handle lives.
        ffi::value(|descriptor| unsafe { sys::nl_generation_descriptor(self.raw, descriptor) })
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let _ = self.handle.cancel(); // also where others still hold the handle
    }
}

impl Generation {
    pub(crate) fn from_raw(
        raw: *mut sys::nl_generation,
        engine: Arc<EngineHandle>,
        logits: Option<Box<Function<Logits>>>,
    ) -> Generation {
        let handle = Arc::new(GenerationHandle { raw, _engine: engine, logits });
        Generation { handle, end: EndReason::NONE, waiter: None }
    }

    /// The next piece, perhaps an empty one with the end; `None` where none came within `timeout_ms` milliseconds
    /// (negative: for ever).
    fn fetch(&mut self, timeout_ms: i64) -> Result<Option<Piece>> {
        let mut tokens = [0; PIECE_TOKENS];
        let mut text = [0; PIECE_BYTES];
        let (mut num_tokens, mut length, mut end) = (0, 0, 0);
        // SAFETY: the buffers have the given capacities, and each other pointer leads to one value.
        let status = unsafe {
            let (tokens, text) = (tokens.as_mut_ptr(), text.as_mut_ptr());
            let handle = self.handle.raw;
            sys::nl_generation_next(
                handle,
                timeout_ms,
                tokens,
                PIECE_TOKENS,
                &mut num_tokens,
                text.cast(),
                PIECE_BYTES,
                &mut length,
                &mut end,
            )
        };
        if status == sys::NL_ERROR_TIMEOUT {
            return Ok(None);
        }
        match check(status) {
            Ok(()) => self.end = EndReason(end),
            Err(error) if num_tokens + length == 0 => {
                self.end = EndReason::ERROR;
                self.is_over();
                return Err(error);
            }
            Err(_) => {} // the next call gives it again
        }
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        Ok(Some(Piece { tokens: tokens[..num_tokens].to_vec(), text }))
    }

    /// Whether all pieces have been fetched. The panic of a logits function goes on then.
    fn is_over(&self) -> bool {
        let is_over = self.end != EndReason::NONE;
        if let (true, Some(logits)) = (is_over, &self.handle.logits) {
            logits.resume_panic();
        }
        is_over
    }

    /// Nothing is left of an empty piece: it came with the end.
    fn some_piece(&self, piece: Piece) -> Option<Piece> {
        if piece.tokens.is_empty() && piece.text.is_empty() {
            self.is_over();
            return None;
        }
        Some(piece)
    }

    /// The next piece within `timeout`, `None` at the end. [`Status::TIMEOUT`] where there is none in that time; it may
    /// be asked again.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Piece>> {
        if self.is_over() {
            return Ok(None);
        }
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        match self.fetch(timeout_ms)? {
            Some(piece) => Ok(self.some_piece(piece)),
            None => Err(crate::Error::new(Status::TIMEOUT, format!("no piece came within {:?}", timeout))),
        }
    }

    /// All the text that is still to come. The tokens are dropped.
    pub fn text(&mut self) -> Result<String> {
        let mut text = String::new();
        for piece in self {
            text.push_str(&piece?.text);
        }
        Ok(text)
    }

    /// Log-probabilities of the latest piece's tokens, of the model's own distribution. Needs
    /// [`GenerationOptions::logprobs`](crate::GenerationOptions::logprobs).
    pub fn logprobs(&self) -> Result<Vec<f32>> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill(PIECE_TOKENS, |logprobs, capacity, count| unsafe {
            sys::nl_generation_logprobs(self.handle.raw, logprobs, capacity, count)
        })
    }

    /// The tokens most probable in the place of each of the latest piece's tokens, the most probable first, with their
    /// log-probabilities: as many for each as
    /// [`GenerationOptions::top_logprobs`](crate::GenerationOptions::top_logprobs) says, one token's after the other's.
    pub fn top_logprobs(&self) -> Result<Vec<(i32, f32)>> {
        // SAFETY: both buffers have the given capacity.
        let tokens = ffi::fill(0, |tokens, capacity, count| unsafe {
            let mut logprobs = vec![0.0; capacity];
            sys::nl_generation_top_logprobs(self.handle.raw, tokens, logprobs.as_mut_ptr(), capacity, count)
        })?;
        let logprobs = ffi::fill(tokens.len(), |logprobs, capacity, count| unsafe {
            let mut tokens = vec![0; capacity];
            sys::nl_generation_top_logprobs(self.handle.raw, tokens.as_mut_ptr(), logprobs, capacity, count)
        })?;
        Ok(tokens.into_iter().zip(logprobs).collect())
    }

    /// Why it ended; [`EndReason::NONE`] until all pieces have been fetched. [`GenerationFact::END`] tells it before.
    pub fn end(&self) -> EndReason {
        self.end
    }

    /// A fact about the generation.
    pub fn query(&self, fact: GenerationFact) -> Result<i64> {
        // SAFETY: the handle lives.
        ffi::value(|value| unsafe { sys::nl_generation_query(self.handle.raw, fact.0, value) })
    }

    /// How it went so far.
    pub fn statistics(&self) -> Result<Statistics> {
        let duration = |fact| self.query(fact).map(|us| u64::try_from(us).ok().map(Duration::from_micros));
        Ok(Statistics {
            tokens: self.query(GenerationFact::TOKENS)?,
            tokens_reused: self.query(GenerationFact::TOKENS_REUSED)?,
            tokens_computed: self.query(GenerationFact::TOKENS_COMPUTED)?,
            queued: duration(GenerationFact::QUEUED_US)?.unwrap_or_default(),
            first_token: duration(GenerationFact::FIRST_TOKEN_US)?,
            total: duration(GenerationFact::TOTAL_US)?.unwrap_or_default(),
            tokens_per_second: self.query(GenerationFact::TOKENS_PER_SECOND)?,
        })
    }

    /// Ends the generation when the step that runs now is over; what it has drawn can still be fetched, and its end is
    /// then [`EndReason::CANCELLED`]. Returns at once, and does nothing where it has ended.
    pub fn cancel(&self) -> Result<()> {
        self.handle.cancel()
    }

    /// What cancels the generation from anywhere, also while another thread waits for its next piece.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::downgrade(&self.handle))
    }

    /// A file descriptor for `poll`, `epoll` or a reactor of your own: readable while a call for the next piece would
    /// not wait. It belongs to the generation: don't read from it, write to it or close it. [`Status::IO`] where the
    /// process has no descriptors left.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        let descriptor = self.handle.descriptor()?;
        // SAFETY: the library closes it when the generation is freed, which is after this borrow.
        Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// The next piece, without waiting: where there is none yet, `cx`'s task is woken when there is. For
    /// `Stream::poll_next`, which it becomes by a line in a type of your own, and for [`Generation::next_piece`].
    ///
    /// Nothing runs an event loop here: from the first [`Poll::Pending`] on a thread of this generation's own waits on
    /// its descriptor, until the generation is over or dropped. Programs that have a reactor spare that thread by
    /// waiting for [`Generation::descriptor`] there, with [`Generation::next_timeout`] of zero after it.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece>>> {
        if self.is_over() {
            return Poll::Ready(None);
        }
        match self.fetch(0) {
            Err(error) => Poll::Ready(Some(Err(error))),
            Ok(Some(piece)) => Poll::Ready(self.some_piece(piece).map(Ok)),
            Ok(None) => match self.wait_for(cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Some(Err(error))),
            },
        }
    }

    fn wait_for(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if self.waiter.is_none() {
            self.waiter = Some(Waiter::start(self.handle.clone())?);
        }
        if let Some(waiter) = &self.waiter {
            waiter.wake_when_ready(cx.waker());
        }
        Ok(())
    }

    /// The next piece, to be awaited; `None` at the end. Dropping the future loses nothing. See
    /// [`Generation::poll_next`] for who wakes it.
    pub fn next_piece(&mut self) -> NextPiece<'_> {
        NextPiece(self)
    }
}

impl Iterator for Generation {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        if self.is_over() {
            return None;
        }
        match self.fetch(-1) {
            Ok(piece) => piece.and_then(|piece| self.some_piece(piece)).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Generation {}

/// A [`Generation`]'s next piece; see [`Generation::next_piece`].
#[must_use = "a future does nothing until it is awaited"]
pub struct NextPiece<'a>(&'a mut Generation);

impl Future for NextPiece<'_> {
    type Output = Option<Result<Piece>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_next(cx)
    }
}

/// Cancels a [`Generation`] from any thread. Clones mean the same one. It keeps nothing alive.
#[derive(Clone)]
pub struct Canceller(Weak<GenerationHandle>);

impl Canceller {
    /// As [`Generation::cancel`]; does nothing where the generation was dropped.
    pub fn cancel(&self) {
        if let Some(handle) = self.0.upgrade() {
            let _ = handle.cancel(); // which fails for handles that are none alone
        }
    }
}
