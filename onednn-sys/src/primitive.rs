//! Primitives: the computations of the library, and their execution.

use crate::api::{Convolution, Object, RawArg};
use crate::attr::{Algorithm, Attr};
use crate::desc::{Desc, dims};
use crate::load::Library;
use crate::thread::OneThread;
use crate::{Error, check};
use std::ffi::{CStr, c_char, c_int};

/// The propagation kind for inference: no data is kept for a backward pass.
pub(crate) const INFERENCE: c_int = 96;

/// An argument of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg(c_int);

#[allow(missing_docs)]
impl Arg {
    pub const SRC: Self = Self(1);
    pub const SRC_1: Self = Self(2);
    pub const SRC_2: Self = Self(3);
    pub const DST: Self = Self(17);
    pub const DST_1: Self = Self(18);
    pub const DST_2: Self = Self(19);
    pub const WEIGHTS: Self = Self(33);
    pub const WEIGHTS_1: Self = Self(34);
    pub const BIAS: Self = Self(41);
    pub const SCALE: Self = Self(51);
    pub const SHIFT: Self = Self(52);
    pub const SCRATCH: Self = Self(80);

    /// Returns the argument for operand `index` of a concatenation.
    #[must_use]
    pub const fn source(index: c_int) -> Self {
        Self(1024 + index)
    }

    /// Returns the argument for the operand of step `step` of the chain, a binary step.
    #[must_use]
    pub const fn step(step: c_int) -> Self {
        Self((32768 * (step + 1)) | 2)
    }
}

/// A sliding window over spatial dimensions.
#[derive(Clone, Debug)]
pub struct Window {
    /// The distance between windows, in elements.
    pub strides: Vec<usize>,
    /// The distance between the elements of a window, at least 1.
    pub dilations: Vec<usize>,
    /// The padding before each axis.
    pub before: Vec<i64>,
    /// The padding after each axis; negative if the last elements are not read.
    pub after: Vec<i64>,
}

impl Window {
    /// Refuses a window or a kernel whose number of dimensions differs from the spatial dimensions of the image. The
    /// library would read past the end of the shorter arrays.
    fn check(&self, kernel: &[usize], image: &Desc, what: &'static str) -> Result<(), Error> {
        let lengths =
            [self.strides.len(), self.dilations.len(), self.before.len(), self.after.len(), kernel.len()];
        let fits = lengths.iter().all(|length| Some(length + 2) == image.rank());
        if fits { Ok(()) } else { Err(Error { what, status: 2 }) }
    }

    /// Converts dilations to the library's form, which counts the skipped elements.
    fn skipped(&self) -> Vec<i64> {
        dims(&self.dilations).iter().map(|dilation| dilation - 1).collect()
    }
}

/// One implementation of a computation for given types.
pub struct PrimitiveDesc {
    raw: Object,
    library: &'static Library,
}

impl PrimitiveDesc {
    /// Creates the object that `call` writes, with one thread.
    pub(crate) fn new(
        library: &'static Library,
        what: &'static str,
        call: impl FnOnce(*mut Object) -> c_int,
    ) -> Result<Self, Error> {
        let _one = OneThread::new(library);
        let mut raw = std::ptr::null_mut();
        check(call(&raw mut raw), what)?;
        Ok(Self { raw, library })
    }

