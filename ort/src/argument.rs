//! Arguments of the C API: pointers become references and texts in one place, so that the functions themselves are
//! safe code.

use crate::status::Failure;
use std::ffi::{CStr, c_char, c_int, c_void};

/// What a function makes of an argument of the C API.
pub trait Argument<C>: Sized {
    /// Takes an argument. `name` is its name in messages.
    ///
    /// # Safety
    /// A pointer that is not null points to what the C API says, for as long as the function runs.
    unsafe fn take(raw: C, name: &str) -> Result<Self, Failure>;
}

/// An object of ovolo for which a caller has an opaque pointer.
pub trait Handle: Sized {
    /// The type of the C API.
    type Sys;

    /// Hands the object over to the caller, who gives it back to a function that releases it.
    fn lend(self) -> *mut Self::Sys {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Drops the object that a pointer stands for. Null is nothing.
    ///
    /// # Safety
    /// The pointer is from [`Handle::lend`], and nobody uses it any more.
    unsafe fn release(raw: *mut Self::Sys) {
        if !raw.is_null() {
            // SAFETY: `lend` has made the pointer from a box, and the caller gives it back once.
            crate::status::quietly(|| drop(unsafe { Box::from_raw(raw.cast::<Self>()) }));
        }
    }
}

/// A place for a result.
pub struct Out<'a, T>(&'a mut std::mem::MaybeUninit<T>);

impl<T> Out<'_, T> {
    /// Writes the result.
    pub fn set(&mut self, value: T) {
        self.0.write(value);
    }
}

/// Several values of C, one after the other. The pointer of an empty list may be null.
pub struct List<T> {
    start: *const T,
}

impl<T> List<T> {
    /// Returns the values.
    ///
    /// # Safety
    /// There are as many values at the pointer.
    pub unsafe fn of<'a>(&self, count: usize, name: &str) -> Result<&'a [T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.start.is_null() {
            return Err(null(name));
        }
        // SAFETY: the caller says that there are as many values.
        Ok(unsafe { std::slice::from_raw_parts(self.start, count) })
    }
}

/// Room for several values of C, one after the other. The pointer may be null if there is room for none.
pub struct Room<T> {
    start: *mut T,
}

impl<T: Copy> Room<T> {
    /// Writes values.
    ///
    /// # Safety
    /// There is room for `count` values.
    pub unsafe fn fill(&self, count: usize, values: &[T]) -> Result<(), Failure> {
        if count < values.len() {
            let wanted = values.len();
            return Err(Failure::invalid(format!(
                "there are {wanted} values, and there is room for {count}"
            )));
        }
        if !values.is_empty() {
            if self.start.is_null() {
                return Err(Failure::invalid("the place for values is a null pointer"));
            }
            // SAFETY: the caller says that there is room.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.start, values.len()) };
        }
        Ok(())
    }

    /// Returns whether the caller has given no place.
    pub fn is_null(&self) -> bool {
        self.start.is_null()
    }

    /// Returns the values that are there.
    ///
    /// # Safety
    /// There are `count` values.
    pub unsafe fn values<'a>(&self, count: usize, name: &str) -> Result<&'a [T], Failure> {
        // SAFETY: the same promise.
        unsafe { List { start: self.start.cast_const() }.of(count, name) }
    }
}

impl<T> Argument<*mut T> for Room<T> {
    unsafe fn take(raw: *mut T, _: &str) -> Result<Self, Failure> {
        Ok(Self { start: raw })
    }
}

fn null(name: &str) -> Failure {
    Failure::invalid(format!("`{name}` is a null pointer"))
}

impl<T: Handle> Argument<*const T::Sys> for &T {
    unsafe fn take(raw: *const T::Sys, name: &str) -> Result<Self, Failure> {
        // SAFETY: a pointer of this type is from `Handle::lend`, or points to an object that never ends.
        unsafe { raw.cast::<T>().as_ref() }.ok_or_else(|| null(name))
    }
}

