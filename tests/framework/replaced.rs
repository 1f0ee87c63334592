//! Tests inputs that a run replaces by their next values, as a step of training does with parameters.
#![allow(clippy::unwrap_used)]

use crate::common::{self, seeded::Random};
use ovolo::graph::{Graph, text};
use ovolo::plan::{Base, Place};
use ovolo::session::{Session, SessionError};
use ovolo::tensor::{DType, Tensor};

/// A layer of a network with its update: the weights are read forwards and backwards.
const STEP: &str = "graph {
    x: f32[8,64] = input
    w: f32[64,64] = input
    v: f32[64,64] = input
    y = matmul(x, w)
    d = sigmoid(y)
    turned = transpose(w) {perm: [1,0]}
    back = matmul(d, turned)
    xt = transpose(x) {perm: [1,0]}
    g = matmul(xt, d)
    half: f32[] = const [0.5]
    kept = mul(v, half)
    sum = add(kept, g)
    change = mul(sum, half)
    next = sub(w, change)
    return back = back
    return w = next
    return v = sum
}";

fn session(graph: &Graph) -> Session {
    let compilation = common::compile(graph.clone(), 2);
    Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap()
}

fn inputs(graph: &Graph, seed: u64) -> Vec<Tensor> {
    let one = |(at, node): (usize, &std::sync::Arc<ovolo::graph::Node>)| {
        common::random(&format!("input {at} of {seed}"), DType::F32, &node.ty.shape)
    };
    graph.inputs().map(|(_, node)| node).enumerate().map(one).collect()
}

fn values(tensors: &[Tensor]) -> Vec<Vec<f64>> {
    tensors.iter().map(Tensor::to_f64).collect()
}

fn addresses(tensors: &[Tensor]) -> Vec<*const u8> {
    tensors.iter().map(|tensor| tensor.bytes().as_ptr()).collect()
}

/// Takes some steps, and compares each with the reference evaluation of the same step.
fn advance(graph: &Graph, session: &mut Session, mut values: Vec<Tensor>, steps: usize, case: &str) {
    let names: Vec<_> = graph.inputs().map(|(_, node)| std::sync::Arc::clone(&node.name)).collect();
    for step in 0..steps {
        let wanted = common::reference(graph, &values);
        let got = session.advance(&mut values).unwrap().to_vec();
        for (at, (name, _)) in graph.outputs().enumerate() {
            let error = common::relative_error(&got[at], &wanted[at]);
            assert!(error < 1e-5, "{case}, step {step}, output {name}: {error}");
            if let Some(input) = names.iter().position(|input| input == name) {
                assert_eq!(values[input].bytes(), got[at].bytes(), "{case}, step {step}, input {name}");
            }
        }
    }
}

#[test]
fn next_values_take_the_memory_of_their_inputs() {
    let graph = text::parse(common::ops(), STEP).unwrap();
    let mut session = session(&graph);
    assert_eq!(session.plan().replaced(), (2, 2 * 64 * 64 * 4));
    advance(&graph, &mut session, inputs(&graph, 0), 3, "a layer");
    let mut given: Vec<Tensor> = inputs(&graph, 1).iter().map(Tensor::owned).collect();
    let before = (addresses(&given), values(&given));
    session.advance(&mut given).unwrap();
    session.advance(&mut given).unwrap();
    assert_eq!(addresses(&given), before.0, "nothing is copied");
    let after = values(&given);
    assert_eq!(after[0], before.1[0], "an input without a next value");
    assert!(after[1] != before.1[1] && after[2] != before.1[2]);
}

#[test]
fn a_run_leaves_its_inputs_alone() {
    let graph = text::parse(common::ops(), STEP).unwrap();
    let mut session = session(&graph);
    let given = inputs(&graph, 0);
    let before = values(&given);
    let refs: Vec<&Tensor> = given.iter().collect();
    let wanted = common::reference(&graph, &given);
    for _ in 0..2 {
        let got = session.run(&refs).unwrap();
        assert!(got.iter().zip(&wanted).all(|(got, wanted)| common::relative_error(got, wanted) < 1e-6));
        assert_eq!(values(&given), before);
    }
    let handed = session.run_owned(&refs).unwrap();
    let mut advanced = given.clone();
    session.advance(&mut advanced).unwrap();
    assert_eq!(handed[1].bytes(), advanced[1].bytes(), "both ways give the same bits");
    assert_eq!(values(&given), before, "bytes that others share are copied first");
}

