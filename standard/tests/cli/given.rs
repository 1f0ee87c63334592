//! Inputs that do not fit a model are refused before anything is measured, compiled or stored.
#![allow(clippy::unwrap_used)]

use crate::common::{self, folder, ovolo};
use ovolo::tensor::{DType, Tensor, TensorType};
use std::path::Path;

/// Returns the names of the files in the cache of a folder and its subfolders. The digests of shared libraries and the lock
/// do not count: the key of a plan contains the digests, so they are taken before a plan is sought.
fn cached(at: &Path) -> Vec<String> {
    let (mut open, mut names) = (vec![at.join("cache")], Vec::new());
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else if !["libraries.txt", "lock"].iter().any(|other| entry.file_name() == *other) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    names
}

fn write(at: &Path, file: &str, dtype: DType, dims: &[usize]) {
    let path = at.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    ovolo::npy::write(path, &Tensor::zeros(TensorType::plain(dtype, dims.to_vec()))).unwrap();
}

/// Commands on the digits model, whose dimension `N` has no size, and on a graph in text form, with inputs that do not fit.
#[test]
fn a_refusal_of_inputs_leaves_nothing_behind() {
    let at = folder("given");
    let model = common::root().join("examples/digits/digits.onnx").display().to_string();
    std::fs::write(at.join("g.ovolo"), "graph { image: f32[2,3] = input; y = neg(image); return y }")
        .unwrap();
    write(&at, "right.npy", DType::F32, &[2, 1, 8, 8]);
    write(&at, "small.npy", DType::F32, &[2, 1, 8, 7]);
    write(&at, "flat.npy", DType::F32, &[2, 64]);
    write(&at, "whole.npy", DType::I64, &[2, 1, 8, 8]);
    write(&at, "text/image.npy", DType::F32, &[2, 3]);
    for (folder, file) in [("small", "small.npy"), ("whole", "whole.npy")] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
        std::fs::copy(at.join(file), at.join(folder).join("image.npy")).unwrap();
    }
    std::fs::create_dir_all(at.join("empty")).unwrap();
    let model = model.as_str();
    let compare = ["compare", "--with", "reference"];
    for (command, more, why) in [
        (&["run"][..], &[model, "--input", "imag=right.npy"][..], "the model has no input `imag`"),
        (&["run"], &[model, "--input", "image=small.npy"], "dimension 3 is 7, not 8"),
        (
            &["run"],
            &[model, "--input", "image=flat.npy", "--dim", "N=2"],
            "it has as many elements, so reshape it",
        ),
        (&["run"], &[model, "--input", "image=whole.npy"], "convert its elements to f32"),
        (&["run"], &[model, "--dim", "N=2"], "input `image` (f32[2,1,8,8]) is not given"),
        (&["run"], &[model, "--input", "image=right.npy", "--dim", "N=4"], "dimension 0 is 2, not 4"),
        (
            &["run"],
            &[model, "--input", "image=small.npy", "--bucket", "N=2,4"],
            "and its dimension 3 must be 8",
        ),
        (&["run"], &["g.ovolo", "--input", "imag=text/image.npy"], "the model has no input `imag`"),
        (&["run"], &["g.ovolo", "--input", "image=whole.npy"], "convert its elements to f32"),
        (&["run"], &["g.ovolo"], "input `image` (f32[2,3]) is not given"),
        (&["bench"], &[model, "--dim", "N=2", "--inputs", "small"], "dimension 3 is 7, not 8"),
        (&["bench"], &[model, "--dim", "N=2", "--inputs", "whole"], "convert its elements to f32"),
        (&["bench"], &[model, "--dim", "N=2", "--inputs", "empty"], "image.npy"),
        (&["bench"], &["g.ovolo", "--inputs", "small"], "input `image` must be f32[2,3]"),
        (
            &["bench", "--profile", "--html", "page.html"],
            &["g.ovolo", "--inputs", "small"],
            "input `image` must be f32[2,3]",
        ),
        (&compare, &[model, "--input", "imag=right.npy", "--dim", "N=2"], "the model has no input `imag`"),
        (&compare, &["g.ovolo", "--input", "image=whole.npy"], "convert its elements to f32"),
    ] {
        let list = [command, more, &["--threads", "1", "--pipeline", "cpu"]].concat();
        let output = ovolo(&at, &list);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{list:?}: {error}");
        assert_eq!(cached(&at), [""; 0], "{list:?}");
    }
    assert!(!at.join("page.html").exists());
    // The same command with inputs that fit measures the speeds of the machine and stores a plan.
    let list = ["run", model, "--input", "image=right.npy", "--threads", "1", "--pipeline", "cpu"];
    let output = ovolo(&at, &list);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = cached(&at);
    assert!(names.contains(&"machine-1.json".to_owned()) && names.len() > 1, "{names:?}");
}
