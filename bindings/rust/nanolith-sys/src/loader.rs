//! Opening the library at run time. Once open it stays open: handles may live as long as the process.

use crate::declarations::Table;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

// Part of the C library, which every Rust program on Linux is linked to.
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}
const RTLD_NOW: c_int = 2; // RTLD_LOCAL is 0: other libraries' symbols of the same names stay theirs

const DEFAULT: &str = "libnanolith.so.0";

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
static LOADING: Mutex<()> = Mutex::new(());

/// Opens `libnanolith.so.0` from where the dynamic loader looks for libraries. Does nothing where one is open already.
pub fn load() -> Result<(), String> {
    open(Path::new(DEFAULT), true)
}

/// Opens the library at `path`. An error where one is open already.
pub fn load_from(path: &Path) -> Result<(), String> {
    open(path, false)
}

fn open(path: &Path, open_already_is_fine: bool) -> Result<(), String> {
    let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if !TABLE.load(Ordering::Acquire).is_null() {
        return if open_already_is_fine { Ok(()) } else { Err("libnanolith is open already".to_string()) };
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("{:?} contains a NUL", path))?;
    // SAFETY: the strings end with NUL, and the table's types are those of the header.
    let table = unsafe {
        let library = dlopen(name.as_ptr(), RTLD_NOW);
        if library.is_null() {
            return Err(last_problem());
        }
        Table::resolve(|name| {
            let symbol = dlsym(library, name.as_ptr().cast());
            if symbol.is_null() {
                Err(last_problem())
            } else {
                Ok(symbol)
            }
        })?
    };
    TABLE.store(Box::into_raw(Box::new(table)), Ordering::Release);
    Ok(())
}

unsafe fn last_problem() -> String {
    let text = dlerror();
    if text.is_null() {
        String::new()
    } else {
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

pub(crate) fn table() -> &'static Table {
    let mut table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        if let Err(problem) = load() {
            panic!("libnanolith can't be opened: {}", problem);
        }
        table = TABLE.load(Ordering::Acquire);
    }
    // SAFETY: not null now, and never freed.
    unsafe { &*table }
}
