//! The firing examples of every shipped rule: the graph before and the graph after have one value.
#![allow(clippy::unwrap_used)]

mod common;

use ovolo::graph::text;
use ovolo::rule::{Example, RuleSet, SHIPPED};
use ovolo::tensor::Tensor;

#[test]
fn both_sides_of_every_example_have_one_value() {
    let rules = RuleSet::read(SHIPPED).unwrap();
    let mut wrong = Vec::new();
    for rule in rules.rules() {
        for example in &rule.examples {
            let Example::Fires { graph, after: Some(after), .. } = example else { continue };
            let before_lines = || graph.split(';').map(str::trim);
            let leaves = before_lines().filter(|line| line.contains("= input") || line.contains("= const"));
            // A line without an op is another name for a value.
            let (ops, names): (Vec<&str>, Vec<&str>) =
                after.split(';').map(str::trim).partition(|line| line.contains('('));
            let names: Vec<(&str, &str)> = names.iter().filter_map(|line| line.split_once(" = ")).collect();
            let returns = before_lines().filter_map(|line| line.strip_prefix("return ")).map(|name| {
                let value = names.iter().find(|(other, _)| *other == name).map_or(name, |(_, value)| value);
                format!("return {name} = {value}")
            });
            let lines: Vec<String> = leaves.chain(ops).map(str::to_owned).chain(returns).collect();
            let after = format!("graph {{\n{}\n}}", lines.join("\n"));
            let before = text::parse(&example.graph()).unwrap();
            let after = match text::parse(&after) {
                Ok(after) => after,
                Err(error) => {
                    wrong.push(format!("{}: {error}", rule.name));
                    continue;
                }
            };
            let inputs: Vec<Tensor> = before
                .inputs()
                .map(|(_, node)| common::random(&node.name, node.ty.dtype, &node.ty.shape))
                .collect();
            let (left, right) = (common::reference(&before, &inputs), common::reference(&after, &inputs));
            for (left, right) in left.iter().zip(&right) {
                let error = common::relative_error(right, left);
                let both_nan =
                    left.to_f64().iter().zip(right.to_f64()).all(|(l, r)| l.is_nan() == r.is_nan());
                if error > 1e-5 || error.is_nan() && !both_nan {
                    wrong.push(format!("{}: relative L2 error {error:e} on {graph}", rule.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
