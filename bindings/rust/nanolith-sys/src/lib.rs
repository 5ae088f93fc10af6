//! The declarations of libnanolith, an embeddable large-language-model engine with reusable chunks.
//!
//! Everything here is named, and means, as in `nanolith/nanolith.h`; use the crate `nanolith` for a safe interface.
//!
//! By default the library is linked, as `pkg-config nanolith` says. With the feature `dlopen` it is opened at run time:
//! see `load`.
#![allow(non_camel_case_types)]

mod macros;

#[rustfmt::skip]
mod declarations;
pub use declarations::*;

#[cfg(feature = "dlopen")]
mod loader;
#[cfg(feature = "dlopen")]
pub use loader::{load, load_from};
