//! Tests a registry in which a backend of another crate stands in place of `native`: the machine is calibrated with its
//! kernels, its trusted kernels check others, and plans are for its instruction sets.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;

use ovolo::backend::features::{InstructionSet, InstructionSets};
use ovolo::backend::{Args, Backend, BackendError, Call, Contract, Kernel, Probes};
use ovolo::cache::{self, Request};
use ovolo::compile::Options;
use ovolo::cost::{Entry, Machine, State};
use ovolo::graph::Graph;
use ovolo::host;
use ovolo::onnx::MissingWeights;
use ovolo::op::{Lowering, Op, OpError};
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo_native::Native;
use ovolo_tune::{Tuner, calibrate};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A backend with a few of the native kernels under names of its own, and with one kernel that is wrong.
#[derive(Default)]
struct Outsider {
    /// Whether it calls its product of matrices trusted.
    trusted: bool,
    /// The instruction set that its plans are made for.
    planned: OnceLock<InstructionSet>,
}

const SMALL: InstructionSet =
    InstructionSet { name: "small", features: &["short"], lanes: 4, runs_here: true };
const LARGE: InstructionSet =
    InstructionSet { name: "large", features: &["short", "long"], lanes: 32, runs_here: false };

impl InstructionSets for Outsider {
    fn all(&self) -> Vec<InstructionSet> {
        vec![SMALL, LARGE]
    }

    fn planned(&self) -> InstructionSet {
        *self.planned.get_or_init(|| SMALL)
    }

    fn baseline(&self) -> &'static str {
        SMALL.name
    }

    fn plan_for(&self, name: &str) -> Result<(), BackendError> {
        let wanted = self.all().into_iter().find(|set| set.name == name).unwrap();
        match *self.planned.get_or_init(|| wanted) == wanted {
            true => Ok(()),
            false => Err(BackendError::InstructionSet {
                wanted: name.to_owned(),
                why: "kernels are already planned for another one".to_owned(),
            }),
        }
    }
}

/// The same call of the native op of which a kernel comes.
fn native<'a>(call: &Call<'a>) -> Call<'a> {
    let name = call.op.name.replace("outsider", "native").replace("-wrong", "");
    Call { op: common::ops().get(&name).unwrap(), ..*call }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    native(call).contract()
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    native(call).kernel()
}

struct Off(Box<dyn Kernel>);

impl Kernel for Off {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.run(args) };
        // SAFETY: every result of the tests has more than one element of four bytes.
        unsafe { args.output.cast::<f32>().write(1e6) };
    }
}

// SAFETY: kernels and contracts are the native backend's for the same call; what is added writes within the result.
unsafe impl Backend for Outsider {
    fn name(&self) -> &'static str {
        "outsider"
    }

    fn ops(&self) -> Vec<Lowering> {
        let all = Native.ops();
        let own = |name, of: &str| {
            let native = all.iter().find(|op| op.name == of).unwrap();
            Lowering { name, contract, kernel, fallback: None, ..*native }
        };
        let product = own("outsider.matmul", "native.matmul");
        let wrong = Lowering {
            kernel: |call| Ok(Box::new(Off(kernel(call)?))),
            ..own("outsider.matmul-wrong", "native.matmul")
        };
        vec![product, wrong, Lowering::new("outsider.abs", "abs", contract, kernel)]
    }

    fn probes(&self) -> Option<Probes> {
        Some(Probes { product: "outsider.matmul", layouts: ["plain"; 2], copy: "outsider.abs" })
    }

    fn is_trusted(&self, op: Op) -> bool {
        self.trusted && op.name == "outsider.matmul"
    }

    fn instruction_sets(&self) -> Option<&dyn InstructionSets> {
        Some(self)
    }
}

const RULES: &str = r#"[
    Rule(name: "lower-matmul", from: "(matmul ?a ?b {*p})", to: "(outsider.matmul ?a ?b {*p})"),
    Rule(name: "lower-matmul-wrong", from: "(matmul ?a ?b {*p})", to: "(outsider.matmul-wrong ?a ?b {*p})"),
]"#;

const PIPELINE: &str = r#"Pipeline(
    name: "outsider",
    passes: [
        Rewrite(name: "lower", rules: ["outsider"]),
        Extract(extractor: "exact", cost: "measured"),
        Plan(order: "given", planner: "first-fit"),
    ],
    backends: ["outsider"],
)"#;

fn registry(trusted: bool) -> Registry {
    let mut registry = Registry::new();
    registry.add_backend(Arc::new(Outsider { trusted, ..Outsider::default() })).unwrap();
    registry
}

