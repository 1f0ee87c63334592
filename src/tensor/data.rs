//! Host tensors: a type and its bytes.

use super::{DType, Device, Layout, TensorType};
use memmap2::MmapMut;
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
element!(u8 => U8, i8 => I8, i32 => I32, i64 => I64, half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64);

/// A value on the host. Cloning shares the bytes; writing copies them when they are shared.
#[derive(Clone)]
pub struct Tensor {
    ty: TensorType,
    bytes: Bytes,
}

/// Who keeps the bytes.
#[derive(Clone)]
enum Bytes {
    /// This tensor, and its clones.
    Own(Arc<Aligned>),
    /// Someone else, such as a mapped file, and how many they are.
    Kept(Arc<Keeper>, usize),
    /// Someone else, at no address in particular.
    Lent(Arc<Lent>),
}

/// Who keeps the bytes of a tensor that are not its own. They do not change while they are kept; a keeper that
/// shows fewer bytes than at first, or others at another alignment, makes whoever looks at them panic.
pub type Keeper = dyn AsRef<[u8]> + Send + Sync + UnwindSafe + RefUnwindSafe;

/// Who lends bytes that are read once, such as a mapped model.
pub trait Lender: AsRef<[u8]> + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// That they are not read again soon, and need not stay in memory.
    fn rest(&self);
}

/// Lent bytes, and a copy of them where somebody has looked at them in their place.
struct Lent {
    lender: Box<dyn Lender>,
    length: usize,
    copy: OnceLock<Aligned>,
}

impl Lent {
    fn copy(&self) -> Aligned {
        let lent = (*self.lender).as_ref();
        let mut copy = Aligned::zeroed(self.length);
        copy.as_mut_slice().copy_from_slice(lent);
        self.lender.rest();
        copy
    }
}

impl Bytes {
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
}

impl Tensor {
    /// A tensor of zeros.
    pub fn zeros(ty: TensorType) -> Self {
        let bytes = Bytes::Own(Arc::new(Aligned::zeroed(ty.bytes())));
        Self { ty, bytes }
    }

    /// The same; `None` where the system has not so many bytes.
    pub fn try_zeros(ty: TensorType) -> Option<Self> {
        let bytes = Bytes::Own(Arc::new(Aligned::try_zeroed(ty.bytes())?));
        Some(Self { ty, bytes })
    }

    /// A tensor over bytes that someone else keeps, such as a mapped file; to write it is to copy them.
    /// `None` where they are not as many as the type has, or do not begin at a multiple of 64.
    pub(crate) fn kept(ty: TensorType, keeper: Arc<Keeper>) -> Option<Self> {
        let length = ty.bytes();
        Aligned::holds((*keeper).as_ref(), length).then(|| Self { ty, bytes: Bytes::Kept(keeper, length) })
    }

    /// A tensor over bytes that someone else lends, wherever they begin. They are copied when they are looked
    /// at, and the copy stays; [`Tensor::taken`] makes one that does not. `None` where they are not as many
    /// as the type has.
    pub(crate) fn lent(ty: TensorType, lender: Box<dyn Lender>) -> Option<Self> {
        let length = ty.bytes();
        let fits = (*lender).as_ref().len() == length;
        fits.then(|| Self {
            ty,
            bytes: Bytes::Lent(Arc::new(Lent { lender, length, copy: OnceLock::new() })),
        })
    }

    /// The same, for one use: of bytes that are lent, a copy that goes with it.
    pub(crate) fn taken(&self) -> Self {
        match &self.bytes {
            Bytes::Lent(lent) if lent.copy.get().is_none() => {
                Self { ty: self.ty.clone(), bytes: Bytes::Own(Arc::new(lent.copy())) }
            }
            _ => self.clone(),
        }
    }

    /// A tensor in the default layout from its elements in row-major order.
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

    /// A boolean tensor in the default layout.
    pub(crate) fn from_bools(shape: impl Into<super::Shape>, elements: &[bool]) -> Self {
        let mut tensor = Self::zeros(TensorType::plain(DType::Bool, shape));
        for (byte, &element) in tensor.bytes_mut().iter_mut().zip(elements) {
            *byte = u8::from(element);
        }
        tensor
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::from_elements([0_usize; 0], &[value])
    }

    /// The type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The same bytes under another shape of as many elements; both in the default layout.
    pub fn reshaped(&self, shape: super::Shape) -> Self {
        assert!(
            self.ty.layout.is_plain() && shape.count() == self.ty.shape.count(),
            "reshape keeps elements"
        );
        Self { ty: TensorType { shape, ..self.ty.clone() }, bytes: self.bytes.clone() }
    }

    /// The bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes, to write; shared bytes are copied first.
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

