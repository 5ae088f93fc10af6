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

/// The version of the library at run time, as "0.1.0".
pub fn version() -> Result<&'static str> {
    ffi::ready()?;
    // SAFETY: the string lives as long as the library, which stays open.
    Ok(unsafe { ffi::c_text(nanolith_sys::nl_version()) })
}
