//! Every shipped rule holds on generated instances, and every member of models' e-graphs agrees.
#![allow(clippy::unwrap_used)]

mod common;

use common::options;
use ovolo::audit::verify::{self, Settings, Verdict, Verification};
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::op;
use ovolo::rule::{Rule, RuleSet, SHIPPED};
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The only rule of a file.
fn rule(text: &str) -> Arc<Rule> {
    Arc::clone(
        &RuleSet::read(&[("rules/test.ron", text)]).unwrap_or_else(|found| panic!("{found}")).rules()[0],
    )
}

fn verified(text: &str) -> Verification {
    verify::rule(&rule(text), Settings::default())
}

#[test]
fn every_shipped_rule_holds_on_200_instances() {
    let rules = RuleSet::read(SHIPPED).unwrap();
    let all = verify::rules(rules.rules(), Settings::default(), 2, &|_| ());
    let bad: Vec<&Verification> = all.iter().filter(|one| !one.holds()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(all.iter().all(|one| one.instances == 200));
    // What the instances are meant to have, they have.
    for (name, feature) in [
        ("pack-conv-nChw16c", "padding"),
        ("pack-conv-nChw16c", "odd channels"),
        ("pack-conv-nChw16c", "attribute not at its default"),
        ("unpack-after-map", "padding"),
        ("cancel-pack-unpack", "padding"),
        ("map-add", "broadcast"),
        ("map-rsub", "size 1"),
        ("merge-convs", "odd channels"),
    ] {
        let one = all.iter().find(|one| one.rule == name).unwrap();
        let count = one.coverage.features.get(feature).copied().unwrap_or(0);
        assert!(count >= 20, "{name}: {feature} in {count} instances");
    }
    let add = all.iter().find(|one| one.rule == "lower-add-native").unwrap();
    assert_eq!(add.coverage.features.keys().filter(|name| name.starts_with("alternative")).count(), 2);
}

#[test]
fn results_do_not_depend_on_threads_or_on_other_rules() {
    let rules = RuleSet::read(SHIPPED).unwrap();
    let some: Vec<Arc<Rule>> = rules.rules().iter().step_by(9).cloned().collect();
    let settings = Settings { instances: 20, ..Settings::default() };
    let one = verify::rules(&some, settings, 1, &|_| ());
    assert_eq!(one, verify::rules(&some, settings, 3, &|_| ()));
    assert_eq!(one[2], verify::rule(&some[2], settings));
}

#[test]
fn a_counter_example_is_small_and_reads_back_to_what_it_shows() {
    let one = verified(
        r#"[Rule(name: "forget-the-mean", from: "(reduce-sum ?x {axes: ?a, keepdims: ?k})", to: "(reduce-mean ?x {axes: ?a, keepdims: ?k})")]"#,
    );
    let Verdict::Wrong { case, what } = &one.verdict else { panic!("{one:#?}") };
    assert!(what.starts_with("the sides differ in value: at ["), "{what}");
    let graph = text::parse(case).unwrap_or_else(|found| panic!("{found}\n{case}"));
    assert!(graph.len() <= 3, "{case}");
    assert!(graph.nodes().all(|(_, node)| node.ty.shape.count() <= 4), "{case}");
    let outputs = evaluate(&graph);
    assert_ne!(outputs["left"].to_f64(), outputs["right"].to_f64());
}

/// The outputs of a graph without inputs, by the reference evaluation.
fn evaluate(graph: &Graph) -> BTreeMap<String, Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    for (id, node) in graph.nodes() {
        let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
        let value = match graph.constant(id) {
            Some(constant) => constant.clone(),
            None => (op::find(node.op).unwrap().eval)(&node.attrs, &operands, &node.ty),
        };
        values.push(value);
    }
    graph.outputs().map(|(name, id)| (name.to_string(), values[id.index()].clone())).collect()
}

#[test]
fn a_rule_without_instances_fails() {
    let one = verify::rule(
        &rule(
            r#"[Rule(name: "never", from: "(relu ?x)", to: "(relu ?x)", when: ["rank(?x, 2)", "equal(rank-of(?x), 3)"])]"#,
        ),
        Settings { instances: 5, ..Settings::default() },
    );
    assert!(!one.holds());
    let Verdict::Uncovered { reasons } = &one.verdict else { panic!("{one:#?}") };
    assert!(reasons[0].0.contains("equal(rank-of(?x), #)"), "{reasons:?}");
}

#[test]
fn lowered_ops_on_the_left_are_drawn_in_their_layouts() {
    for op in ["conv-direct", "conv-depthwise", "conv-first", "conv-narrow", "conv-winograd", "matmul-packed"]
    {
        let one = verified(&format!(
            r#"[Rule(name: "keep-{op}", from: "(native.{op} ?x.. {{*a}})", to: "(native.{op} ?x.. {{*a}})")]"#
        ));
        assert!(one.holds(), "{one:#?}");
    }
}

#[test]
fn sides_of_different_types_are_wrong() {
    let one = verified(r#"[Rule(name: "drop", from: "(transpose ?x {perm: ?p})", to: "?x")]"#);
    let Verdict::Wrong { what, case } = &one.verdict else { panic!("{one:#?}") };
    assert!(what.contains("type") || what.contains("value"), "{what}");
    text::parse(case).unwrap_or_else(|found| panic!("{found}\n{case}"));
}

#[test]
fn a_number_is_no_match_where_it_would_add_a_dimension() {
    use ovolo::egraph::{EGraph, Limits};
    let graph = |shape: &str| {
        let source = format!(
            "graph {{ x: f32[3] = input; three: f32[] = const [3.0]; six: f32{shape} = const [6.0]
            a = add(x, three); c = clip(a) {{min: 0.0, max: 6.0}}; m = mul(x, c); y = div(m, six); return y }}"
        );
        text::parse(&source).unwrap_or_else(|found| panic!("{found}"))
    };
    let rules = RuleSet::read(SHIPPED).unwrap().select(&["fuse-hard-swish-clip".into()]).unwrap();
    let applied = |shape| {
        let mut egraph = EGraph::new(&graph(shape));
        egraph
            .saturate(&rules, Limits { rounds: 2, nodes: 100 }, &|| std::time::Duration::ZERO)
            .unwrap()
            .growth[0]
            .applied
    };
    assert_eq!((applied("[1]"), applied("[1,1]")), (1, 0));
}

/// Members of a model's e-graph, which must all agree.
fn members_agree(name: &str, graph: &Graph, count: usize, reference: bool) {
    let members = verify::members(graph, &options(2), count, 7, reference)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(members.len(), count);
    for member in &members {
        assert!(member.program.is_none(), "{name}: {member:#?}");
    }
}

#[test]
fn every_member_of_the_small_cases_agrees_with_the_reference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root.join("tests/cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ovolo"));
    files.sort();
    for path in files {
        let graph = text::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        members_agree(&path.display().to_string(), &graph, 24, true);
    }
}

fn load(path: &str, dims: &[(&str, usize)]) -> Graph {
    let dims = dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    let options = ImportOptions { dims, missing_weights: MissingWeights::Seeded };
    onnx::load(Path::new(env!("CARGO_MANIFEST_DIR")).join(path), &options).unwrap().graph
}

#[test]
fn every_member_of_whole_models_agrees() {
    members_agree("digits", &load("examples/digits/digits.onnx", &[("N", 2)]), 24, true);
    for name in ["squeezenet1_1", "mobilenet_v2", "nasrnn"] {
        members_agree(name, &load(&format!("tests/models/{name}.onnx"), &[]), 4, false);
    }
}
