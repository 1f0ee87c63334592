//! Backends: which lowered ops they can run, under which contracts, and the kernels themselves.
//!
//! For a lowered op and given types, a backend says whether it has a kernel or why it has none, and gives the name
//! of the implementation and its contract with the memory planner. All of this is asked before memory is planned,
//! for exactly the implementation that was chosen.

pub mod features;

use self::features::InstructionSets;
use crate::diagnostic::Source;
use crate::graph::NodeId;
pub use crate::op::{ALIGN, Args, Call, Contract, Kernel, OpError};
use crate::op::{Lowering, Op};
use crate::plan::schedule::Schedule;
use crate::plan::{Place, Plan};
use crate::scalar::Function;
use crate::table::{Table, Unknown};
use crate::tensor::{Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The part of a plan that runs on a device: its memory, its machine code and its queues.
///
/// The session begins a run, launches its segments in order, and ends it. Steps of the host run in between, after
/// the segments that they wait for. If a run was begun and not ended, the next [`Runner::begin`] abandons it.
///
/// # Safety
/// [`Runner::arena`] gives the same address each time, aligned to [`ALIGN`]. [`Plan::arena`] initialised bytes can
/// be read and written there as long as the runner lives. The runner itself uses only those bytes that the plan's
/// copies between host and device read and write, and only from the launch of their segment until that segment has
/// been waited for.
pub unsafe trait Runner: Send {
    /// Returns the host's part of the arena, which copies from and to the device read and write.
    fn arena(&mut self) -> *mut u8;

    /// Returns what is different from the plan, one line each: a device may lack the implementation of a library that
    /// the plan was made for, and then another one runs.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Begins a run on inputs in the model's order. Refuses inputs whose types are not those of the plan.
    ///
    /// # Errors
    /// Which step failed and why, and what to do. The same holds for the methods below.
    fn begin(&mut self, inputs: &[&Tensor]) -> Result<(), BackendError>;

    /// Queues a segment of the schedule.
    fn launch(&mut self, segment: usize) -> Result<(), BackendError>;

    /// Waits for a segment and for all segments before it.
    fn wait(&mut self, segment: usize) -> Result<(), BackendError>;

    /// Waits for everything that was queued. Then the host's part of the arena holds what was copied there.
    fn end(&mut self) -> Result<(), BackendError>;

    /// Runs one step and waits for it.
    fn alone(&mut self, step: usize) -> Result<(), BackendError>;

    /// Returns the address in the device's memory of an input or an output of the model that lies there, or `None` if
    /// the place is elsewhere. The address stays the same as long as the runner lives.
    fn address(&self, place: Place) -> Option<u64> {
        let _ = place;
        None
    }

    /// Copies bytes to a place in the device's memory. No run is under way.
    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), BackendError> {
        let _ = bytes;
        Err(BackendError::NoPort { port: "input".to_owned(), place })
    }

    /// Copies bytes from a place in the device's memory. No run is under way.
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), BackendError> {
        let _ = bytes;
        Err(BackendError::NoPort { port: "output".to_owned(), place })
    }
}

/// Why a backend cannot run a plan, or is absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// A library or a device is absent, or cannot be used.
    #[error("{why}")]
    Absent {
        /// The usual name of the library or device.
        what: String,
        /// Where it was looked for, and what the user can do.
        why: String,
    },
    /// The registry has no backend of this name.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A plan has steps on the devices of two backends.
    #[error("the plan has steps on the devices of `{one}` and of `{other}`")]
    TwoDevices {
        /// One backend.
        one: String,
        /// The other one.
        other: String,
    },
    /// A plan has steps for the device of a backend that has none.
    #[error("the backend `{backend}` has no device")]
    NoDevice {
        /// The backend.
        backend: String,
    },
    /// An input or an output of a plan is on a device on which none of its steps runs.
    #[error("`{port}` is {ty}, and {}", ran(.backend.as_deref()))]
    Elsewhere {
        /// The input or output.
        port: String,
        /// Its type, with its device.
        ty: Box<TensorType>,
        /// The backend on whose device steps run; `None` if all of them run on the host.
        backend: Option<String>,
    },
    /// No input or output of the model is at this place of a device's memory.
    #[error("the device has no {port} of the model at {place}")]
    NoPort {
        /// `input` or `output`, with what it should be like.
        port: String,
        /// The place.
        place: Place,
    },
    /// An input has another size than in the plan.
    #[error("input {input} has {given} bytes, but the plan needs {needed}")]
    InputBytes {
        /// Its number.
        input: usize,
        /// The bytes that it has.
        given: usize,
        /// The bytes that the plan needs.
        needed: usize,
    },
    /// The backend cannot plan for an instruction set.
    #[error("{why}")]
    InstructionSet {
        /// The instruction set that was asked for.
        wanted: String,
        /// Why it cannot.
        why: String,
    },
    /// A step of a plan cannot be loaded or run.
    #[error("`{step}` ({op}): {why}")]
    Step {
        /// The value that the step computes.
        step: String,
        /// Its op.
        op: String,
        /// What went wrong.
        why: String,
    },
    /// A library or a device reports an error that does not belong to a single step.
    #[error("{why}")]
    Device {
        /// The backend.
        backend: &'static str,
        /// What is reported, in its own words, and what the user can do.
        why: String,
    },
}

fn ran(backend: Option<&str>) -> String {
    match backend {
        Some(name) => format!("the steps of the backend `{name}` run on another device"),
        None => "no step of the plan runs on that device".to_owned(),
    }
}

impl BackendError {
    /// Makes the error of an absent library or device, from its usual name and the message.
    pub fn absent(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Absent { what: what.into(), why: why.into() }
    }
}

