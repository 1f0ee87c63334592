//! The stages of a compilation: questions are answered from what a compilation chooses from, and rules of absent
//! backends take part only where that is asked for.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../src/stage/search/room.rs"]
mod room;

use crate::common;
use crate::memory::Limit;
use ovolo::backend::{Backend, BackendError};
use ovolo::compile::{self, Options};
use ovolo::cost::{CostModel, Query};
use ovolo::egraph::Saturation;
use ovolo::graph::{Graph, text};
use ovolo::op::{Call, Lowering, OpError};
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::{AbsentRules, PassReport};
use ovolo::registry::Registry;
use ovolo::stage::Target;
use ovolo::tensor::Device;
use room::{Measure, Room};
use std::collections::BTreeMap;
use std::sync::Arc;

const MODEL: &str = "graph {
    x: f32[1,16,14,14] = input
    w: f32[32,16,3,3] = const ~1
    b: f32[32] = const ~2
    c = conv(x, w, b) {pads: [1,1,1,1]}
    r = relu(c)
    p = max-pool(r) {kernel: [2,2], strides: [2,2]}
    return p
}";

fn graph() -> Graph {
    text::parse(common::ops(), MODEL).unwrap()
}

/// What a phase did, without times.
fn account(phase: &Saturation) -> String {
    let rules = phase.growth.iter().filter(|rule| rule.matched > 0);
    let rules: Vec<String> =
        rules.map(|rule| format!("{} {} {}", rule.rule, rule.matched, rule.applied)).collect();
    format!("{} {} {} {}", phase.stop, phase.nodes, phase.classes, rules.join(", "))
}

#[test]
fn questions_are_asked_of_what_a_compilation_chooses_from() {
    // Whether oneDNN is there or not, both take the same road.
    for pipeline in ["native", "cpu", "mixed"] {
        let options = common::pipeline(pipeline, 2);
        let compilation = compile::compile(graph(), &options).unwrap();
        let saturated = options.saturate(&graph()).unwrap();
        let compiled: Vec<String> = compilation
            .stages
            .iter()
            .filter_map(|stage| match &stage.report {
                Some(PassReport::Rewrite(phase)) => Some(format!("{}: {}", stage.name, account(phase))),
                _ => None,
            })
            .collect();
        let asked = saturated.growth().iter();
        let asked: Vec<String> =
            asked.map(|phase| format!("{}: {}", phase.name, account(&phase.saturation))).collect();
        assert_eq!(asked, compiled, "{pipeline}");
        let planned = options.plan(&saturated).unwrap();
        assert_eq!(planned.plan.to_string(), compilation.plan.to_string(), "{pipeline}");
        assert_eq!(text::print(&planned.chosen.program), text::print(&compilation.program), "{pipeline}");
        let rules: Vec<&str> = planned.chosen.rules().into_iter().collect();
        assert!(
            !rules.is_empty() && rules.iter().all(|rule| saturated.applied().contains(rule)),
            "{rules:?}"
        );
        let choice = options.choice(&graph()).unwrap();
        let curve = options.price(&saturated).unwrap().curve(&choice, Device::Host, &mut |_, _| {}).unwrap();
        assert_eq!(curve.points[0].arena, compilation.plan.arena, "{pipeline}");
    }
}

/// A cost model by which no plan can be chosen.
struct Infinite;

impl CostModel for Infinite {
    fn name(&self) -> &'static str {
        "infinite"
    }

    fn seconds(&self, _: &Query<'_>) -> Option<f64> {
        Some(f64::INFINITY)
    }

    fn copy(&self, _: usize) -> f64 {
        0.0
    }
}

#[test]
fn kernels_with_infinite_prices_are_named_and_no_rule_is_asked_for() {
    let options = common::options(1);
    let graph =
        text::parse(common::ops(), "graph { x: f32[2,4] = input; y = softmax(x) {axis: 1}; return y }");
    let saturated = options.saturate(&graph.unwrap()).unwrap();
    let target = Target { threads: 1, backends: ["native".to_owned()].into() };
    let error = saturated.price(Box::new(Infinite), &target).err().unwrap().to_string();
    assert!(
        error.contains("\n  `y`: no kernel with a finite price runs `softmax` for f32[2,4]\n"),
        "{error}"
    );
    assert!(error.contains("its price is infinite: native.softmax"), "{error}");
    assert!(!error.contains("Add a rule"), "{error}");
}

/// A backend that no machine has.
struct Gone;

// SAFETY: it has no kernels.
unsafe impl Backend for Gone {
    fn name(&self) -> &'static str {
        "gone"
    }

    fn found(&self) -> Result<String, BackendError> {
        Err(BackendError::absent("a device", "not on this machine"))
    }

    fn ops(&self) -> Vec<Lowering> {
        let contract = |_: &Call<'_>| Err(OpError::Backend { why: "not on this machine".to_owned() });
        let kernel = |_: &Call<'_>| Err(OpError::Backend { why: "not on this machine".to_owned() });
        vec![Lowering::new("gone.relu", "relu", contract, kernel)]
    }
}