    /// Describes a convolution of the first descriptor by the second one, which gives the third one.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn convolution(
        library: &'static Library,
        algorithm: Algorithm,
        descs: [&Desc; 3],
        bias: Option<&Desc>,
        window: &Window,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let create = library.api.convolution_forward_primitive_desc_create;
        Self::windowed(library, ("a convolution", create), algorithm, descs, bias, window, attr)
    }

    /// Describes a transposed convolution. The weights are outputs by inputs, as for a convolution.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn deconvolution(
        library: &'static Library,
        [src, weights, bias, dst]: [&Desc; 4],
        window: &Window,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let create = library.api.deconvolution_forward_primitive_desc_create;
        let direct = Algorithm::DECONVOLUTION_DIRECT;
        let descs = [src, weights, dst];
        Self::windowed(library, ("a transposed convolution", create), direct, descs, Some(bias), window, attr)
    }

    /// Calls one of the two functions for convolutions.
    fn windowed(
        library: &'static Library,
        (what, create): (&'static str, Convolution),
        algorithm: Algorithm,
        [src, weights, dst]: [&Desc; 3],
        bias: Option<&Desc>,
        window: &Window,
        attr: &Attr,
    ) -> Result<Self, Error> {
        window.check(&window.strides, src, what)?;
        let attr = attr.finish()?;
        let (strides, dilations) = (dims(&window.strides), window.skipped());
        let bias = bias.map_or(std::ptr::null_mut(), |bias| bias.raw);
        Self::new(library, what, |raw| {
            // SAFETY: descriptors, attributes and arrays live until the call returns; a null pointer stands for no
            // bias.
            unsafe {
                create(
                    raw,
                    library.engine,
                    INFERENCE,
                    algorithm.0,
                    src.raw,
                    weights.raw,
                    bias,
                    dst.raw,
                    strides.as_ptr(),
                    dilations.as_ptr(),
                    window.before.as_ptr(),
                    window.after.as_ptr(),
                    attr,
                )
            }
        })
    }

    /// Describes a resampling from one size to another.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn resampling(
        library: &'static Library,
        algorithm: Algorithm,
        [src, dst]: [&Desc; 2],
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        Self::new(library, "a resampling", |raw| {
            // SAFETY: as for a convolution; the factors may be null, and then follow from the sizes.
            unsafe {
                (library.api.resampling_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    algorithm.0,
                    std::ptr::null(),
                    src.raw,
                    dst.raw,
                    attr,
                )
            }
        })
    }

    /// Describes a matrix product, or a product of stacks of matrices.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn matmul(
        library: &'static Library,
        [src, weights, dst]: [&Desc; 3],
        bias: Option<&Desc>,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        let bias = bias.map_or(std::ptr::null_mut(), |bias| bias.raw);
        Self::new(library, "a matrix product", |raw| {
            // SAFETY: as for a convolution; a null pointer stands for no bias.
            unsafe {
                (library.api.matmul_primitive_desc_create)(
                    raw,
                    library.engine,
                    src.raw,
                    weights.raw,
                    bias,
                    dst.raw,
                    attr,
                )
            }
        })
    }

    /// Describes a pool with a window of `kernel` elements.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn pooling(
        library: &'static Library,
        algorithm: Algorithm,
        [src, dst]: [&Desc; 2],
        kernel: &[usize],
        window: &Window,
        attr: &Attr,
    ) -> Result<Self, Error> {
        window.check(kernel, src, "a pool")?;
        let attr = attr.finish()?;
        let (kernel, strides, dilations) = (dims(kernel), dims(&window.strides), window.skipped());
        Self::new(library, "a pool", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.pooling_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    algorithm.0,
                    src.raw,
                    dst.raw,
                    strides.as_ptr(),
                    kernel.as_ptr(),
                    dilations.as_ptr(),
                    window.before.as_ptr(),
                    window.after.as_ptr(),
                    attr,
                )
            }
        })
    }

    /// Describes a softmax along an axis.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn softmax(
        library: &'static Library,
        algorithm: Algorithm,
        [src, dst]: [&Desc; 2],
        axis: usize,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        let axis = c_int::try_from(axis).unwrap_or(c_int::MAX);
        Self::new(library, "a softmax", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.softmax_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    algorithm.0,
                    src.raw,
                    dst.raw,
                    axis,
                    attr,
                )
            }
        })
    }

    /// Describes a normalisation of the last axis, with a scale and a shift for each of its elements.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn layer_normalization(
        library: &'static Library,
        [src, dst, statistics]: [&Desc; 3],
        epsilon: f32,
        attr: &Attr,
    ) -> Result<Self, Error> {
        const SCALE_AND_SHIFT: u32 = 2 | 4;
        let attr = attr.finish()?;
        Self::new(library, "a layer normalisation", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.layer_normalization_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    src.raw,
                    dst.raw,
                    statistics.raw,
                    epsilon,
                    SCALE_AND_SHIFT,
                    attr,
                )
            }
        })
    }

    /// Describes a function of each element.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn eltwise(
        library: &'static Library,
        algorithm: Algorithm,
        [src, dst]: [&Desc; 2],
        [alpha, beta]: [f32; 2],
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        Self::new(library, "an elementwise function", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.eltwise_forward_primitive_desc_create)(
                    raw,
                    library.engine,
                    INFERENCE,
                    algorithm.0,
                    src.raw,
                    dst.raw,
                    alpha,
                    beta,
                    attr,
                )
            }
        })
    }

    /// Describes a function of two operands, the second of which broadcasts.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn binary(
        library: &'static Library,
        algorithm: Algorithm,
        [left, right, dst]: [&Desc; 3],
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        Self::new(library, "a binary function", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.binary_primitive_desc_create)(
                    raw,
                    library.engine,
                    algorithm.0,
                    left.raw,
                    right.raw,
                    dst.raw,
                    attr,
                )
            }
        })
    }

    /// Describes a copy from one layout to another.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn reorder(library: &'static Library, [src, dst]: [&Desc; 2], attr: &Attr) -> Result<Self, Error> {
        let attr = attr.finish()?;
        Self::new(library, "a reorder", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.reorder_primitive_desc_create)(
                    raw,
                    src.raw,
                    library.engine,
                    dst.raw,
                    library.engine,
                    attr,
                )
            }
        })
    }

    /// Describes a concatenation along an axis.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn concat(
        library: &'static Library,
        sources: &[&Desc],
        dst: &Desc,
        axis: usize,
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        let sources: Vec<Object> = sources.iter().map(|source| source.raw).collect();
        let size = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
        Self::new(library, "a concatenation", |raw| {
            // SAFETY: as for a convolution; the count is the number of entries of `sources`.
            unsafe {
                (library.api.concat_primitive_desc_create)(
                    raw,
                    library.engine,
                    dst.raw,
                    size(sources.len()),
                    size(axis),
                    sources.as_ptr(),
                    attr,
                )
            }
        })
    }

    /// Describes a reduction of the axes whose size in the result is 1.
    ///
    /// # Errors
    /// If no implementation supports it.
    pub fn reduction(
        library: &'static Library,
        algorithm: Algorithm,
        [src, dst]: [&Desc; 2],
        attr: &Attr,
    ) -> Result<Self, Error> {
        let attr = attr.finish()?;
        Self::new(library, "a reduction", |raw| {
            // SAFETY: as for a convolution.
            unsafe {
                (library.api.reduction_primitive_desc_create)(
                    raw,
                    library.engine,
                    algorithm.0,
                    src.raw,
                    dst.raw,
                    0.0,
                    0.0,
                    attr,
                )
            }
        })
    }

    /// Moves on to the next implementation. Returns whether there is one.
    pub fn advance(&mut self) -> bool {
        let _one = OneThread::new(self.library);
        // SAFETY: `raw` is a valid primitive descriptor.
        unsafe { (self.library.api.primitive_desc_next_impl)(self.raw) == 0 }
    }

    /// Returns the name of the implementation.
    #[must_use]
    pub fn name(&self) -> String {
        const IMPLEMENTATION: c_int = 8;
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the query writes a pointer to a string that lives as long as the descriptor.
        unsafe {
            let status =
                (self.library.api.primitive_desc_query)(self.raw, IMPLEMENTATION, 0, (&raw mut name).cast());
            if status != 0 || name.is_null() {
                return String::new();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// Returns the memory descriptor of an argument.
    ///
    /// # Errors
    /// If the primitive has no such argument.
    pub fn desc(&self, arg: Arg) -> Result<Desc, Error> {
        const ARGUMENT: c_int = 255;
        // SAFETY: the query returns a descriptor that lives as long as this one; it is copied.
        unsafe {
            let raw = (self.library.api.primitive_desc_query_md)(self.raw, ARGUMENT, arg.0);
            if raw.is_null() {
                return Err(Error { what: "the descriptor of an argument", status: 2 });
            }
            Desc::copied(self.library, raw)
        }
    }

    /// Returns the size of the scratch memory in bytes.
    #[must_use]
    pub fn scratch(&self) -> usize {
        self.desc(Arg::SCRATCH).map_or(0, |desc| desc.bytes())
    }
}

impl Drop for PrimitiveDesc {
    fn drop(&mut self) {
        // SAFETY: the library created it, and it is destroyed once.
        unsafe { (self.library.api.primitive_desc_destroy)(self.raw) };
    }
}

/// A primitive that is ready to run, with an address for each of its arguments.
pub struct Primitive {
    raw: Object,
    stream: Object,
    args: Vec<RawArg>,
    places: Vec<*mut u8>,
    library: &'static Library,
}

// SAFETY: the objects of the library are not bound to a thread, and `run` borrows the primitive exclusively.
unsafe impl Send for Primitive {}

impl Primitive {
    /// Generates the code of an implementation, for arguments in this order.
    ///
    /// # Errors
    /// If the library reports an error.
    pub fn new(desc: &PrimitiveDesc, args: &[Arg]) -> Result<Self, Error> {
        let library = desc.library;
        let _one = OneThread::new(library);
        let null = std::ptr::null_mut();
        let mut made = Self { raw: null, stream: null, args: Vec::new(), places: Vec::new(), library };
        const IN_ORDER: u32 = 1;
        // SAFETY: the objects are written on success; dropping `made` destroys what was created.
        unsafe {
            check((library.api.stream_create)(&raw mut made.stream, library.engine, IN_ORDER), "a stream")?;
            check((library.api.primitive_create)(&raw mut made.raw, desc.raw), "a primitive")?;
        }
        for arg in args {
            let place = desc.desc(*arg)?;
            let mut memory = null;
            // SAFETY: the library copies the descriptor; the object has no memory yet.
            let status = unsafe {
                (library.api.memory_create)(&raw mut memory, place.raw, library.engine, null.cast())
            };
            check(status, "a memory object")?;
            made.args.push(RawArg { arg: arg.0, memory });
            made.places.push(std::ptr::null_mut());
        }
        Ok(made)
    }

    /// Runs the primitive on one thread. `places` are the addresses of the arguments, in their order.
    ///
    /// # Safety
    /// Each address must have the bytes of its argument's descriptor, and no other thread may use the memory that is
    /// written.
    ///
    /// # Errors
    /// If the library reports an error.
    pub unsafe fn run(&mut self, places: &[*mut u8]) -> Result<(), Error> {
        if places.len() != self.args.len() {
            return Err(Error { what: "an execution with a wrong number of arguments", status: 2 });
        }
        let _one = OneThread::new(self.library);
        for ((arg, known), place) in self.args.iter().zip(&mut self.places).zip(places) {
            if known != place {
                // SAFETY: `memory` is a valid memory object.
                let status = unsafe { (self.library.api.memory_set_data_handle)(arg.memory, place.cast()) };
                check(status, "the address of an argument")?;
                *known = *place;
            }
        }
        let count = c_int::try_from(self.args.len()).unwrap_or(c_int::MAX);
        // SAFETY: the caller guarantees the addresses. A stream on the processor has finished when the call returns.
        let status =
            unsafe { (self.library.api.primitive_execute)(self.raw, self.stream, count, self.args.as_ptr()) };
        check(status, "an execution")
    }
}

impl Drop for Primitive {
    fn drop(&mut self) {
        // SAFETY: the library created these objects, and each is destroyed once.
        unsafe {
            for arg in &self.args {
                (self.library.api.memory_destroy)(arg.memory);
            }
            if !self.raw.is_null() {
                (self.library.api.primitive_destroy)(self.raw);
            }
            if !self.stream.is_null() {
                (self.library.api.stream_destroy)(self.stream);
            }
        }
    }
}
