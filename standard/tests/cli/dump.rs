//! What `dump` prints runs again: graphs in text form, with the constants of the model they were printed from.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo};
use std::path::{Path, PathBuf};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/digits.onnx");
const IMAGES: &str = concat!("image=", env!("CARGO_MANIFEST_DIR"), "/../examples/digits/images.npy");

/// What a command prints that succeeds; by the cost model `flops` on one thread.
fn said(at: &Path, command: &str, more: &[&str]) -> String {
    let arguments: Vec<&str> = command.split(' ').chain(["--cost", "flops", "--threads", "1"]).collect();
    let output = ovolo(at, &[&arguments[..], more].concat());
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that fails.
fn refused(at: &Path, command: &str) -> String {
    let arguments: Vec<&str> = command.split(' ').chain(["--cost", "flops", "--threads", "1"]).collect();
    let output = ovolo(at, &arguments);
    assert_eq!(output.status.code(), Some(1), "{command}");
    String::from_utf8(output.stderr).unwrap()
}

/// A folder with the digits as they were imported, `import.ovolo`, and as they were extracted, `extract.txt`.
fn dumped(name: &str) -> PathBuf {
    let at = common::folder(name);
    for (pass, file) in [("import", "import.ovolo"), ("extract", "extract.txt")] {
        let text = said(&at, &format!("dump {DIGITS} --dim N=360 --after {pass}"), &[]);
        std::fs::write(at.join(file), text).unwrap();
    }
    at
}

#[test]
fn a_dumped_graph_computes_what_the_model_does() {
    let at = dumped("dumped-run");
    let output = |model: &str, out: &str| {
        let out = at.join(format!("{out}.outputs"));
        said(
            &at,
            &format!("run {model} --no-cache"),
            &["--dim", "N=360", "--input", IMAGES, "--output-dir", out.to_str().unwrap()],
        );
        std::fs::read(out.join("scores.npy")).unwrap()
    };
    let expected = output(DIGITS, "model");
    for file in ["import.ovolo", "extract.txt"] {
        assert_eq!(output(&format!("{file} --weights {DIGITS}"), file), expected, "{file}");
    }
    // Constants of a dumped graph come from another one as well.
    let whole = said(&at, "dump import.ovolo --dim N=360", &["--weights", DIGITS]);
    assert_eq!(whole, std::fs::read_to_string(at.join("import.ovolo")).unwrap());
}

#[test]
fn a_dumped_import_has_the_plan_of_the_model() {
    let at = dumped("dumped-plan");
    let explain = |model: &str| said(&at, &format!("explain {model} --dim N=360 --json"), &[]);
    assert_eq!(explain(&format!("import.ovolo --weights {DIGITS}")), explain(DIGITS));
    let compile = |model: &str| said(&at, &format!("compile {model} --dim N=360"), &[]);
    assert!(compile(&format!("extract.txt --weights {DIGITS}")).contains("miss: kept as entry"));
    assert!(compile(&format!("extract.txt --weights {DIGITS}")).contains("hit: entry"));
    let bench = said(&at, &format!("bench extract.txt --weights {DIGITS} --dim N=360 --seconds 0.01"), &[]);
    assert!(bench.contains("median"), "{bench}");
}

#[test]
fn other_weights_are_another_key_and_are_refused_by_their_hash() {
    let at = dumped("dumped-wrong");
    let seeded =
        "graph {\n  x: f32[2,4] = input\n  w: f32[4,64] = const ~7\n  y = matmul(x, w)\n  return y\n}\n";
    std::fs::write(at.join("seeded.ovolo"), seeded).unwrap();
    // The message about a wrong hash has the right one.
    std::fs::write(at.join("hashed.ovolo"), seeded.replace("~7", "#0123456789abcdef")).unwrap();
    let other = refused(&at, "run hashed.ovolo --weights seeded.ovolo");
    let (_, hash) = other.split_once("its constant `w` has the hash #").unwrap();
    std::fs::write(at.join("hashed.ovolo"), seeded.replace("~7", &format!("#{}", &hash[..16]))).unwrap();
    let none = refused(&at, "run hashed.ovolo");
    assert!(
        none.contains("the value of `w` is not in the text") && none.contains("--weights MODEL"),
        "{none}"
    );
    said(&at, "compile hashed.ovolo --weights seeded.ovolo", &[]);
    let wrong = refused(&at, &format!("explain hashed.ovolo --dim N=1 --weights {DIGITS}"));
    assert!(wrong.contains("digits.onnx` has no constant with the hash of `w`"), "{wrong}");
    // What was compiled with the right weights is not found in the cache with others.
    std::fs::write(at.join("seeded.ovolo"), seeded.replace("~7", "~8")).unwrap();
    let changed = refused(&at, "compile hashed.ovolo --weights seeded.ovolo");
    assert!(changed.contains("its constant `w` has the hash #"), "{changed}");
    let absent = refused(&at, "compile hashed.ovolo --weights none.onnx");
    assert!(absent.contains("none.onnx"), "{absent}");
    let onnx = refused(&at, &format!("compile {DIGITS} --dim N=1 --weights seeded.ovolo"));
    assert!(
        onnx.contains("--weights seeded.ovolo: it gives the constants of a graph in text form"),
        "{onnx}"
    );
}

#[test]
fn a_dumped_graph_keeps_its_seeds() {
    let at = common::folder("dumped-seeds");
    let text = "graph {\n  x: f32[2,4] = input\n  w: f32[4,64] = const ~7\n  v: f32[4,64] = const ~8\n  \
                u: f32[4,64] = add(w, v)\n  y: f32[2,64] = matmul(x, u)\n  z: f32[2,64] = matmul(x, w)\n  return y\n  \
                return z\n}\n";
    std::fs::write(at.join("seeded.ovolo"), text).unwrap();
    assert_eq!(said(&at, "dump seeded.ovolo", &[]), text);
    // After passes as well, so that what is printed runs without another file.
    let chosen = said(&at, "dump seeded.ovolo --after extract", &[]);
    assert!(chosen.contains("= const ~7") && !chosen.contains("const #"), "{chosen}");
    std::fs::write(at.join("chosen.ovolo"), &chosen).unwrap();
    said(&at, "compile chosen.ovolo --no-cache", &[]);
}
