//! What all calls into the library share.

use crate::error::check;
use crate::Result;
use nanolith_sys as sys;
use std::ffi::CStr;
use std::os::raw::c_char;
use std::ptr;

/// Must succeed before the first call of a thread that has no value of this crate in its hands.
#[cfg(feature = "dlopen")]
pub(crate) fn ready() -> Result<()> {
    sys::load().map_err(|text| crate::Error::new(crate::Status::NOT_FOUND, text))
}

#[cfg(not(feature = "dlopen"))]
pub(crate) fn ready() -> Result<()> {
    Ok(())
}

/// Opens the library at `path` instead of the one that the dynamic loader finds. Has to come before everything else.
#[cfg(feature = "dlopen")]
pub fn load_library(path: impl AsRef<std::path::Path>) -> Result<()> {
    sys::load_from(path.as_ref()).map_err(|text| crate::Error::new(crate::Status::NOT_FOUND, text))
}

/// # Safety
/// `text` ends with NUL and lives for `'a`. All of the library's strings are UTF-8.
pub(crate) unsafe fn c_text<'a>(text: *const c_char) -> &'a str {
    CStr::from_ptr(text).to_str().unwrap_or("(not UTF-8)")
}

/// Calls a function that gives out a handle.
pub(crate) fn create<T>(call: impl FnOnce(*mut *mut T) -> sys::nl_status) -> Result<*mut T> {
    let mut handle = ptr::null_mut();
    check(call(&mut handle))?;
    Ok(handle)
}

/// Calls a function that writes one number.
pub(crate) fn value<T: Default>(call: impl FnOnce(*mut T) -> sys::nl_status) -> Result<T> {
    let mut value = T::default();
    check(call(&mut value))?;
    Ok(value)
}

/// Calls a function that fills a buffer and tells the size it needs: with room for `guess` elements first, and again
/// with what was asked for. Another thread may make it more in between.
pub(crate) fn fill<T: Copy + Default>(
    guess: usize,
    call: impl Fn(*mut T, usize, *mut usize) -> sys::nl_status,
) -> Result<Vec<T>> {
    let mut buffer = vec![T::default(); guess];
    loop {
        let mut needed = 0;
        let status = call(buffer.as_mut_ptr(), buffer.len(), &mut needed);
        if status != sys::NL_ERROR_BUFFER_TOO_SMALL || needed <= buffer.len() {
            check(status)?;
            buffer.truncate(needed);
            return Ok(buffer);
        }
        buffer = vec![T::default(); needed];
    }
}

/// `fill` for text.
pub(crate) fn fill_text(
    guess: usize,
    call: impl Fn(*mut c_char, usize, *mut usize) -> sys::nl_status,
) -> Result<String> {
    let bytes = fill::<u8>(guess, |buffer, capacity, length| call(buffer.cast(), capacity, length))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