/// A library that a backend loads at run time, as it was looked for on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeLibrary {
    /// The usual name of the library.
    pub name: &'static str,
    /// Its version and where it was found, in one line; or why it is absent, and what the user can do.
    pub found: Result<String, BackendError>,
}

/// The ops by which the speed of the processor is measured, all of one backend, on `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// The backend's fastest product of two square matrices.
    pub product: &'static str,
    /// The layouts of these matrices, as [`Layout`](crate::tensor::Layout) reads them, such as `plain`.
    pub layouts: [&'static str; 2],
    /// An op that reads each element of its only operand once and writes each element of its result once, in the
    /// default layout.
    pub copy: &'static str,
}

/// A plan of which a device will run a part. Only a session makes this value, after it has checked the plan: every
/// value lies within the memory that the plan states, and every kernel gets the buffers that its contract asks for.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Loading<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// The constants that it reads.
    pub constants: &'a FxHashMap<NodeId, Tensor>,
    /// Keeps what is compiled for the device.
    pub artifacts: &'a dyn Artifacts,
}

/// A store in which backends keep what they compile for a device, such as machine code. The key of an artifact is a
/// list of texts; its bytes must depend on nothing else.
pub trait Artifacts {
    /// Returns what was stored under a key; `None` if it is absent or damaged.
    fn load(&self, key: &[&str]) -> Option<Vec<u8>>;

    /// Stores bytes under a key, instead of those that were there. An error while storing is ignored.
    fn store(&self, key: &[&str], bytes: &[u8]);

    /// Whether anything is kept. If not, backends need not make bytes only to store them.
    fn keeps(&self) -> bool {
        true
    }
}

/// A store that keeps nothing.
pub struct Unkept;

impl Artifacts for Unkept {
    fn load(&self, _: &[&str]) -> Option<Vec<u8>> {
        None
    }

    fn store(&self, _: &[&str], _: &[u8]) {}

    fn keeps(&self) -> bool {
        false
    }
}

/// A set of kernels under one name.
///
/// # Safety
/// Sessions run the kernels of a backend in memory that they lay out as its contracts say. So for every call:
/// - A kernel that a declaration of [`Backend::ops`] makes for a call is sound to run under the conditions of
///   [`Kernel::run`] with the contract that the same declaration gives for an equal call.
/// - Where a contract has [`Contract::view_of`], the result's bytes lie within that operand's from
///   [`Contract::view_offset`] on.
/// - A runner that [`Backend::runner`] makes is one for the plan that it was given.
pub unsafe trait Backend: Send + Sync {
    /// Returns the name: the prefix of its lowered ops.
    fn name(&self) -> &'static str;

    /// Returns in one line what the backend consists of, such as its library and device with their versions.
    ///
    /// # Errors
    /// Why the backend is absent, and where it was looked for.
    fn found(&self) -> Result<String, BackendError> {
        Ok("part of ovolo".to_owned())
    }

    /// Returns in one line what the kernels and their times depend on apart from ovolo itself, such as a library's
    /// version. Paths are no part of it.
    ///
    /// # Errors
    /// Why the backend is absent, and where it was looked for.
    fn identity(&self) -> Result<String, BackendError> {
        self.found()
    }

    /// Returns the name of the backend that runs plans on the device of these kernels. It is this backend, unless
    /// its kernels are those of a library for another backend's device.
    fn runs_with(&self) -> &'static str {
        self.name()
    }

    /// Returns whether plans can be made on a machine where the backend is absent. Then contracts and prices must
    /// not need its library or device.
    fn plans_elsewhere(&self) -> bool {
        false
    }

    /// Returns a price list with what the backend knows about the device that is present, such as its speeds, or
    /// `None` if it knows nothing that the shipped lists do not say. Cost models for this machine give it precedence
    /// over the shipped lists, and a user's list precedence over it. Its words are part of [`Backend::details`], as
    /// plans depend on them.
    fn prices(&self) -> Option<Source> {
        None
    }

    /// Returns what else its kernels depend on, apart from [`Backend::found`]: names and values, in a fixed order.
    fn details(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the files, other than this program, that its kernels come from. Their content is part of the cache's
    /// key, as it can change every plan.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the libraries that it loads at run time, whether or not they are found. `ovolo doctor` lists them.
    fn libraries(&self) -> Vec<RuntimeLibrary> {
        Vec::new()
    }

    /// Returns the instruction sets that its kernels are compiled for, if its plans depend on the processor. Which one
    /// plans are made for is part of the cache's key.
    fn instruction_sets(&self) -> Option<&dyn InstructionSets> {
        None
    }

    /// Returns its lowered ops, whose names begin with the backend's name and a dot.
    fn ops(&self) -> Vec<Lowering>;

    /// Returns the lowered op of a function of one number, or `None` if the backend has none. The given name is the
    /// backend's, a dot, and the function's. The registry calls this for each of its functions.
    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        let _ = (name, function);
        None
    }

    /// Returns the ops by which the speed of the processor is measured; `None` if the backend has none for it. Those of
    /// the backend that was registered first count.
    fn probes(&self) -> Option<Probes> {
        None
    }

    /// Returns whether kernels of one of its ops can be trusted in the default layout: their tests compare them with
    /// the reference evaluation. The tuner compares results of other kernels with theirs where the reference would take
    /// too long.
    fn is_trusted(&self, op: Op) -> bool {
        let _ = op;
        false
    }

    /// Loads the steps of a plan that run on this backend's device; `None` if the backend has no device of its own.
    ///
    /// # Errors
    /// What is missing or was refused, and what to do about it.
    fn runner(&self, _: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        None
    }
}

/// Backends by name.
pub type Backends = Table<Arc<dyn Backend>>;
