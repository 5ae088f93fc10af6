//! Nanolith: an embeddable large-language-model engine whose first-class object is the chunk.
//!
//! A [`Chunk`] is a span of tokens (a system prompt, a document) that is prefilled once and then used by any number of
//! conversations, in any order, at any position. A [`Cache`] is one conversation's context; [`Cache::stream_text`]
//! answers from it.
//!
//! ```
//! use nanolith::{CacheOptions, Composition, EncodeFlags, Engine, EngineOptions};
//!
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
//! let engine = Engine::load(model, &EngineOptions::new().device("cpu"))?;
//! let tokenizer = engine.tokenizer()?;
//! let system = tokenizer.encode(
//!     "<|system|> Each document is one record. Answer each question from the records, in as few words as possible.",
//!     EncodeFlags::ADD_BOS,
//! )?;
//! let record = tokenizer.encode(
//!     "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. \
//!      Boso Polm worked in Jewick.",
//!     EncodeFlags::NONE,
//! )?;
//! let question = tokenizer.encode("<|user|> Name the place where Boso Polm worked.<|assistant|>", EncodeFlags::NONE)?;
//!
//! // Computed once, and then part of as many conversations as you like.
//! let system = engine.prefill(&system, 0, &[])?;
//! let record = engine.prefill(&record, 1, &[])?;
//!
//! let cache = engine.cache(&[&system, &record], CacheOptions::new().composition(Composition::INDEPENDENT))?;
//! cache.extend(&question)?;
//! let mut answer = String::new();
//! for piece in cache.stream_text(&tokenizer, 32)? {
//!     answer.push_str(&piece?);
//! }
//! assert_eq!(answer.trim(), "Jewick");
//! # Ok::<(), nanolith::Error>(())
//! ```
//!
//! What is dropped can't be used or dropped again, and an answer's text not be read once its cache is gone: that doesn't
//! compile.
//!
//! ```compile_fail,E0382
//! # fn try_it(cache: nanolith::Cache) -> nanolith::Result<()> {
//! drop(cache);
//! cache.extend(&[7])
//! # }
//! ```
//! ```compile_fail,E0505
//! # fn try_it(cache: nanolith::Cache, tokenizer: nanolith::Tokenizer) -> nanolith::Result<()> {
//! let mut pieces = cache.stream_text(&tokenizer, 32)?;
//! drop(cache);
//! # let _ =
//! pieces.next();
//! # Ok(())
//! # }
//! ```
//!
//! Every type is `Send` and `Sync`, and may be dropped in any order on any thread: what a living value needs stays
//! alive. An [`Error`] carries the library's status and its sentence about what went wrong.
//!
//! With the feature `dlopen` the library is opened at run time, when the first value is made.
#![warn(missing_docs)]

mod cache;
mod chat;
mod chunk;
mod engine;
#[rustfmt::skip]
mod enums;
mod error;
mod ffi;
mod options;
mod stream;
mod tokenizer;

pub use cache::{decode_step, Cache};
pub use chat::{ChatFormat, Message, RenderedChat};
pub use chunk::Chunk;
pub use engine::Engine;
pub use enums::*;
pub use error::{Error, Result};
#[cfg(feature = "dlopen")]
pub use ffi::load_library;
pub use options::{CacheOptions, EngineOptions, SamplingOptions};
pub use stream::{TextPieces, TextStream};
pub use tokenizer::Tokenizer;

use std::os::unix::ffi::OsStrExt;

/// The version of the library at run time, as "0.1.0".
pub fn version() -> Result<&'static str> {
    ffi::ready()?;
    // SAFETY: the string lives as long as the library, which stays open.
    Ok(unsafe { ffi::c_text(nanolith_sys::nl_version()) })
}

/// What the Hugging Face folder at `path` is and what of it can be used, without loading weights: lines "name: value",
/// for people to read. "model", "tokenizer" and "chat format" are among them, each "supported" (or the format's name),
/// or "none", "not supported" or "not usable" and the reason. A part that can't be used is no error.
///
/// ```
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
/// assert!(nanolith::describe_model(model)?.lines().any(|line| line == "model: supported"));
/// # Ok::<(), nanolith::Error>(())
/// ```
pub fn describe_model(path: impl AsRef<std::path::Path>) -> Result<String> {
    ffi::ready()?;
    let path = path.as_ref().as_os_str().as_bytes();
    // SAFETY: the path goes with its length, and the buffer has the given capacity.
    ffi::fill_text(1024, |buffer, capacity, length| unsafe {
        nanolith_sys::nl_model_describe(path.as_ptr().cast(), path.len(), buffer, capacity, length)
    })
}
