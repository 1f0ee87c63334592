//! Steps of whole networks: their gradients agree with differences of the loss, and their optimisers with formulas.

use ovolo::compile::{Options, compile};
use ovolo::graph::{Graph, NodeId, text};
use ovolo::onnx::ImportOptions;
use ovolo::{DType, Registry, Tensor, TensorType};
use ovolo_train::{Dropout, Loss, Network, Optimizer, Recipe, Step, Table, TrainError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An attention block with a feed-forward part: products, softmax, layer norms, gelu, embeddings and a mean.
const ATTENTION: &str = "graph attention {
  tokens: i64[2,5] = input
  table: f32[8,8] = const ~1
  x: f32[2,5,8] = gather(table, tokens) {axis: 0}
  query: f32[8,8] = const ~2; key: f32[8,8] = const ~3; value: f32[8,8] = const ~4
  q = matmul(x, query); k = matmul(x, key); v = matmul(x, value)
  q4 = reshape(q) {shape: [2,5,2,4]}; k4 = reshape(k) {shape: [2,5,2,4]}; v4 = reshape(v) {shape: [2,5,2,4]}
  qh = transpose(q4) {perm: [0,2,1,3]}; kh = transpose(k4) {perm: [0,2,3,1]}; vh = transpose(v4) {perm: [0,2,1,3]}
  scores = matmul(qh, kh)
  scale: f32[] = const [0.5]
  scaled = mul(scores, scale)
  weights = softmax(scaled) {axis: 3}
  mixed = matmul(weights, vh)
  back = transpose(mixed) {perm: [0,2,1,3]}
  flat = reshape(back) {shape: [2,5,8]}
  sum = add(x, flat)
  norm.scale: f32[8] = const ~5; norm.bias: f32[8] = const ~6
  normal = layer-norm(sum, norm.scale, norm.bias) {axis: 2}
  up: f32[8,6] = const ~7; up.bias: f32[6] = const ~8; down: f32[6,8] = const ~9
  wide = matmul(normal, up); biased = add(wide, up.bias); bent = gelu(biased)
  narrow = matmul(bent, down)
  whole = add(normal, narrow)
  mean = reduce-mean(whole) {axes: [1], keepdims: 0}
  head: f32[8,3] = const ~10
  y = matmul(mean, head)
  return y
}";

/// A residual block with batch norms, groups, strides, pools and a gate.
const RESIDUAL: &str = "graph residual {
  x: f32[2,4,6,6] = input
  w1: f32[4,2,3,3] = const ~1; b1: f32[4] = const ~2
  c1 = conv(x, w1, b1) {pads: [1,1,1,1], groups: 2}
  s1: f32[4] = const ~3; t1: f32[4] = const ~4; m1: f32[4] = const ~5
  v1: f32[4] = const [0.5, 1.5, 2.0, 1.0]
  n1 = batch-norm(c1, s1, t1, m1, v1)
  r1 = silu(n1)
  w2: f32[4,4,3,3] = const ~6; b2: f32[4] = const ~7
  c2 = conv(r1, w2, b2) {pads: [2,2,2,2], dilations: [2,2]}
  sum = add(c2, x)
  p = avg-pool(sum) {kernel: [3,3], strides: [2,2], pads: [1,1,1,1]}
  q = max-pool(p) {kernel: [2,2]}
  g = reduce-mean(p) {axes: [2,3]}
  u: f32[4,4,1,1] = const ~8; ub: f32[4] = const ~9
  gate = conv(g, u, ub)
  open = sigmoid(gate)
  gated = mul(q, open)
  joined = concat(gated, q) {axis: 1}
  cut = slice(joined) {starts: [0,1,0,0], sizes: [2,6,2,2], steps: [1,1,1,1]}
  flat = reshape(cut) {shape: [2,24]}
  head: f32[24,3] = const ~10
  y = matmul(flat, head)
  return y
}";

