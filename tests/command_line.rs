//! The command line refuses what it cannot do as asked, in words, before anything is written.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test's own, with a model whose two outputs have nearly one name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let model = "graph {\n  x: f32[2] = input\n  \"a/b\" = relu(x)\n  a_b = neg(x)\n  return \"a/b\"\n  return a_b\n}\n";
    std::fs::write(folder.join("model.ovolo"), model).unwrap();
    folder
}

fn ovolo(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.args(arguments).current_dir(at).env("OVOLO_CACHE", at.join("cache")).output().unwrap()
}

fn refused(at: &Path, arguments: &[&str], why: &str) {
    let output = ovolo(at, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
}

#[test]
fn outputs_of_one_file_name_are_refused_and_none_is_written() {
    let at = folder("one-file-name");
    let x = ovolo::tensor::Tensor::zeros(ovolo::tensor::TensorType::plain(ovolo::tensor::DType::F32, [2]));
    ovolo::npy::write(at.join("x.npy"), &x).unwrap();
    let run = ["run", "model.ovolo", "--cost", "flops", "--input", "x=x.npy", "--output-dir", "out"];
    refused(&at, &run, "outputs `a/b` and `a_b` would both be a_b.npy");
    assert!(!at.join("out").exists());
}

#[test]
fn numbers_that_no_machine_has_are_refused() {
    let at = folder("numbers");
    for (threads, why) in [("0", "--threads takes 1 or more"), ("100000", "--threads takes up to 1024")] {
        refused(&at, &["bench", "model.ovolo", "--cost", "flops", "--threads", threads], why);
    }
}

#[test]
fn a_dimension_is_given_once() {
    let at = folder("dimension");
    let twice = ["compile", "model.ovolo", "--cost", "flops", "--dim", "N=1", "--dim", "N=2"];
    refused(&at, &twice, "--dim gives `N` twice: 1 and 2");
}
