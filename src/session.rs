//! Runs plans. The kernels of a plan are made once and its memory is allocated once; a run allocates nothing.

mod check;
mod constants;
mod device;
mod held;
mod observe;
mod output;
mod store;
mod workspace;

pub use device::DeviceTensor;
pub use held::Held;
pub use store::Store;
pub(crate) use workspace::Workspace;

use crate::backend::{Args, Artifacts, BackendError, Backends, Kernel, Loading, OpError, Runner, Unkept};
use crate::digest::Digest;
use crate::graph::{Graph, NodeId};
use crate::op::{Demand, Unmet};
use crate::plan::schedule::{self, Item, Schedule};
use crate::plan::{Base, Place, Plan, Unsound};
use crate::team::Team;
use crate::tensor::{DType, Device, Tensor, TensorType};
use output::Direct;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A plan with its kernels, constants, arena and threads.
pub struct Session {
    host: Host,
    schedule: Schedule,
    /// Runs the steps of a device.
    runner: Option<Box<dyn Runner>>,
    /// For each operand that lies in an input of the model: the index of the operand, that of the input, and the
    /// offset in bytes.
    from_inputs: Vec<(usize, usize, usize)>,
    /// For each operand that lies in the host's part of the arena: the index of the operand, and the offset in bytes.
    from_arena: Vec<(usize, usize)>,
    /// Owns the arena of the host's steps, if the runner does not.
    workspace: Arc<Workspace>,
    /// Owns the constants that are operands of the host's steps.
    constants: Constants,
    /// The recipes of the constants, if they come from a store.
    recipes: Recipes,
    /// For each operand in an output that steps write where it lies: the index of the operand, the index of the output in
    /// `direct`, and the offset.
    from_outputs: Vec<(usize, usize, usize)>,
    /// For each result in such an output: the step, the index of the output in `direct`, and the offset.
    into_outputs: Vec<(usize, usize, usize)>,
    /// The outputs that are next values of inputs, with these inputs, by their positions.
    next_values: Vec<(usize, usize)>,
    outputs: Vec<Tensor>,
}

/// The steps of the host, ready to run.
struct Host {
    plan: Plan,
    /// The kernel of each step; `None` for a step of a device.
    kernels: Vec<Option<Box<dyn Kernel>>>,
    /// What the op of each step demands of the elements of an operand.
    demands: Vec<Option<Demand>>,
    /// The operands of all steps, one after another.
    operands: Vec<*const u8>,
    /// The index at which the operands of each step begin.
    starts: Vec<usize>,
    /// The result of each step.
    results: Vec<*mut u8>,
    /// The outputs that steps write where they lie, and the address that these steps have for each. Next values of inputs
    /// are among them.
    direct: Vec<(Direct, *mut u8)>,
    /// The host's part of the arena. It belongs to the runner if the plan has one, and otherwise to the workspace, which
    /// may have moved it since the last run.
    arena: *mut u8,
    team: Arc<Team>,
}

// SAFETY: the pointers point into the constants, the outputs and the runner's arena, which the session owns, and during a
// run into the workspace, which it holds then, and into the inputs of the run.
unsafe impl Send for Host {}

/// The constants of a plan, by their nodes.
pub(crate) type Constants = FxHashMap<NodeId, Tensor>;

/// The recipes of the constants of a plan, by their nodes (see [`Store`]).
pub(crate) type Recipes = FxHashMap<NodeId, Digest>;

/// Checks a stored plan, with its constants, against the backends of this process.
///
/// # Errors
/// If the plan is not sound, or a backend now has another contract for one of its kernels.
pub(crate) fn check(plan: &Plan, constants: &Constants) -> Result<(), SessionError> {
    plan.check(&|node| constants.get(&node).map(|constant| constant.bytes().len()))
        .and_then(|()| check::contracts(plan))
        .map_err(Into::into)
}

