//! Tests of `src/verify.rs`.

use crate::units::fixture::ops;
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::graph::text::parse;
use ovolo::graph::{CONST, Graph, Node};
use ovolo::tensor::{DType, Tensor};
use ovolo::verify::verify;
use std::sync::Arc;

const TINY: &str =
    "graph { x: f32[1,16,8,8] = input; w: f32[16,16,3,3] = const ~1; b: f32[16] = const splat 0.0
        y = conv(x, w, b, x) {pads: [1,1,1,1], post: <add,relu>}; s = softmax(y) {axis: 1}; return s }";

/// Returns the errors of the tiny graph in which the node of this name was changed before it was added.
fn changed(name: &str, change: impl Fn(&mut Node)) -> String {
    let sound = parse(ops(), TINY).unwrap();
    let mut graph = Graph::new();
    for (id, node) in sound.nodes() {
        match sound.constant(id) {
            Some(value) => drop(graph.add_constant(&node.name, value.clone())),
            None => {
                let mut node = Node::clone(node);
                if &*node.name == name {
                    change(&mut node);
                }
                graph.add_node(node);
            }
        }
    }
    graph.add_output("s", sound.find("s").unwrap());
    verify(graph).map_or_else(|errors| errors.to_string(), |_| "sound".to_owned())
}

fn with(node: &mut Node, name: &'static str, value: Attr) {
    node.attrs = Arc::new(Attrs::clone(&node.attrs).with(name, value));
}

#[test]
fn a_sound_graph_is_proven_so() {
    assert_eq!(changed("y", |_| ()), "sound");
    let verified = verify(parse(ops(), TINY).unwrap()).unwrap();
    assert_eq!(verified.len(), 5);
    assert_eq!(verified.into_inner().len(), 5);
}

#[test]
fn every_complaint_names_its_node() {
    type Case = (&'static str, fn(&mut Node), &'static str);
    let cases: [Case; 10] = [
        ("y", |y| y.inputs.truncate(3), "takes 3 operands and 1 for its post chain, 3 are given"),
        (
            "y",
            |y| with(y, "groups", Attr::Ints(vec![1])),
            "attribute `groups` is [1], of kind Ints where Int is declared",
        ),
        ("y", |y| with(y, "pad", Attr::Int(1)), "there is no attribute `pad`; did you mean `pads`?"),
        ("y", |y| with(y, "groups", Attr::Int(3)), "operands: x: f32[1,16,8,8], w: f32[16,16,3,3]"),
        (
            "y",
            |y| y.ty.dtype = DType::F16,
            "`y` (conv): recorded as f16[1,16,8,8], inferred as f32[1,16,8,8]",
        ),
        ("y", |y| y.ty.shape = [1 << 40, 1 << 40].into(), "is larger than any memory"),
        ("y", |y| y.ty.layout = "nhw".parse().unwrap(), "layout `nhw` is for 3 dimensions"),
        ("s", |s| s.attrs = Arc::default(), "`s` (softmax): attribute `axis` is not set"),
        ("x", |x| with(x, "axis", Attr::Int(1)), "`x` (input): a leaf has neither operands nor attributes"),
        ("x", |x| x.op = CONST, "`x` (const): the constant has no value"),
    ];
    for (name, change, message) in cases {
        let found = changed(name, change);
        assert!(found.contains(message), "{found}\nlacks: {message}");
    }
}

#[test]
fn steps_of_a_post_chain_are_checked() {
    let post = |op: &'static str, parameters: &[Float]| {
        let step = Step { op: op.into(), parameters: parameters.to_vec() };
        changed("y", |y| with(y, "post", Attr::Post(vec![step.clone()])))
    };
    assert!(post("softmax", &[]).contains("`softmax` is not a step of a post chain"));
    assert!(post("clip", &[Float(0.0)]).contains("step `clip` has 1 parameters, 2 are declared"));
}

#[test]
fn unset_attributes_with_a_default_are_refused_too() {
    let found = changed("y", |y| y.attrs = Arc::new(Attrs::new().ints("pads", &[1, 1, 1, 1])));
    assert!(found.contains("attribute `groups` is not set (default 1)"), "{found}");
    assert!(found.contains("attribute `post` is not set (default <>)"), "{found}");
}

#[test]
fn outputs_are_checked() {
    let mut graph = Graph::new();
    let x = graph.add_constant("x", Tensor::scalar(1.0_f32));
    assert!(verify(graph.clone()).unwrap_err().to_string().ends_with("\n  the graph: there are no outputs"));
    graph.add_output("y", x);
    graph.add_output("y", x);
    let errors = verify(graph).unwrap_err();
    assert_eq!(errors.0.len(), 1);
    assert!(errors.to_string().contains("two outputs are called `y`"));
}
