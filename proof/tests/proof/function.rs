//! A function from outside, of one or two numbers, is a row of a table, and nothing else: it runs natively, alone and in a chain, has a
//! gradient, is imported from ONNX, and the rules that are for all functions hold for it.
#![allow(clippy::unwrap_used)]

use ovolo::compile::{self, Options};
use ovolo::graph::text;
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
    Function(
        name: "hypot",
        doc: "the length of the hypotenuse",
        formula: "sqrt(x * x + y * y)",
        commutative: true,
        onnx: [Operator(name: "com.example.Hypot")],
    ),
    Function(
        name: "gap",
        doc: "how much x is above y, doubled below it",
        parameters: [Parameter(name: "below", default: 2.0, doc: "factor below")],
        formula: "if(x < y, below * (x - y), x - y)",
    ),
]"#;

fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    registry.add_functions("ops/mine.ron", TABLE).unwrap();
    Arc::new(registry)
}

/// What a model makes of `x`, and the names of the plan's ops.
fn run(registry: &Arc<Registry>, model: &str, inputs: &[&Tensor]) -> (Vec<f64>, Vec<&'static str>) {
    let options = Options::new(registry, "native").unwrap();
    let graph = text::parse(registry.ops(), model).unwrap();
    let compilation = compile::compile(graph, &options).unwrap();
    let ops = compilation.plan.steps.iter().map(|step| step.op.name).collect();
    let mut session = Session::new(&compilation.program, compilation.plan, registry.backends()).unwrap();
    (session.run(inputs).unwrap()[0].to_f64(), ops)
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
        let (y, ops) = run(&registry, &model, &[&Tensor::from_f64(dtype, [5], &x)]);
        assert_eq!(ops, [op]);
        for (x, y) in x.iter().zip(y) {
            assert!((y - ripple(*x, 0.25)).abs() < 1e-6, "{x}: {y}");
        }
    }
    let model = "graph { x: f32[5] = input; a = neg(x); b = ripple(a); y = tanh(b); return y }";
    let (y, ops) = run(&registry, model, &[&Tensor::from_f64(DType::F32, [5], &x)]);
    assert_eq!(ops, ["native.map"]);
    for (x, y) in x.iter().zip(y) {
        assert!((y - ripple(-x, 0.5).tanh()).abs() < 1e-6, "{x}: {y}");
    }
}

#[test]
fn a_function_of_two_numbers_from_outside_runs_and_is_fused() {
    let registry = registry();
    let (x, y) = ([3.0, -6.0, 0.5, 1.5], [4.0, 2.5, -1.25, 0.0]);
    let hypot = |x: f64, y: f64| (x * x + y * y).sqrt();
    let gap = |x: f64, y: f64, below: f64| if x < y { below * (x - y) } else { x - y };
    for (dtype, suffix) in [(DType::F32, "map"), (DType::F64, "hypot")] {
        let model = format!(
            "graph {{ x: {0}[4] = input; y: {0}[4] = input; r = hypot(x, y); return r }}",
            dtype.name()
        );
        let inputs = [x, y].map(|values| Tensor::from_f64(dtype, [4], &values));
        let (result, ops) = run(&registry, &model, &inputs.each_ref());
        assert_eq!(ops, [format!("native.{suffix}")]);
        for (at, got) in result.iter().enumerate() {
            assert!((got - hypot(x[at], y[at])).abs() < 1e-6, "{at}: {got}");
        }
    }
    // Integers are computed in double precision and rounded towards zero, as those of one number are.
    let model = "graph { x: i32[2] = input; y: i32[2] = input; r = hypot(x, y); return r }";
    let inputs = [[3.0, -6.0], [4.0, 2.0]].map(|values| Tensor::from_f64(DType::I32, [2], &values));
    assert_eq!(run(&registry, model, &inputs.each_ref()).0, [5.0, 6.0]);
    // In a chain, also with its operands in the other order.
    let model = "graph { x: f32[4] = input; y: f32[1] = input; a = neg(x); b = gap(y, a) {below: 3.0};
        c = hypot(b, y); r = tanh(c); return r }";
    let inputs = [Tensor::from_f64(DType::F32, [4], &x), Tensor::from_f64(DType::F32, [1], &[0.75])];
    let (result, ops) = run(&registry, model, &inputs.each_ref());
    assert_eq!(ops, ["native.map"]);
    for (x, got) in x.iter().zip(result) {
        let want = hypot(gap(0.75, -x, 3.0), 0.75).tanh();
        assert!((got - want).abs() < 1e-6, "{x}: {got} and {want}");
    }
}

