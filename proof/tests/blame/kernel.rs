//! Kernels that disturb their results.

use super::{Tally, common, compared, network};
use ovolo::backend::{Args, Backend, Call, Kernel, OpError};
use ovolo::compile::Options;
use ovolo::op::Lowering;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::scalar::Function;
use ovolo::tensor::DType;
use ovolo_proof::compare::Part;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

/// The backend `native`, with one op whose kernel disturbs its result.
struct Faulty(&'static str);

/// Makes a call's kernel.
type KernelOf = fn(&Call<'_>) -> Result<Box<dyn Kernel>, OpError>;

/// The kernels that are disturbed, by their ops.
static OWN: LazyLock<Mutex<BTreeMap<&'static str, KernelOf>>> = LazyLock::new(Mutex::default);
/// How they are disturbed.
static WAY: AtomicUsize = AtomicUsize::new(0);

/// Ways to disturb the result of a kernel.
const WAYS: &[fn(&mut [f32])] = &[
    // All elements are a little too large.
    |result| result.iter_mut().for_each(|x| *x *= 1.01),
    // The last element is forgotten.
    |result| result.iter_mut().rev().take(1).for_each(|x| *x += 1.0),
    // Elements are stored at the wrong place.
    |result| {
        let half = result.len() / 2;
        result.swap(0, half);
    },
    // A sum starts with a rest of what was in memory.
    |result| result.iter_mut().step_by(7).for_each(|x| *x += 0.25),
];

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let own = OWN.lock().unwrap()[call.op.name];
    let count = if call.output.dtype == DType::F32 { call.output.bytes() / 4 } else { 0 };
    Ok(Box::new(Disturbed { own: own(call)?, count, way: WAY.load(Ordering::Relaxed) }))
}

fn disturbed(lowering: Lowering) -> Lowering {
    OWN.lock().unwrap().insert(lowering.name, lowering.kernel);
    Lowering { kernel, ..lowering }
}

// SAFETY: a kernel runs `native`'s own, and changes only elements of its result.
unsafe impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let change = |one: Lowering| if one.name == self.0 { disturbed(one) } else { one };
        ovolo_native::Native.ops().into_iter().map(change).collect()
    }

    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        let own = ovolo_native::Native.function(name, function)?;
        Some(if name == self.0 { disturbed(own) } else { own })
    }
}

struct Disturbed {
    own: Box<dyn Kernel>,
    count: usize,
    way: usize,
}

impl Kernel for Disturbed {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the caller's promise for this call is the one that the own kernel needs, and the result has this many
        // elements of `f32`.
        let result = unsafe {
            self.own.run(args);
            std::slice::from_raw_parts_mut(args.output.cast::<f32>(), self.count)
        };
        if self.count > 1 {
            WAYS[self.way](result);
        }
    }
}

fn registry(op: &'static str) -> Arc<Registry> {
    let mut registry = Registry::new();
    for op in ovolo_native::logical_ops() {
        registry.add_op(op).unwrap();
    }
    registry.add_backend(Arc::new(Faulty(op))).unwrap();
    Arc::new(registry)
}

fn options(registry: &Arc<Registry>) -> Options {
    let (name, text) = registry.pipeline("native").unwrap();
    let mut pipeline = Pipeline::read(&registry.scope(), name, text).unwrap();
    if let Some(extract) = pipeline.extract_mut() {
        extract.cost = Arc::new(ovolo::cost::pricing::ByFlops);
    }
    let rules = registry.rule_set().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Options { registry: Arc::clone(registry), rules, pipeline, ..common::options(1) }
}

/// Disturbs each kernel that a network's plan uses, one at a time.
pub fn faults(tally: &mut Tally) {
    let slow = std::env::var_os("OVOLO_SLOW_TESTS").is_some();
    let mut steps: BTreeMap<&'static str, BTreeSet<usize>> = BTreeMap::new();
    for (at, (_, graph)) in network::all(common::ops()).into_iter().enumerate() {
        for step in &common::compile(graph, 1).plan.steps {
            steps.entry(step.op.name).or_default().insert(at);
        }
    }
    for (number, (op, networks)) in steps.into_iter().enumerate() {
        let registry = registry(op);
        let mut options = options(&registry);
        let networks_here = network::all(registry.ops());
        let few = if slow { usize::MAX } else { 2 };
        for (turn, at) in networks.into_iter().take(few).enumerate() {
            let (name, graph) = &networks_here[at];
            for way in 0..WAYS.len() {
                if !slow && way != (number + turn) % WAYS.len() {
                    continue;
                }
                WAY.store(way, Ordering::Relaxed);
                let comparison = compared(graph, &mut options).unwrap_or_else(|why| panic!("{name}: {why}"));
                if comparison.departs() {
                    tally.count(&format!("{name}, way {way}"), &Part::Kernel(op.to_owned()), &comparison);
                }
            }
        }
    }
}
