//! Host tensors: a type and its bytes.

mod given;
mod pages;
mod weak;

pub(crate) use given::Given;
pub(crate) use pages::LARGE as LARGE_PAGE;
pub(crate) use weak::WeakTensor;

use self::pages::Pages;
use super::{DType, Device, Layout, TensorType, sparse};
use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// A Rust type that is the in-memory form of a [`DType`].
pub trait Element: bytemuck::Pod + PartialEq + fmt::Debug {
    /// The element type that this Rust type stores.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => { $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })* };
}
element!(
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64, [f32; 2] => C64, [f64; 2] => C128, super::Text => Text
);

/// A value on the host. Cloning shares the bytes; writing copies them when they are shared.
#[derive(Clone)]
pub struct Tensor {
    ty: TensorType,
    bytes: Bytes,
}

/// The owner of a tensor's bytes.
#[derive(Clone)]
enum Bytes {
    /// This tensor and its clones.
    Own(Arc<Aligned>),
    /// Another owner, such as a mapped file, with the number of bytes.
    Kept(Arc<Keeper>, usize),
    /// Another owner, whose bytes need not be aligned.
    Lent(Arc<Lent>),
}

/// The owner of bytes that a tensor shares. The bytes must not change while they are kept. If a keeper later
/// returns another number of bytes, or bytes with another alignment, reading them panics.
pub type Keeper = dyn AsRef<[u8]> + Send + Sync + UnwindSafe + RefUnwindSafe;

/// The owner of bytes that are usually read once, such as a mapped model.
pub trait Lender: AsRef<[u8]> + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Notes that the bytes will not be read again soon, and need not stay in memory.
    fn rest(&self);
}

/// Lent bytes, with an aligned copy once they have been read through [`Tensor::bytes`].
struct Lent {
    lender: Source,
    length: usize,
    copy: OnceLock<Aligned>,
}

/// Where lent bytes come from.
enum Source {
    /// Bytes that somebody else has.
    Bytes(Box<dyn Lender>),
    /// The elements that a model gives of a value in the default layout. All others are zero.
    Given(Arc<Given>),
}

impl Lent {
    fn copy(&self) -> Aligned {
        let mut copy = Aligned::zeroed(self.length);
        match &self.lender {
            Source::Bytes(lender) => {
                copy.as_mut_slice().copy_from_slice((**lender).as_ref());
                lender.rest();
            }
            Source::Given(given) => given.write(copy.as_mut_slice()),
        }
        copy
    }
}

impl Bytes {
    fn lent(lender: Source, length: usize) -> Self {
        Self::Lent(Arc::new(Lent { lender, length, copy: OnceLock::new() }))
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes.as_slice(),
            Self::Kept(keeper, length) => {
                let bytes = (**keeper).as_ref();
                assert!(Aligned::holds(bytes, *length), "a keeper shows the bytes that it showed at first");
                bytes
            }
            Self::Lent(lent) => lent.copy.get_or_init(|| lent.copy()).as_slice(),
        }
    }

    /// Returns the bytes where they lie, at any address. Those that are lent are not copied.
    fn given(&self) -> &[u8] {
        match self {
            Self::Lent(lent) => match (&lent.lender, lent.copy.get()) {
                (Source::Bytes(lender), None) => (**lender).as_ref(),
                _ => self.as_slice(),
            },
            _ => self.as_slice(),
        }
    }

    /// Returns the elements that a model gives, where the bytes have not been read.
    fn elements_given(&self) -> Option<&Arc<Given>> {
        match self {
            Self::Lent(lent) if lent.copy.get().is_none() => match &lent.lender {
                Source::Given(given) => Some(given),
                Source::Bytes(_) => None,
            },
            _ => None,
        }
    }
}

impl Tensor {
    /// Makes a tensor of zeros.
    pub fn zeros(ty: TensorType) -> Self {
        let bytes = Bytes::Own(Arc::new(Aligned::zeroed(ty.bytes())));
        Self { ty, bytes }
    }

    /// Makes a tensor of zeros; `None` if the system cannot allocate that many bytes.
    pub fn try_zeros(ty: TensorType) -> Option<Self> {
        let bytes = Bytes::Own(Arc::new(Aligned::try_zeroed(ty.bytes())?));
        Some(Self { ty, bytes })
    }

