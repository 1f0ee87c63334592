//! The graph interface: a graph of operations that the library divides into partitions, each of which it runs as a
//! whole. Builds of the library may leave it out.

mod interface;
mod partition;

use crate::api::Object;
use crate::load::Library;
use crate::thread::OneThread;
use crate::{Error, check};
use interface::{CPU, F32, Interface, MAX_DIMS, RawValue};
use partition::Owned;
pub use partition::Partition;
use std::ffi::c_int;

/// The library's number for a policy under which operations are fused.
const FUSION: c_int = 1;

/// The library makes no graphs, for a reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoGraph(String);

/// An operation of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum of two values, of which one may be broadcast.
    Add,
    /// The product of two values by elements, of which one may be broadcast.
    Multiply,
    /// The products of matrices in the last two dimensions.
    Matmul {
        /// Whether the right operand has its last two dimensions exchanged.
        transposed: bool,
    },
    /// The softmax along one dimension.
    Softmax {
        /// The dimension.
        axis: usize,
    },
}

impl Operation {
    /// Returns the number of the kind of operation.
    fn kind(self) -> c_int {
        match self {
            Self::Add => 2,
            Self::Matmul { .. } => 39,
            Self::Multiply => 46,
            Self::Softmax { .. } => 64,
        }
    }
}

/// A value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub usize);

/// A graph of operations on dense `f32` values.
pub struct Graph {
    interface: &'static Interface,
    library: &'static Library,
    raw: Object,
    values: Vec<RawValue>,
    operations: usize,
}

impl Graph {
    /// Creates an empty graph.
    ///
    /// # Errors
    /// If this build of the library has no graph interface.
    pub fn new(library: &'static Library) -> Result<Self, NoGraph> {
        let interface = Interface::of(library).map_err(|why| NoGraph(why.to_owned()))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success.
        let status = unsafe { (interface.functions.graph_create)(&raw mut raw, CPU) };
        check(status, "a graph").map_err(|error| NoGraph(error.to_string()))?;
        Ok(Self { interface, library, raw, values: Vec::new(), operations: 0 })
    }

    /// Adds a value with so many elements from one index to the next in each dimension.
    ///
    /// # Errors
    /// If the library supports no such shape, or there are not as many strides as dimensions.
    pub fn value(&mut self, shape: &[usize], strides: &[usize]) -> Result<Value, Error> {
        const WHAT: &str = "a value of a graph";
        let rank = match c_int::try_from(shape.len()) {
            Ok(rank) if shape.len() <= MAX_DIMS && strides.len() == shape.len() => rank,
            _ => return Err(Error { what: WHAT, status: 2 }),
        };
        let (shape, strides) = (crate::desc::dims(shape), crate::desc::dims(strides));
        let mut value = RawValue::EMPTY;
        // SAFETY: both arrays have `rank` entries; `value` is written on success.
        let status = unsafe {
            (self.interface.functions.logical_tensor_init_with_strides)(
                &raw mut value,
                self.values.len(),
                F32,
                rank,
                shape.as_ptr(),
                strides.as_ptr(),
                0,
            )
        };
        check(status, WHAT)?;
        self.values.push(value);
        Ok(Value(self.values.len() - 1))
    }

    /// Adds an operation on values of this graph.
    ///
    /// # Errors
    /// If the library refuses the operation.
    ///
    /// # Panics
    /// If a value is not of this graph.
    pub fn operation(
        &mut self,
        operation: Operation,
        operands: &[Value],
        result: Value,
    ) -> Result<(), Error> {
        const WHAT: &str = "an operation of a graph";
        const AXIS: c_int = 0x30;
        const TRANSPOSE_B: c_int = 0x66;
        let functions = &self.interface.functions;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the name is a string that ends with a zero; `raw` is written on success.
        let status =
            unsafe { (functions.op_create)(&raw mut raw, self.operations, operation.kind(), c"".as_ptr()) };
        check(status, WHAT)?;
        self.operations += 1;
        let mut statuses = Vec::new();
        // SAFETY: the operation exists until the end of this function, and the graph copies it. The library reads the
        // values and the attributes before the calls return.
        unsafe {
            match operation {
                Operation::Matmul { transposed } => {
                    statuses.push((functions.op_set_attr_bool)(raw, TRANSPOSE_B, &u8::from(transposed), 1));
                }
                Operation::Softmax { axis } => {
                    let axis = i64::try_from(axis).unwrap_or(i64::MAX);
                    statuses.push((functions.op_set_attr_s64)(raw, AXIS, &raw const axis, 1));
                }
                Operation::Add | Operation::Multiply => {}
            }
            for operand in operands {
                statuses.push((functions.op_add_input)(raw, &self.values[operand.0]));
            }
            statuses.push((functions.op_add_output)(raw, &self.values[result.0]));
            if statuses.iter().all(|status| *status == 0) {
                statuses.push((functions.add_op)(self.raw, raw));
            }
            (functions.op_destroy)(raw);
        }
        statuses.into_iter().try_for_each(|status| check(status, WHAT))
    }

    /// Divides the graph into partitions and compiles them for one thread, in the order in which they are to be run.
    ///
    /// # Errors
    /// If the library does not support the graph.
    pub fn partitions(self) -> Result<Vec<Partition>, Error> {
        const WHAT: &str = "the partitions of a graph";
        let _one = OneThread::new(self.library);
        let functions = &self.interface.functions;
        let mut count = 0;
        // SAFETY: the graph is valid and `count` is written on success.
        unsafe {
            check((functions.graph_finalize)(self.raw), "a graph")?;
            check((functions.graph_filter)(self.raw, FUSION), WHAT)?;
            check((functions.graph_get_partition_num)(self.raw, &raw mut count), WHAT)?;
        }
        let mut raw = vec![std::ptr::null_mut(); count];
        // SAFETY: there is room for `count` partitions.
        check(unsafe { (functions.graph_get_partitions)(self.raw, count, raw.as_mut_ptr()) }, WHAT)?;
        // All are owned before the first can fail.
        let raw: Vec<_> =
            raw.into_iter().map(|raw| Owned { raw, destroy: functions.partition_destroy }).collect();
        raw.into_iter().map(|raw| Partition::new(&self, raw)).collect()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the library created the graph, and it is destroyed once.
        unsafe { (self.interface.functions.graph_destroy)(self.raw) };
    }
}