/// Returns the constants of a plan in the order of the graph's nodes.
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
        why: OpError,
    },
    /// Too few or too many inputs are given.
    #[error("the model takes {wanted} input(s), {given} were given")]
    InputCount {
        /// Inputs of the model.
        wanted: usize,
        /// Inputs that were given.
        given: usize,
    },
    /// An input is of another type than the model's.
    #[error("input `{name}` is {wanted}, and {given} was given")]
    InputType {
        /// The input.
        name: String,
        /// Its type in the model.
        wanted: Box<TensorType>,
        /// The type of what was given.
        given: Box<TensorType>,
    },
    /// A run on the device alone needs an input or gives an output that lies on the host.
    #[error(
        "`{name}` lies on the host: put the pass `Resident(device: …)` first in the pipeline, so that inputs and outputs lie \
         on the device"
    )]
    OnHost {
        /// The input or output.
        name: String,
    },
    /// The memory of a plan cannot be allocated.
    #[error(
        "the system cannot allocate the plan's {0} bytes: give dimensions smaller sizes, or the plan a lower memory limit (`--memory-limit`)"
    )]
    Memory(usize),
    /// A device refuses a plan, or something went wrong on it.
    #[error(transparent)]
    Device(#[from] BackendError),
    /// A kernel panicked. The outputs of this run are lost; the session can run again.
    #[error("`{step}` ({op}): the kernel panicked: {message}")]
    Panicked {
        /// The value that the step computes.
        step: String,
        /// Its op.
        op: String,
        /// The message of the panic.
        message: String,
    },
    /// The elements of an operand are none that the op takes, such as an index out of range. The outputs of this run
    /// are lost; the session can run again.
    #[error("`{step}` ({op}): {why}")]
    Elements {
        /// The value that the step computes.
        step: String,
        /// Its op.
        op: String,
        /// What is wrong.
        why: Unmet,
    },
    /// A stored plan does not fit this process.
    #[error(transparent)]
    Stored(#[from] Unsound),
}

impl Session {
    /// Evaluates the nodes that a plan reads and that depend on constants alone, such as packed weights. This needs no
    /// device.
    pub fn constants_of(program: &Graph, plan: &Plan) -> Constants {
        constants::evaluate(program, &wanted_constants(plan), plan.threads, None).0
    }

    /// Loads a plan: evaluates what depends on constants alone, makes the kernels, and allocates the memory. The
    /// backends provide the runner for steps of a device.
    ///
    /// # Errors
    /// If the plan is not sound, or a backend refuses a kernel of it.
    pub fn new(program: &Graph, plan: Plan, backends: &Backends) -> Result<Self, SessionError> {
        Self::with(program, plan, backends, &Unkept)
    }

    /// Loads a plan as [`Session::new`] does, and keeps what backends compile for devices in a store of artifacts.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with(
        program: &Graph,
        plan: Plan,
        backends: &Backends,
        artifacts: &dyn Artifacts,
    ) -> Result<Self, SessionError> {
        let constants = Self::constants_of(program, &plan);
        Self::load(plan, constants, Recipes::default(), backends, artifacts)
    }

    /// Loads a plan as [`Session::with`] does, and shares constants with other sessions through a store.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn sharing(
        program: &Graph,
        plan: Plan,
        backends: &Backends,
        artifacts: &dyn Artifacts,
        store: &Store,
    ) -> Result<Self, SessionError> {
        let wanted = wanted_constants(&plan);
        let (constants, recipes) = constants::evaluate(program, &wanted, plan.threads, Some(store));
        Self::load(plan, constants, recipes, backends, artifacts)
    }

    /// Loads a stored plan, with the constants that it reads.
    ///
    /// # Errors
    /// If the plan is not sound, or a backend now has another contract for one of its kernels.
    pub fn stored(
        plan: Plan,
        constants: Constants,
        backends: &Backends,
        artifacts: &dyn Artifacts,
    ) -> Result<Self, SessionError> {
        Self::load(plan, constants, Recipes::default(), backends, artifacts)
    }

    /// Loads a plan. It is always checked, since anybody can change its public fields and running it relies on it
    /// being sound.
    pub(crate) fn load(
        plan: Plan,
        constants: Constants,
        recipes: Recipes,
        backends: &Backends,
        artifacts: &dyn Artifacts,
    ) -> Result<Self, SessionError> {
        check(&plan, &constants)?;
        let team = Arc::new(Team::new(plan.threads));
        let take = |ty: TensorType| {
            let bytes = ty.bytes();
            Tensor::try_zeros(ty).ok_or(SessionError::Memory(bytes))
        };
        let schedule = Schedule::new(&plan);
        let mut runner = runner(&plan, &schedule, &constants, backends, artifacts)?;
        let workspace = Arc::new(Workspace::new(if runner.is_some() { 0 } else { plan.arena })?);
        // A run sets these addresses if the arena lies in the workspace.
        let arena = runner.as_mut().map_or(std::ptr::null_mut(), |runner| runner.arena());
        let base = arena.cast_const();
        let mut kernels = Vec::with_capacity(plan.steps.len());
        let mut demands = Vec::with_capacity(plan.steps.len());
        let (mut operands, mut starts) = (Vec::new(), Vec::new());
        let (mut from_inputs, mut from_arena) = (Vec::new(), Vec::new());
        let (mut from_outputs, mut into_outputs) = (Vec::new(), Vec::new());
        // A runner copies the values that its device needs from its own arena.
        let direct = if runner.is_some() { Vec::new() } else { output::direct(&plan) };
        let in_output = |step: usize, place: Place| {
            direct.iter().enumerate().find_map(|(at, one)| Some((at, one.offset(step, place)?)))
        };
        for (at, step) in plan.steps.iter().enumerate() {
            let refused =
                |why| SessionError::Kernel { name: step.name.to_string(), op: step.op.to_string(), why };
            kernels.push(match schedule::device(step) {
                Some(_) => None,
                None => {
                    let kernel = check::ask(step, plan.threads, |call| call.kernel());
                    Some(kernel.map_err(refused)?)
                }
            });
            demands
                .push(check::ask(step, plan.threads, |call| Demand::new(call.op, call.attrs, call.inputs)));
            starts.push(operands.len());
            if let Some((output, offset)) = in_output(at, step.output) {
                into_outputs.push((at, output, offset));
            }
            for place in &step.inputs {
                if let Some((output, offset)) = in_output(at, *place) {
                    from_outputs.push((operands.len(), output, offset));
                    operands.push(std::ptr::null());
                    continue;
                }
                let pointer = match place.base {
                    Base::Input(input) => {
                        from_inputs.push((operands.len(), input, place.offset));
                        std::ptr::null()
                    }
                    Base::Constant(node) => constants[&node].bytes().as_ptr().wrapping_add(place.offset),
                    Base::Arena(Device::Host) => {
                        from_arena.push((operands.len(), place.offset));
                        base.wrapping_add(place.offset)
                    }
                    // The runner has its own addresses for values on the device.
                    Base::Arena(Device::Accelerator(..)) => std::ptr::null(),
                };
                operands.push(pointer);
            }
        }
        starts.push(operands.len());
        let outputs = plan.outputs.iter().map(|(_, ty, _)| take(on_host(ty))).collect::<Result<_, _>>()?;
        let results = plan.steps.iter().map(|step| arena.wrapping_add(step.output.offset)).collect();
        let direct = direct.into_iter().map(|one| (one, std::ptr::null_mut())).collect();
        let next_values = output::next_values(&plan);
        let host = Host { plan, kernels, demands, operands, starts, results, direct, arena, team };
        Ok(Self {
            host,
            schedule,
            runner,
            from_inputs,
            from_arena,
            workspace,
            constants,
            recipes,
            from_outputs,
            into_outputs,
            next_values,
            outputs,
        })
    }

    /// Makes the session run in a workspace. Sessions in one workspace take turns.
    ///
    /// # Errors
    /// [`SessionError::Memory`] if the workspace is too small and cannot be made larger.
    pub fn within(mut self, workspace: &Arc<Workspace>) -> Result<Self, SessionError> {
        if self.runner.is_none() {
            workspace.reserve(self.plan().arena)?;
            self.workspace = Arc::clone(workspace);
        }
        Ok(self)
    }

    /// Makes the session run on a given team. Other sessions may run on the same team, from any thread; their runs take
    /// turns if the team has several threads.
    ///
    /// # Panics
    /// If the number of the team's threads is not that of the plan, since kernels have scratch memory for each
    /// thread of the plan.
    #[must_use]
    pub fn on(mut self, team: &Arc<Team>) -> Self {
        assert_eq!(team.threads(), self.plan().threads, "a plan runs on a team of its own size");
        self.host.team = Arc::clone(team);
        self
    }

    /// Returns what is different from the plan, one line each: a device may lack the implementation of a library that
    /// the plan was made for, and then another one runs.
    pub fn notes(&self) -> &[String] {
        self.runner.as_ref().map_or(&[], |runner| runner.notes())
    }

    /// Returns the threads, to share them with other sessions.
    pub(crate) fn shared_team(&self) -> Arc<Team> {
        Arc::clone(&self.host.team)
    }

    /// Returns the threads.
    pub fn team(&self) -> &Team {
        &self.host.team
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.host.plan
    }

    /// Returns the positions of the outputs that steps write where the caller reads them. The others are copied there
    /// after the last step.
    pub fn direct_outputs(&self) -> Vec<usize> {
        self.host.direct.iter().map(|(direct, _)| direct.output).collect()
    }

    /// Returns the constants that the plan reads, in the order of the graph's nodes.
    pub fn constants(&self) -> Vec<(NodeId, &Tensor)> {
        in_order(&self.constants)
    }

    /// Returns the recipes of the constants, if they come from a store.
    pub(crate) fn recipes(&self) -> &Recipes {
        &self.recipes
    }

    /// Returns the number of bytes of the constants that the plan reads.
    pub fn constant_bytes(&self) -> usize {
        self.constants.values().map(|tensor| tensor.bytes().len()).sum()
    }

    /// Runs the plan on inputs in the model's order. Returns the outputs, which are valid until the next run.
    ///
    /// # Errors
    /// If an input is not of the type that the plan was made for, a device reports an error, or a kernel panics.
    /// The session can run again after each of them.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<&[Tensor], SessionError> {
        self.begin(inputs)?;
        self.run_checked(inputs)?;
        Ok(&self.outputs)
    }

    /// Runs the plan as [`Session::run`] does, and replaces each input by its next value, which is the output with the
    /// input's name and type, if there is one. Where steps write it in the place of the input, no bytes are copied, unless
    /// others share them.
    ///
    /// # Errors
    /// As [`Session::run`]. After an error of a device or of a kernel, an input may be replaced in part.
    pub fn advance(&mut self, inputs: &mut [Tensor]) -> Result<&[Tensor], SessionError> {
        self.check_inputs(&inputs.iter().collect::<Vec<_>>())?;
        let replaced: Vec<(usize, usize)> = self.replaced().collect();
        let nothing = Tensor::zeros(TensorType::plain(DType::U8, [0]));
        for (output, _) in &replaced {
            // The session gives up the value of the last run, so that only the caller has it.
            if let Some(output) = self.outputs.get_mut(*output) {
                *output = nothing.clone();
            }
        }
        self.make_outputs();
        for (output, input) in &replaced {
            self.outputs[*output] = std::mem::replace(&mut inputs[*input], nothing.clone());
        }
        let result = self.run_checked(&inputs.iter().collect::<Vec<_>>());
        for (output, input) in &replaced {
            inputs[*input] = self.outputs[*output].clone();
        }
        result?;
        for (output, input) in &self.next_values {
            inputs[*input] = self.outputs[*output].clone();
        }
        Ok(&self.outputs)
    }

    /// Runs the plan on inputs that were checked.
    fn run_checked(&mut self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        let workspace = Arc::clone(&self.workspace);
        let mut held = workspace.hold();
        self.prepare(inputs, &mut held)?;
        let team = Arc::clone(&self.host.team);
        let _turn = team.turn();
        match &mut self.runner {
            None => (0..self.host.kernels.len()).try_for_each(|step| self.host.step(step))?,
            Some(runner) => self.host.run_with(&mut **runner, &self.schedule, inputs)?,
        }
        self.finish(inputs)
    }

    /// Runs the plan as [`Session::run`] does, and hands the outputs over: nothing else has their bytes.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_owned(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        self.run(inputs)?;
        Ok(std::mem::take(&mut self.outputs))
    }

    /// Runs the plan as [`Session::run`] does, and returns the time of each step.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn profile(&mut self, inputs: &[&Tensor]) -> Result<Vec<Duration>, SessionError> {
        self.begin(inputs)?;
        let workspace = Arc::clone(&self.workspace);
        let mut held = workspace.hold();
        self.prepare(inputs, &mut held)?;
        let mut times = Vec::with_capacity(self.host.kernels.len());
        if let Some(runner) = &mut self.runner {
            runner.begin(inputs)?;
        }
        for step in 0..self.host.kernels.len() {
            let start = Instant::now();
            match &mut self.runner {
                Some(runner) if self.host.kernels[step].is_none() => {
                    runner.alone(step)?;
                }
                _ => self.host.step(step)?,
            }
            times.push(start.elapsed());
        }
        self.finish(inputs)?;
        Ok(times)
    }

    /// Checks the inputs, and prepares the outputs for a run that leaves the inputs as they are.
    fn begin(&mut self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        self.check_inputs(inputs)?;
        self.make_outputs();
        self.copy_replaced(inputs);
        Ok(())
    }

    /// Checks that the inputs are those that the plan was made for.
    fn check_inputs(&self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        let wanted = &self.host.plan.inputs;
        if inputs.len() != wanted.len() {
            return Err(SessionError::InputCount { wanted: wanted.len(), given: inputs.len() });
        }
        for ((name, ty), tensor) in wanted.iter().zip(inputs) {
            let wanted = on_host(ty);
            if *tensor.ty() != wanted {
                return Err(SessionError::InputType {
                    name: name.to_string(),
                    wanted: Box::new(wanted),
                    given: Box::new(tensor.ty().clone()),
                });
            }
        }
        Ok(())
    }

    /// Sets the addresses of operands and results. `held` is the memory of the workspace.
    fn prepare(&mut self, inputs: &[&Tensor], held: &mut Tensor) -> Result<(), SessionError> {
        if let Some(runner) = &mut self.runner {
            device::write_inputs(&mut **runner, &self.host.plan, inputs)?;
        }
        for (operand, input, offset) in &self.from_inputs {
            self.host.operands[*operand] = inputs[*input].bytes().as_ptr().wrapping_add(*offset);
        }
        let arena = held.bytes_mut().as_mut_ptr();
        let moved = self.runner.is_none() && arena != self.host.arena;
        if moved {
            self.host.arena = arena;
            for (operand, offset) in &self.from_arena {
                self.host.operands[*operand] = arena.cast_const().wrapping_add(*offset);
            }
            for (result, step) in self.host.results.iter_mut().zip(&self.host.plan.steps) {
                *result = arena.wrapping_add(step.output.offset);
            }
        }
        self.find_outputs(moved);
        Ok(())
    }

    /// Makes the outputs that were handed over anew.
    fn make_outputs(&mut self) {
        if self.outputs.is_empty() {
            self.outputs =
                self.host.plan.outputs.iter().map(|(_, ty, _)| Tensor::zeros(on_host(ty))).collect();
        }
    }

    /// Returns the outputs that steps write in the place of inputs, with these inputs.
    fn replaced(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.host.direct.iter().filter_map(|(direct, _)| Some((direct.output, direct.input()?)))
    }

    /// Gives the outputs that steps write in the place of inputs the bytes of these inputs, which stay as they are.
    fn copy_replaced(&mut self, inputs: &[&Tensor]) {
        let Self { host, outputs, .. } = self;
        for (direct, _) in &host.direct {
            if let Some(input) = direct.input() {
                let (source, target) = (inputs[input].bytes(), outputs[direct.output].bytes_for_all());
                // SAFETY: the input and the output have the same type, and the output shares its bytes with nobody.
                unsafe { output::copy(&host.team, source.as_ptr(), target.as_mut_ptr(), target.len()) };
            }
        }
    }

    /// Sets the addresses of the outputs that steps write where they lie. `moved` says that addresses of results were
    /// overwritten.
    fn find_outputs(&mut self, mut moved: bool) {
        for (direct, known) in &mut self.host.direct {
            let output = &mut self.outputs[direct.output];
            // What lies in the place of an input begins with the bytes of the input.
            let bytes = if direct.input().is_some() { output.bytes_mut() } else { output.bytes_for_all() };
            let address = bytes.as_mut_ptr();
            moved |= address != std::mem::replace(known, address);
        }
        if moved {
            for (operand, output, offset) in &self.from_outputs {
                self.host.operands[*operand] = self.host.direct[*output].1.cast_const().wrapping_add(*offset);
            }
            for (step, output, offset) in &self.into_outputs {
                self.host.results[*step] = self.host.direct[*output].1.wrapping_add(*offset);
            }
        }
    }

    /// Copies the outputs that steps did not write where they lie.
    fn finish(&mut self, inputs: &[&Tensor]) -> Result<(), SessionError> {
        let Host { plan, arena, team, .. } = &self.host;
        let mut direct = self.host.direct.iter().map(|(direct, _)| direct.output).peekable();
        for (at, ((_, ty, place), output)) in plan.outputs.iter().zip(&mut self.outputs).enumerate() {
            if direct.next_if_eq(&at).is_some() {
                continue;
            }
            if let (Some(runner), true) = (&mut self.runner, device::holds(ty, *place)) {
                runner.read(*place, output.bytes_for_all())?;
                continue;
            }
            let Place { base, offset } = *place;
            let replaced = || self.host.direct.iter().find(|(direct, _)| direct.base == base);
            let source = match base {
                Base::Input(input) => match replaced() {
                    Some((_, next)) => next.cast_const(),
                    None => inputs[input].bytes().as_ptr(),
                },
                Base::Constant(node) => self.constants[&node].bytes().as_ptr(),
                Base::Arena(_) => arena.cast_const(),
            };
            let target = output.bytes_for_all();
            // SAFETY: `load` has checked that the place lies within the input, the constant or the arena, none of which
            // is written any more, and the output is the session's own.
            unsafe { output::copy(team, source.wrapping_add(offset), target.as_mut_ptr(), target.len()) };
        }
        Ok(())
    }
}

