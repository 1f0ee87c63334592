//! Tests rules with several outputs: what they merge, and that values stay the same.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::compile;
use ovolo::graph::text;
use ovolo::session::Session;
use ovolo::tensor::Tensor;

const SOURCE: &str = "graph gates {
    x: f32[1,64] = input
    a: f32[64,32] = const ~1
    b: f32[64,32] = const ~2
    p = matmul(x, a)
    q = matmul(x, b)
    return p
    return q
}";

#[test]
fn two_products_of_one_input_become_one_and_two_views() {
    let graph = text::parse(common::ops(), SOURCE).unwrap();
    let x = Tensor::from_f64(
        ovolo::tensor::DType::F32,
        [1_usize, 64],
        &(0..64).map(|i| f64::from(i) * 0.03 - 1.0).collect::<Vec<_>>(),
    );
    let mut outputs = Vec::new();
    for pipeline in ["native", "merged"] {
        let compilation = compile::compile(graph.clone(), &common::pipeline(pipeline, 1)).unwrap();
        let products =
            compilation.plan.steps.iter().filter(|step| step.op.name.starts_with("native.matmul")).count();
        assert_eq!(products, if pipeline == "merged" { 1 } else { 2 }, "{}", compilation.plan);
        if pipeline == "merged" {
            let by = |name: &str| {
                compilation
                    .plan
                    .steps
                    .iter()
                    .any(|step| step.source.rules.iter().any(|rule| rule.starts_with(name)))
            };
            assert!(by("merge-matmuls"), "{}", compilation.plan);
        }
        let mut session =
            Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
        outputs.push(session.run(&[&x]).unwrap().to_vec());
    }
    for (merged, apart) in outputs[1].iter().zip(&outputs[0]) {
        assert!(common::relative_error(merged, apart) < 1e-6);
    }
}
