use crate::{ffi, Detail, Status};
use nanolith_sys as sys;
use std::fmt;

/// What went wrong: the library's status, a sentence that names the argument, its value and what was expected, and the
/// numbers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    text: String,
    index: Option<i64>,
    needed: Option<i64>,
    available: Option<i64>,
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, text: String) -> Error {
        Error { status, text, index: None, needed: None, available: None }
    }

    /// The kind of error, to be compared with the constants of [`Status`].
    pub fn status(&self) -> Status {
        self.status
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Which element of the list that was given, from 0: the cache of [`decode_step`](crate::decode_step), say.
    pub fn index(&self) -> Option<i64> {
        self.index
    }

    /// What the call needed: pages ([`Status::OUT_OF_PAGES`]), tokens ([`Status::CONTEXT_FULL`]), bytes
    /// ([`Status::OUT_OF_MEMORY`]).
    pub fn needed(&self) -> Option<i64> {
        self.needed
    }

    /// What there was of it.
    pub fn available(&self) -> Option<i64> {
        self.available
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// The name in the header, for example "NL_ERROR_OUT_OF_PAGES".
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if ffi::ready().is_err() {
            return write!(f, "status {}", self.0);
        }
        // SAFETY: the name lives as long as the library.
        f.write_str(unsafe { ffi::c_text(sys::nl_status_name(self.0)) })
    }
}

/// Turns the status of the call that this thread just made into a result.
pub(crate) fn check(status: sys::nl_status) -> Result<()> {
    if status == sys::NL_OK {
        return Ok(());
    }
    // SAFETY: never null, and valid until this thread's next failed call; it is copied here.
    let text = unsafe { ffi::c_text(sys::nl_last_error()) }.to_string();
    let (index, needed, available) = (detail(Detail::INDEX), detail(Detail::NEEDED), detail(Detail::AVAILABLE));
    Err(Error { status: Status(status), text, index, needed, available })
}

/// A number of this thread's latest error, where that has it.
fn detail(detail: Detail) -> Option<i64> {
    let mut value = 0;
    // SAFETY: there is room for one number.
    let status = unsafe { sys::nl_last_error_detail(detail.0, &mut value) };
    (status == sys::NL_OK).then_some(value)
}
