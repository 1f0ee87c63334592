//! Tests `grad`, `train` and `derivatives` from outside: what they write, what they say, and what they refuse.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo, root};
use crate::outcome::{refused, said};
use std::path::Path;
use std::process::Output;

fn example(file: &str) -> String {
    root().join("examples/digits").join(file).display().to_string()
}

/// Trains the network of the examples on its data, priced without measured speeds.
fn train(at: &Path, arguments: &[&str]) -> Output {
    let (model, data) = (example("digits.onnx"), example("training.npz"));
    let given =
        ["train", &model, "--data", &data, "--threads", "1", "--cost", "flops", "--pipeline", "native"];
    ovolo(at, &[&given[..], arguments].concat())
}

/// The share of right labels in the last line that tells one.
fn accuracy(text: &str) -> f64 {
    let (_, after) = text.rsplit_once("accuracy ").unwrap();
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn random_weights_become_a_network_that_reads_digits_it_has_not_seen() {
    let at = folder("train-digits");
    let test = example("held-out.npz");
    let arguments =
        ["--test", &test, "--from-scratch", "--rate", "0.01", "--epochs", "8", "--output", "trained.onnx"];
    let report = said(&train(&at, &arguments));
    assert!(accuracy(&report) >= 97.0, "{report}");
    let (images, labels) = (format!("image={}", example("images.npy")), example("labels.npy"));
    let run = ovolo(
        &at,
        &[
            "run",
            "trained.onnx",
            "--dim",
            "N=360",
            "--input",
            &images,
            "--labels",
            &labels,
            "--cost",
            "flops",
        ],
    );
    assert!((accuracy(&said(&run)) - accuracy(&report)).abs() < 0.01, "{report}");
}

#[test]
fn a_resumed_training_gives_the_same_bytes_for_every_optimiser() {
    let at = folder("train-resume");
    for optimizer in ["sgd", "momentum", "adagrad", "adam", "adamw"] {
        let whole = ["--optimizer", optimizer, "--from-scratch", "--seed", "3"];
        let end = ["--epochs", "2", "--checkpoint", "whole.npz", "--output", "whole.onnx"];
        said(&train(&at, &[&whole[..], &end].concat()));
        said(&train(&at, &[&whole[..], &["--epochs", "1", "--checkpoint", "half.npz"]].concat()));
        let rest = ["--optimizer", optimizer, "--resume", "half.npz", "--epochs", "2"];
        let end = ["--checkpoint", "resumed.npz", "--output", "resumed.onnx"];
        said(&train(&at, &[&rest[..], &end].concat()));
        let bytes = |file: &str| std::fs::read(at.join(file)).unwrap();
        assert!(bytes("whole.npz") == bytes("resumed.npz"), "{optimizer}");
        assert!(bytes("whole.onnx") == bytes("resumed.onnx"), "{optimizer}");
    }
    refused(&train(&at, &["--resume", "half.npz", "--epochs", "3"]), 1, "give --optimizer adamw");
    // The same elements are dropped, and both formats keep the same bytes.
    let dropped = ["--dropout", "relu*=0.2", "--dropout", "flat=0.5", "--from-scratch", "--seed", "3"];
    let end = ["--epochs", "2", "--output", "whole.onnx"];
    said(&train(&at, &[&dropped[..], &end].concat()));
    said(&train(&at, &[&dropped[..], &["--epochs", "1", "--checkpoint", "half.safetensors"]].concat()));
    let rest = ["--resume", "half.safetensors", "--epochs", "2", "--output", "resumed.onnx"];
    said(&train(&at, &[&dropped[..4], &rest].concat()));
    let bytes = |file: &str| std::fs::read(at.join(file)).unwrap();
    assert!(bytes("whole.onnx") == bytes("resumed.onnx"));
    let only = ["--epochs", "1", "--output", "only.safetensors"];
    said(&train(&at, &only));
    said(&train(&at, &["--parameters", "only.safetensors", "--epochs", "1"]));
    refused(&train(&at, &["--parameters", "half.safetensors"]), 1, "the step keeps no value");
    let done = ["--optimizer", "adamw", "--resume", "half.npz", "--epochs", "1"];
    refused(&train(&at, &done), 1, "give more --epochs");
}

#[test]
fn frozen_parameters_keep_their_bytes() {
    let at = folder("train-freeze");
    let arguments = ["--freeze", "conv*", "--freeze", "batch*", "--fixed-statistics", "--epochs", "1"];
    said(&train(&at, &[&arguments[..], &["--checkpoint", "head.npz", "--optimizer", "sgd"]].concat()));
    let archive = std::fs::read(at.join("head.npz")).unwrap();
    let archive = String::from_utf8_lossy(&archive);
    assert!(archive.contains("linear8.weight.npy") && !archive.contains("conv0"));
}

#[test]
fn the_step_is_a_graph_that_other_commands_take() {
    let at = folder("train-grad");
    let model = example("digits.onnx");
    let made = ovolo(&at, &["grad", &model, "--dim", "N=8", "--optimizer", "sgd", "-o", "step.ovolo"]);
    let told = said(&made);
    assert!(told.contains("10 parameters of 6186 numbers"), "{told}");
    let dumped = said(&ovolo(&at, &["dump", "step.ovolo", "--after", "import"]));
    for part in ["labels: i64[8] = input", "return loss", "return conv0.weight = "] {
        assert!(dumped.contains(part), "`{part}` is absent from\n{dumped}");
    }
    let compiled = said(&ovolo(&at, &["compile", "step.ovolo", "--pipeline", "native", "--cost", "flops"]));
    assert!(compiled.contains(" bytes replaced in place, arena "), "{compiled}");
}

#[test]
fn a_graph_in_text_form_is_trained_and_written_as_text() {
    let at = folder("train-text");
    let graph = "graph head {
  image: f32[16,1,8,8] = input
  flat = reshape(image) {shape: [16,64]}
  weights: f32[64,10] = const ~1
  bias: f32[10] = const ~2
  product = matmul(flat, weights)
  scores = add(product, bias)
  return scores
}";
    std::fs::write(at.join("head.ovolo"), graph).unwrap();
    let (data, test) = (example("training.npz"), example("held-out.npz"));
    let given = ["train", "head.ovolo", "--data", &data, "--test", &test, "--from-scratch", "--epochs", "3"];
    let more = ["--rate", "0.02", "--output", "trained.ovolo", "--cost", "flops", "--pipeline", "native"];
    let report = said(&ovolo(&at, &[&given[..], &more].concat()));
    assert!(accuracy(&report) > 85.0, "{report}");
    let dumped = said(&ovolo(&at, &["dump", "trained.ovolo", "--after", "import"]));
    assert!(dumped.contains("return scores") && !dumped.contains("~1"), "{dumped}");
}

