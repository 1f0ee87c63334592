//! Tests `quantize` from outside: what it writes, what it says, and what it refuses.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo, root};
use crate::outcome::{refused, said};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn example(file: &str) -> String {
    root().join("examples/digits").join(file).display().to_string()
}

/// Quantises the network of the examples, priced without measured speeds.
fn quantize(at: &Path, arguments: &[&str]) -> Output {
    let (model, images) = (example("digits.onnx"), format!("image={}", example("images.npy")));
    let given = ["quantize", &model, "--input", &images, "--threads", "1", "--cost", "flops"];
    ovolo(at, &[&given[..], arguments].concat())
}

#[test]
fn the_written_model_reads_as_many_digits_and_the_report_says_so() {
    let at = folder("quantize-digits");
    let labels = example("labels.npy");
    let arguments = ["--labels", &labels, "--for", "size", "--output", "int8.onnx"];
    let report = said(&quantize(&at, &arguments));
    for part in ["conv4     Conv", "chosen", "98.61 %", "written: int8.onnx", "at most 0.01"] {
        assert!(report.contains(part), "`{part}` is absent from\n{report}");
    }
    let images = format!("image={}", example("images.npy"));
    let run = ovolo(&at, &["run", "int8.onnx", "--input", &images, "--labels", &labels, "--cost", "flops"]);
    let accuracy = said(&run).lines().last().unwrap().to_owned();
    assert!(report.contains(accuracy.split(" (").next().unwrap()), "{accuracy}\n{report}");
    let first = std::fs::read(at.join("int8.onnx")).unwrap();
    assert!(first.len() < 13_000, "{} bytes", first.len());
    said(&quantize(&at, &arguments));
    assert_eq!(std::fs::read(at.join("int8.onnx")).unwrap(), first);
}

#[test]
fn the_curve_and_the_choice_are_told_as_json() {
    let at = folder("quantize-json");
    let report =
        said(&quantize(&at, &["--for", "size", "--curve", "--loss", "0.007", "--measure", "--json"]));
    let json: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(json["layers"].as_array().unwrap().len(), 5);
    assert!(json["chosen"]["loss"].as_f64().unwrap() <= 0.007);
    assert!(json["chosen"]["measured"].as_f64().unwrap() > 0.0);
    let curve = json["curve"].as_array().unwrap();
    let of = |key: &str| curve.iter().map(|point| point[key].as_f64().unwrap()).collect::<Vec<_>>();
    let (bytes, loss) = (of("bytes"), of("loss"));
    assert!(curve.len() > 1 && bytes.is_sorted() && loss.iter().rev().is_sorted(), "{json}");
    assert!(json["output"].is_null());
}

#[test]
fn time_is_weighed_by_the_prices_of_the_pipeline() {
    let at = folder("quantize-time");
    let report = said(&quantize(&at, &["--curve", "--json"]));
    let json: Value = serde_json::from_str(&report).unwrap();
    let seconds = |point: &Value| point["seconds"].as_f64().unwrap();
    assert!(seconds(&json["chosen"]) <= seconds(&json["float32"]), "{json}");
}

#[test]
fn data_come_from_a_folder_and_dimensions_from_the_data_or_the_command_line() {
    let at = folder("quantize-folder");
    std::fs::create_dir(at.join("data")).unwrap();
    std::fs::copy(example("images.npy"), at.join("data/image.npy")).unwrap();
    let model = example("digits.onnx");
    let run = |more: &[&str]| {
        let given = ["quantize", &model, "--data", "data", "--cost", "flops", "--curve", "--json"];
        let json: Value = serde_json::from_str(&said(&ovolo(&at, &[&given[..], more].concat()))).unwrap();
        json["batches"].as_u64().unwrap()
    };
    assert_eq!(run(&[]), 1);
    assert_eq!(run(&["--dim", "N=90", "--calibration", "percentile:99.9"]), 4);
}

#[test]
fn what_cannot_be_done_is_refused_before_work_begins() {
    let at = folder("quantize-refused");
    refused(&quantize(&at, &[]), 1, "give --output FILE.onnx for the chosen model, or --curve");
    let model = example("digits.onnx");
    refused(&quantize(&at, &["--output", &model]), 1, "it would overwrite");
    refused(
        &quantize(&at, &["--output", "no/q.onnx"]),
        1,
        "--output no/q.onnx: the directory no does not exist",
    );
    refused(&quantize(&at, &["--curve", "--loss", "-1"]), 2, "is no loss: give a number that is at least 0");
    refused(
        &quantize(&at, &["--curve", "--calibration", "best"]),
        2,
        "`best` is no calibration: give min-max",
    );
    refused(&quantize(&at, &["--curve", "--dim", "N=7"]), 1, "it holds f32[360,1,8,8]");
    let data = ["quantize", &model, "--curve"];
    refused(&ovolo(&at, &data), 1, "give the calibration data by --data DIR, or --input NAME=FILE");
    let images = example("images.npy");
    for (name, help) in [("imag", "did you mean `image`?"), ("tokens", "its inputs are `image`")] {
        let input = format!("{name}={images}");
        let wanted = format!("the model has no input `{name}`; {help}");
        refused(&ovolo(&at, &[&data[..], &["--input", &input]].concat()), 1, &wanted);
    }
    std::fs::create_dir(at.join("empty")).unwrap();
    refused(&ovolo(&at, &[&data[..], &["--data", "empty"]].concat()), 1, "no data for input `image`");
    std::fs::write(at.join("net.ovolo"), "graph {\n  x: f32[1] = input\n  return x\n}\n").unwrap();
    refused(&ovolo(&at, &["quantize", "net.ovolo", "--curve"]), 1, "only ONNX models can be quantised");
}
