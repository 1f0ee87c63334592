//! Running a plan: kernels built once, memory fixed, no allocation while running.

mod check;
mod constants;

use crate::backend::cuda::nvrtc::{Fresh, Source};
use crate::backend::{self, Args, Kernel, Loading, Runner, team::Team};
use crate::graph::{Graph, NodeId};
use crate::plan::schedule::{self, Item, Schedule};
use crate::plan::{Base, Place, Plan};
use crate::tensor::{DType, Device, Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A plan with its kernels, constants, arena and threads.
pub struct Session {
    plan: Plan,
    schedule: Schedule,
    /// Of each step that is the host's.
    kernels: Vec<Option<Box<dyn Kernel>>>,
    /// The steps of a device.
    runner: Option<Box<dyn Runner>>,
    /// The operands of all steps, one after another.
    operands: Vec<*const u8>,
    /// For each operand that an input of the model provides: which operand, which input, the offset.
    from_inputs: Vec<(usize, usize, usize)>,
    /// Where the operands of each step begin.
    starts: Vec<usize>,
    /// The host's part of the arena: the runner's, where there is one.
    arena: *mut u8,
    /// Kept alive for `arena`.
    _own: Tensor,
    /// Kept alive for the pointers in `operands`.
    constants: Constants,
    outputs: Vec<Tensor>,
    team: Arc<Team>,
}

// SAFETY: the pointers point into the arena, `constants` (owned) or the inputs of the present call.
unsafe impl Send for Session {}

/// The constants of a plan, by their nodes.
pub type Constants = FxHashMap<NodeId, Tensor>;

/// Evaluates what a plan reads and depends on constants alone, packed weights among it. It takes no device.
pub fn constants(program: &Graph, plan: &Plan) -> Constants {
    constants::evaluate(program, &wanted_constants(plan), plan.threads)
}

/// Checks a plan that was stored, with its constants, against the backends of this process.
///
/// # Errors
/// If it is not sound, or a backend's contract for a kernel is no longer what it was.
pub fn check(plan: &Plan, constants: &Constants) -> Result<(), SessionError> {
    plan.check(&|node| constants.get(&node).map(|constant| constant.bytes().len()))
        .and_then(|()| check::contracts(plan))
        .map_err(SessionError::Stored)
}

/// The constants of a plan in the program's order.
pub fn in_order(constants: &Constants) -> Vec<(NodeId, &Tensor)> {
    let mut list: Vec<_> = constants.iter().map(|(node, tensor)| (*node, tensor)).collect();
    list.sort_unstable_by_key(|(node, _)| *node);
    list
}

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
    /// A device refuses a plan, or something went wrong on it.
    #[error("{0}")]
    Device(String),
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
        Self::with(program, plan, &Fresh)
    }

    /// As [`Session::new`], with machine code for devices from where it is kept.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with(program: &Graph, plan: Plan, code: &dyn Source) -> Result<Self, SessionError> {
        let constants = constants(program, &plan);
        Self::load(plan, constants, code)
    }

    /// Loads a plan that was stored, with the constants that it reads.
    ///
    /// # Errors
    /// If the plan is not sound, or a backend's contract for a kernel is no longer what it was.
    pub fn stored(plan: Plan, constants: Constants, code: &dyn Source) -> Result<Self, SessionError> {
        check(&plan, &constants)?;
        Self::load(plan, constants, code)
    }

    fn load(plan: Plan, constants: Constants, code: &dyn Source) -> Result<Self, SessionError> {
        let team = Arc::new(Team::new(plan.threads));
        let take = |ty: TensorType| {
            let bytes = ty.bytes();
            Tensor::try_zeros(ty).ok_or(SessionError::Memory(bytes))
        };
        let schedule = Schedule::new(&plan);
        let mut runner = runner(&plan, &schedule, &constants, code).map_err(SessionError::Device)?;
        let bytes = if runner.is_some() { 0 } else { plan.arena };
        let mut own = take(TensorType::plain(DType::U8, [bytes.max(1)]))?;
        let arena = match &mut runner {
            Some(runner) => runner.arena(),
            None => own.bytes_mut().as_mut_ptr(),
        };
        let base = arena.cast_const();
        let mut kernels = Vec::with_capacity(plan.steps.len());
        let (mut operands, mut from_inputs, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for step in &plan.steps {
            let refused =
                |why| SessionError::Kernel { name: step.name.to_string(), op: step.op.to_owned(), why };
            kernels.push(match schedule::device(step) {
                Some(_) => None,
                None => {
                    let kernel = check::ask(step, plan.threads, |backend, call| backend.kernel(call));
                    Some(kernel.map_err(refused)?)
                }
            });
            starts.push(operands.len());
            for place in &step.inputs {
                let pointer = match place.base {
                    Base::Input(input) => {
                        from_inputs.push((operands.len(), input, place.offset));
                        std::ptr::null()
                    }
                    Base::Constant(node) => constants[&node].bytes().as_ptr().wrapping_add(place.offset),
                    Base::Arena(Device::Host) => base.wrapping_add(place.offset),
                    // The runner's, which has places of its own for what is there.
                    Base::Arena(Device::Cuda(_)) => std::ptr::null(),
                };
                operands.push(pointer);
            }
        }
        starts.push(operands.len());
        let outputs = plan.outputs.iter().map(|(_, ty, _)| take(ty.clone())).collect::<Result<_, _>>()?;
        Ok(Self {
            plan,
            schedule,
            kernels,
            runner,
            operands,
            from_inputs,
            starts,
            arena,
            _own: own,
            constants,
            outputs,
            team,
        })
    }

    /// The same on a team of as many threads that other sessions run on as well, one at a time.
    ///
    /// # Panics
    /// If the team has another number of threads: kernels have scratch for each of the plan's.
    #[must_use]
    pub fn on(mut self, team: &Arc<Team>) -> Self {
        assert_eq!(team.threads(), self.plan.threads, "a plan runs on a team of its own size");
        self.team = Arc::clone(team);
        self
    }

    /// The threads.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The constants that the plan reads, in the program's order.
    pub fn constants(&self) -> Vec<(NodeId, &Tensor)> {
        in_order(&self.constants)
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
        match self.runner.take() {
            None => (0..self.kernels.len()).for_each(|step| self.step(step)),
            Some(mut runner) => {
                let run = self.run_with(&mut *runner, inputs);
                self.runner = Some(runner);
                run.map_err(SessionError::Device)?;
            }
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
        let mut times = Vec::with_capacity(self.kernels.len());
        if let Some(runner) = &mut self.runner {
            runner.begin(inputs).map_err(SessionError::Device)?;
        }
        for step in 0..self.kernels.len() {
            let start = Instant::now();
            match &mut self.runner {
                Some(runner) if self.kernels[step].is_none() => {
                    runner.alone(step).map_err(SessionError::Device)?;
                }
                _ => self.step(step),
            }
            times.push(start.elapsed());
        }
        self.finish(inputs);
        Ok(times)
    }

    /// Runs the schedule of a plan with a device.
    fn run_with(&self, runner: &mut dyn Runner, inputs: &[&Tensor]) -> Result<(), String> {
        runner.begin(inputs)?;
        for item in &self.schedule.items {
            match *item {
                Item::Segment(segment) => runner.launch(segment)?,
                Item::Host(step, after) => {
                    after.map_or(Ok(()), |segment| runner.wait(segment))?;
                    self.step(step);
                }
            }
        }
        runner.end()
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

    fn step(&self, index: usize) {
        let (Some(kernel), arena) = (&self.kernels[index], self.arena) else { return };
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
        kernel.run(&Args {
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
                // SAFETY: the arena has these bytes, and nothing writes them any more.
                Base::Arena(_) => unsafe { std::slice::from_raw_parts(self.arena, self.plan.arena) },
            };
            let target = output.bytes_mut();
            target.copy_from_slice(&source[offset..offset + target.len()]);
        }
    }
}

/// What runs the steps of a plan that are a device's, where there are some.
fn runner(
    plan: &Plan,
    schedule: &Schedule,
    constants: &FxHashMap<NodeId, Tensor>,
    code: &dyn Source,
) -> Result<Option<Box<dyn Runner>>, String> {
    let inputs = plan.inputs.iter().map(|(name, ty)| (name, ty));
    for (name, ty) in inputs.chain(plan.outputs.iter().map(|(name, ty, _)| (name, ty))) {
        if ty.device != Device::Host {
            return Err(format!("`{name}` is {ty}: inputs and outputs of a plan are the host's"));
        }
    }
    let home = |name| backend::find(name).map_or(name, backend::Backend::runs_with);
    let mut names = plan.steps.iter().filter_map(schedule::device).map(home);
    let Some(name) = names.next() else { return Ok(None) };
    if let Some(other) = names.find(|other| *other != name) {
        return Err(format!("the plan has steps on the devices of `{name}` and of `{other}`"));
    }
    let backend = backend::find(name).ok_or_else(|| format!("there is no backend `{name}`"))?;
    let loading = Loading { plan, schedule, constants, code };
    match backend.runner(&loading) {
        Some(runner) => runner.map(Some),
        None => Err(format!("the backend `{name}` has no device")),
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
