//! Running a plan: kernels built once, memory fixed, no allocation while running.

mod check;
mod constants;

use crate::backend::{Args, Kernel, team::Team};
use crate::graph::{Graph, NodeId};
use crate::plan::{Base, Place, Plan};
use crate::tensor::{DType, Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// A plan with its kernels, constants, arena and threads.
pub struct Session {
    plan: Plan,
    kernels: Vec<Box<dyn Kernel>>,
    /// The operands of all steps, one after another.
    operands: Vec<*const u8>,
    /// For each operand that an input of the model provides: which operand, which input, the offset.
    from_inputs: Vec<(usize, usize, usize)>,
    /// Where the operands of each step begin.
    starts: Vec<usize>,
    arena: Tensor,
    /// Kept alive for the pointers in `operands`.
    constants: FxHashMap<NodeId, Tensor>,
    outputs: Vec<Tensor>,
    team: Team,
}

// SAFETY: the pointers point into `arena`, `constants` (owned) or the inputs of the present call.
unsafe impl Send for Session {}

/// Why a plan cannot be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A kernel cannot be made.
    #[error("`{name}` ({op}): {why}")]
    Kernel {
        /// The value.
        name: String,
        /// Its op.
        op: String,
        /// The reason.
        why: String,
    },
    /// An input is missing, unknown, or of another type.
    #[error("{0}")]
    Input(String),
    /// The memory of a plan cannot be had.
    #[error(
        "the system has no {0} bytes for the plan: bind smaller dimensions, or give --memory-limit a size that it has"
    )]
    Memory(usize),
    /// A plan that was stored does not fit this process.
    #[error("{0}")]
    Stored(String),
}

impl Session {
    /// Loads a plan: evaluates what depends on constants alone, makes the kernels, takes the memory.
    ///
    /// # Errors
    /// If a backend refuses a kernel of the plan.
    pub fn new(program: &Graph, plan: Plan) -> Result<Self, SessionError> {
        let constants = constants::evaluate(program, &wanted_constants(&plan), plan.threads);
        Self::load(plan, constants)
    }

    /// Loads a plan that was stored, with the constants that it reads.
    ///
    /// # Errors
    /// If the plan is not sound, or a backend's contract for a kernel is no longer what it was.
    pub fn stored(plan: Plan, constants: FxHashMap<NodeId, Tensor>) -> Result<Self, SessionError> {
        plan.check(&|node| constants.get(&node).map(|constant| constant.bytes().len()))
            .and_then(|()| check::contracts(&plan))
            .map_err(SessionError::Stored)?;
        Self::load(plan, constants)
    }