#[test]
fn wrong_inputs_are_refused_before_any_is_taken() {
    let graph = text::parse(common::ops(), STEP).unwrap();
    let mut session = session(&graph);
    let mut given = inputs(&graph, 0);
    given[0] = Tensor::zeros(given[1].ty().clone());
    let before = values(&given);
    assert!(matches!(session.advance(&mut given), Err(SessionError::InputType { .. })));
    assert_eq!(values(&given), before);
    assert!(matches!(session.advance(&mut given[1..]), Err(SessionError::InputCount { .. })));
}

/// A random graph whose inputs have next values.
fn program(seed: u64) -> String {
    let mut random = Random(seed);
    let inputs = 1 + random.below(4);
    let mut lines: Vec<String> = (0..inputs).map(|at| format!("w{at}: f32[16,16] = input")).collect();
    let mut names: Vec<String> = (0..inputs).map(|at| format!("w{at}")).collect();
    for at in 0..4 + random.below(16) {
        let mut one = || names[random.below(names.len())].clone();
        let (a, b) = (one(), one());
        let line = match random.below(7) {
            0 => format!("sigmoid({a})"),
            1 => format!("matmul({a}, {b})"),
            2 => format!("transpose({a}) {{perm: [1,0]}}"),
            3 => format!("mul({a}, {b})"),
            4 => {
                lines.push(format!("r{at} = reshape({a}) {{shape: [256]}}"));
                lines.push(format!("s{at} = sigmoid(r{at})"));
                format!("reshape(s{at}) {{shape: [16,16]}}")
            }
            _ => format!("sub({a}, {b})"),
        };
        lines.push(format!("v{at} = {line}"));
        names.push(format!("v{at}"));
    }
    let computed = &names[inputs..];
    lines.push(format!("return last = {}", computed[computed.len() - 1]));
    for input in 0..inputs {
        lines.push(format!("return w{input} = {}", computed[random.below(computed.len())]));
    }
    format!("graph {{\n{}\n}}", lines.join("\n"))
}

#[test]
fn steps_of_random_programs_are_right() {
    let (mut replaced, mut kept) = (0, 0);
    for seed in 0..120 {
        let source = program(seed);
        let graph = text::parse(common::ops(), &source).unwrap();
        let mut session = session(&graph);
        let (here, _) = session.plan().replaced();
        replaced += here;
        kept += graph.inputs().count() - here;
        for run in [seed, seed + 1000] {
            // Several steps of these programs have no bounds.
            advance(&graph, &mut session, inputs(&graph, run), 1, &format!("seed {seed}: {source}"));
        }
    }
    assert!(replaced > 60 && kept > 60, "{replaced} {kept}");
}

#[test]
fn two_inputs_that_take_each_other_s_place_are_right() {
    let graph = text::parse(
        common::ops(),
        "graph {
            a: f32[16,16] = input
            b: f32[16,16] = input
            p = sigmoid(b)
            q = tanh(a)
            return a = p
            return b = q
        }",
    )
    .unwrap();
    let mut session = session(&graph);
    assert_eq!(session.plan().replaced().0, 1, "the second one would lose what the first one reads");
    advance(&graph, &mut session, inputs(&graph, 0), 3, "exchanged");
}

#[test]
fn a_result_in_another_input_is_refused() {
    let graph = text::parse(common::ops(), STEP).unwrap();
    let plan = common::compile(graph.clone(), 2).plan;
    let program = common::compile(graph, 2).program;
    let at = plan.steps.iter().position(|step| matches!(step.output.base, Base::Input(1))).unwrap();
    let refused = |what: &str, change: &dyn Fn(&mut ovolo::plan::Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        let backends = common::registry().backends();
        let why = Session::new(&program, changed, backends).map(drop).expect_err(what).to_string();
        assert!(why.contains("next value") || why.contains("overlaps"), "{what}: {why}");
    };
    refused("an input without a next value", &|plan| {
        plan.steps[at].output = Place { base: Base::Input(0), offset: 0 };
    });
    refused("an output of another name", &|plan| plan.outputs[1].0 = "other".into());
    refused("a kernel that reads the input beside its place", &|plan| plan.steps[at].in_place = None);
}
