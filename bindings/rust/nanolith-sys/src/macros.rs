//! How the lists in `declarations.rs` become items.

/// Opaque types that only pointers to can exist, and that are neither `Send` nor `Sync` by themselves.
macro_rules! handles {
    ($($name:ident;)*) => { $(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
            _marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )* };
}
pub(crate) use handles;

/// Linked: the functions as they are.
#[cfg(not(feature = "dlopen"))]
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $return:ty)?;)*) => {
        extern "C" {
            $( $(#[$doc])* pub fn $name($($argument: $type),*) $(-> $return)?; )*
        }
    };
}

/// Opened at run time: a table of pointers, and functions that call through it.
#[cfg(feature = "dlopen")]
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $return:ty)?;)*) => {
        pub(crate) struct Table {
            $( $name: unsafe extern "C" fn($($type),*) $(-> $return)?, )*
        }

        impl Table {
            /// Asks `symbol` for each function by its name, which ends with a NUL. Stops at the first that is missing.
            pub(crate) unsafe fn resolve<E>(symbol: impl Fn(&str) -> Result<*mut c_void, E>) -> Result<Table, E> {
                Ok(Table {
                    $( $name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $return)?>(
                        symbol(concat!(stringify!($name), "\0"))?,
                    ), )*
                })
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the header says. Panics where the library can't be opened: call `load` first.
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name($($argument: $type),*) $(-> $return)? {
                (crate::loader::table().$name)($($argument),*)
            }
        )*
    };
}
pub(crate) use functions;
