//! Measures chains of elementwise steps on short rows, as blocks of channels have them, and on long ones. An element
//! should take as long in either: rows that follow one another are one row for a step without an extra operand.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ovolo::backend::Call;
use ovolo::graph::{Graph, text};
use ovolo::memory::{Limit, execution_orders, planners};
use ovolo::plan::{Plan, Settings};
use ovolo::session::Session;
use ovolo::tensor::Tensor;

#[path = "../tests/common/mod.rs"]
mod common;

/// Chains, each with its name: of formulas, of loops of their own, and of steps with an extra operand for each channel.
const CHAINS: [(&str, &str); 4] = [
    ("formulas", "celu(1),selu(1.5,1)"),
    ("loops", "relu,sigmoid"),
    ("extra-formulas", "add,celu(1)"),
    ("extra-loops", "add,relu"),
];

/// Layouts: rows of 16 elements, and rows of 3136.
const LAYOUTS: [(&str, &str); 2] = [("short", "@nChw16c"), ("long", "")];

/// Returns the plan of a graph of lowered ops on one thread, in their order.
fn planned(graph: &Graph) -> Plan {
    let ask = |call: &Call<'_>, _: &[bool]| call.contract().map(|contract| (contract, 0.0));
    let (orders, planners) = (execution_orders(), planners());
    let settings = Settings {
        order: &**orders.get("given").unwrap(),
        planner: &**planners.get("best").unwrap(),
        limit: &Limit::default(),
    };
    Plan::new(graph, &[], 1, &ask, &|_| 0.0, &settings).unwrap()
}

fn chain(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chain");
    group.throughput(Throughput::Elements(64 * 56 * 56));
    for (name, steps) in CHAINS {
        let (operand, input) = match steps.contains("add") {
            true => (", c", "c: f32[1,64,1,1]@LAYOUT = input\n"),
            false => ("", ""),
        };
        for (rows, layout) in LAYOUTS {
            let source = format!(
                "graph chain {{\nx: f32[1,64,56,56]{layout} = input\n{}y = native.map(x{operand}) {{post: <{steps}>}}\n\
                 return y\n}}",
                input.replace("@LAYOUT", layout)
            );
            let graph = text::parse(common::ops(), &source).unwrap();
            let mut session = Session::new(&graph, planned(&graph), common::registry().backends()).unwrap();
            assert!(session.plan().steps[0].implementation.contains("steps"), "{source}");
            let inputs = common::inputs(&graph);
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            group.bench_function(BenchmarkId::new(name, rows), |bencher| {
                bencher.iter(|| session.run(&inputs).map(<[Tensor]>::len).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, chain);
criterion_main!(benches);