impl Host {
    /// Runs the schedule of a plan with a device. If a run stops in the middle, the runner abandons it when the
    /// next one begins.
    fn run_with(
        &self,
        runner: &mut dyn Runner,
        schedule: &Schedule,
        inputs: &[&Tensor],
    ) -> Result<(), SessionError> {
        runner.begin(inputs)?;
        for item in &schedule.items {
            match *item {
                Item::Segment(segment) => runner.launch(segment)?,
                Item::Host(step, after) => {
                    after.map_or(Ok(()), |segment| runner.wait(segment))?;
                    self.step(step)?;
                }
            }
        }
        runner.end().map_err(Into::into)
    }

    /// Runs one step, if it is one of the host.
    fn step(&self, index: usize) -> Result<(), SessionError> {
        let (Some(kernel), arena) = (&self.kernels[index], self.arena) else { return Ok(()) };
        let step = &self.plan.steps[index];
        let inputs = &self.operands[self.starts[index]..self.starts[index + 1]];
        let args = Args {
            inputs,
            output: self.results[index],
            scratch: arena.wrapping_add(step.scratch_offset),
            team: &self.team,
        };
        if let Some(demand) = &self.demands[index] {
            let bytes = step.input_types[demand.operand].bytes();
            // SAFETY: `load` has checked that the operand lies within its memory, and steps before have written it.
            let bytes = unsafe { std::slice::from_raw_parts(inputs[demand.operand], bytes) };
            demand.check(bytes).map_err(|why| SessionError::Elements {
                step: step.name.to_string(),
                op: step.op.to_string(),
                why,
            })?;
        }
        if let Some(operand) = step.copied {
            // SAFETY: `load` has checked that both lie within their memory, have the same size and are apart.
            unsafe { output::copy(&self.team, inputs[operand], args.output, step.output_type.bytes()) };
        }
        // SAFETY: `load` has checked that the op takes these types, that each buffer lies within the input, the
        // constant or the arena it belongs to and is aligned, that what is live in the arena is apart, and that the
        // contract for this call still asks for exactly these buffers. A buffer of the arena in whose place an output is
        // used has no larger values, and the output is as aligned. The inputs have the plan's types, and are
        // borrowed for the whole run. Only this session uses its arena: it belongs to its runner, whose device does not
        // touch it while the host runs a step that shares bytes with it, or to the workspace, which is at least as large
        // and is held for the whole run. The team has the plan's threads.
        let run = || unsafe { kernel.run(&args) };
        // Kernels may be run again after a panic, and the next run overwrites what this one has left in the arena.
        catch_unwind(AssertUnwindSafe(run)).map_err(|payload| SessionError::Panicked {
            step: step.name.to_string(),
            op: step.op.to_string(),
            message: message(&*payload),
        })
    }
}