    fn load(plan: Plan, constants: FxHashMap<NodeId, Tensor>) -> Result<Self, SessionError> {
        let team = Team::new(plan.threads);
        let take = |ty: TensorType| {
            let bytes = ty.bytes();
            Tensor::try_zeros(ty).ok_or(SessionError::Memory(bytes))
        };
        let mut arena = take(TensorType::plain(DType::U8, [plan.arena.max(1)]))?;
        let base = arena.bytes_mut().as_mut_ptr().cast_const();
        let mut kernels = Vec::with_capacity(plan.steps.len());
        let (mut operands, mut from_inputs, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for step in &plan.steps {
            let kernel =
                check::ask(step, plan.threads, |backend, call| backend.kernel(call)).map_err(|why| {
                    SessionError::Kernel { name: step.name.to_string(), op: step.op.to_owned(), why }
                })?;
            kernels.push(kernel);
            starts.push(operands.len());
            for place in &step.inputs {
                let pointer = match place.base {
                    Base::Input(input) => {
                        from_inputs.push((operands.len(), input, place.offset));
                        std::ptr::null()
                    }
                    Base::Constant(node) => constants[&node].bytes().as_ptr().wrapping_add(place.offset),
                    Base::Arena => base.wrapping_add(place.offset),
                };
                operands.push(pointer);
            }
        }
        starts.push(operands.len());
        let outputs = plan.outputs.iter().map(|(_, ty, _)| take(ty.clone())).collect::<Result<_, _>>()?;
        Ok(Self { plan, kernels, operands, from_inputs, starts, arena, constants, outputs, team })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The constants that the plan reads, in the program's order.
    pub fn constants(&self) -> Vec<(NodeId, &Tensor)> {
        let mut list: Vec<_> = self.constants.iter().map(|(node, tensor)| (*node, tensor)).collect();
        list.sort_unstable_by_key(|(node, _)| *node);
        list
    }

    /// Bytes of constants that the plan reads.
    pub fn constant_bytes(&self) -> usize {
        self.constants.values().map(|tensor| tensor.bytes().len()).sum()
    }

    /// Runs the plan on inputs in the model's order; the outputs are valid until the next run.
    ///
    /// # Errors
    /// If an input is not of the type that the plan was made for.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<&[Tensor], SessionError> {
        self.prepare(inputs)?;
        let arena = self.arena.bytes_mut().as_mut_ptr();
        for step in 0..self.kernels.len() {
            self.step(step, arena);
        }
        self.finish(inputs);
        Ok(&self.outputs)
    }

    /// Runs the plan as [`Session::run`] does, and gives the time of each step.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn profile(&mut self, inputs: &[&Tensor]) -> Result<Vec<Duration>, SessionError> {
        self.prepare(inputs)?;
        let arena = self.arena.bytes_mut().as_mut_ptr();
        let mut times = Vec::with_capacity(self.kernels.len());
        for step in 0..self.kernels.len() {
            let start = Instant::now();
            self.step(step, arena);
            times.push(start.elapsed());
        }
        self.finish(inputs);
        Ok(times)
    }

    fn prepare(&mut self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        if inputs.len() != self.plan.inputs.len() {
            return Err(SessionError::Input(format!(
                "the model takes {} input(s), {} were given",
                self.plan.inputs.len(),
                inputs.len()
            )));
        }
        for ((name, ty), tensor) in self.plan.inputs.iter().zip(inputs) {
            if tensor.ty() != ty {
                return Err(SessionError::Input(format!(
                    "input `{name}` is {ty}, and {} was given",
                    tensor.ty()
                )));
            }
        }
        for (operand, input, offset) in &self.from_inputs {
            self.operands[*operand] = inputs[*input].bytes().as_ptr().wrapping_add(*offset);
        }
        Ok(())
    }

    fn step(&self, index: usize, arena: *mut u8) {
        let step = &self.plan.steps[index];
        let inputs = &self.operands[self.starts[index]..self.starts[index + 1]];
        if let Some(operand) = step.copied {
            // SAFETY: both are of the operand's type, which is the result's, and the plan gives
            // buffers that are live together places apart.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    inputs[operand],
                    arena.wrapping_add(step.output.offset),
                    step.output_type.bytes(),
                );
            }
        }
        self.kernels[index].run(&Args {
            inputs,
            output: arena.wrapping_add(step.output.offset),
            scratch: arena.wrapping_add(step.scratch_offset),
            team: &self.team,
        });
    }

    fn finish(&mut self, inputs: &[&Tensor]) {
        for ((_, _, place), output) in self.plan.outputs.iter().zip(&mut self.outputs) {
            let Place { base, offset } = *place;
            let source = match base {
                Base::Input(input) => inputs[input].bytes(),
                Base::Constant(node) => self.constants[&node].bytes(),
                Base::Arena => self.arena.bytes(),
            };
            let target = output.bytes_mut();
            target.copy_from_slice(&source[offset..offset + target.len()]);
        }
    }
}

/// The constants that steps and outputs read.
fn wanted_constants(plan: &Plan) -> Vec<NodeId> {
    let places =
        plan.steps.iter().flat_map(|step| &step.inputs).chain(plan.outputs.iter().map(|output| &output.2));
    let mut wanted: Vec<NodeId> = places
        .filter_map(|place| match place.base {
            Base::Constant(node) => Some(node),
            _ => None,
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}
