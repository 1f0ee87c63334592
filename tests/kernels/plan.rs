//! Runs a plan step by step in an arena in which all dead memory is poison.

use super::common;
use super::guarded::{GUARD, Guarded, POISON, agrees, tensor};
use super::{apart, coverage};
use libtest_mimic::Failed;
use ovolo::backend::{Args, Call};
use ovolo::graph::{Graph, NodeId};
use ovolo::plan::{Base, Place, Plan};
use ovolo::session::Session;
use ovolo::team::Team;
use ovolo::tensor::{Tensor, TensorType};
use std::collections::BTreeMap;
use std::ops::Range;

/// Compiles a graph, runs its plan among poison, and compares the outputs with the reference evaluation; or,
/// if that takes too long, with the same kernels in separate buffers, bit for bit. The outputs of the session
/// itself are compared with the latter as well.
pub fn holds(graph: &Graph, pipeline: &str, reference: bool) -> Result<(), Failed> {
    let inputs = common::inputs(graph);
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
        .map_err(|error| error.to_string())?;
    let mut session = Session::new(&compilation.program, compilation.plan, common::registry().backends())
        .map_err(|error| error.to_string())?;
    let outputs = run(&session, &inputs)?;
    let constants = session.constants().into_iter().collect();
    let apart = apart::run(&compilation.program, &constants, &inputs, session.plan().threads)?;
    let own = session.run(&inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    for (at, want) in apart.iter().enumerate() {
        for (got, place) in [(&outputs[at], "a run among poison"), (&own[at], "a run by a session")] {
            if got.ty() != want.ty() || got.bytes() != want.bytes() {
                return Err(
                    format!("output {at} differs between {place} and separate buffers, of\n{graph}").into()
                );
            }
        }
    }
    if reference {
        for (at, (got, want)) in outputs.iter().zip(&common::reference(graph, &inputs)).enumerate() {
            agrees(got, want).map_err(|why| format!("output {at} of\n{graph}\n{why}"))?;
        }
    }
    for step in &session.plan().steps {
        coverage::note(step.op, &step.implementation);
    }
    Ok(())
}

/// Returns the outputs of a session's plan.
fn run(session: &Session, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let plan = session.plan();
    let constants: BTreeMap<NodeId, &Tensor> = session.constants().into_iter().collect();
    plan.check(&|node| constants.get(&node).map(|constant| constant.bytes().len()))
        .map_err(|why| why.to_string())?;
    let mut held: Vec<Guarded> = inputs.iter().map(|input| Guarded::holding(input.bytes())).collect();
    let given: Vec<*const u8> = held.iter_mut().map(|input| input.pointer().cast_const()).collect();
    let mut arena = Guarded::poisoned(plan.arena);
    let live = live(plan);
    let team = Team::new(plan.threads);
    for (at, step) in plan.steps.iter().enumerate() {
        let types: Vec<&TensorType> = step.input_types.iter().collect();
        let call = Call {
            op: step.op,
            attrs: &step.attrs,
            inputs: &types,
            output: &step.output_type,
            threads: plan.threads,
        };
        let kernel = call.kernel().map_err(|why| why.to_string())?;
        let before = arena.all_mut().to_vec();
        let base = arena.pointer();
        let pointers: Vec<*const u8> = step
            .inputs
            .iter()
            .map(|place| match place.base {
                Base::Input(input) => given[input].wrapping_add(place.offset),
                Base::Constant(node) => constants[&node].bytes().as_ptr().wrapping_add(place.offset),
                Base::Arena(_) => base.cast_const().wrapping_add(place.offset),
            })
            .collect();
        if let Some(operand) = step.copied {
            // SAFETY: the operand is as long as the result and does not overlap it.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    pointers[operand],
                    base.wrapping_add(step.output.offset),
                    step.output_type.bytes(),
                );
            }
        }
        let args = Args {
            inputs: &pointers,
            output: base.wrapping_add(step.output.offset),
            scratch: base.wrapping_add(step.scratch_offset),
            team: &team,
        };
        // SAFETY: the session has checked that the plan gives this kernel the buffers that its contract asks for.
        unsafe { kernel.run(&args) };
        let output = range(step.output.offset, step.output_type.bytes());
        let scratch = range(step.scratch_offset, step.scratch);
        let mut from = 0;
        let mut written = [output, scratch];
        written.sort_by_key(|range| range.start);
        let after = arena.all_mut();
        for to in written.iter().chain([&(after.len()..after.len())]) {
            if from < to.start && before[from..to.start] != after[from..to.start] {
                return Err(format!("step `{}` writes outside its result and its scratch", step.name));
            }
            from = from.max(to.end);
        }
        let mut from = GUARD;
        for to in live[at].iter().chain([&(GUARD + plan.arena..usize::MAX)]) {
            if from < to.start {
                after[from..to.start].fill(POISON);
            }
            from = from.max(to.end);
        }
    }
    if held.iter().zip(inputs).any(|(held, input)| !held.is_intact() || held.bytes() != input.bytes()) {
        return Err("an input or memory around it was written".into());
    }
    let output = |(_, ty, place): &(_, TensorType, Place)| {
        let bytes = match place.base {
            Base::Input(input) => inputs[input].bytes(),
            Base::Constant(node) => constants[&node].bytes(),
            Base::Arena(_) => arena.bytes(),
        };
        tensor(ty, &bytes[place.offset..][..ty.bytes()])
    };
    Ok(plan.outputs.iter().map(output).collect())
}

fn range(offset: usize, length: usize) -> Range<usize> {
    GUARD + offset..GUARD + offset + length
}

/// The ranges of the arena that are live after each step, in order.
fn live(plan: &Plan) -> Vec<Vec<Range<usize>>> {
    let in_arena = |place: &Place, ty: &TensorType| {
        matches!(place.base, Base::Arena(_)).then(|| range(place.offset, ty.bytes()))
    };
    let mut now: Vec<Range<usize>> =
        plan.outputs.iter().filter_map(|(_, ty, place)| in_arena(place, ty)).collect();
    let mut after = Vec::new();
    for step in plan.steps.iter().rev() {
        now.sort_by_key(|range| range.start);
        after.push(now.clone());
        let gone = range(step.output.offset, step.output_type.bytes());
        now = now
            .into_iter()
            .flat_map(|one| [one.start..one.end.min(gone.start), one.start.max(gone.end)..one.end])
            .filter(|one| one.start < one.end)
            .collect();
        now.extend(step.inputs.iter().zip(&step.input_types).filter_map(|(place, ty)| in_arena(place, ty)));
    }
    after.reverse();
    after
}
