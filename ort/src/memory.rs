//! Where memory is, and who allocates it. All of it is the processor's.

use crate::argument::{Argument, Handle, Out, api, release};
use crate::status::{Failure, quietly};
use ort_sys::{
    OrtAllocator, OrtAllocatorType, OrtApi, OrtDeviceMemoryType, OrtMemType, OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// A place of memory.
#[derive(Clone, PartialEq)]
pub struct MemoryInfo {
    id: c_int,
    allocator: OrtAllocatorType,
    kind: OrtMemType,
}

/// The name of the only device whose memory callers can use.
const DEVICE: &CStr = c"Cpu";

/// The place of all tensors.
pub static PROCESSOR: MemoryInfo = MemoryInfo {
    id: 0,
    allocator: OrtAllocatorType::OrtDeviceAllocator,
    kind: OrtMemType::OrtMemTypeDefault,
};

impl Handle for MemoryInfo {
    type Sys = OrtMemoryInfo;
}

impl MemoryInfo {
    /// Returns the pointer of a place that is never released.
    pub fn pointer(&'static self) -> *const OrtMemoryInfo {
        ptr::from_ref(self).cast()
    }
}

/// The allocator of all memory that callers get or ask for.
static ALLOCATOR: OrtAllocator = OrtAllocator {
    Alloc: Some(allocate),
    Free: Some(free),
    Info: Some(info),
    Reserve: Some(reserve),
    // SAFETY: the function only makes a table without entries, and those that must be there are above.
    ..unsafe { OrtAllocator::default() }
};

/// Bytes before each block. They hold its size, and keep the block aligned as tensors are.
const HEADER: usize = 64;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, HEADER).ok()
}

unsafe extern "system" fn allocate(_: *mut OrtAllocator, size: usize) -> *mut c_void {
    let Some(layout) = layout(size) else { return ptr::null_mut() };
    // SAFETY: the header is not empty.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the header has room for a number and is aligned for it, and the block begins behind it.
    unsafe {
        start.cast::<usize>().write(size);
        start.add(HEADER).cast()
    }
}

unsafe extern "system" fn reserve(_: *const OrtAllocator, size: usize) -> *mut c_void {
    // SAFETY: the function reads no allocator.
    unsafe { allocate(ptr::null_mut(), size) }
}

unsafe extern "system" fn free(_: *mut OrtAllocator, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: `allocate` has made the block, with its size in the header.
    unsafe {
        let start = block.cast::<u8>().sub(HEADER);
        if let Some(layout) = layout(start.cast::<usize>().read()) {
            dealloc(start, layout);
        }
    }
}

unsafe extern "system" fn info(_: *const OrtAllocator) -> *const OrtMemoryInfo {
    PROCESSOR.pointer()
}

/// An allocator that a caller names: ovolo's, or one of the caller's own.
pub struct Allocator(*mut OrtAllocator);

impl Argument<*mut OrtAllocator> for Allocator {
    unsafe fn take(raw: *mut OrtAllocator, name: &str) -> Result<Self, Failure> {
        if raw.is_null() {
            return Err(Failure::invalid(format!("`{name}` is a null pointer")));
        }
        Ok(Self(raw))
    }
}

impl Argument<*const OrtAllocator> for Allocator {
    unsafe fn take(raw: *const OrtAllocator, name: &str) -> Result<Self, Failure> {
        // SAFETY: the same promise.
        unsafe { <Self as Argument<*mut OrtAllocator>>::take(raw.cast_mut(), name) }
    }
}

impl Allocator {
    /// Allocates a block.
    pub fn allocate(&self, size: usize) -> Result<*mut c_void, Failure> {
        // SAFETY: the caller of the C API has given a pointer to an allocator.
        let function = unsafe { (*self.0).Alloc };
        let function = function.ok_or_else(|| Failure::invalid("the allocator has no function `Alloc`"))?;
        // SAFETY: the function is the allocator's own.
        let block = unsafe { function(self.0, size) };
        if block.is_null() {
            return Err(Failure::other(format!("the allocator has no memory for {size} bytes")));
        }
        Ok(block)
    }

    /// Returns a copy of a text, which the caller frees with the allocator.
    pub fn text(&self, text: &str) -> Result<*mut c_char, Failure> {
        let block = self.allocate(text.len() + 1)?.cast::<u8>();
        // SAFETY: the block has room for the text and its end.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), block, text.len());
            block.add(text.len()).write(0);
        }
        Ok(block.cast())
    }

    /// Returns a copy of a list of pointers, which the caller frees with the allocator.
    pub fn list<T>(&self, pointers: &[*mut T]) -> Result<*mut *mut T, Failure> {
        let block = self.allocate(size_of_val(pointers))?.cast::<*mut T>();
        // SAFETY: the block has room for the pointers, and allocators align blocks for them.
        unsafe { ptr::copy_nonoverlapping(pointers.as_ptr(), block, pointers.len()) };
        Ok(block)
    }
}

/// Returns ovolo's allocator.
pub fn allocator() -> *mut OrtAllocator {
    ptr::from_ref(&ALLOCATOR).cast_mut()
}

/// Says why another device than the processor cannot be used.
fn other_device(name: &str) -> Failure {
    Failure::invalid(format!(
        "ovolo has no memory of the device `{name}` for callers: tensors are in the memory of the processor, whose \
         device is `Cpu`"
    ))
}