#[test]
fn what_is_wrong_with_data_and_options_is_told() {
    let at = folder("train-refused");
    refused(&train(&at, &["--labels", "label"]), 1, "it has no array `label`; it has image, labels");
    refused(&train(&at, &["--batch", "2000"]), 1, "it has 1437 rows, and a batch 2000");
    refused(&train(&at, &["--optimizer", "adm"]), 1, "did you mean `adam`?");
    refused(&train(&at, &["--loss", "hinge"]), 1, "there are cross-entropy, mse, binary-cross-entropy");
    refused(&train(&at, &["--set", "beta1"]), 1, "write NAME=NUMBER");
    refused(&train(&at, &["--weights", "x.onnx"]), 1, "give the model itself");
    refused(&train(&at, &["--rate", "0"]), 2, "is no learning rate");
    refused(&train(&at, &["--loss", "mse"]), 1, "array `labels` has rows of shape");
    refused(&train(&at, &["--rate", "1e30", "--optimizer", "sgd"]), 1, "give a smaller --rate");
    refused(&train(&at, &["--output", "absent/x.onnx"]), 1, "absent");
    refused(&train(&at, &["--optimizer", "none"]), 1, "`ovolo grad` gives the gradients");
    refused(&train(&at, &["--dropout", "relu*"]), 1, "write PATTERN=RATIO");
    refused(&train(&at, &["--dropout", "rule*=0.5"]), 1, "there is no value for --dropout `rule*`");
    refused(&train(&at, &["--parameters", "absent.npz"]), 1, "absent.npz");
}

#[test]
fn derivatives_of_a_file_are_verified_and_used() {
    let at = folder("train-derivatives");
    let resize = "[Rule(
        name: \"gradient-round\",
        from: \"(gradient ?x (round ?x) ?d)\",
        to: \"?d\",
    )]";
    std::fs::write(at.join("mine.ron"), resize).unwrap();
    refused(&ovolo(&at, &["derivatives", "mine.ron"]), 1, "two rules are called `gradient-round`");
    std::fs::write(at.join("mine.ron"), resize.replace("gradient-round", "straight-through")).unwrap();
    refused(
        &ovolo(&at, &["derivatives", "mine.ron"]),
        1,
        "mine.ron:1: derivative `straight-through`: `round(",
    );
    // The author of such a rule wants another gradient than the derivative.
    let graph = "graph g {\n x: f32[2,3] = input\n w: f32[2,3] = const ~1\n p = mul(x, w)\n y = round(p)\n return y\n}";
    std::fs::write(at.join("round.ovolo"), graph).unwrap();
    let given = ["grad", "round.ovolo", "--loss", "mse"];
    let own = said(&ovolo(&at, &given));
    let other = said(&ovolo(&at, &[&given[..], &["--derivatives", "mine.ron"]].concat()));
    assert!(own != other && other.lines().count() < own.lines().count(), "{other}");
    let relu =
        "[Rule(name: \"r\", from: \"(gradient ?x (relu ?x) ?d)\", to: \"(where (greater ?x 0.0) ?d 0.0)\")]";
    std::fs::write(at.join("relu.ron"), relu).unwrap();
    let told = said(&ovolo(&at, &["derivatives", "relu.ron", "--instances", "20"]));
    assert!(told.starts_with("r: holds on 20 instances"), "{told}");
}
