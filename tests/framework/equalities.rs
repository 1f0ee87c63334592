//! Tests the firing examples of every shipped rule: the graphs before and after have the same values.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::graph::text;
use ovolo::rule::{Example, Precision};

#[test]
fn both_sides_of_every_example_have_one_value() {
    let rules = common::rules();
    let mut wrong = Vec::new();
    for rule in rules.rules() {
        let tolerance = match rule.precision {
            Precision::F32 => 1e-5,
            Precision::Tf32 | Precision::F16 | Precision::Bf16 => 1e-2,
            Precision::Int8 => 3e-2,
            Precision::Int4 => 3e-1,
        };
        for example in &rule.examples {
            let Example::Fires { graph, after: Some(after), .. } = example else { continue };
            let before = text::parse(common::ops(), &example.graph()).unwrap();
            let after = match common::after(graph, after) {
                Ok(after) => after,
                Err(error) => {
                    wrong.push(format!("{}: {error}", rule.name));
                    continue;
                }
            };
            let inputs = common::inputs(&before);
            let (left, right) = (common::reference(&before, &inputs), common::reference(&after, &inputs));
            for (left, right) in left.iter().zip(&right) {
                let error = common::relative_error(right, left);
                let both_nan =
                    left.to_f64().iter().zip(right.to_f64()).all(|(l, r)| l.is_nan() == r.is_nan());
                if error > tolerance || error.is_nan() && !both_nan {
                    wrong.push(format!("{}: relative L2 error {error:e} on {graph}", rule.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
