use crate::{ffi, Result, Tokenizer};
use nanolith_sys as sys;

/// Turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait for the next
/// token.
pub struct TextStream {
    raw: *mut sys::nl_text_stream,
    _tokenizer: Tokenizer, // dropped after the stream is freed
}

// SAFETY: the library's functions may be called from any thread; a stream is not for two at once, and all that it does
// takes `&mut self`.
unsafe impl Send for TextStream {}
unsafe impl Sync for TextStream {}

impl Drop for TextStream {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_text_stream_free(self.raw) }
    }
}

impl TextStream {
    /// A stream that has seen no token.
    pub fn new(tokenizer: &Tokenizer) -> Result<TextStream> {
        // SAFETY: the handle lives.
        let raw = ffi::create(|stream| unsafe { sys::nl_text_stream_create(tokenizer.raw(), stream) })?;
        Ok(TextStream { raw, _tokenizer: tokenizer.clone() })
    }

    /// The text that `token` completes, perhaps empty.
    pub fn push(&mut self, token: i32) -> Result<String> {
        // SAFETY: the buffer has the given capacity; after BUFFER_TOO_SMALL the same token may be pushed again.
        ffi::fill_text(64, |buffer, capacity, length| unsafe {
            sys::nl_text_stream_push(self.raw, token, buffer, capacity, length)
        })
    }

    /// What still waits, as U+FFFD where it is ill-formed; the stream is then as new.
    pub fn finish(&mut self) -> Result<String> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill_text(64, |buffer, capacity, length| unsafe {
            sys::nl_text_stream_finish(self.raw, buffer, capacity, length)
        })
    }
}