/// A network that resamples, normalises across channels, and takes every second element.
const RESAMPLED: &str = "graph resampled {
  x: f32[2,3,4,5] = input
  w: f32[4,3,1,1] = const ~1; b: f32[4] = const ~2
  c = conv(x, w, b)
  n = lrn(c) {size: 3, alpha: 0.5}
  r = resize(n) {sizes: [7,3], mode: \"linear\"}
  u = resize(r) {sizes: [8,8], coordinates: \"asymmetric\"}
  s = slice(u) {starts: [0,0,7,1], sizes: [2,4,4,3], steps: [1,1,-2,3]}
  p = cum-prod(s) {axis: 3}
  flat = reshape(p) {shape: [2,48]}
  head: f32[48,3] = const ~3
  y = matmul(flat, head)
  return y
}";

fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits/digits.onnx")
}

/// Reads a graph in text form as a network.
pub fn network(name: &str, text: &str) -> Network {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ovolo"));
    std::fs::write(&path, text).unwrap();
    Network::read(&Registry::new(), &path).unwrap()
}

pub fn recipe(loss: &str, optimizer: &str) -> Recipe {
    let registry = Registry::new();
    Recipe {
        table: Table::new(&registry).unwrap(),
        loss: Loss::find(&registry, loss).unwrap(),
        optimizer: Some(Optimizer::find(optimizer, &BTreeMap::new()).unwrap()),
        freeze: Vec::new(),
        lazy: Vec::new(),
        output: None,
        batch_statistics: false,
        dropout: Dropout::default(),
    }
}

pub fn step(network: &Network, recipe: &Recipe) -> Result<Step, TrainError> {
    Step::new(&Registry::new(), network, &ImportOptions::default().with_dim("N", 3), recipe)
}

pub fn wide(tensor: &Tensor) -> Tensor {
    match tensor.ty().dtype.is_float() {
        true => Tensor::from_f64(DType::F64, tensor.ty().shape.clone(), &tensor.to_f64()),
        false => tensor.clone(),
    }
}

/// Evaluates a graph by the reference, all floats in `f64`, and returns its outputs by name.
pub fn evaluate(graph: &Graph, inputs: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let mut values: Vec<Tensor> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        values.push(match graph.constant(id) {
            Some(value) => wide(value),
            None if node.op.is_leaf() => wide(&inputs[&*node.name]),
            None => {
                let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
                let dtype = if node.ty.dtype.is_float() { DType::F64 } else { node.ty.dtype };
                wide(&node.op.evaluate(&node.attrs, &operands, &TensorType { dtype, ..node.ty.clone() }))
            }
        });
    }
    graph.outputs().map(|(name, id): (_, NodeId)| (name.to_string(), values[id.index()].clone())).collect()
}

/// Values for all inputs of a step: the parameters of the network, labels of three classes, and random ones.
pub fn inputs(network: &Network, step: &Step) -> BTreeMap<String, Tensor> {
    let own: BTreeMap<&str, &Tensor> =
        network.parameters().iter().map(|(name, value)| (name.as_str(), value)).collect();
    let value = |(at, node): (usize, &ovolo::graph::Node)| match (own.get(&*node.name), &*node.name) {
        (Some(value), _) => (*value).clone(),
        (None, "learning-rate") => Tensor::scalar(1.0_f32),
        (None, "step") => Tensor::scalar(0.0_f32),
        (None, "labels") if node.ty.dtype == DType::I64 => {
            Tensor::from_elements([node.ty.shape[0]], &[1_i64, 2, 0][..node.ty.shape[0]])
        }
        // A variance is positive.
        (None, name) if step.statistics.iter().any(|kept| *kept.name == *name) => {
            Tensor::from_f64(node.ty.dtype, node.ty.shape.clone(), &vec![0.5; node.ty.shape.count()])
        }
        (None, name) if step.state.iter().any(|kept| *kept.name == *name) => Tensor::zeros(node.ty.clone()),
        (None, _) => text::random(&node.ty, 100 + at as u64),
    };
    step.graph
        .inputs()
        .enumerate()
        .map(|(at, (_, node))| (node.name.to_string(), value((at, node))))
        .collect()
}

