//! Functions of libraries that are opened at run time, and the status codes that they return.
//!
//! The binding declares status codes as a Rust enum. If a newer library returned a code that the enum does not have,
//! that would be undefined behaviour. So each function is declared here again with a plain number as its result. The
//! compiler checks everything else against the binding's declaration.

use libloading::Library;
use std::ffi::{CStr, c_char};

/// The status code that a function returns. Zero means success in every library.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub u32);

impl Status {
    /// The status of success.
    pub const SUCCESS: Self = Self(0);

    /// Returns the library's name for the status, if it has one, and the number.
    ///
    /// # Safety
    /// The name must be null or a string with static lifetime.
    pub unsafe fn named(self, name: *const c_char) -> String {
        if name.is_null() {
            return format!("code {}, which is unknown to the library", self.0);
        }
        // SAFETY: as the caller promises.
        let name = unsafe { CStr::from_ptr(name) };
        format!("{} ({})", name.to_string_lossy(), self.0)
    }
}

/// The functions of one library.
pub(super) trait Calls: Sized {
    /// Loads all functions.
    ///
    /// # Errors
    /// If a function is absent; the error names the first one.
    fn find(library: &Library) -> Result<Self, libloading::Error>;
}

/// Declares the functions of a library; `Status` replaces the binding's type of status codes.
macro_rules! calls {
    ($sys:path, $status:ident: $($name:ident($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The functions of the library, with their C names.
        #[allow(non_snake_case)]
        pub(in crate) struct Calls {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl crate::calls::Calls for Calls {
            fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the binding, except for status codes, which have the same width.
                unsafe { Ok(Self { $($name: *library.get(stringify!($name).as_bytes())?,)* }) }
            }
        }

        const _: () = {
            use $sys as sys;
            type Status = sys::$status;
            assert!(size_of::<Status>() == size_of::<crate::calls::Status>());
            $(let _: unsafe fn($($argument),*) -> $result = sys::$name;)*
        };
    };
}
pub(super) use calls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_status_is_reported_as_a_number() {
        // SAFETY: the first name is null, and the second has static lifetime.
        let texts = unsafe { [Status(31999).named(std::ptr::null()), Status(2).named(c"OUT".as_ptr())] };
        assert_eq!(texts, ["code 31999, which is unknown to the library", "OUT (2)"]);
    }
}