    /// The elements in memory order (padding included in a blocked layout). Booleans read as `u8`.
    ///
    /// # Panics
    /// If the element type is another.
    pub fn elements<T: Element>(&self) -> &[T] {
        assert!(self.holds::<T>(), "{} read as {}", self.ty, T::DTYPE);
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements in memory order, to write.
    ///
    /// # Panics
    /// If the element type is another.
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        assert!(self.holds::<T>(), "{} written as {}", self.ty, T::DTYPE);
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    fn holds<T: Element>(&self) -> bool {
        T::DTYPE == self.ty.dtype || (T::DTYPE == DType::U8 && self.ty.dtype == DType::Bool)
    }

    /// The same bytes as a value of another device: where they are meant to be, not where they are.
    pub fn on(&self, device: Device) -> Self {
        Self { ty: TensorType { device, ..self.ty.clone() }, bytes: self.bytes.clone() }
    }

    /// The same values in another layout; padding is zero.
    pub fn to_layout(&self, layout: &Layout) -> Self {
        if *layout == self.ty.layout {
            return self.clone();
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

    /// Every logical element as `f64`, in row-major order.
    pub fn to_f64(&self) -> Vec<f64> {
        let plain = self.to_layout(&Layout::PLAIN);
        match self.ty.dtype {
            DType::Bool | DType::U8 => plain.elements::<u8>().iter().map(|&v| f64::from(v)).collect(),
            DType::I8 => plain.elements::<i8>().iter().map(|&v| f64::from(v)).collect(),
            DType::I32 => plain.elements::<i32>().iter().map(|&v| f64::from(v)).collect(),
            #[allow(clippy::cast_precision_loss)]
            DType::I64 => plain.elements::<i64>().iter().map(|&v| v as f64).collect(),
            DType::F16 => plain.elements::<half::f16>().iter().map(|v| v.to_f64()).collect(),
            DType::BF16 => plain.elements::<half::bf16>().iter().map(|v| v.to_f64()).collect(),
            DType::F32 => plain.elements::<f32>().iter().map(|&v| f64::from(v)).collect(),
            DType::F64 => plain.elements::<f64>().to_vec(),
        }
    }

    /// The elements of an integer tensor as `i64`, in row-major order; `None` for other types.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        let plain = self.to_layout(&Layout::PLAIN);
        Some(match self.ty.dtype {
            DType::Bool | DType::U8 => plain.elements::<u8>().iter().map(|&v| i64::from(v)).collect(),
            DType::I8 => plain.elements::<i8>().iter().map(|&v| i64::from(v)).collect(),
            DType::I32 => plain.elements::<i32>().iter().map(|&v| i64::from(v)).collect(),
            DType::I64 => plain.elements::<i64>().to_vec(),
            _ => return None,
        })
    }

    /// A default-layout tensor of any element type from `f64` values in row-major order.
    /// Integers saturate; booleans are true where the value is not zero.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn from_f64(dtype: DType, shape: impl Into<super::Shape>, values: &[f64]) -> Self {
        let mut tensor = Self::zeros(TensorType::plain(dtype, shape));
        assert_eq!(values.len(), tensor.ty.shape.count(), "values do not fill the shape {}", tensor.ty.shape);
        macro_rules! fill {
            ($rust:ty, $convert:expr) => {
                for (to, &from) in tensor.elements_mut::<$rust>().iter_mut().zip(values) {
                    *to = $convert(from);
                }
            };
        }
        match dtype {
            DType::Bool => fill!(u8, |v: f64| u8::from(v != 0.0)),
            DType::U8 => fill!(u8, |v| v as u8),
            DType::I8 => fill!(i8, |v| v as i8),
            DType::I32 => fill!(i32, |v| v as i32),
            DType::I64 => fill!(i64, |v| v as i64),
            DType::F16 => fill!(half::f16, half::f16::from_f64),
            DType::BF16 => fill!(half::bf16, half::bf16::from_f64),
            DType::F32 => fill!(f32, |v| v as f32),
            DType::F64 => fill!(f64, |v| v),
        }
        tensor
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.ty)
    }
}

/// Zeroed bytes aligned to a cache line, for vector loads.
enum Aligned {
    /// On the heap.
    Heap(Heap),
    /// Whole pages of their own, which go back to the system with the tensor: many large tensors come and go
    /// while a model is packed, and what a heap keeps of them would be memory that nobody uses.
    Pages(MmapMut),
}

impl Aligned {
    /// Whether these are as many bytes, and aligned as a tensor's own.
    fn holds(bytes: &[u8], length: usize) -> bool {
        bytes.len() == length && bytes.as_ptr().addr().is_multiple_of(Heap::ALIGNMENT)
    }

    /// From so many bytes on pages are taken. AddressSanitizer watches the bounds of the heap only.
    const LARGE: usize = if cfg!(asan) { usize::MAX } else { 1 << 20 };

    fn zeroed(length: usize) -> Self {
        Self::try_zeroed(length).unwrap_or_else(|| handle_alloc_error(Heap::allocation(length)))
    }

    fn try_zeroed(length: usize) -> Option<Self> {
        if length < Self::LARGE {
            return Heap::try_zeroed(length).map(Self::Heap);
        }
        MmapMut::map_anon(length).ok().map(Self::Pages)
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Heap(heap) => heap.as_slice(),
            Self::Pages(pages) => pages,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(heap) => heap.as_mut_slice(),
            Self::Pages(pages) => pages,
        }
    }
}

/// Zeroed bytes of the heap.
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
