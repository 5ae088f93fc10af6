use crate::{ffi, Status};
use nanolith_sys as sys;
use std::fmt;

/// What went wrong: the library's status, and a sentence that names the argument, its value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    text: String,
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, text: String) -> Error {
        Error { status, text }
    }

    /// The kind of error, to be compared with the constants of [`Status`].
    pub fn status(&self) -> Status {
        self.status
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.text
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
    Err(Error::new(Status(status), text))
}
