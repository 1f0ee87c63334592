//! Memory descriptors.

use crate::api::Object;
use crate::load::Library;
use crate::tag::Tag;
use crate::{Error, check};
use std::ffi::c_int;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DataType {
    /// bfloat16: the upper 16 bits of an IEEE 754 binary32.
    Bf16 = 2,
    /// IEEE 754 binary32.
    F32 = 3,
    /// Signed integers of 32 bits.
    I32 = 4,
    /// Signed integers of 8 bits.
    I8 = 5,
    /// Unsigned integers of 8 bits.
    U8 = 6,
}

/// The layout of a descriptor: strides and blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// For each dimension, the number of elements from one outer index to the next.
    pub strides: Vec<usize>,
    /// The inner blocks as (dimension, size), outermost first.
    pub blocks: Vec<(usize, usize)>,
}

/// A memory descriptor: dimensions, element type and layout.
pub struct Desc {
    pub(crate) raw: Object,
    library: &'static Library,
}

// SAFETY: a descriptor is plain data that never changes after its creation.
unsafe impl Send for Desc {}
// SAFETY: as above.
unsafe impl Sync for Desc {}

/// The query for the number of dimensions.
const RANK: c_int = 256;
/// The largest number of dimensions that the library supports.
const MAX_DIMS: usize = 12;

fn rank(dims: &[usize], what: &'static str) -> Result<c_int, Error> {
    match c_int::try_from(dims.len()) {
        Ok(rank) if dims.len() <= MAX_DIMS => Ok(rank),
        _ => Err(Error { what, status: 2 }),
    }
}

pub(crate) fn dims(values: &[usize]) -> Vec<i64> {
    values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX)).collect()
}

impl Desc {
    /// Creates a descriptor of dimensions in a named format.
    ///
    /// # Errors
    /// If the format has a different number of dimensions.
    pub fn new(library: &'static Library, shape: &[usize], data: DataType, tag: Tag) -> Result<Self, Error> {
        const WHAT: &str = "a memory descriptor with a format";
        let mut raw = std::ptr::null_mut();
        let (rank, shape) = (rank(shape, WHAT)?, dims(shape));
        // SAFETY: `shape` has `rank` entries; `raw` is written on success.
        let status = unsafe {
            (library.api.memory_desc_create_with_tag)(
                &raw mut raw,
                rank,
                shape.as_ptr(),
                data as c_int,
                tag.0,
            )
        };
        check(status, WHAT)?;
        Ok(Self { raw, library })
    }

    /// Creates a descriptor of dimensions with strides, in elements.
    ///
    /// # Errors
    /// If the strides do not fit the dimensions.
    pub fn strided(
        library: &'static Library,
        shape: &[usize],
        data: DataType,
        strides: &[usize],
    ) -> Result<Self, Error> {
        const WHAT: &str = "a memory descriptor with strides";
        if strides.len() != shape.len() {
            return Err(Error { what: WHAT, status: 2 });
        }
        let mut raw = std::ptr::null_mut();
        let (rank, shape, strides) = (rank(shape, WHAT)?, dims(shape), dims(strides));
        // SAFETY: `shape` and `strides` have `rank` entries; `raw` is written on success.
        let status = unsafe {
            (library.api.memory_desc_create_with_strides)(
                &raw mut raw,
                rank,
                shape.as_ptr(),
                data as c_int,
                strides.as_ptr(),
            )
        };
        check(status, WHAT)?;
        Ok(Self { raw, library })
    }

    /// Copies a descriptor that another object owns.
    ///
    /// # Safety
    /// `raw` must be a valid descriptor of the library.
    pub(crate) unsafe fn copied(library: &'static Library, raw: Object) -> Result<Self, Error> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: the caller guarantees that `raw` is valid; `copy` is written on success.
        let status = unsafe { (library.api.memory_desc_clone)(&raw mut copy, raw) };
        check(status, "a copy of a memory descriptor")?;
        Ok(Self { raw: copy, library })
    }

    /// Returns the size in bytes, including padding.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // SAFETY: `raw` is a valid descriptor.
        unsafe { (self.library.api.memory_desc_get_size)(self.raw) }
    }

    /// Returns the number of dimensions.
    pub(crate) fn rank(&self) -> Option<usize> {
        usize::try_from(self.number(RANK)?).ok()
    }

    /// Returns the strides and blocks; `None` if the layout is internal to the library.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        const STRIDES: c_int = 14;
        const KIND: c_int = 262;
        const COUNT: c_int = 263;
        const SIZES: c_int = 264;
        const DIMS: c_int = 265;
        const BLOCKED: c_int = 2;
        if self.number(KIND)? != BLOCKED {
            return None;
        }
        let rank = self.rank()?;
        let count = usize::try_from(self.number(COUNT)?).ok()?;
        let (sizes, dims) = (self.list(SIZES, count)?, self.list(DIMS, count)?);
        Some(Format { strides: self.list(STRIDES, rank)?, blocks: dims.into_iter().zip(sizes).collect() })
    }

    fn number(&self, what: c_int) -> Option<c_int> {
        let mut value: c_int = 0;
        // SAFETY: this query writes an `int`.
        let status = unsafe { (self.library.api.memory_desc_query)(self.raw, what, (&raw mut value).cast()) };
        (status == 0).then_some(value)
    }

    fn list(&self, what: c_int, count: usize) -> Option<Vec<usize>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let mut values: *const i64 = std::ptr::null();
        // SAFETY: this query writes a pointer to an array that the descriptor owns.
        let status =
            unsafe { (self.library.api.memory_desc_query)(self.raw, what, (&raw mut values).cast()) };
        if status != 0 || values.is_null() || count > MAX_DIMS {
            return None;
        }
        // SAFETY: these arrays always have 12 entries.
        let values = unsafe { std::slice::from_raw_parts(values, count) };
        values.iter().map(|value| usize::try_from(*value).ok()).collect()
    }
}

impl PartialEq for Desc {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both are valid descriptors.
        unsafe { (self.library.api.memory_desc_equal)(self.raw, other.raw) != 0 }
    }
}

impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: the library created the descriptor, and it is destroyed once.
        unsafe { (self.library.api.memory_desc_destroy)(self.raw) };
    }
}
