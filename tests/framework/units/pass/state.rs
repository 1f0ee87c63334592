//! Tests of `src/pass/state.rs`.

use crate::units::fixture::ops;
use ovolo::egraph::EGraph;
use ovolo::graph::text::parse;
use ovolo::pass::State;
use ovolo::stage::Imported;

#[test]
fn a_pass_that_stands_at_the_wrong_stage_is_told_where_to_stand() {
    let graph = parse(ops(), "graph { x: f32[2] = input; y = relu(x); return y }").unwrap();
    let imported = || Imported::new(graph.clone()).unwrap();
    let early = State::Imported(imported()).into_chosen("plan").unwrap_err().to_string();
    assert!(early.contains("pass `plan`") && early.contains("put `Extract` before it"), "{early}");
    let saturated = State::Saturated(Box::new(imported().saturate()));
    // A line that is not indented is a class.
    let classes = |egraph: &EGraph| egraph.to_text().lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(saturated.egraph().map(classes), Some(2));
    assert_eq!(saturated.into_saturated("more").unwrap().growth().len(), 0);
    assert!(State::Imported(imported()).into_planned().is_none());
}