/// Compares the gradients of a step of gradient descent with differences of the loss along random directions through all
/// parameters.
pub fn agrees(network: &Network, recipe: &Recipe) {
    let step = step(network, recipe).unwrap_or_else(|why| panic!("{why}"));
    let given: BTreeMap<String, Tensor> =
        inputs(network, &step).into_iter().map(|(name, value)| (name, wide(&value))).collect();
    let next = evaluate(&step.graph, &given);
    for seed in 0..3 {
        let (mut along, mut squares) = (0.0, 0.0_f64);
        let mut directions = BTreeMap::new();
        for kept in &step.parameters {
            let before = given[&*kept.name].to_f64();
            let gradient = before.iter().zip(next[&*kept.name].to_f64()).map(|(before, next)| before - next);
            let seed =
                kept.name.bytes().fold(seed, |hash: u64, byte| hash.wrapping_mul(31) ^ u64::from(byte));
            let direction = text::random(&kept.ty, seed).to_f64();
            for part in gradient.zip(&direction).map(|(gradient, direction)| gradient * direction) {
                along += part;
                squares += part * part;
            }
            directions.insert(kept.name.to_string(), direction);
        }
        let loss = |distance: f64| {
            let mut moved = given.clone();
            for (name, direction) in &directions {
                let values: Vec<f64> =
                    moved[name].to_f64().iter().zip(direction).map(|(v, d)| v + distance * d).collect();
                moved.insert(
                    name.clone(),
                    Tensor::from_f64(DType::F64, moved[name].ty().shape.clone(), &values),
                );
            }
            evaluate(&step.graph, &moved)["loss"].to_f64()[0]
        };
        let slope = |distance: f64| (loss(distance) - loss(-distance)) / (2.0 * distance);
        let difference = (4.0 * slope(5e-6) - slope(1e-5)) / 3.0;
        // Constants such as 1 / 3 are rounded to `f32`, and the parts of the sum may cancel.
        let error = (along - difference).abs() / difference.abs().max(squares.sqrt());
        // A step function has no slope.
        assert!(
            error < 1e-6 || along == 0.0 && difference == 0.0,
            "{}: {along} and {difference}, {error:.1e}",
            network.name()
        );
    }
}

#[test]
fn gradients_of_networks_agree_with_differences_of_the_loss() {
    for (name, text) in [("attention", ATTENTION), ("residual", RESIDUAL), ("resampled", RESAMPLED)] {
        let network = network(name, text);
        for loss in ["cross-entropy", "mse", "binary-cross-entropy"] {
            agrees(&network, &recipe(loss, "sgd"));
        }
    }
    agrees(&network("residual", RESIDUAL), &Recipe { batch_statistics: true, ..recipe("mse", "sgd") });
    let digits = Network::read(&Registry::new(), &digits()).unwrap();
    agrees(&digits, &recipe("cross-entropy", "sgd"));
    agrees(&digits, &Recipe { batch_statistics: true, ..recipe("cross-entropy", "sgd") });
}

/// The kernels that run a step compute what its ops mean.
#[test]
fn compiled_steps_agree_with_the_reference() {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    let registry = Arc::new(registry);
    let options = Options::new(&registry, "native").unwrap().with_threads(2);
    let digits = Network::read(&registry, &digits()).unwrap();
    for network in [network("attention", ATTENTION), network("residual", RESIDUAL), digits] {
        for optimizer in ["sgd", "momentum"] {
            let recipe = Recipe { batch_statistics: true, ..recipe("cross-entropy", optimizer) };
            let step = step(&network, &recipe).unwrap_or_else(|why| panic!("{why}"));
            let given = inputs(&network, &step);
            let wanted = evaluate(&step.graph, &given);
            let mut session =
                compile(step.graph.clone(), &options).unwrap().session(registry.backends()).unwrap();
            let ordered: Vec<&Tensor> = step.graph.inputs().map(|(_, node)| &given[&*node.name]).collect();
            let found = session.run(&ordered).unwrap();
            for ((name, _), found) in step.graph.outputs().zip(found) {
                let pairs = || found.to_f64().into_iter().zip(wanted[&**name].to_f64());
                let [error, size] =
                    [pairs().map(|(a, b)| (a - b) * (a - b)).sum(), pairs().map(|(_, b)| b * b).sum::<f64>()];
                assert!(
                    error.sqrt() <= 1e-4 * size.sqrt() + 1e-6,
                    "{}: {optimizer}: {name}: {error:.1e}",
                    network.name()
                );
            }
        }
    }
}

