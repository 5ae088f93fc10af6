use crate::engine::EngineHandle;
use crate::{ffi, EncodeFlags, Result, TokenizerFact};
use nanolith_sys as sys;
use std::ops::BitOr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Text to tokens and back. Clones are cheap and mean the same tokenizer.
#[derive(Clone)]
pub struct Tokenizer {
    handle: Arc<TokenizerHandle>,
}

struct TokenizerHandle {
    raw: *mut sys::nl_tokenizer,
    _engine: Option<Arc<EngineHandle>>, // dropped after the tokenizer is freed
}

// SAFETY: every function of the library may be called from any thread.
unsafe impl Send for TokenizerHandle {}
unsafe impl Sync for TokenizerHandle {}

impl Drop for TokenizerHandle {
    fn drop(&mut self) {
        // SAFETY: given out by the library, freed once.
        unsafe { sys::nl_tokenizer_free(self.raw) }
    }
}

impl EncodeFlags {
    /// The text's tokens alone.
    pub const NONE: EncodeFlags = EncodeFlags(0);
}

impl BitOr for EncodeFlags {
    type Output = EncodeFlags;
    fn bitor(self, other: EncodeFlags) -> EncodeFlags {
        EncodeFlags(self.0 | other.0)
    }
}

impl Tokenizer {
    pub(crate) fn from_raw(raw: *mut sys::nl_tokenizer, engine: Option<Arc<EngineHandle>>) -> Tokenizer {
        Tokenizer { handle: Arc::new(TokenizerHandle { raw, _engine: engine }) }
    }

    pub(crate) fn raw(&self) -> *const sys::nl_tokenizer {
        self.handle.raw
    }

    /// The tokenizer of a model folder or GGUF file, without loading weights.
    ///
    /// ```
    /// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
    /// let tokenizer = nanolith::Tokenizer::load(model)?;
    /// let tokens = tokenizer.encode("Boso Polm", nanolith::EncodeFlags::NONE)?;
    /// assert_eq!(tokenizer.decode(&tokens)?, "Boso Polm");
    /// # Ok::<(), nanolith::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Tokenizer> {
        ffi::ready()?;
        let path = path.as_ref().as_os_str().as_bytes();
        // SAFETY: the path goes with its length.
        let raw =
            ffi::create(|tokenizer| unsafe { sys::nl_tokenizer_load(path.as_ptr().cast(), path.len(), tokenizer) })?;
        Ok(Tokenizer::from_raw(raw, None))
    }

    /// Text to tokens. Symbols that the tokenizer file defines (for example "<|user|>") are recognised in the text.
    /// Takes bytes, as text need not be valid UTF-8: what isn't is read as U+FFFD.
    pub fn encode(&self, text: impl AsRef<[u8]>, flags: EncodeFlags) -> Result<Vec<i32>> {
        let text = text.as_ref();
        // SAFETY: the text goes with its length, and the buffer has the given capacity.
        ffi::fill(text.len() / 2 + 8, |tokens, capacity, count| unsafe {
            sys::nl_tokenizer_encode(self.raw(), text.as_ptr().cast(), text.len(), flags.0, tokens, capacity, count)
        })
    }

    /// Tokens to text; control tokens give no text, and ill-formed bytes U+FFFD.
    pub fn decode(&self, tokens: &[i32]) -> Result<String> {
        // SAFETY: the array goes with its length, and the buffer has the given capacity.
        ffi::fill_text(8 * tokens.len(), |buffer, capacity, length| unsafe {
            sys::nl_tokenizer_decode(self.raw(), tokens.as_ptr(), tokens.len(), buffer, capacity, length)
        })
    }

    /// A fact about the tokenizer; a special token that the model does not have is -1.
    pub fn query(&self, fact: TokenizerFact) -> Result<i64> {
        // SAFETY: the handle lives.
        ffi::value(|value| unsafe { sys::nl_tokenizer_query(self.raw(), fact.0, value) })
    }

    /// The token written exactly so in the vocabulary (for example "<|user|>").
    pub fn find(&self, piece: &str) -> Result<i32> {
        // SAFETY: the text goes with its length.
        ffi::value(|token| unsafe { sys::nl_tokenizer_find(self.raw(), piece.as_ptr().cast(), piece.len(), token) })
    }

    /// The vocabulary's spelling of a token; of byte tokens "<0x41>", of control tokens their name.
    pub fn piece(&self, token: i32) -> Result<String> {
        // SAFETY: the buffer has the given capacity.
        ffi::fill_text(32, |buffer, capacity, length| unsafe {
            sys::nl_tokenizer_piece(self.raw(), token, buffer, capacity, length)
        })
    }
}