    /// Makes a tensor that shares the bytes of a keeper, such as a mapped file or an array of another language. Writing
    /// to the tensor copies them first. `None` if the number of bytes is not that of the type, or if they do not begin at
    /// a multiple of 64.
    ///
    /// ```
    /// use ovolo::{DType, Tensor, TensorType};
    /// #[repr(align(64))]
    /// struct Block([u8; 8]);
    /// impl AsRef<[u8]> for Block {
    ///     fn as_ref(&self) -> &[u8] {
    ///         &self.0
    ///     }
    /// }
    /// let block = std::sync::Arc::new(Block([0; 8]));
    /// let ty = TensorType::plain(DType::F32, [2]);
    /// let tensor = Tensor::kept(ty, block.clone()).expect("it has 8 bytes at a multiple of 64");
    /// assert_eq!(tensor.bytes().as_ptr(), block.0.as_ptr());
    /// assert_ne!(tensor.owned().bytes().as_ptr(), block.0.as_ptr());
    /// ```
    pub fn kept(ty: TensorType, keeper: Arc<Keeper>) -> Option<Self> {
        let length = ty.bytes();
        Aligned::holds((*keeper).as_ref(), length).then(|| Self { ty, bytes: Bytes::Kept(keeper, length) })
    }

    /// Makes a tensor that shares the bytes of a lender, which may have any alignment. They are copied when they
    /// are first read, and the copy is kept; [`Tensor::taken`] makes a copy that is not kept. `None` if the number
    /// of bytes is not that of the type.
    pub(crate) fn lent(ty: TensorType, lender: Box<dyn Lender>) -> Option<Self> {
        let length = ty.bytes();
        let fits = (*lender).as_ref().len() == length;
        fits.then(|| Self { ty, bytes: Bytes::lent(Source::Bytes(lender), length) })
    }

    /// Makes a tensor in the default layout of its elements that may be other than zero. The others are written when the
    /// bytes are first read.
    pub(crate) fn given(ty: TensorType, given: Given) -> Self {
        let length = ty.bytes();
        Self { ty, bytes: Bytes::lent(Source::Given(Arc::new(given)), length) }
    }

    /// Returns the same tensor with bytes that no keeper has. Bytes of a keeper are copied.
    #[must_use]
    pub fn owned(&self) -> Self {
        let mut tensor = self.clone();
        if matches!(self.bytes, Bytes::Kept(..)) {
            tensor.bytes_mut();
        }
        tensor
    }

    /// Returns the same tensor for a single use. If its bytes are lent, they are copied, and the copy is freed with
    /// the returned tensor.
    pub(crate) fn taken(&self) -> Self {
        if let Some(given) = self.bytes.elements_given() {
            // What is read of it is freed with it.
            let bytes = Bytes::lent(Source::Given(Arc::clone(given)), self.ty.bytes());
            return Self { ty: self.ty.clone(), bytes };
        }
        match &self.bytes {
            Bytes::Lent(lent) if lent.copy.get().is_none() => {
                Self { ty: self.ty.clone(), bytes: Bytes::Own(Arc::new(lent.copy())) }
            }
            _ => self.clone(),
        }
    }

    /// Makes a tensor in the default layout from its elements in row-major order.
    ///
    /// # Panics
    /// If the number of elements is not that of the shape.
    pub fn from_elements<T: Element>(shape: impl Into<super::Shape>, elements: &[T]) -> Self {
        let mut tensor = Self::zeros(TensorType::plain(T::DTYPE, shape));
        assert_eq!(
            elements.len(),
            tensor.ty.shape.count(),
            "elements do not fill the shape {}",
            tensor.ty.shape
        );
        tensor.elements_mut().copy_from_slice(elements);
        tensor
    }

    /// Makes a boolean tensor in the default layout.
    pub(crate) fn from_bools(shape: impl Into<super::Shape>, elements: &[bool]) -> Self {
        let mut tensor = Self::zeros(TensorType::plain(DType::Bool, shape));
        for (byte, &element) in tensor.bytes_mut().iter_mut().zip(elements) {
            *byte = u8::from(element);
        }
        tensor
    }

