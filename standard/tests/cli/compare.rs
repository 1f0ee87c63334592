//! Tests `compare` from outside: what it says, and what it refuses.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo, root};
use ovolo::npy;
use ovolo::tensor::{DType, Tensor};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn folder(name: &str) -> PathBuf {
    let folder = common::folder(&format!("compare/{name}"));
    std::fs::create_dir(folder.join("rules")).unwrap();
    std::fs::write(folder.join("net.ovolo"), NET).unwrap();
    folder
}

const NET: &str = "graph net {
  x: f32[1,4,8,8] = input
  w: f32[4,4,3,3] = const ~1
  b: f32[4] = const ~2
  y = conv(x, w, b) {pads: [1,1,1,1], strides: [1,1]}
  z = relu(y)
  s = sigmoid(z)
  return s = s
}";

fn compare(at: &Path, arguments: &[&str]) -> Output {
    let all: Vec<&str> =
        ["compare", "--threads", "1", "--cost", "flops"].iter().chain(arguments).copied().collect();
    ovolo(at, &all)
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complained(output: &Output, code: i32, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(what), "{said}");
    assert_eq!(output.status.code(), Some(code), "{said}");
}

#[test]
fn a_right_plan_is_the_same_as_the_reference_evaluation() {
    let at = folder("same");
    let output = compare(&at, &["net.ovolo", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(json["same"], true);
    assert_eq!(json["with"], "the reference evaluation");
    assert_eq!(json["inputs"]["drawn"], serde_json::json!(["x"]));
    assert!(json["regions"][0]["compared"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn a_wrong_rule_of_a_file_is_blamed_by_name_and_its_absence_mends_the_model() {
    let at = folder("wrong-rule");
    let rule = "[\n    // Wrong: it forgets that relu changes negative numbers.\n    Rule(name: \"forget-relu\", from: \
                \"(relu ?x)\", to: \"?x\"),\n]\n";
    std::fs::write(at.join("rules/fuse.ron"), rule).unwrap();
    let digits = root().join("examples/digits/digits.onnx");
    let model = [digits.to_str().unwrap(), "--dim", "N=2", "--with", "reference"];
    let output = compare(&at, &[&model[..], &["--rules", "rules", "--bisect"]].concat());
    complained(&output, 1, "digits.onnx departs at `");
    let text = said(&output);
    for part in [
        "first value that departs: `",
        "cause: the RULE `forget-relu`",
        "without the rule `forget-relu`",
        "so the rule `forget-relu` is at fault",
    ] {
        assert!(text.contains(part), "`{part}` is absent from\n{text}");
    }
}

#[test]
fn a_python_that_is_absent_or_has_no_onnxruntime_is_told_with_a_remedy() {
    let at = folder("python");
    let digits = root().join("examples/digits/digits.onnx");
    let model = [digits.to_str().unwrap(), "--dim", "N=1", "--with", "onnxruntime", "--python"];
    let with = |python: &str| compare(&at, &[&model[..], &[python]].concat());
    complained(&with("no-such-python"), 1, "cannot start the Python `no-such-python`");
    // A stand-in that says what the script says if the import fails.
    let python = at.join("python");
    std::fs::write(&python, "#!/bin/sh\necho 'MISSING onnxruntime' >&2\nexit 1\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        complained(&with(python.to_str().unwrap()), 1, "-m pip install onnxruntime numpy");
    }
}

#[test]
fn bad_files_shapes_and_settings_are_refused() {
    let at = folder("bad");
    complained(&compare(&at, &["none.onnx"]), 1, "none.onnx");
    complained(&compare(&at, &["net.ovolo", "--input", "x=none.npy"]), 1, "none.npy");
    complained(&compare(&at, &["net.ovolo", "--input", "none.npy"]), 1, "--input needs NAME=FILE");
    complained(&compare(&at, &["net.ovolo", "--tolerance", "0"]), 2, "give a number above 0");
    complained(&compare(&at, &["net.ovolo", "--with", "onnxruntime"]), 1, "a graph in text form");
    let wrong = Tensor::zeros(ovolo::tensor::TensorType::plain(DType::F32, [1, 4, 8, 7]));
    std::fs::write(at.join("x.npy"), npy::encode(&wrong)).unwrap();
    complained(&compare(&at, &["net.ovolo", "--input", "x=x.npy"]), 1, "dimension 3 is 7, not 8");
}