impl Argument<OrtAllocatorType> for OrtAllocatorType {
    unsafe fn take(raw: OrtAllocatorType, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

impl Argument<OrtMemType> for OrtMemType {
    unsafe fn take(raw: OrtMemType, _: &str) -> Result<Self, Failure> {
        Ok(raw)
    }
}

api! {
    fn CreateMemoryInfo(
        name: *const c_char as &str,
        type_: OrtAllocatorType as OrtAllocatorType,
        id: c_int as c_int,
        mem_type: OrtMemType as OrtMemType,
        out: *mut *mut OrtMemoryInfo as Out<*mut OrtMemoryInfo>,
    ) {
        if name.as_bytes() != DEVICE.to_bytes() {
            return Err(other_device(name));
        }
        out.set(MemoryInfo { id, allocator: type_, kind: mem_type }.lend());
        Ok(())
    }

    fn CreateCpuMemoryInfo(
        type_: OrtAllocatorType as OrtAllocatorType,
        mem_type: OrtMemType as OrtMemType,
        out: *mut *mut OrtMemoryInfo as Out<*mut OrtMemoryInfo>,
    ) {
        out.set(MemoryInfo { id: 0, allocator: type_, kind: mem_type }.lend());
        Ok(())
    }

    fn CompareMemoryInfo(
        info1: *const OrtMemoryInfo as &MemoryInfo,
        info2: *const OrtMemoryInfo as &MemoryInfo,
        out: *mut c_int as Out<c_int>,
    ) {
        out.set(c_int::from(info1 != info2));
        Ok(())
    }

    fn MemoryInfoGetName(
        ptr: *const OrtMemoryInfo as &MemoryInfo,
        out: *mut *const c_char as Out<*const c_char>,
    ) {
        let _ = ptr;
        out.set(DEVICE.as_ptr());
        Ok(())
    }

    fn MemoryInfoGetId(ptr: *const OrtMemoryInfo as &MemoryInfo, out: *mut c_int as Out<c_int>) {
        out.set(ptr.id);
        Ok(())
    }

    fn MemoryInfoGetMemType(
        ptr: *const OrtMemoryInfo as &MemoryInfo,
        out: *mut OrtMemType as Out<OrtMemType>,
    ) {
        out.set(ptr.kind);
        Ok(())
    }

    fn MemoryInfoGetType(
        ptr: *const OrtMemoryInfo as &MemoryInfo,
        out: *mut OrtAllocatorType as Out<OrtAllocatorType>,
    ) {
        out.set(ptr.allocator);
        Ok(())
    }

    fn GetAllocatorWithDefaultOptions(out: *mut *mut OrtAllocator as Out<*mut OrtAllocator>) {
        out.set(allocator());
        Ok(())
    }

    fn AllocatorAlloc(
        ort_allocator: *mut OrtAllocator as Allocator,
        size: usize as usize,
        out: *mut *mut c_void as Out<*mut c_void>,
    ) {
        out.set(ort_allocator.allocate(size)?);
        Ok(())
    }

    fn AllocatorFree(ort_allocator: *mut OrtAllocator as Allocator, p: *mut c_void as *mut c_void) {
        // SAFETY: the caller of the C API has given a pointer to an allocator, and a block that it has made.
        unsafe {
            if let Some(function) = (*ort_allocator.0).Free {
                function(ort_allocator.0, p);
            }
        }
        Ok(())
    }

    fn AllocatorGetInfo(
        ort_allocator: *const OrtAllocator as Allocator,
        out: *mut *const OrtMemoryInfo as Out<*const OrtMemoryInfo>,
    ) {
        // SAFETY: the caller of the C API has given a pointer to an allocator.
        let found = unsafe { (*ort_allocator.0).Info.map(|function| function(ort_allocator.0)) };
        out.set(found.ok_or_else(|| Failure::invalid("the allocator has no function `Info`"))?);
        Ok(())
    }
}

release!(ReleaseMemoryInfo: MemoryInfo);

pub unsafe extern "system" fn MemoryInfoGetDeviceType(
    _: *const OrtMemoryInfo,
    out: *mut OrtMemoryInfoDeviceType,
) {
    quietly(|| {
        // SAFETY: the caller has room for one value at a pointer that is not null.
        if let Some(out) = unsafe { out.as_mut() } {
            *out = OrtMemoryInfoDeviceType::OrtMemoryInfoDeviceType_CPU;
        }
    });
}

pub unsafe extern "system" fn MemoryInfoGetDeviceMemType(_: *const OrtMemoryInfo) -> OrtDeviceMemoryType {
    OrtDeviceMemoryType::OrtDeviceMemoryType_DEFAULT
}

/// Nothing is released: every session has ovolo's allocator, which never ends.
pub unsafe extern "system" fn ReleaseAllocator(_: *mut OrtAllocator) {}

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateMemoryInfo,
        CreateCpuMemoryInfo,
        CompareMemoryInfo,
        MemoryInfoGetName,
        MemoryInfoGetId,
        MemoryInfoGetMemType,
        MemoryInfoGetType,
        GetAllocatorWithDefaultOptions,
        AllocatorAlloc,
        AllocatorFree,
        AllocatorGetInfo,
        MemoryInfoGetDeviceType,
        MemoryInfoGetDeviceMemType,
        ReleaseAllocator,
        ReleaseMemoryInfo,
        ..api
    }
}