#[test]
fn it_is_a_step_of_trees() {
    let registry = registry();
    let graph = "graph { x: f32[2] = input; y: f32[2] = input;
        r = tree(x, y) {post: <neg,push,exp,pop-gap(3.0),rgap(0.5)>}; return r }";
    let mistake = text::parse(registry.ops(), graph).unwrap_err().to_string();
    assert!(mistake.contains("operand"), "{mistake}");
    let graph = "graph { x: f32[2] = input; y: f32[2] = input; z: f32[2] = input;
        r = tree(x, y, z) {post: <neg,push,exp,pop-gap(3.0),rgap(0.5)>}; return r }";
    let graph = text::parse(registry.ops(), graph).unwrap();
    let inputs = [[1.0, -8.0], [0.0, 1.0], [0.25, 9.0]].map(|one| Tensor::from_f64(DType::F32, [2], &one));
    let got = crate::common::reference(&graph, &inputs)[0].to_f64();
    let gap = |x: f64, y: f64, below: f64| if x < y { below * (x - y) } else { x - y };
    for (at, (x, y, z)) in [(1.0, 0.0, 0.25), (-8.0, 1.0, 9.0_f64)].into_iter().enumerate() {
        let want = gap(z, gap(-x, f64::exp(y), 3.0), 0.5);
        assert!((got[at] - want).abs() < 1e-5, "{got:?} and {want}");
    }
}

#[test]
fn the_gradients_for_two_operands_follow_from_its_formula() {
    let registry = registry();
    for (operand, want) in [(0, 2.0 * 3.0 / 5.0), (1, 2.0 * 4.0 / 5.0)] {
        let graph = format!(
            "graph {{ x: f64[1] = input; y: f64[1] = input; d: f64[1] = input;
                g = grad(x, y, d) {{of: <hypot>, operand: {operand}}}; return g }}"
        );
        let graph = text::parse(registry.ops(), &graph).unwrap();
        let inputs = [3.0, 4.0, 2.0].map(|value| Tensor::from_f64(DType::F64, [1], &[value]));
        let slope = crate::common::reference(&graph, &inputs)[0].to_f64()[0];
        assert!((slope - want).abs() < 1e-12, "{slope} and {want}");
    }
}

#[test]
fn its_price_is_that_of_its_primitives() {
    let registry = registry();
    let hypot = registry.ops().get("hypot").unwrap().function().unwrap();
    assert_eq!(hypot.primitives(), ["mul", "mul", "add", "sqrt"]);
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
    let names = [
        "map-ripple",
        "lower-ripple-native",
        "map-hypot",
        "map-gap",
        "map-rgap",
        "lower-hypot-native",
        "lower-gap-native",
        "fuse-map-map-hypot",
        "fuse-tree-map-hypot",
        "fuse-value-map-hypot",
    ];
    for name in names {
        let rule = rules.rules().iter().find(|rule| rule.name == name).unwrap();
        let verified = verify::rule(rule, registry.ops(), Settings::default());
        assert!(verified.holds(), "{verified:#?}");
    }
}

#[test]
fn its_operator_is_imported_and_a_second_function_of_the_name_is_refused() {
    let registry = registry();
    assert!(registry.onnx().operators.get("com.example.Ripple").is_some());
    assert_eq!(registry.onnx().operators.get("com.example.Hypot").unwrap().operands, (2, 2));
    let error = Arc::unwrap_or_clone(registry).add_functions("ops/mine.ron", TABLE).unwrap_err().to_string();
    assert!(error.contains("there are two functions named `ripple`"), "{error}");
}

#[test]
fn an_operator_that_is_already_imported_is_refused() {
    let refused = |operator: &str, formula: &str| {
        let row =
            format!("Function(name: \"mine\", doc: \"mine\", formula: \"{formula}\", onnx: [{operator}])");
        let mut registry = Registry::new();
        let error = registry.add_functions("ops/mine.ron", &format!("[{row}]")).err();
        assert_eq!(registry.ops().get("mine").is_none(), error.is_some());
        error.map(|error| error.to_string())
    };
    // By a function, by a function that takes another number of operands, and by an importer of its own.
    assert_eq!(
        refused(r#"Operator(name: "Relu")"#, "x").unwrap(),
        "ops/mine.ron: the ONNX operator `Relu` of the function `mine` is already imported as `relu`: name an operator \
         of your own domain, as in `com.example.Relu`, or give the function other attribute values (`when`)"
    );
    let gelu = r#"Operator(name: "Gelu", when: {"approximate": "mine"})"#;
    assert!(refused(gelu, "x + y").is_some_and(|why| why.contains("`Gelu`") && why.contains(" as `gelu")));
    assert!(
        refused(r#"Operator(name: "Conv")"#, "x").is_some_and(|why| why.contains("already imported: name"))
    );
    // Other attribute values than those of the functions before it make it another function.
    assert_eq!(refused(gelu, "x"), None);
}
