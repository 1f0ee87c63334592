//! Tests of `src/extract/exchange.rs`.

use ovolo::extract::{ClassId, FormatError, Named};

const SMALL: &str = r#"{"nodes": {
        "a": {"op": "f", "children": ["c", "c"], "eclass": "1", "cost": 2.5},
        "b": {"op": "g", "eclass": "1", "cost": null},
        "c": {"op": "x", "eclass": "0"},
        "d": {"op": "y", "eclass": "0", "cost": 0, "subsumed": true}
    }, "root_eclasses": ["1"], "class_data": {"1": {"type": "f32[2]"}}, "comment": "more is allowed"}"#;

#[test]
fn what_is_not_said_costs_one_and_what_is_subsumed_is_not_extracted() {
    let named = Named::read(SMALL).expect("it is well-formed");
    let costs: Vec<Vec<f64>> = named
        .problem
        .classes
        .iter()
        .map(|class| class.nodes.iter().map(|node| node.cost).collect())
        .collect();
    assert_eq!(costs, [vec![2.5, f64::INFINITY], vec![1.0, f64::INFINITY]]);
    assert_eq!(named.problem.classes[0].nodes[0].children, [ClassId(1), ClassId(1)]);
    assert_eq!(named.types, [Some("f32[2]".to_owned()), None]);
}

#[test]
fn what_is_written_reads_the_same_without_what_cannot_be_run() {
    let mut named = Named::read(SMALL).expect("it is well-formed");
    let again = Named::read(&named.to_json()).expect("what is written is well-formed");
    for (class, labels) in named.problem.classes.iter_mut().zip(&mut named.nodes) {
        class.nodes.truncate(1);
        labels.truncate(1);
    }
    named.problem.classes[1].nodes[0].rank = 1;
    assert_eq!(again, named);
}

#[test]
fn an_unknown_key_of_a_node_is_refused() {
    let misspelt = SMALL.replace("\"cost\": 2.5", "\"costs\": 2.5");
    let Err(FormatError::Form(why)) = Named::read(&misspelt) else { panic!("`costs` is not known") };
    assert!(why.starts_with("unknown field `costs`, expected one of `op`"), "{why}");
}

#[test]
fn mistakes_are_told_at_once() {
    let text = r#"{"nodes": {
            "a": {"op": "f", "children": ["0", "z"], "eclass": "1", "cost": -1},
            "a": {"op": "f", "eclass": "0"}
        }, "root_eclasses": ["a", "7"]}"#;
    let Err(FormatError::Mistakes(told)) = Named::read(text) else { panic!("it is wrong") };
    assert_eq!(
        told,
        [
            "node `a` is there twice: give every node an id of its own",
            "node `a` costs -1: a cost is zero or more, or null for what cannot be run",
            "node `a` has the child `0`, which is a class: name a node of it",
            "node `a` has the child `z`, which is not a node: add it, or take it from `children`",
            "`root_eclasses` has `a`, which is a node: name its class",
            "`root_eclasses` has `7`, of which there is no node",
        ]
    );
    let form = Named::read("{\n  \"nodes\": [1]\n}").expect_err("nodes are an object").to_string();
    assert!(
        form.starts_with(
            "invalid type: sequence, expected an object with a key for each id at line 2 column 11"
        ),
        "{form}"
    );
    assert!(
        Named::read(r#"{"nodes": {}}"#)
            .expect_err("there is no root")
            .to_string()
            .contains("no `root_eclasses`")
    );
}
