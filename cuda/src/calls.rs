//! Functions of a library that is opened at run time, and the numbers that they answer.
//!
//! The binding declares these numbers as an enum of Rust. One that a newer library answers beside them would be no
//! value of that type, and so undefined behaviour. Here each function is declared once more, with a plain number for
//! its answer; the compiler holds everything else of the declaration to the binding's.

use libloading::Library;
use std::ffi::{CStr, c_char};

/// What a function answers. Zero is success in every library.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub u32);

impl Status {
    /// That nothing went wrong.
    pub const SUCCESS: Self = Self(0);

    /// Its name in the library, which may have none for it, and its number.
    ///
    /// # Safety
    /// The name is none, or a text that lasts.
    pub unsafe fn named(self, name: *const c_char) -> String {
        if name.is_null() {
            return format!("code {}, which the library has no name for", self.0);
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        format!("{} ({})", name.to_string_lossy(), self.0)
    }
}

/// The functions of one library.
pub(super) trait Calls: Sized {
    /// Looks all of them up.
    ///
    /// # Errors
    /// The first that is not there.
    fn find(library: &Library) -> Result<Self, libloading::Error>;
}

/// Declares the functions of a library; `Status` stands for the binding's type of answers.
macro_rules! calls {
    ($sys:path, $status:ident: $($name:ident($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The functions of the library, by their names.
        #[allow(non_snake_case)]
        pub(in crate) struct Calls {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl crate::calls::Calls for Calls {
            fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are the binding's, but for answers, which are as wide.
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
    fn a_number_that_nobody_knows_is_told_as_it_is() {
        // SAFETY: no name, and one that lasts.
        let told = unsafe { [Status(31999).named(std::ptr::null()), Status(2).named(c"OUT".as_ptr())] };
        assert_eq!(told, ["code 31999, which the library has no name for", "OUT (2)"]);
    }
}
