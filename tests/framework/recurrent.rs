//! Recurrent layers that rules write out in steps.
#![allow(clippy::unwrap_used)]

use crate::common::{self, inputs, reference, relative_error};
use ovolo::compile::{Compilation, Options, compile};
use ovolo::graph::{Graph, text};
use ovolo::pass::pipeline::Pipeline;
use ovolo::session::Session;

/// A pipeline that writes layers out, and has no kernel for a whole layer.
const STEPS: &str = r#"Pipeline(
    name: "steps",
    passes: [
        Rewrite(name: "steps", rules: ["recurrent"]),
        Rewrite(name: "fuse", rules: ["algebra", "part", "fuse"]),
        Rewrite(name: "lower", rules: ["native"]),
        Extract(cost: "flops"),
        Plan(),
    ],
    backends: ["native"],
)"#;

const CELLS: [&str; 3] = ["lstm", "gru", "rnn"];

/// Returns the options of a pipeline. `whole` keeps the rules that lower layers as a whole.
fn options(pipeline: &str, whole: bool) -> Options {
    let mut options = common::pipeline("native", 1);
    options.pipeline = Pipeline::read(&common::registry().scope(), "steps.ron", pipeline).unwrap();
    if !whole {
        for rule in
            ["lower", "pack"].iter().flat_map(|what| CELLS.map(|cell| format!("{what}-{cell}-native")))
        {
            let all = options.rules.rules().len();
            options.rules = options.rules.without(&rule);
            assert_eq!(options.rules.rules().len(), all - 1, "there is no rule `{rule}`");
        }
    }
    options
}

/// Returns a layer. `results` are the steps and the final states that are outputs.
fn layer(call: &str, steps: usize, directions: usize, gates: usize, extra: &str) -> Graph {
    let width = gates * 5;
    let text = format!(
        "graph {{\nx: f32[{steps},2,{directions},{width}] = input\nr: f32[{directions},{width},5] = const ~1\n\
         h: f32[{directions},2,5] = input\nc: f32[{directions},2,5] = input\n{extra}\ny = {call}\nreturn y\nk = neg(c)\n\
         return k\n}}"
    );
    text::parse(common::ops(), &text).unwrap()
}

fn compiled(graph: &Graph, pipeline: &str, whole: bool) -> Compilation {
    compile(graph.clone(), &options(pipeline, whole)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns how many steps of a plan have an op.
fn count(compilation: &Compilation, op: &str) -> usize {
    compilation.plan.steps.iter().filter(|step| step.op.name.starts_with(op)).count()
}

#[test]
fn layers_without_a_kernel_run_in_steps() {
    let peepholes = "p: f32[2,15] = const ~2";
    let bias = "b: f32[2,5] = const ~2";
    let lstm = "\"sigmoid,tanh,tanh,hard-sigmoid 0.3 0.4,scaled-tanh 0.5 2,elu 0.5\"";
    let cases = [
        (format!("lstm(x, r, h, c, p) {{activations: {lstm}, clip: 1.5}}"), 2, 4, peepholes),
        (format!("lstm(x, r, h, c, p) {{activations: {lstm}, coupled: 1}}"), 2, 4, peepholes),
        ("lstm(x, r, h, c) {activations: \"sigmoid,tanh,softsign\", reverse: 1}".to_owned(), 1, 4, ""),
        (
            "gru(x, r, h, b) {activations: \"sigmoid,tanh,affine 0.5 0.25,leaky-relu 0.1\", linear: 1}"
                .to_owned(),
            2,
            3,
            bias,
        ),
        ("gru(x, r, h) {activations: \"sigmoid,thresholded-relu 0.5\", clip: 2.0}".to_owned(), 1, 3, ""),
        ("rnn(x, r, h) {activations: \"softplus,relu\"}".to_owned(), 2, 1, ""),
    ];
    for (call, directions, gates, extra) in &cases {
        for steps in [1, 3, 4] {
            let graph = layer(call, steps, *directions, *gates, extra);
            let compilation = compiled(&graph, STEPS, false);
            assert!(
                count(&compilation, "native.matmul") >= steps * directions,
                "{call}: {}",
                compilation.plan
            );
            let operands = inputs(&graph);
            let expected = reference(&graph, &operands);
            let Compilation { program, plan, .. } = compilation;
            let mut session = Session::new(&program, plan, common::registry().backends()).unwrap();
            let results = session.run(&operands.iter().collect::<Vec<_>>()).unwrap();
            for (result, expected) in results.iter().zip(&expected) {
                let error = relative_error(result, expected);
                assert!(error < 1e-5, "{call} with {steps} steps: {error:e}");
            }
        }
    }
}

#[test]
fn a_kernel_for_the_whole_layer_is_chosen_where_it_is_cheaper() {
    let graph = layer("lstm(x, r, h, c) {activations: \"sigmoid,tanh,tanh\"}", 1, 1, 4, "");
    let priced = STEPS.replace("flops", "roofline");
    let whole = compiled(&graph, &priced, true);
    assert_eq!((count(&whole, "native.lstm"), count(&whole, "native.matmul")), (1, 0), "{}", whole.plan);
    let steps = compiled(&graph, &priced, false);
    assert!(count(&steps, "native.lstm") == 0 && count(&steps, "native.matmul") > 0, "{}", steps.plan);
}

#[test]
fn a_longer_layer_without_a_kernel_is_refused_with_its_op() {
    let graph = layer("rnn(x, r, h) {activations: \"tanh\"}", 5, 1, 1, "");
    let error = compile(graph, &options(STEPS, false)).err().unwrap().to_string();
    assert!(error.contains("no backend of this compilation runs `rnn`"), "{error}");
}

#[test]
fn a_key_of_for_each_names_only_keys_before_it() {
    let read = |rows: &str| {
        let rule = format!("[Rule(name: \"r-$a\", for_each: [{rows}], from: \"($a ?x)\", to: \"($b ?x)\")]");
        let found = ovolo::rule::RuleSet::read(common::registry().vocabulary(), &[("rule.ron", &rule)]);
        found.map(|set| set.rules()[0].row.clone()).map_err(|error| error.to_string())
    };
    assert_eq!(read("{\"a\": \"relu\", \"b\": \"$a\"}").unwrap(), ["relu", "relu"]);
    let wrong = read("{\"a\": \"$b\", \"b\": \"relu\"}").unwrap_err();
    assert!(wrong.contains("`$b` in the value of `a` is no key before it"), "{wrong}");
    assert!(wrong.contains("a value may name the keys that stand before its own"), "{wrong}");
}
