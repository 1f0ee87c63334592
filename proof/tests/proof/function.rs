//! A function from outside is a row of a table, and nothing else: it runs natively, alone and in a chain, has a
//! gradient, is imported from ONNX, and the rules that are for all functions hold for it.
#![allow(clippy::unwrap_used)]

use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::graph::text;
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use ovolo_proof::verify::{self, Settings};
use std::sync::Arc;

/// `softplus` is a function of ovolo's own table.
const TABLE: &str = r#"[
    Function(
        name: "ripple",
        doc: "softplus(x), with waves",
        parameters: [Parameter(name: "height", default: 0.5, doc: "how high they are")],
        formula: "softplus(x) + height * sin(x)",
        onnx: [Operator(name: "com.example.Ripple")],
    ),
]"#;

fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    registry.add_functions("ops/mine.ron", TABLE).unwrap();
    Arc::new(registry)
}

/// What a model makes of `x`, and the names of the plan's ops.
fn run(registry: &Arc<Registry>, model: &str, x: &Tensor) -> (Vec<f64>, Vec<&'static str>) {
    let (name, text) = registry.pipeline("native").unwrap();
    let options = Options {
        registry: Arc::clone(registry),
        rules: registry.rule_set().unwrap(),
        pipeline: Pipeline::read(&registry.scope(), name, text).unwrap(),
        threads: 1,
        machine: Machine::NOMINAL,
        measured: None,
        keep_egraph_after: None,
    };
    let graph = text::parse(registry.ops(), model).unwrap();
    let compilation = compile::compile(graph, &options).unwrap();
    let ops = compilation.plan.steps.iter().map(|step| step.op.name).collect();
    let mut session = Session::new(&compilation.program, compilation.plan, registry.backends()).unwrap();
    (session.run(&[x]).unwrap()[0].to_f64(), ops)
}

fn ripple(x: f64, height: f64) -> f64 {
    x.exp().ln_1p() + height * x.sin()
}

#[test]
fn a_function_from_outside_runs_and_is_fused() {
    let registry = registry();
    let x = [-2.0, -0.5, 0.0, 0.75, 3.0];
    for (dtype, op) in [(DType::F32, "native.map"), (DType::F64, "native.ripple")] {
        let model =
            format!("graph {{ x: {}[5] = input; y = ripple(x) {{height: 0.25}}; return y }}", dtype.name());
        let (y, ops) = run(&registry, &model, &Tensor::from_f64(dtype, [5], &x));
        assert_eq!(ops, [op]);
        for (x, y) in x.iter().zip(y) {
            assert!((y - ripple(*x, 0.25)).abs() < 1e-6, "{x}: {y}");
        }
    }
    let model = "graph { x: f32[5] = input; a = neg(x); b = ripple(a); y = tanh(b); return y }";
    let (y, ops) = run(&registry, model, &Tensor::from_f64(DType::F32, [5], &x));
    assert_eq!(ops, ["native.map"]);
    for (x, y) in x.iter().zip(y) {
        assert!((y - ripple(-x, 0.5).tanh()).abs() < 1e-6, "{x}: {y}");
    }
}

#[test]
fn its_gradient_follows_from_its_formula() {
    let registry = registry();
    let graph =
        "graph { x: f64[1] = input; d: f64[1] = input; y = grad(x, d) {of: <ripple(0.25)>}; return y }";
    let graph = text::parse(registry.ops(), graph).unwrap();
    let inputs = [1.25, 2.0].map(|value| Tensor::from_f64(DType::F64, [1], &[value]));
    let slope = crate::common::reference(&graph, &inputs)[0].to_f64()[0];
    let want = 2.0 * (1.0 / (1.0 + (-1.25_f64).exp()) + 0.25 * 1.25_f64.cos());
    assert!((slope - want).abs() < 1e-12, "{slope} and {want}");
}

#[test]
fn the_rules_for_all_functions_hold_for_it() {
    let registry = registry();
    let rules = registry.rule_set().unwrap();
    for name in ["map-ripple", "lower-ripple-native"] {
        let rule = rules.rules().iter().find(|rule| rule.name == name).unwrap();
        let verified = verify::rule(rule, registry.ops(), Settings::default());
        assert!(verified.holds(), "{verified:#?}");
    }
}

#[test]
fn its_operator_is_imported_and_a_second_function_of_the_name_is_refused() {
    let registry = registry();
    assert!(registry.onnx().operators.get("com.example.Ripple").is_some());
    let error = Arc::unwrap_or_clone(registry).add_functions("ops/mine.ron", TABLE).unwrap_err().to_string();
    assert!(error.contains("there are two functions named `ripple`"), "{error}");
}