fn options(registry: Registry) -> Options {
    let rules = RuleSet::read(registry.vocabulary(), &[("rules/outsider.ron", RULES)])
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let pipeline = Pipeline::read(&registry.scope(), "passes/outsider.ron", PIPELINE)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Options::from_parts(&Arc::new(registry), rules, pipeline)
}

/// A product for which the reference evaluation would take too long.
fn graph(registry: &Registry) -> Graph {
    let text = "graph {
        x: f32[400,400] = input
        w: f32[400,400] = const ~1
        y = matmul(x, w)
        return y
    }";
    ovolo::graph::text::parse(registry.ops(), text).unwrap()
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    common::folder(&format!("outsider-{name}"))
}

/// The entries of the right and of the wrong kernel after tuning.
fn tuned(trusted: bool) -> [Entry; 2] {
    let options = options(registry(trusted));
    let folder = folder(if trusted { "trusted" } else { "untrusted" });
    let mut tuner = Tuner::open(Some(&folder), 1, Machine::NOMINAL, options.registry.backends());
    tuner.fill(&graph(&options.registry), &options).unwrap();
    ["outsider.matmul", "outsider.matmul-wrong"].map(|op| {
        let mut entries = tuner.stored().table.entries.iter();
        entries.find(|(key, _)| key.split(['(', '{']).next() == Some(op)).unwrap().1.clone()
    })
}

#[test]
fn kernels_are_checked_against_those_that_their_backend_trusts() {
    let [right, wrong] = tuned(true);
    assert_eq!(wrong.state, State::Wrong);
    assert!(wrong.error.unwrap() > 1.0, "{wrong:?}");
    assert_ne!(right.state, State::Wrong);
    // The trusted kernel is not compared with itself.
    assert_eq!(right.error, None);
    // Without trust there is nothing to compare with.
    let [_, unchecked] = tuned(false);
    assert_ne!(unchecked.state, State::Wrong);
    assert_eq!(unchecked.error, None);
}

#[test]
fn speeds_are_measured_by_the_backend_that_says_how() {
    cache::keep_in(folder("speeds"));
    let empty = Registry::new();
    assert!(!calibrate::can_measure(&empty));
    assert_eq!(calibrate::machine(&empty, 1).machine, Machine::NOMINAL);
    let registry = registry(false);
    assert!(calibrate::can_measure(&registry));
    let measured = calibrate::machine(&registry, 1).machine;
    let nominal = Machine::NOMINAL;
    assert!(measured.flops != nominal.flops && measured.memory != nominal.memory, "{measured:?}");
    assert_eq!(measured.lanes, SMALL.lanes);
    // Speeds hold for the backend whose kernels were measured.
    calibrate::keep_machine(registry.backends(), 1, measured).unwrap();
    assert_eq!(calibrate::kept(registry.backends(), 1), Some(measured));
    assert_eq!(calibrate::kept(registry.backends(), 2), None);
    assert_eq!(calibrate::kept(common::registry().backends(), 1), None);
}

#[test]
fn plans_are_for_the_instruction_set_of_the_backend() {
    let own = registry(false);
    assert_eq!(own.backends().planned_features(), ["short"]);
    assert!(host::validators(1, own.backends()).machine.contains(&"features short".to_owned()));
    let already = own.backends().plan_for("large").unwrap_err();
    assert_eq!(already.to_string(), "kernels are already planned for another one");
    let other = registry(false);
    let unknown = other.backends().plan_for("neon").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no instruction set `neon`: there are small, large");
    other.backends().plan_for("large").unwrap();
    assert_eq!(other.backends().planned_features(), ["short", "long"]);
    // Its kernels cannot measure a processor that lacks the instruction set.
    assert!(!calibrate::can_measure(&other));
    // The key of the cache names the features.
    let request = Request {
        model: common::root().join("examples/digits/digits.onnx"),
        weights: None,
        dims: [("N".to_owned(), 2)].into(),
        missing_weights: MissingWeights::Refuse,
        pipeline: Pipeline::read(&own.scope(), "passes/outsider.ron", PIPELINE).unwrap(),
        rules: vec![("rules/outsider.ron".into(), RULES.into())],
        threads: 1,
        calibration: None,
        builds: &[],
    };
    for (registry, features) in [(&own, "short"), (&other, "short long")] {
        assert_eq!(request.key(registry).unwrap().get("instruction sets"), Some(features));
    }
}