/// The gradient of each function is written in the ops of its derivative.
#[test]
fn gradients_of_functions_agree_with_differences() {
    let registry = Registry::new();
    let functions: Vec<_> = registry.ops().functions().collect();
    assert!(functions.len() > 40);
    let table = Table::new(&registry).unwrap();
    for function in functions.into_iter().filter(|function| table.ops().any(|op| op == function.name())) {
        let name = function.name();
        let values = if name == "acosh" { "[1.5, 2.6, 1.2]" } else { "[0.3, 0.85, 0.2]" };
        let of = if function.operands() == 2 { "w, v" } else { "w" };
        let text = format!(
            "graph function {{\n x: f32[1,3] = input\n w: f32[1,3] = const {values}\n v: f32[3] = const [0.4, 0.7, 0.9]\n \
             f = {name}({of})\n y = mul(f, x)\n return y\n}}"
        );
        let network = network(&format!("function-{name}"), &text);
        agrees(&network, &recipe("mse", "sgd"));
    }
}

#[test]
fn optimisers_agree_with_their_formulas() {
    let (rate, x, y) = (0.1, [1.0, -2.0], 0.5);
    // The gradient of (w x - y)^2 with respect to w.
    let slope = |w: f64| [0, 1].map(|at| 2.0 * (w * x[at] - y) * x[at] / 2.0).iter().sum::<f64>();
    let adam = |weight: f64, decay: f64| {
        let (mut w, mut mean, mut square) = (weight, 0.0, 0.0);
        for step in 1..=3 {
            let g = slope(w);
            mean = 0.9 * mean + 0.1 * g;
            square = 0.999 * square + 0.001 * g * g;
            let (m, s) = (mean / (1.0 - 0.9_f64.powi(step)), square / (1.0 - 0.999_f64.powi(step)));
            w -= rate * (m / (s.sqrt() + 1e-8) + decay * w);
        }
        w
    };
    let descent = |weight: f64, kept: f64| {
        let (mut w, mut velocity) = (weight, 0.0);
        for _ in 0..3 {
            velocity = kept * velocity + slope(w);
            w -= rate * velocity;
        }
        w
    };
    let adagrad = |weight: f64| {
        let (mut w, mut sum) = (weight, 0.0_f64);
        for _ in 0..3 {
            let g = slope(w);
            sum += g * g;
            w -= rate * g / (sum.sqrt() + 1e-10);
        }
        w
    };
    let wanted = [
        ("adagrad", adagrad(0.7)),
        ("sgd", descent(0.7, 0.0)),
        ("momentum", descent(0.7, 0.9)),
        ("adam", adam(0.7, 0.0)),
        ("adamw", adam(0.7, 0.01)),
    ];
    let network = network(
        "line",
        "graph line {\n x: f32[2,1] = input\n w: f32[1,1] = const [0.7]\n y = matmul(x, w)\n return y\n}",
    );
    assert_eq!(wanted.len(), Optimizer::all().unwrap().len());
    for (name, wanted) in wanted {
        let step = step(&network, &recipe("mse", name)).unwrap_or_else(|why| panic!("{why}"));
        let mut given = inputs(&network, &step);
        given.insert("x".to_owned(), Tensor::from_elements([2, 1], &[1.0_f32, -2.0]));
        given.insert("labels".to_owned(), Tensor::from_elements([2, 1], &[0.5_f32, 0.5]));
        given.insert("learning-rate".to_owned(), Tensor::from_f64(DType::F64, Vec::new(), &[rate]));
        given.insert("w".to_owned(), Tensor::from_f64(DType::F64, [1, 1], &[0.7]));
        for _ in 0..3 {
            let next = evaluate(&step.graph, &given);
            for kept in step.kept() {
                given.insert(kept.name.to_string(), next[&*kept.name].clone());
            }
        }
        let found = given["w"].to_f64()[0];
        assert!((found - wanted).abs() < 1e-6, "{name}: {found} and {wanted}");
    }
}

