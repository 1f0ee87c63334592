//! Elements are dropped as the generator says, and only in training.

use super::onnx::{FLOAT, floats, model, node, value};
use ovolo::compile::{Options, compile};
use ovolo::graph::text;
use ovolo::onnx::ImportOptions;
use ovolo::onnx::proto::GraphProto;
use ovolo::{DType, Registry, Tensor, TensorType};
use ovolo_train::{Dropout, Loss, Network, Optimizer, Recipe, Step, Table, TrainError, Trainer};
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 40;
const COLUMNS: usize = 50;
const RATIO: f64 = 0.25;

/// A product, of which a quarter is dropped.
fn network(name: &str) -> Network {
    let weights: Vec<f32> = (0..3 * COLUMNS).map(|at| (at as f32 * 0.37).sin() + 1.5).collect();
    let graph = GraphProto {
        input: vec![value("x", FLOAT, &["40", "3"])],
        output: vec![value("y", FLOAT, &["40", "50"])],
        initializer: vec![floats("w", &[3, 50], &weights), floats("ratio", &[], &[RATIO as f32])],
        node: vec![node("MatMul", &["x", "w"], &["product"]), node("Dropout", &["product", "ratio"], &["y"])],
        ..GraphProto::default()
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.onnx"));
    std::fs::write(&path, model(17, graph).encode_to_vec()).unwrap();
    Network::read(&Registry::new(), &path).unwrap()
}

fn recipe(dropout: Dropout, optimizer: Option<&str>) -> Recipe {
    let registry = Registry::new();
    Recipe {
        table: Table::new(&registry).unwrap(),
        loss: Loss::find(&registry, "mse").unwrap(),
        optimizer: optimizer.map(|name| Optimizer::find(name, &BTreeMap::new()).unwrap()),
        freeze: Vec::new(),
        lazy: Vec::new(),
        output: None,
        batch_statistics: true,
        dropout,
    }
}

fn own() -> Dropout {
    Dropout { own: true, after: Vec::new() }
}

fn step(network: &Network, recipe: &Recipe) -> Result<Step, TrainError> {
    Step::new(&Registry::new(), network, &ImportOptions::default(), recipe)
}

fn native() -> (Arc<Registry>, Options) {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    let registry = Arc::new(registry);
    let options = Options::new(&registry, "native").unwrap().with_threads(1);
    (registry, options)
}

/// Runs a step with a seed, and returns the outputs: the loss, the value that it takes, the gradient, and the next seed.
fn run(step: &Step, network: &Network, seed: u64) -> Vec<Tensor> {
    let (registry, options) = native();
    let mut session = compile(step.graph.clone(), &options).unwrap().session(registry.backends()).unwrap();
    let given: Vec<Tensor> = step
        .graph
        .inputs()
        .map(|(_, node)| match &*node.name {
            "w" => network.parameters()[0].1.clone(),
            "dropout-seed" => Tensor::scalar(seed),
            "labels" => Tensor::zeros(node.ty.clone()),
            _ => Tensor::from_elements([ROWS, 3], &[1.0_f32; 3 * ROWS]),
        })
        .collect();
    session.run(&given.iter().collect::<Vec<_>>()).unwrap().to_vec()
}

/// SplitMix64's output function without its last shift.
fn mixed(state: u64) -> u64 {
    let once = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[test]
fn what_is_dropped_is_what_the_generator_says() {
    let network = network("dropped");
    let step = step(&network, &recipe(own(), None)).unwrap_or_else(|why| panic!("{why}"));
    let names: Vec<String> = step.graph.inputs().map(|(_, node)| node.name.to_string()).collect();
    assert_eq!(names, ["x", "w", "dropout-seed", "labels"]);
    let whole = run(&self::step(&network, &recipe(Dropout::default(), None)).unwrap(), &network, 0);
    let whole = whole[1].to_f64();
    for seed in [0, 1, 0xffff_ffff_ffff_fff7] {
        let outputs = run(&step, &network, seed);
        let hash = "y".bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let distance = 0x9e37_79b9_7f4a_7c15_u64;
        let begin = mixed((seed ^ hash).wrapping_mul(distance));
        let kept: Vec<bool> = (0..(ROWS * COLUMNS) as u64)
            .map(|at| mixed(begin.wrapping_add(at.wrapping_mul(distance))) >= 1 << 62)
            .collect();
        let dropped = kept.iter().filter(|kept| !**kept).count() as f64 / kept.len() as f64;
        assert!((dropped - RATIO).abs() < 0.03, "{dropped}");
        for ((value, kept), whole) in outputs[1].to_f64().into_iter().zip(&kept).zip(&whole) {
            let wanted = if *kept { whole / (1.0 - RATIO) } else { 0.0 };
            assert!((value - wanted).abs() <= 1e-5 * wanted.abs(), "{value} and {wanted}");
        }
        // The loss is the mean of y^2, and all elements of a row of x are 1.
        let y = outputs[1].to_f64();
        let gradient = outputs[2].to_f64();
        for column in 0..COLUMNS {
            let all =
                (0..ROWS).filter(|row| kept[row * COLUMNS + column]).map(|row| y[row * COLUMNS + column]);
            let wanted = all.sum::<f64>() * 2.0 / (1.0 - RATIO) / (ROWS * COLUMNS) as f64;
            assert!((gradient[column] - wanted).abs() <= 1e-5 * wanted.abs(), "{column}");
        }
        assert_eq!(outputs[3].to_i128().unwrap(), [i128::from(seed.wrapping_add(1))]);
    }
}

#[test]
fn dropout_stands_after_values_that_are_named() {
    let network = network("after");
    let after = |pattern: &str, ratio: f64| Dropout { own: false, after: vec![(pattern.to_owned(), ratio)] };
    let made = step(&network, &recipe(after("prod*", 0.5), None)).unwrap_or_else(|why| panic!("{why}"));
    let y = run(&made, &network, 3)[1].to_f64();
    let zeros = y.iter().filter(|value| **value == 0.0).count();
    assert!((800..1200).contains(&zeros), "{zeros}");
    let none = step(&network, &recipe(after("product", 0.0), None)).unwrap_or_else(|why| panic!("{why}"));
    assert!(none.state.is_empty());
    let told = |dropout| step(&network, &recipe(dropout, None)).err().unwrap().to_string();
    assert!(
        told(after("absent*", 0.5)).contains("no value for --dropout `absent*`"),
        "{}",
        told(after("absent*", 0.5))
    );
    assert!(told(after("product", 1.0)).contains("less than 1"));
    assert!(Dropout::parse("relu*=1.5").is_err() && Dropout::parse("relu").is_err());
    assert_eq!(Dropout::parse("a=b=0.5").unwrap(), ("a=b".to_owned(), 0.5));
}

#[test]
fn each_step_and_each_seed_drops_other_elements() {
    let network = network("steps");
    let losses = |seed: u64| {
        let step = step(&network, &recipe(own(), Some("sgd"))).unwrap_or_else(|why| panic!("{why}"));
        let (_, options) = native();
        let mut trainer = Trainer::new(step, &network, &options).unwrap();
        trainer.seed(seed);
        let x = text::random(&TensorType::plain(DType::F32, [ROWS, 3]), 1);
        let labels = Tensor::zeros(TensorType::plain(DType::F32, [ROWS, COLUMNS]));
        // A rate of nearly nothing leaves the parameters as they are.
        [0; 3].map(|_| trainer.run(vec![x.clone()], labels.clone(), 1e-30).unwrap())
    };
    let (first, second) = (losses(0), losses(1));
    assert_eq!(losses(0), first);
    assert!(first[0] != first[1] && first[1] != first[2]);
    assert!(first.iter().all(|loss| !second.contains(loss)), "{first:?} {second:?}");
}