impl<T: Handle> Argument<*mut T::Sys> for &T {
    unsafe fn take(raw: *mut T::Sys, name: &str) -> Result<Self, Failure> {
        // SAFETY: as above.
        unsafe { <&T as Argument<*const T::Sys>>::take(raw, name) }
    }
}

impl<T: Handle> Argument<*mut T::Sys> for &mut T {
    unsafe fn take(raw: *mut T::Sys, name: &str) -> Result<Self, Failure> {
        // SAFETY: as above; the C API lets no other thread use an object that a function changes.
        unsafe { raw.cast::<T>().as_mut() }.ok_or_else(|| null(name))
    }
}

impl<T: Handle> Argument<*const T::Sys> for Option<&T> {
    unsafe fn take(raw: *const T::Sys, _: &str) -> Result<Self, Failure> {
        // SAFETY: as above.
        Ok(unsafe { raw.cast::<T>().as_ref() })
    }
}

impl<T> Argument<*mut T> for Out<'_, T> {
    unsafe fn take(raw: *mut T, name: &str) -> Result<Self, Failure> {
        // SAFETY: the caller has room for one value at a pointer that is not null.
        unsafe { raw.cast::<std::mem::MaybeUninit<T>>().as_mut() }.map(Self).ok_or_else(|| null(name))
    }
}

impl Argument<*mut usize> for &mut usize {
    unsafe fn take(raw: *mut usize, name: &str) -> Result<Self, Failure> {
        // SAFETY: the caller has a number at a pointer that is not null.
        unsafe { raw.as_mut() }.ok_or_else(|| null(name))
    }
}

impl Argument<*const c_void> for List<u8> {
    unsafe fn take(raw: *const c_void, _: &str) -> Result<Self, Failure> {
        Ok(Self { start: raw.cast() })
    }
}

impl<T> Argument<*const T> for List<T> {
    unsafe fn take(raw: *const T, _: &str) -> Result<Self, Failure> {
        Ok(Self { start: raw })
    }
}

impl Argument<*const c_char> for &CStr {
    unsafe fn take(raw: *const c_char, name: &str) -> Result<Self, Failure> {
        if raw.is_null() {
            return Err(null(name));
        }
        // SAFETY: texts of the C API end with a zero byte.
        Ok(unsafe { CStr::from_ptr(raw) })
    }
}

impl Argument<*const c_char> for &str {
    unsafe fn take(raw: *const c_char, name: &str) -> Result<Self, Failure> {
        // SAFETY: as above.
        let text = unsafe { <&CStr as Argument<*const c_char>>::take(raw, name) }?;
        text.to_str().map_err(|_| Failure::invalid(format!("`{name}` is a text that is not UTF-8")))
    }
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {$(
        impl Argument<$ty> for $ty {
            unsafe fn take(raw: $ty, _: &str) -> Result<Self, Failure> {
                Ok(raw)
            }
        }
    )*};
}
plain!(usize, i64, c_int, bool, *mut c_void, *const c_void);

/// Defines functions of the C API. `as` says what each argument becomes; the body is safe code, and may fail.
macro_rules! api {
    ($(fn $name:ident($($arg:ident: $c:ty as $rust:ty),* $(,)?) $body:block)*) => {$(
        pub unsafe extern "system" fn $name($($arg: $c),*) -> ort_sys::OrtStatusPtr {
            $crate::status::guard(move || {
                // SAFETY: a caller of the C API keeps to its contract, which is that of `Argument::take`.
                $(#[allow(unused_mut)] let mut $arg = unsafe {
                    <$rust as $crate::argument::Argument<$c>>::take($arg, stringify!($arg))
                }?;)*
                $body
            })
        }
    )*};
}
pub(crate) use api;

/// Defines functions of the C API that release an object.
macro_rules! release {
    ($($name:ident: $handle:ty),* $(,)?) => {$(
        pub unsafe extern "system" fn $name(input: *mut <$handle as $crate::argument::Handle>::Sys) {
            // SAFETY: a caller of the C API releases what the C API gave it, and only once.
            unsafe { <$handle as $crate::argument::Handle>::release(input) }
        }
    )*};
}
pub(crate) use release;