    /// Makes a scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::from_elements([0_usize; 0], &[value])
    }

    /// Returns the type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Returns a tensor that shares these bytes under another shape with as many elements. Both are in the default
    /// layout.
    pub fn reshaped(&self, shape: super::Shape) -> Self {
        assert!(
            self.ty.layout.is_plain() && shape.count() == self.ty.shape.count(),
            "reshape keeps elements"
        );
        Self { ty: TensorType { shape, ..self.ty.clone() }, bytes: self.bytes.clone() }
    }

    /// Returns the bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Returns a number that tensors share if they share their bytes. It does not read bytes that are lent.
    pub(crate) fn identity(&self) -> usize {
        match &self.bytes {
            Bytes::Own(bytes) => Arc::as_ptr(bytes).addr(),
            Bytes::Kept(keeper, _) => Arc::as_ptr(keeper).addr(),
            Bytes::Lent(lent) => Arc::as_ptr(lent).addr(),
        }
    }

    /// Returns the bytes for writing. Shared bytes are copied first.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let unique = match &mut self.bytes {
            Bytes::Own(bytes) => Arc::get_mut(bytes).is_some(),
            Bytes::Kept(..) | Bytes::Lent(_) => false,
        };
        if !unique {
            let shared = self.bytes.as_slice();
            let mut copy = Aligned::zeroed(shared.len());
            copy.as_mut_slice().copy_from_slice(shared);
            self.bytes = Bytes::Own(Arc::new(copy));
        }
        match &mut self.bytes {
            Bytes::Own(bytes) => Arc::get_mut(bytes).expect("just made unique").as_mut_slice(),
            Bytes::Kept(..) | Bytes::Lent(_) => unreachable!("just made this tensor's own"),
        }
    }

    /// Returns the bytes for a caller that writes all of them. Shared bytes are left alone and not copied: the caller
    /// gets new ones, which are zero.
    pub(crate) fn bytes_for_all(&mut self) -> &mut [u8] {
        let unique = match &mut self.bytes {
            Bytes::Own(bytes) => Arc::get_mut(bytes).is_some(),
            Bytes::Kept(..) | Bytes::Lent(_) => false,
        };
        if !unique {
            self.bytes = Bytes::Own(Arc::new(Aligned::zeroed(self.ty.bytes())));
        }
        self.bytes_mut()
    }

    /// Returns the elements in the order of memory, including the padding of a blocked layout. Booleans and the
    /// narrow types are read as `u8`.
    ///
    /// # Panics
    /// If `T` is not the element type.
    pub fn elements<T: Element>(&self) -> &[T] {
        assert!(self.holds::<T>(), "{} read as {}", self.ty, T::DTYPE);
        bytemuck::cast_slice(self.bytes())
    }

    /// Returns the elements for writing, in the order of memory.
    ///
    /// # Panics
    /// If `T` is not the element type.
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        assert!(self.holds::<T>(), "{} written as {}", self.ty, T::DTYPE);
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    fn holds<T: Element>(&self) -> bool {
        let in_a_byte = self.ty.dtype == DType::Bool || self.ty.dtype.is_narrow();
        T::DTYPE == self.ty.dtype || (T::DTYPE == DType::U8 && in_a_byte)
    }

    /// Returns a tensor that shares these bytes, read as elements of another type of the same size.
    ///
    /// # Panics
    /// If the types differ in size.
    pub fn reinterpreted(&self, dtype: DType) -> Self {
        assert_eq!(dtype.size(), self.ty.dtype.size(), "bits are kept");
        Self { ty: TensorType { dtype, ..self.ty.clone() }, bytes: self.bytes.clone() }
    }

    /// Returns a tensor that shares these bytes, and whose type names another device. The bytes stay on the host.
    pub fn on(&self, device: Device) -> Self {
        Self { ty: TensorType { device, ..self.ty.clone() }, bytes: self.bytes.clone() }
    }

    /// Returns the same values in another layout, with padding of zeros.
    pub fn to_layout(&self, layout: &Layout) -> Self {
        if *layout == self.ty.layout {
            return self.clone();
        }
        if self.ty.layout.stored().is_some() {
            return self.expanded().to_layout(layout);
        }
        if layout.stored().is_some() {
            if let Some(given) = self.bytes.elements_given() {
                let mut result = Self::zeros(self.ty.with_layout(layout.clone()));
                let ty = result.ty.clone();
                given.compress(&ty, result.bytes_mut());
                return result;
            }
            return self.to_layout(&layout.dense()).compressed(layout);
        }
        let mut result = Self::zeros(self.ty.with_layout(layout.clone()));
        let shape = self.ty.shape.clone();
        super::relayout::copy(
            self.bytes(),
            &self.ty.layout,
            result.bytes_mut(),
            layout,
            &shape,
            self.ty.dtype.size(),
        );
        result
    }
}

/// Sparse layouts.
impl Tensor {
    /// Returns the same values in a sparse layout; these are in the dense one with the same blocks.
    fn compressed(&self, layout: &Layout) -> Self {
        let mut result = Self::zeros(self.ty.with_layout(layout.clone()));
        let block = self.ty.block_bytes();
        sparse::compress(self.bytes(), result.bytes_mut(), layout, &self.ty.shape, (block, self.ty.dtype));
        result
    }

    /// Returns the same values in the dense layout with the same blocks; these are in a sparse one.
    fn expanded(&self) -> Self {
        let Some(stored) = self.ty.layout.stored() else { return self.clone() };
        let mut result = Self::zeros(self.ty.with_layout(self.ty.layout.dense()));
        let (layout, block) = (&self.ty.layout, self.ty.block_bytes());
        sparse::expand(self.bytes(), result.bytes_mut(), layout, &self.ty.shape, stored, block);
        result
    }

