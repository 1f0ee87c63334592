//! Tests that constant weights of f32 become levels where the pipeline's precision allows it and prices say so.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use ovolo::compile;
use ovolo::graph::{Graph, text};
use ovolo::pass::Scope;
use ovolo::pass::pipeline::Pipeline;
use ovolo::plan::Step;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};

/// Rows and columns of weights that take longer from memory than their products with a row take.
const WEIGHTS: [usize; 2] = [2048, 1024];
/// The pipelines that make levels of weights, with the levels on either side of zero and the rows of a scale.
const NARROW: [(&str, f64, usize); 2] = [("int8-weights", 127.0, WEIGHTS[0]), ("int4-weights", 7.0, 32)];

/// Returns a product of so many rows with these weights, and a bias.
fn product(rows: usize, weights: &str) -> Graph {
    let [depth, columns] = WEIGHTS;
    let source = format!(
        "graph {{
            a: f32[{rows},{depth}] = input
            w: f32[{depth},{columns}] = const {weights}
            b: f32[{columns}] = const ~2
            p = matmul(a, w)
            y = add(p, b)
            return y
        }}"
    );
    text::parse(common::ops(), &source).unwrap()
}

/// Compiles a graph by a pipeline, and returns its first output, and the ops of its steps with the types of what they read.
fn run(graph: &Graph, pipeline: &str, input: &Tensor) -> (Tensor, Vec<(String, Vec<DType>)>) {
    let compilation = compile::compile(graph.clone(), &common::pipeline(pipeline, 1)).unwrap();
    let types = |step: &Step| step.input_types.iter().map(|ty| ty.dtype).collect();
    let ops = compilation.plan.steps.iter().map(|step| (step.op.to_string(), types(step))).collect();
    let backends = common::registry().backends();
    let mut session = Session::new(&compilation.program, compilation.plan.clone(), backends).unwrap();
    (session.run(&[input]).unwrap()[0].clone(), ops)
}

/// Returns the weights of a graph.
fn weights(graph: &Graph) -> Vec<f64> {
    let (id, _) = graph.nodes().find(|(_, node)| &*node.name == "w").unwrap();
    graph.constant(id).unwrap().to_f64()
}

#[test]
fn a_row_is_multiplied_by_levels_and_is_off_by_at_most_half_of_one_for_each_product() {
    let graph = product(1, "~1");
    let input = common::random("a", DType::F32, &[1, WEIGHTS[0]]);
    let expected = common::reference(&graph, std::slice::from_ref(&input))[0].to_f64();
    let (a, w, columns) = (input.to_f64(), weights(&graph), WEIGHTS[1]);
    for (pipeline, most, block) in NARROW {
        let (output, ops) = run(&graph, pipeline, &input);
        let narrow = |types: &[DType]| types.iter().any(|ty| matches!(ty, DType::I8 | DType::U8));
        assert!(
            ops.iter().any(|(op, types)| op == "native.matmul-narrow-packed" && narrow(types)),
            "{pipeline}: {ops:?}"
        );
        for (column, (got, wanted)) in output.to_f64().iter().zip(&expected).enumerate() {
            let bound: f64 = (0..WEIGHTS[0] / block)
                .map(|at| {
                    let rows = at * block..(at + 1) * block;
                    let largest = rows.clone().map(|row| w[row * columns + column].abs()).fold(0.0, f64::max);
                    rows.map(|row| a[row].abs()).sum::<f64>() * largest / most / 2.0
                })
                .sum();
            let off = (got - wanted).abs();
            // Sums are rounded as well.
            assert!(off <= bound * 1.001 + 1e-4, "{pipeline}: column {column} is off by {off} of {bound}");
            assert!(off > 0.0 || bound == 0.0, "{pipeline}: column {column} is exact");
        }
    }
}

#[test]
fn weights_stay_as_they_are_where_that_is_asked_for_or_cheaper() {
    let reads_floats = |ops: &[(String, Vec<DType>)]| {
        ops.iter().flat_map(|(_, types)| types).all(|ty| *ty == DType::F32)
            && ops.iter().all(|(op, _)| !op.contains("narrow"))
    };
    let row = common::random("a", DType::F32, &[1, WEIGHTS[0]]);
    let (_, ops) = run(&product(1, "~1"), "native", &row);
    assert!(reads_floats(&ops), "{ops:?}");
    // Many rows read the weights once, and compute for longer than that takes.
    let rows = common::random("a", DType::F32, &[256, WEIGHTS[0]]);
    for (pipeline, ..) in NARROW {
        let (_, ops) = run(&product(256, "~1"), pipeline, &rows);
        assert!(reads_floats(&ops), "{pipeline}: {ops:?}");
    }
}

#[test]
fn weights_of_zeros_give_zeros_and_infinite_ones_stay_infinite() {
    let row = common::random("a", DType::F32, &[1, WEIGHTS[0]]);
    for (pipeline, ..) in NARROW {
        for (values, is_right) in
            [("splat 0.0", f64::is_finite as fn(f64) -> bool), ("splat inf", |one| !one.is_finite())]
        {
            let graph = product(1, values);
            let expected = common::reference(&graph, std::slice::from_ref(&row));
            let (output, _) = run(&graph, pipeline, &row);
            let (output, expected) = (output.to_f64(), expected[0].to_f64());
            assert!(expected.iter().all(|one| is_right(*one)));
            for (got, wanted) in output.iter().zip(&expected) {
                assert!(
                    got == wanted || got.is_nan() && wanted.is_nan(),
                    "{pipeline}, {values}: {got}, {wanted}"
                );
            }
        }
    }
}

#[test]
fn a_pipeline_without_the_precision_refuses_the_rules() {
    let (registry, rules) = (common::registry(), common::rules());
    let read = |name: &str, precision: &str| {
        let (_, text) = registry.pipeline(name).unwrap();
        let own = format!("precision: \"{}\"", name.split('-').next().unwrap());
        assert!(text.contains(&own), "{text}");
        let text = text.replace(&own, &format!("precision: \"{precision}\""));
        let scope = Scope { rules: Some(&rules), ..registry.scope() };
        Pipeline::read(&scope, "mine.ron", &text).map(|_| ()).map_err(|why| why.to_string())
    };
    for coarser in ["f32", "tf32", "f16", "bf16"] {
        let refused = read("int8-weights", coarser).unwrap_err();
        let wanted = format!("rounds to int8, and the pipeline's precision is {coarser}");
        assert!(refused.contains(&wanted), "{refused}");
        assert!(refused.contains("weights-to-i8"), "{refused}");
    }
    let refused = read("int4-weights", "int8").unwrap_err();
    assert!(refused.contains("rounds to int4, and the pipeline's precision is int8"), "{refused}");
    // What allows levels of 4 bits allows those of 8.
    read("int8-weights", "int4").unwrap();
}
