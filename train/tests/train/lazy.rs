//! Lazy updates: rows that a step has read change as in a whole step, and others keep their values and state.

use super::step::{evaluate, inputs, network, recipe, step, wide};
use ovolo::compile::{Options, compile};
use ovolo::{Registry, Tensor, TensorType};
use ovolo_train::{Optimizer, Recipe};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Two tables, one of which is read twice, and its last rows only by positions from the end.
const TABLES: &str = "graph tables {
  items: i64[3,4] = input
  users: i32[3] = input
  item: f32[9,6] = const ~1
  user: f32[5] = const ~2
  x: f32[3,4,6] = gather(item, items) {axis: 0}
  mean = reduce-mean(x) {axes: [1], keepdims: 0}
  z: f32[3,6] = gather(item, users) {axis: 0}
  u: f32[3] = gather(user, users) {axis: 0}
  both = mul(mean, z)
  column = reshape(u) {shape: [3,1]}
  scaled = mul(both, column)
  head: f32[6,3] = const ~3
  y = matmul(scaled, head)
  return y
}";

/// The positions of three steps.
const ITEMS: [[i64; 12]; 3] = [
    [0, 0, 1, 0, -1, 1, 0, 8, 0, 1, 1, 0],
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
    [0, 5, -4, 7, 1, 1, 6, 6, 2, 0, 0, 1],
];
const USERS: [[i32; 3]; 3] = [[1, 1, 1], [4, 0, -5], [3, 2, 3]];

/// A value with the type of an input.
fn narrow(value: &Tensor, ty: &TensorType) -> Tensor {
    match ty.dtype.is_float() {
        true => Tensor::from_f64(ty.dtype, ty.shape.clone(), &value.to_f64()),
        false => value.clone(),
    }
}

fn lazy(patterns: &[&str], optimizer: &str) -> Recipe {
    let lazy = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Recipe { lazy, ..recipe("cross-entropy", optimizer) }
}

#[test]
fn read_rows_change_as_in_a_whole_step_and_others_stay() {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    let registry = Arc::new(registry);
    let options = Options::new(&registry, "native").unwrap();
    let network = network("tables", TABLES);
    for optimizer in Optimizer::all().unwrap() {
        let name = optimizer.name.as_str();
        let whole = step(&network, &recipe("cross-entropy", name)).unwrap();
        let few = step(&network, &lazy(&["item", "us*"], name)).unwrap_or_else(|why| panic!("{why}"));
        let mut session = compile(few.graph.clone(), &options).unwrap().session(registry.backends()).unwrap();
        let mut given = inputs(&network, &few);
        given.insert("learning-rate".to_owned(), Tensor::scalar(0.1_f32));
        for (items, users) in ITEMS.iter().zip(&USERS) {
            given.insert("items".to_owned(), Tensor::from_elements([3, 4], items));
            given.insert("users".to_owned(), Tensor::from_elements([3], users));
            let (all, some) = (evaluate(&whole.graph, &given), evaluate(&few.graph, &given));
            let ordered: Vec<Tensor> =
                few.graph.inputs().map(|(_, node)| narrow(&given[&*node.name], &node.ty)).collect();
            let run = session.run(&ordered.iter().collect::<Vec<_>>()).unwrap();
            let run: BTreeMap<String, Tensor> =
                few.graph.outputs().map(|(name, _)| name.to_string()).zip(run.iter().cloned()).collect();
            let row = |position: i64, size: i64| position.rem_euclid(size);
            let users = || users.iter().map(|user| i64::from(*user));
            for kept in few.kept() {
                let table = kept.name.split('.').next().unwrap();
                let read: Option<BTreeSet<i64>> = match table {
                    "item" => Some(items.iter().copied().chain(users()).map(|at| row(at, 9)).collect()),
                    "user" => Some(users().map(|at| row(at, 5)).collect()),
                    _ => None,
                };
                let line = kept.ty.shape.iter().skip(1).product::<usize>();
                let before = given[&*kept.name].to_f64();
                let [all, some, run] = [&all, &some, &run].map(|values| values[&*kept.name].to_f64());
                for (at, before) in before.into_iter().enumerate() {
                    let is_read = read.as_ref().is_none_or(|rows| rows.contains(&((at / line) as i64)));
                    let wanted = if is_read { all[at] } else { before };
                    let close = |found: f64, by: f64| (found - wanted).abs() <= by * wanted.abs().max(1.0);
                    assert!(close(some[at], 1e-12), "{name}: {}[{at}]: {} and {wanted}", kept.name, some[at]);
                    assert!(close(run[at], 1e-4), "{name}: {}[{at}]: {} and {wanted}", kept.name, run[at]);
                }
            }
            for kept in few.kept() {
                given.insert(kept.name.to_string(), wide(&some[&*kept.name]));
            }
        }
    }
}

/// Where rows that are not read have no gradient, no momentum and no decay, a lazy step is the whole one.
#[test]
fn descent_and_adagrad_are_the_same_when_they_are_lazy() {
    let network = network("tables-equal", TABLES);
    for name in ["sgd", "adagrad"] {
        let whole = step(&network, &recipe("cross-entropy", name)).unwrap();
        let few = step(&network, &lazy(&["item"], name)).unwrap();
        let mut given = inputs(&network, &few);
        given.insert("items".to_owned(), Tensor::from_elements([3, 4], &ITEMS[2]));
        given.insert("users".to_owned(), Tensor::from_elements([3], &USERS[2]));
        let (all, some) = (evaluate(&whole.graph, &given), evaluate(&few.graph, &given));
        for (output, wanted) in all {
            for (found, wanted) in some[&output].to_f64().into_iter().zip(wanted.to_f64()) {
                assert!((found - wanted).abs() <= 1e-12, "{name}: {output}: {found} and {wanted}");
            }
        }
    }
}

#[test]
fn what_cannot_be_lazy_is_told() {
    let told = |text: &str, recipe: &Recipe| match step(&network("not-lazy", text), recipe) {
        Ok(_) => panic!("it was made"),
        Err(why) => why.to_string(),
    };
    let why = told(TABLES, &lazy(&["itm"], "adam"));
    assert!(why.contains("--lazy itm: no trained parameter") && why.contains("item, user, head"), "{why}");
    let why = told(TABLES, &lazy(&["*"], "adam"));
    assert!(
        why.contains("--lazy head: its gradient has all rows") && why.contains("an op `matmul`"),
        "{why}"
    );
    let why = told(TABLES, &Recipe { optimizer: None, ..lazy(&["item"], "adam") });
    assert!(why.contains("--lazy item: without an optimiser"), "{why}");
    // A table that is also a matrix has a gradient by all of its rows.
    let tied = TABLES.replace("head: f32[6,3] = const ~3", "head = transpose(item) {perm: [1,0]}");
    let why = told(&tied, &lazy(&["item"], "adam"));
    assert!(why.contains("--lazy item: its gradient has all rows"), "{why}");
}