const RULES: &str = r#"[
    Rule(name: "lower-relu-gone", from: "(relu ?x)", to: "(gone.relu ?x)"),
]"#;

const PIPELINE: &str = r#"Pipeline(
    name: "both",
    passes: [
        Rewrite(name: "lower", rules: ["fuse", "native", "lower-relu-gone"]),
        Extract(cost: "flops"),
        Plan(),
    ],
    backends: ["native", "gone"],
)"#;

#[test]
fn rules_of_absent_backends_take_part_where_that_is_asked_for_alone() {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    registry.add_backend(Arc::new(Gone)).unwrap();
    let graph = text::parse(registry.ops(), "graph { x: f32[64] = input; y = relu(x); return y }").unwrap();
    registry.add_rules("rules/mine.ron", RULES).unwrap();
    let options = Options {
        rules: registry.rule_set().unwrap(),
        pipeline: Pipeline::read(&registry.scope(), "both.ron", PIPELINE).unwrap(),
        registry: Arc::new(registry),
        ..common::options(1)
    };
    let saturated = options.saturate(&graph).unwrap();
    assert!(!saturated.applied().contains("lower-relu-gone"), "{:?}", saturated.applied());
    assert!(!saturated.egraph().to_text().contains("gone.relu"));
    let mut phases = Vec::new();
    let whole = options.saturate_by_phases(&graph, AbsentRules::TakePart, &mut |saturated| {
        phases.push(saturated.growth().len());
        Ok(())
    });
    let whole = whole.unwrap();
    assert!(whole.applied().contains("lower-relu-gone"), "{:?}", whole.applied());
    assert!(whole.egraph().to_text().contains("gone.relu"));
    assert_eq!(phases, [1]);
    // Nothing of it can be chosen, so the plan is the same.
    let [without, with] = [&saturated, &whole].map(|one| options.plan(one).unwrap().plan.to_string());
    assert_eq!(without, with);
}

#[test]
fn the_arena_has_the_least_that_any_limit_leaves() {
    let constants = BTreeMap::from([(Device::Host, 30)]);
    let room = Room::new(&Limit::host(100));
    assert_eq!(room.beside(&constants), Limit::host(70));
    assert_eq!(room.with(Measure::Arena, Device::Host, 60).beside(&constants), Limit::host(60));
    assert_eq!(room.with(Measure::Arena, Device::Host, 80).beside(&constants), Limit::host(70));
    assert_eq!(room.with(Measure::Whole, Device::Host, 20).beside(&constants), Limit::host(0));
    let arena = Room::default().with(Measure::Arena, Device::Host, 60);
    assert_eq!(arena.beside(&constants), Limit::host(60));
}

/// Winograd's algorithm without the guard of the shipped rules, which leave constants alone.
const WINOGRAD: &str = r#"[
    Rule(
        name: "any-winograd",
        from: "(conv ?x ?w ?b ?e.. {groups: 1, strides: [1,1], dilations: [1,1], *a})",
        to: "(unpack
                (native.conv-winograd (pack ?x {layout: nChw8c})
                    (pack (winograd-weights ?w {tile: [2,2]}) {layout: Cab8c}) ?b
                    (each ?e ?i (pack ?i {layout: nChw8c})) {kernel: [3,3], tile: [2,2], *a}))",
        when: ["const(?w)", "equal(dim(?w, 2), 3)", "equal(dim(?w, 3), 3)"],
    ),
]"#;

#[test]
fn constants_are_computed_by_the_definitions_of_ops() {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    registry.add_rules("rules/mine.ron", WINOGRAD).unwrap();
    let pipeline =
        PIPELINE.replace(r#""lower-relu-gone""#, r#""any-winograd", "layout""#).replace(r#", "gone"]"#, "]");
    let options = Options {
        rules: registry.rule_set().unwrap(),
        pipeline: Pipeline::read(&registry.scope(), "both.ron", &pipeline).unwrap(),
        registry: Arc::new(registry),
        ..common::options(1)
    };
    // The convolution of constants is added in blocks of channels. Winograd's algorithm makes it in them with as few
    // steps as its definition does, and is found first.
    let graph = "graph {
        c: f32[9,10,8,1] = const ~1
        w: f32[8,8,3,3] = const ~2
        x: f32[1,8,9,10]@nChw8c = input
        v: f32[8,8,1,1] = const ~3
        o: f32[8] = const ~4
        t = transpose(c) {perm: [3,2,0,1]}
        s = exp(t)
        p = conv(s, w, o) {pads: [1,1,1,1]}
        u = unpack(x)
        q = conv(u, v, o)
        y = add(q, p)
        return y
    }";
    let graph = text::parse(options.registry.ops(), graph).unwrap();
    let saturated = options.saturate(&graph).unwrap();
    assert!(saturated.egraph().to_text().contains("native.conv-winograd"));
    let program = options.plan(&saturated).unwrap().chosen.program;
    let ops: Vec<&str> = program.nodes().map(|(_, node)| node.op.name).collect();
    assert!(ops.contains(&"native.conv-direct"), "{ops:?}");
    assert!(!ops.contains(&"native.conv-winograd"), "{ops:?}");
}
