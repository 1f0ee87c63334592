//! What the test binaries share.
#![allow(dead_code, clippy::unwrap_used)]

use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::Machine;
use ovolo::graph::Graph;
use ovolo::pass::pipeline::{PassSpec, Pipeline, SHIPPED};
use ovolo::rule::{self, RuleSet};
use ovolo::tensor::Tensor;

/// The shipped native pipeline under the nominal cost model, for plans that are the same anywhere.
pub fn options(threads: usize) -> Options {
    pipeline("native", threads)
}

/// A shipped pipeline under the nominal cost model.
pub fn pipeline(name: &str, threads: usize) -> Options {
    let path = format!("passes/{name}.ron");
    let (name, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == path).unwrap();
    let mut pipeline = Pipeline::read(name, text).unwrap();
    for pass in &mut pipeline.passes {
        if let PassSpec::Extract(settings) = pass {
            settings.cost = "flops".into();
        }
    }
    Options {
        rules: RuleSet::read(rule::SHIPPED).unwrap(),
        pipeline,
        threads,
        machine: Machine::NOMINAL,
        keep_egraph_after: None,
    }
}

pub fn compile(graph: Graph, threads: usize) -> Compilation {
    compile::compile(graph, &options(threads)).unwrap_or_else(|error| panic!("{error}"))
}

/// Relative L2 error, computed in `f64`.
pub fn relative_error(value: &Tensor, reference: &Tensor) -> f64 {
    assert_eq!(value.ty().shape, reference.ty().shape);
    let (value, reference) = (value.to_f64(), reference.to_f64());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut value.iter().zip(&reference).map(|(a, b)| a - b));
    let scale = square(&mut reference.iter().copied());
    (difference / scale.max(1e-60)).sqrt()
}