#[test]
fn frozen_parameters_are_left_out() {
    let network = Network::read(&Registry::new(), &digits()).unwrap();
    let all = step(&network, &recipe("cross-entropy", "adam")).unwrap();
    let freeze = vec!["conv*".to_owned(), "batchnorm1.*".to_owned()];
    let some = step(&network, &Recipe { freeze, ..recipe("cross-entropy", "adam") }).unwrap();
    let names = |step: &Step| step.parameters.iter().map(|kept| kept.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&all).len(), 10);
    assert_eq!(names(&some), ["batchnorm5.scale", "batchnorm5.bias", "linear8.weight", "linear8.bias"]);
    // Nothing is computed for what lies before the first trained parameter.
    assert!(some.graph.len() < all.graph.len());
}

#[test]
fn what_cannot_be_trained_is_told() {
    let registry = Registry::new();
    let digits = Network::read(&registry, &digits()).unwrap();
    let told = |network: &Network, recipe: &Recipe| match step(network, recipe) {
        Ok(_) => panic!("it was made"),
        Err(why) => why.to_string(),
    };
    let freeze = vec!["nothing*".to_owned()];
    let why = told(&digits, &Recipe { freeze, ..recipe("mse", "sgd") });
    assert!(why.contains("--freeze nothing*") && why.contains("conv0.weight"), "{why}");
    let why = told(&digits, &Recipe { freeze: vec!["*".to_owned()], ..recipe("mse", "sgd") });
    assert!(why.contains("all of them are frozen"), "{why}");
    let why = told(&digits, &Recipe { output: Some("scroes".to_owned()), ..recipe("mse", "sgd") });
    assert!(why.contains("did you mean `scores`?"), "{why}");
    let why = Loss::find(&registry, "cross-entrpy").unwrap_err().to_string();
    assert!(why.contains("did you mean `cross-entropy`?"), "{why}");
    let why = Optimizer::find("adam", &BTreeMap::from([("beta".to_owned(), 0.5)])).unwrap_err().to_string();
    assert!(why.contains("did you mean `beta1`?"), "{why}");
    let det = "graph volume {
  x: f32[1,3,3] = input
  w: f32[3,3] = const ~1
  c = matmul(x, w)
  y = det(c)
  return y
}";
    let why = told(&network("volume", det), &recipe("mse", "sgd"));
    assert!(why.contains("`y`, an op `det`") && why.contains("the table has no rule for it"), "{why}");
    let end = "graph end {
  x: f32[2,3] = input
  w: f32[3,4] = const ~1
  y = matmul(x, w)
  p = softmax(y) {axis: 1}
  return p
}";
    let end = network("end", end);
    let why = told(&end, &recipe("cross-entropy", "sgd"));
    assert!(why.contains("give --of y"), "{why}");
    agrees(&end, &Recipe { output: Some("y".to_owned()), ..recipe("cross-entropy", "sgd") });
    agrees(&end, &recipe("mse", "sgd"));
    let row = "graph row {\n x: f32[3] = input\n w: f32[3] = const ~1\n y = mul(x, w)\n return y\n}";
    let why = told(&network("row", row), &recipe("cross-entropy", "sgd"));
    assert!(why.contains("min-rank(?y, 2)"), "{why}");
}
