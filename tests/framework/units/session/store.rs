//! Tests of `src/session/store.rs`, and of the references to tensors by which a store knows constants.

use crate::common;
use ovolo::attr::Attrs;
use ovolo::backend::Unkept;
use ovolo::graph::{Graph, Node};
use ovolo::session::{Session, Store};
use ovolo::tensor::Tensor;
use std::sync::Arc;

/// Returns a session that reads this constant, and shares it through a store.
fn session(constant: &Tensor, store: &Store) -> Session {
    let mut graph = Graph::new();
    let ty = constant.ty().clone();
    let x = graph.add_input("x", ty.clone());
    let c = graph.add_constant("c", constant.clone());
    let op = common::ops().get("add").unwrap();
    let attrs = Arc::new(Attrs::new());
    let y = graph.add_node(Node { op, attrs, inputs: vec![x, c], name: "y".into(), ty });
    graph.add_output("y", y);
    let compiled = common::compile(graph, 1);
    let backends = common::registry().backends();
    Session::sharing(&compiled.program, compiled.plan.clone(), backends, &Unkept, store).unwrap()
}

/// Returns the only constant of a session.
fn constant(session: &Session) -> &Tensor {
    let [(_, constant)] = session.constants()[..] else { panic!("it has one constant") };
    constant
}

/// Whether two sessions have their constants in the same memory.
fn share(one: &Session, other: &Session) -> bool {
    constant(one).bytes().as_ptr() == constant(other).bytes().as_ptr()
}

fn tensor() -> Tensor {
    Tensor::from_elements([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])
}

#[test]
fn a_constant_is_shared_while_it_is_used() {
    let store = Store::new();
    let one = session(&tensor(), &store);
    let other = session(&tensor(), &store);
    assert!(share(&one, &other));
    assert_eq!(store.bytes(), 16);
    drop((one, other));
    assert_eq!(store.bytes(), 0);
}

#[test]
fn a_weight_is_known_by_its_name_and_type_and_others_by_their_elements() {
    let (a, b) = (tensor(), tensor());
    let unnamed = Store::new();
    let (one, other) = (session(&a, &unnamed), session(&b, &unnamed));
    assert!(share(&one, &other));
    let named = Store::new();
    named.name(&a, "a");
    let (one, other) = (session(&a, &named), session(&b, &named));
    assert!(!share(&one, &other));
    assert_eq!(named.bytes(), 32);
    let flat = session(&a.reshaped([4].into()), &named);
    assert_eq!((constant(&one).ty(), constant(&flat).ty().to_string()), (a.ty(), "f32[4]".to_owned()));
}

#[test]
fn a_reference_lives_as_long_as_a_tensor_that_shares_the_bytes() {
    let store = Store::new();
    let first = session(&tensor(), &store);
    let shared = constant(&first).reshaped([4].into());
    drop(first);
    assert_eq!(store.bytes(), 16);
    let again = session(&tensor(), &store);
    assert_eq!(constant(&again).ty(), tensor().ty());
    assert_eq!(constant(&again).elements::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(constant(&again).bytes().as_ptr(), shared.bytes().as_ptr());
    drop(again);
    assert_eq!(store.bytes(), 16);
    drop(shared);
    assert_eq!(store.bytes(), 0);
}