/// Returns a type with its values in the host's memory.
fn on_host(ty: &TensorType) -> TensorType {
    TensorType { device: Device::Host, ..ty.clone() }
}

/// Returns the message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without a text)").to_owned()
}

/// Makes the runner of the steps that run on a device, if there are any.
fn runner(
    plan: &Plan,
    schedule: &Schedule,
    constants: &FxHashMap<NodeId, Tensor>,
    backends: &Backends,
    artifacts: &dyn Artifacts,
) -> Result<Option<Box<dyn Runner>>, BackendError> {
    let home = |name| backends.get(name).map_or(name, |backend| backend.runs_with());
    let mut names = plan.steps.iter().filter_map(schedule::device).map(home);
    let Some(name) = names.next() else {
        return device::host_alone(plan).map(|()| None);
    };
    if let Some(other) = names.find(|other| *other != name) {
        return Err(BackendError::TwoDevices { one: name.to_owned(), other: other.to_owned() });
    }
    let backend = backends.find(name)?;
    device::fits(plan, name)?;
    let loading = Loading { plan, schedule, constants, artifacts };
    match backend.runner(&loading) {
        Some(runner) => runner.map(Some),
        None => Err(BackendError::NoDevice { backend: name.to_owned() }),
    }
}

/// Returns the constants that steps and outputs read.
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