    /// Returns whether at most half of the elements may be other than zero: of a sample, not far more are.
    pub(crate) fn may_be_sparse(&self) -> bool {
        const SAMPLE: usize = 64;
        if let Some(given) = self.bytes.elements_given() {
            return 2 * given.count() <= self.ty.shape.count();
        }
        let (size, given) = (self.ty.dtype.size(), self.bytes.given());
        let step = (given.len() / size / SAMPLE).max(1);
        let sample: Vec<&[u8]> = given.chunks_exact(size).step_by(step).collect();
        let in_use = sample.iter().filter(|element| !sparse::is_zero(element, self.ty.dtype)).count();
        4 * in_use <= 3 * sample.len()
    }

    /// Returns whether no element is infinite or NaN. Bytes that are lent are read where they lie.
    pub(crate) fn is_finite(&self) -> bool {
        const PART: usize = 1 << 14;
        let finite = |element: &[u8; 4]| f32::from_ne_bytes(*element).is_finite();
        match (self.ty.dtype, self.bytes.elements_given()) {
            (DType::F32, None) => {
                let mut parts = self.bytes.given().as_chunks().0.chunks(PART);
                parts.all(|part| part.iter().fold(true, |all, element| all & finite(element)))
            }
            _ => self.taken().to_f64().iter().all(|element| element.is_finite()),
        }
    }

    /// Returns the number of blocks of a dense layout in which this value has anything but zeros; `None` if there are more
    /// than half of all. If far more elements of a sample are not zero, the others are not read.
    pub(crate) fn blocks_in_use(&self, layout: &Layout) -> Option<usize> {
        if !self.may_be_sparse() {
            return None;
        }
        let most = sparse::blocks(layout, &self.ty.shape) / 2;
        if let Some(given) = self.bytes.elements_given() {
            let blocks = given.blocks(&self.ty.with_layout(layout.clone()));
            return Some(blocks).filter(|blocks| *blocks <= most);
        }
        let dense = self.taken().to_layout(layout);
        sparse::count(dense.bytes(), dense.ty.block_bytes(), self.ty.dtype, most)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.ty)
    }
}

/// Bytes that are zero at first, and aligned to a cache line for vector loads.
enum Aligned {
    /// On the heap.
    Heap(Heap),
    /// Whole pages, which are returned to the system when the tensor is dropped. Many large tensors are made and
    /// dropped while a model's weights are packed, and a heap would keep some of that memory unused.
    Pages(Pages),
}

impl Aligned {
    /// Returns whether these bytes have this length, and the alignment of a tensor's own bytes.
    fn holds(bytes: &[u8], length: usize) -> bool {
        bytes.len() == length && bytes.as_ptr().addr().is_multiple_of(Heap::ALIGNMENT)
    }

    /// At least this many bytes are allocated as pages. Under AddressSanitizer everything is on the heap, as it
    /// checks only the bounds of the heap.
    const LARGE: usize = if cfg!(asan) { usize::MAX } else { 1 << 20 };

    fn zeroed(length: usize) -> Self {
        Self::try_zeroed(length).unwrap_or_else(|| handle_alloc_error(Heap::allocation(length)))
    }

    fn try_zeroed(length: usize) -> Option<Self> {
        if length < Self::LARGE {
            return Heap::try_zeroed(length).map(Self::Heap);
        }
        Pages::zeroed(length).ok().map(Self::Pages)
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Heap(heap) => heap.as_slice(),
            Self::Pages(pages) => pages.as_slice(),
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(heap) => heap.as_mut_slice(),
            Self::Pages(pages) => pages.as_mut_slice(),
        }
    }
}

/// Bytes on the heap that are zero at first.
struct Heap {
    pointer: NonNull<u8>,
    length: usize,
}

impl Heap {
    const ALIGNMENT: usize = 64;

    fn allocation(length: usize) -> Allocation {
        Allocation::from_size_align(length.max(1), Self::ALIGNMENT)
            .expect("tensor sizes fit the address space")
    }

    fn try_zeroed(length: usize) -> Option<Self> {
        // SAFETY: the allocation is not empty.
        let pointer = unsafe { alloc_zeroed(Self::allocation(length)) };
        Some(Self { pointer: NonNull::new(pointer)?, length })
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: the pointer owns `length` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the pointer owns `length` initialised bytes, borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `try_zeroed` with the same allocation.
        unsafe { dealloc(self.pointer.as_ptr(), Self::allocation(self.length)) }
    }
}

// SAFETY: `Heap` owns its bytes, as a `Box<[u8]>` does.
unsafe impl Send for Heap {}
// SAFETY: shared access is read-only.
unsafe impl Sync for Heap {}
