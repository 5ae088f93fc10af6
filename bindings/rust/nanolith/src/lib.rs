//! Nanolith: an embeddable large-language-model engine whose first-class object is the chunk.
//!
//! A [`Chunk`] is a span of tokens (a system prompt, a document) that is prefilled once and then used by any number of
//! conversations, in any order, at any position. A [`Cache`] is one conversation's context; [`Cache::generate`] has the
//! engine answer from it.
//!
//! ```
//! use nanolith::{CacheOptions, Composition, EncodeFlags, Engine, EngineOptions, GenerationOptions, Level};
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
//! let system = engine.prefill(&system, Level::SYSTEM, &[])?;
//! let record = engine.prefill(&record, Level::CONTEXT, &[])?;
//!
//! let cache = engine.cache(&[&system, &record], &CacheOptions::new().composition(Composition::INDEPENDENT))?;
//! let mut answer = String::new();
//! for piece in cache.generate(&question, &GenerationOptions::new())? {
//!     answer.push_str(&piece?.text); // as it comes
//! }
//! assert_eq!(answer.trim(), "Jewick");
//! # Ok::<(), nanolith::Error>(())
//! ```
//!
//! What is dropped can't be used or dropped again, and a generation's descriptor not be waited for once that is gone: that
//! doesn't compile.
//!
//! ```compile_fail,E0382
//! # fn try_it(cache: nanolith::Cache) -> nanolith::Result<()> {
//! drop(cache);
//! cache.extend(&[7])
//! # }
//! ```
//! ```compile_fail,E0505
//! # use std::os::unix::io::AsRawFd;
//! # fn try_it(generation: nanolith::Generation) -> nanolith::Result<i32> {
//! let descriptor = generation.descriptor()?;
//! drop(generation);
//! Ok(descriptor.as_raw_fd())
//! # }
//! ```
//!
//! Every type is `Send` and `Sync`, and may be dropped in any order on any thread: what a living value needs stays
//! alive. An [`Error`] carries the library's status, its sentence about what went wrong and the
//! numbers in it.
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
mod generation;
mod options;
#[rustfmt::skip]
mod setters;
mod stream;
mod tokenizer;
mod wait;

pub use cache::{decode_step, Cache};
pub use chat::{ChatFormat, Message, RenderedChat};
pub use chunk::Chunk;
pub use engine::Engine;
pub use enums::*;
pub use error::{Error, Result};
#[cfg(feature = "dlopen")]
pub use ffi::load_library;
pub use generation::{Canceller, Generation, NextPiece, Piece, Statistics};
pub use options::{CacheOptions, EngineOptions, GenerationOptions, SamplingOptions};
pub use stream::TextStream;
pub use tokenizer::Tokenizer;

use nanolith_sys as sys;
use std::os::unix::ffi::OsStrExt;

/// The version of the library at run time, as "0.2.0".
pub fn version() -> Result<&'static str> {
    ffi::ready()?;
    // SAFETY: the string lives as long as the library, which stays open.
    Ok(unsafe { ffi::c_text(sys::nl_version()) })
}

/// The same as one number, to compare: 200 is 0.2.0, 10203 is 1.2.3.
pub fn version_number() -> Result<i32> {
    ffi::ready()?;
    // SAFETY: it takes nothing.
    Ok(unsafe { sys::nl_version_number() })
}

/// What the Hugging Face folder or GGUF file at `path` is and what of it can be used, without loading weights: lines
/// "name: value", for people to read, or a JSON object with the same names. "model", "tokenizer" and "chat format" are
/// among them, each "supported" (or the format's name), or "none", "not supported" or "not usable" and the reason. A part
/// that can't be used is no error.
///
/// ```
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/model");
/// let text = nanolith::describe_model(model, nanolith::DescribeFormat::TEXT)?;
/// assert!(text.lines().any(|line| line == "model: supported"));
/// # Ok::<(), nanolith::Error>(())
/// ```
pub fn describe_model(path: impl AsRef<std::path::Path>, format: DescribeFormat) -> Result<String> {
    ffi::ready()?;
    let path = path.as_ref().as_os_str().as_bytes();
    // SAFETY: the path goes with its length, and the buffer has the given capacity.
    ffi::fill_text(1024, |buffer, capacity, length| unsafe {
        sys::nl_model_describe(path.as_ptr().cast(), path.len(), format.0, buffer, capacity, length)
    })
}

/// The options of a kind as a JSON array of objects: "name", "key", "type", "least", "most", "default" and "doc".
pub fn describe_options(kind: OptionsKind) -> Result<String> {
    ffi::ready()?;
    // SAFETY: the buffer has the given capacity.
    ffi::fill_text(4096, |buffer, capacity, length| unsafe {
        sys::nl_option_describe(kind.0, buffer, capacity, length)
    })
}

/// The facts of a kind as a JSON array of objects: "name", "key", "unit" and "doc".
pub fn describe_facts(kind: FactsKind) -> Result<String> {
    ffi::ready()?;
    // SAFETY: the buffer has the given capacity.
    ffi::fill_text(4096, |buffer, capacity, length| unsafe { sys::nl_fact_describe(kind.0, buffer, capacity, length) })
}

/// What an option may be, and what it is where nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds<T> {
    /// The least value.
    pub least: T,
    /// The greatest value.
    pub most: T,
    /// The default; 0 for lists, where it means nothing.
    pub standard: T,
}

/// The bounds of an option that takes integers: `option_bounds_int(EngineOption::PAGE_SIZE.0)`.
pub fn option_bounds_int(option: i32) -> Result<Bounds<i64>> {
    ffi::ready()?;
    let (mut least, mut most, mut standard) = (0, 0, 0);
    // SAFETY: each pointer leads to one number.
    error::check(unsafe { sys::nl_option_bounds_int(option, &mut least, &mut most, &mut standard) })?;
    Ok(Bounds { least, most, standard })
}

/// The bounds of an option that takes floats: `option_bounds_float(SamplingOption::TOP_P.0)`.
pub fn option_bounds_float(option: i32) -> Result<Bounds<f64>> {
    ffi::ready()?;
    let (mut least, mut most, mut standard) = (0.0, 0.0, 0.0);
    // SAFETY: each pointer leads to one number.
    error::check(unsafe { sys::nl_option_bounds_float(option, &mut least, &mut most, &mut standard) })?;
    Ok(Bounds { least, most, standard })
}
