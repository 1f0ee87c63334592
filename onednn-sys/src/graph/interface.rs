//! The functions of the graph interface, and an engine for it.

use crate::api::Object;
use crate::check;
use crate::load::Library;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// The largest number of dimensions of a value.
pub(super) const MAX_DIMS: usize = 12;
/// The library's number for the processor.
pub(super) const CPU: c_int = 1;
/// The library's number for IEEE 754 binary32.
pub(super) const F32: c_int = 3;

/// A value as the C API describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawValue {
    pub id: usize,
    pub rank: c_int,
    pub dims: [i64; MAX_DIMS],
    pub data_type: c_int,
    pub property: c_int,
    pub layout_type: c_int,
    /// Strides, or in the first bytes the number of a layout of the library.
    pub layout: [i64; MAX_DIMS],
}

impl RawValue {
    pub(super) const EMPTY: Self = Self {
        id: 0,
        rank: 0,
        dims: [0; MAX_DIMS],
        data_type: 0,
        property: 0,
        layout_type: 0,
        layout: [0; MAX_DIMS],
    };
}

/// A function by which the library may take memory from its caller.
type Allocate = extern "C" fn(usize, usize) -> *mut c_void;
/// A function by which it returns memory.
type Free = extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the interface.
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Finds the functions in the library. The error names the first one that is absent.
            fn new(code: &libloading::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let symbol = concat!("dnnl_graph_", stringify!($name), "\0");
                        // SAFETY: the function has the declared type in all versions 3.x.
                        *unsafe { code.get(symbol.as_bytes()) }.map_err(|_| {
                            let name = symbol.trim_end_matches('\0');
                            format!("this build of the library has no graph interface: {name} is absent")
                        })?
                    },)*
                })
            }
        }
    };
}

functions! {
    allocator_create: fn(*mut Object, Option<Allocate>, Option<Free>) -> c_int;
    make_engine_with_allocator: fn(*mut Object, c_int, usize, Object) -> c_int;
    logical_tensor_init_with_strides:
        fn(*mut RawValue, usize, c_int, c_int, *const i64, *const i64, c_int) -> c_int;
    tensor_create: fn(*mut Object, *const RawValue, Object, *mut u8) -> c_int;
    tensor_set_data_handle: fn(Object, *mut u8) -> c_int;
    tensor_destroy: fn(Object) -> c_int;
    op_create: fn(*mut Object, usize, c_int, *const c_char) -> c_int;
    op_add_input: fn(Object, *const RawValue) -> c_int;
    op_add_output: fn(Object, *const RawValue) -> c_int;
    op_set_attr_s64: fn(Object, c_int, *const i64, usize) -> c_int;
    op_set_attr_bool: fn(Object, c_int, *const u8, usize) -> c_int;
    op_destroy: fn(Object) -> c_int;
    graph_create: fn(*mut Object, c_int) -> c_int;
    add_op: fn(Object, Object) -> c_int;
    graph_finalize: fn(Object) -> c_int;
    graph_filter: fn(Object, c_int) -> c_int;
    graph_get_partition_num: fn(Object, *mut usize) -> c_int;
    graph_get_partitions: fn(Object, usize, *mut Object) -> c_int;
    graph_destroy: fn(Object) -> c_int;
    partition_is_supported: fn(Object, *mut u8) -> c_int;
    partition_get_input_ports_num: fn(Object, *mut usize) -> c_int;
    partition_get_input_ports: fn(Object, usize, *mut RawValue) -> c_int;
    partition_get_output_ports_num: fn(Object, *mut usize) -> c_int;
    partition_get_output_ports: fn(Object, usize, *mut RawValue) -> c_int;
    partition_compile:
        fn(Object, Object, usize, *const *const RawValue, usize, *const *const RawValue, Object) -> c_int;
    partition_destroy: fn(Object) -> c_int;
    compiled_partition_create: fn(*mut Object, Object) -> c_int;
    compiled_partition_execute: fn(Object, Object, usize, *const Object, usize, *const Object) -> c_int;
    compiled_partition_destroy: fn(Object) -> c_int;
}

/// The interface, with an engine for it. It exists until the process ends.
pub(super) struct Interface {
    pub functions: Functions,
    pub engine: Object,
}

// SAFETY: the engine never changes after its creation, and the library allows its use from any thread.
unsafe impl Send for Interface {}
// SAFETY: as above.
unsafe impl Sync for Interface {}

impl Interface {
    fn new(library: &'static Library) -> Result<Self, String> {
        let functions = Functions::new(&library.code)?;
        let (mut allocator, mut engine) = (std::ptr::null_mut(), std::ptr::null_mut());
        // Without functions of ours the library takes memory from the system. Before version 3.13 it does not say how much
        // it needs, nor which of it outlives a run, so it cannot be given a part of a plan's memory.
        // SAFETY: both objects are written on success, and are never destroyed.
        let status = unsafe {
            match (functions.allocator_create)(&raw mut allocator, None, None) {
                0 => (functions.make_engine_with_allocator)(&raw mut engine, CPU, 0, allocator),
                status => status,
            }
        };
        check(status, "an engine for graphs").map_err(|error| error.to_string())?;
        Ok(Self { functions, engine })
    }

    /// Returns the interface of the library, which is looked up once.
    pub(super) fn of(library: &'static Library) -> Result<&'static Self, &'static str> {
        static INTERFACE: OnceLock<Result<Interface, String>> = OnceLock::new();
        INTERFACE.get_or_init(|| Self::new(library)).as_ref().map_err(String::as_str)
    }
}
