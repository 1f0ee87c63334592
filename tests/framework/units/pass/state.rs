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

#[test]
fn equal_constants_are_one_value_and_so_is_what_is_computed_from_them() {
    let source = "graph {
        x: f32[2] = input
        a: f32[] = const [0.5]
        b: f32[] = const [0.5]
        c: f32[] = const [0.25]
        d: f32[1] = const [0.5]
        e = mul(x, a)
        f = mul(x, b)
        g = mul(x, c)
        h = mul(x, d)
        return e
        return f
        return g
        return h
    }";
    let saturated = Imported::new(parse(ops(), source).unwrap()).unwrap().saturate();
    let text = State::Saturated(Box::new(saturated)).egraph().map(EGraph::to_text).unwrap();
    let classes: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    // Other values, and values of other shapes, stay apart.
    assert_eq!(classes.len(), 7, "{text}");
    for names in [" a b:", " e f:"] {
        assert!(classes.iter().any(|class| class.contains(names)), "{names} in\n{text}");
    }
}
