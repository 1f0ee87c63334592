//! The functions of the C API with the types of their arguments.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A pointer to an opaque object of the library.
pub(crate) type Object = *mut c_void;
/// A pointer to the sizes of dimensions, at most 12.
pub(crate) type Dims = *const i64;

/// The function that creates the descriptor of a convolution or a transposed convolution.
pub(crate) type Convolution = unsafe extern "C" fn(
    *mut Object,
    Object,
    c_int,
    c_int,
    Object,
    Object,
    Object,
    Object,
    Dims,
    Dims,
    Dims,
    Dims,
    Object,
) -> c_int;

/// The result of `dnnl_version`.
#[repr(C)]
pub(crate) struct RawVersion {
    pub major: c_int,
    pub minor: c_int,
    pub patch: c_int,
    pub hash: *const c_char,
    pub cpu_runtime: c_uint,
    pub gpu_runtime: c_uint,
}

/// An argument of an execution.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawArg {
    pub arg: c_int,
    pub memory: Object,
}

macro_rules! api {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that this crate calls.
        #[allow(missing_debug_implementations)]
        pub(crate) struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// Loads the functions from an open library. The error names the first function that is absent.
            pub(crate) fn new(library: &libloading::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let symbol = concat!("dnnl_", stringify!($name), "\0");
                        // SAFETY: the function has the declared type in all versions 3.x.
                        *unsafe { library.get(symbol.as_bytes()) }
                            .map_err(|error| format!("dnnl_{}: {error}", stringify!($name)))?
                    },)*
                })
            }
        }
    };
}

api! {
    engine_create: fn(*mut Object, c_int, usize) -> c_int;
    stream_create: fn(*mut Object, Object, c_uint) -> c_int;
    stream_destroy: fn(Object) -> c_int;
    memory_desc_create_with_tag: fn(*mut Object, c_int, Dims, c_int, c_int) -> c_int;
    memory_desc_create_with_strides: fn(*mut Object, c_int, Dims, c_int, Dims) -> c_int;
    memory_desc_clone: fn(*mut Object, Object) -> c_int;
    memory_desc_destroy: fn(Object) -> c_int;
    memory_desc_get_size: fn(Object) -> usize;
    memory_desc_equal: fn(Object, Object) -> c_int;
    memory_desc_query: fn(Object, c_int, *mut c_void) -> c_int;
    memory_create: fn(*mut Object, Object, Object, *mut c_void) -> c_int;
    memory_set_data_handle: fn(Object, *mut c_void) -> c_int;
    memory_destroy: fn(Object) -> c_int;
    post_ops_create: fn(*mut Object) -> c_int;
    post_ops_destroy: fn(Object) -> c_int;
    post_ops_append_sum: fn(Object, f32, i32, c_int) -> c_int;
    post_ops_append_eltwise: fn(Object, c_int, f32, f32) -> c_int;
    post_ops_append_binary: fn(Object, c_int, Object) -> c_int;
    primitive_attr_create: fn(*mut Object) -> c_int;
    primitive_attr_destroy: fn(Object) -> c_int;
    primitive_attr_set_post_ops: fn(Object, Object) -> c_int;
    primitive_attr_set_scratchpad_mode: fn(Object, c_int) -> c_int;
    primitive_desc_next_impl: fn(Object) -> c_int;
    primitive_desc_query: fn(Object, c_int, c_int, *mut c_void) -> c_int;
    primitive_desc_query_md: fn(Object, c_int, c_int) -> Object;
    primitive_desc_destroy: fn(Object) -> c_int;
    primitive_create: fn(*mut Object, Object) -> c_int;
    primitive_destroy: fn(Object) -> c_int;
    primitive_execute: fn(Object, Object, c_int, *const RawArg) -> c_int;
    convolution_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, Object, Object, Dims, Dims, Dims, Dims, Object) -> c_int;
    deconvolution_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, Object, Object, Dims, Dims, Dims, Dims, Object) -> c_int;
    resampling_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, *const f32, Object, Object, Object) -> c_int;
    matmul_primitive_desc_create: fn(*mut Object, Object, Object, Object, Object, Object, Object) -> c_int;
    pooling_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, Dims, Dims, Dims, Dims, Dims, Object) -> c_int;
    softmax_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, c_int, Object) -> c_int;
    layer_normalization_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, Object, Object, Object, f32, c_uint, Object) -> c_int;
    eltwise_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, f32, f32, Object) -> c_int;
    binary_primitive_desc_create: fn(*mut Object, Object, c_int, Object, Object, Object, Object) -> c_int;
    reorder_primitive_desc_create: fn(*mut Object, Object, Object, Object, Object, Object) -> c_int;
    concat_primitive_desc_create: fn(*mut Object, Object, Object, c_int, c_int, *const Object, Object) -> c_int;
    reduction_primitive_desc_create: fn(*mut Object, Object, c_int, Object, Object, f32, f32, Object) -> c_int;
    vanilla_rnn_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, c_int, Object, Object, Object, Object, Object, Object, Object, c_uint, f32, f32, Object) -> c_int;
    lstm_forward_primitive_desc_create:
        fn(*mut Object, Object, c_int, c_int, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, c_uint, Object) -> c_int;
}
