//! Constants as a plan finds them. In a plan whose constants do not fit into the device's cache, other weights drove
//! those of a step out of it since the last run. So a timed call has several copies of its constants, more in all than
//! the cache holds, and each repetition reads the next one. Before the repetitions, other memory is written, so that
//! not even the first reads of small copies find them in the cache.

use super::{ALIGN, REPETITIONS, Region};
use crate::driver::{Context, Memory, Refusal, Stream};
use cudarc::driver::sys::CUdeviceptr;
use ovolo::op::OpError;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The multiple of the cache that is read or written between two reads of the same constants.
const SHARE: usize = 2;

/// The further copies of a call's constants.
pub(super) struct Cold {
    /// The constants in the memory of the call.
    constants: Vec<Region>,
    /// The offset of each constant in a copy, and the bytes of a copy.
    offsets: Vec<usize>,
    bytes: usize,
    /// The number of copies.
    count: usize,
    memory: Memory,
    other: Arc<Other>,
}

/// Memory that is written to drive everything else out of the cache. All calls share it.
struct Other {
    memory: Memory,
    bytes: usize,
}

impl Cold {
    /// Makes room for copies of the constants of a call. `None` if all constants of the model, which are `model` bytes,
    /// fit into the cache, or if the call reads none.
    ///
    /// # Errors
    /// If the device has not enough memory, or the driver reports another error.
    pub fn new(
        context: &'static Context,
        constants: &[Region],
        model: usize,
    ) -> Result<Option<Self>, OpError> {
        let cache = context.cache().map_err(OpError::backend)?;
        let mut offsets = Vec::with_capacity(constants.len());
        let mut bytes = 0;
        for constant in constants {
            offsets.push(bytes);
            bytes += constant.bytes.next_multiple_of(ALIGN);
        }
        if bytes == 0 || model <= cache {
            return Ok(None);
        }
        // The operands of the call are the first copy.
        let count = (SHARE * cache).div_ceil(bytes).min(REPETITIONS).saturating_sub(1);
        let memory = Memory::new(context, count * bytes)?;
        let other = Other::shared(context, SHARE * cache)?;
        Ok(Some(Self { constants: constants.to_vec(), offsets, bytes, count, memory, other }))
    }

    /// Returns the number of copies, without the operands of the call.
    pub fn copies(&self) -> usize {
        self.count
    }

    /// Returns the address of a constant in a copy.
    pub fn place(&self, copy: usize, constant: usize) -> CUdeviceptr {
        self.memory.at(copy * self.bytes + self.offsets[constant])
    }

    /// Queues the copies of the constants from the memory of the call, and then writes other memory.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub(crate) fn fill(&self, stream: &Stream, operands: &Memory) -> Result<(), String> {
        for copy in 0..self.count {
            for (at, constant) in self.constants.iter().enumerate() {
                if constant.bytes > 0 {
                    let from = operands.at(constant.offset);
                    // SAFETY: both have the bytes of the constant, and only this call uses them.
                    unsafe { stream.copy(self.place(copy, at), from, constant.bytes) }?;
                }
            }
        }
        // SAFETY: the memory has these bytes. Calls of several threads may write it at the same time: all write zeros,
        // and none reads them.
        unsafe { stream.zero(&self.other.memory, self.other.bytes) }
    }
}

impl Other {
    /// Returns the memory, which lives as long as a call uses it.
    fn shared(context: &'static Context, bytes: usize) -> Result<Arc<Self>, Refusal> {
        static SHARED: Mutex<Weak<Other>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = shared.upgrade() {
            return Ok(other);
        }
        let other = Arc::new(Self { memory: Memory::new(context, bytes)?, bytes });
        *shared = Arc::downgrade(&other);
        Ok(other)
    }
}
