//! Tests plans with parts on a device, on any machine: what the commands report about the memory of each
//! device, and that the cache keeps such plans where they cannot run.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIGITS: &str = "examples/digits/digits.onnx --dim N=1 --cost flops --threads 2";

/// Returns an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    crate::common::folder(&format!("devices/{name}"))
}

/// Runs a command and returns the text of both streams and its exit code.
fn said(at: &Path, line: &str) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .args(line.split(' '))
        .env("OVOLO_CACHE", at.join("cache"))
        .current_dir(crate::common::root())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (text, output.status.code().unwrap())
}

fn json(at: &Path, line: &str) -> Value {
    let (text, code) = said(at, line);
    assert_eq!(code, 0, "{line}: {text}");
    serde_json::from_str(text.lines().find(|line| line.starts_with('{')).unwrap()).unwrap()
}

#[test]
fn commands_report_the_memory_of_each_device() {
    let at = folder("tell");
    let plan = json(&at, &format!("explain {DIGITS} --pipeline cuda --json"));
    let device = &plan["devices"][0];
    assert_eq!(device["device"], "cuda:0");
    // The image belongs to the caller, and the scores have forty bytes; everything else is on the device.
    assert_eq!(plan["arena"], 64);
    assert!(device["arena"].as_u64().unwrap() > 1000, "{device}");
    for step in plan["steps"].as_array().unwrap() {
        let there = step["type"].as_str().unwrap().ends_with("#cuda:0");
        assert_eq!(step["output"].as_str().unwrap().ends_with("#cuda:0"), there, "{step}");
    }
    let lines = [
        format!(
            "arena of host 64 bytes (lower bound for this order of steps {}, for all orders {})",
            plan["lower_bound"], plan["lower_bound_any_order"]
        ),
        format!(
            "arena of cuda:0 {} bytes (lower bound for this order of steps {}, for all orders {})",
            device["arena"], device["lower_bound"], device["lower_bound_any_order"]
        ),
    ];
    let (text, _) = said(&at, &format!("explain {DIGITS} --pipeline cuda"));
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    let (text, _) = said(&at, &format!("dump {DIGITS} --pipeline cuda --after plan"));
    assert!(
        text.contains(
            "arena of host 64 bytes, lower bound 64 in this order, 64 in any order\narena of cuda:0 "
        ),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.contains("cuda.download") && line.contains("-> @0 [copy]")),
        "{text}"
    );
    // A plan that only uses the host does not mention devices.
    let host = json(&at, &format!("explain {DIGITS} --json"));
    assert!(host["devices"].is_null() && host["buffers"][0]["device"].is_null());
}

#[test]
fn a_limit_and_a_curve_apply_to_the_host_unless_a_device_is_named() {
    let at = folder("limit");
    let compile = format!("compile {DIGITS} --pipeline cuda --no-cache");
    assert_eq!(said(&at, &format!("{compile} --memory-limit 64")).1, 0);
    let (text, code) = said(&at, &format!("{compile} --memory-limit 63"));
    assert_eq!(code, 1);
    assert!(text.contains("needs 64 bytes of host, and 63 are allowed"), "{text}");
    let (text, code) = said(&at, &format!("{compile} --memory-limit 64 --memory-limit cuda:0=1000"));
    assert_eq!(code, 1);
    assert!(text.contains(" bytes of cuda:0, and 1000 are allowed"), "{text}");
    let plan = json(&at, &format!("explain {DIGITS} --pipeline cuda --json"));
    let most = &plan["devices"][0]["arena"];
    let curve = format!("explain {DIGITS} --pipeline cuda --json --memory-curve");
    assert_eq!(json(&at, &curve)["arena"], 64);
    let device = json(&at, &format!("{curve}=cuda:0"));
    assert_eq!(&device["arena"], most);
    // The weights lie on the device, and count there.
    let (bytes, constants) = (device["bytes"].as_u64().unwrap(), device["constants"].as_u64().unwrap());
    assert_eq!(bytes, most.as_u64().unwrap() + constants);
    assert!(constants > 0, "{device}");
    assert_eq!(said(&at, &format!("{compile} --memory-limit cuda:0={bytes}")).1, 0);
    assert_eq!(said(&at, &format!("{compile} --memory-limit cuda:0={}", bytes - 1)).1, 1);
    assert_eq!(said(&at, &format!("{compile} --memory-limit gpu=1000")).1, 2);
    // A pipeline without the device.
    for option in ["--memory-limit cuda:0=1000", "--memory-curve=cuda:0"] {
        let (text, code) = said(&at, &format!("explain {DIGITS} --pipeline native {option}"));
        assert_eq!(code, 1, "{text}");
        let expected = "no backend of the pipeline has a device `cuda:0`; its memory is that of `host`";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_plan_for_a_device_is_kept_and_found_where_it_cannot_run() {
    let at = folder("kept");
    let compile = format!("compile {DIGITS} --pipeline cuda");
    let (plain, code) = said(&at, &format!("{compile} --no-cache"));
    assert_eq!(code, 0, "{plain}");
    let (first, code) = said(&at, &compile);
    assert_eq!(code, 0, "{first}");
    assert!(first.contains("miss: kept as entry "), "{first}");
    let arenas = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("arena of ")).map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(arenas(&plain).len(), 2);
    assert_eq!(arenas(&plain), arenas(&first));
    let (second, code) = said(&at, &compile);
    assert_eq!(code, 0, "{second}");
    assert!(second.contains("hit: entry ") && second.contains("arena of cuda:0 "), "{second}");
    let (why, _) = said(&at, &format!("cache why {DIGITS} --pipeline cuda"));
    assert!(why.starts_with("hit: entry "), "{why}");
    let (verified, code) = said(&at, "cache verify");
    assert_eq!(code, 0, "{verified}");
    // It can be saved and loaded as well.
    let file = at.join("digits.cache");
    let (saved, code) = said(&at, &format!("save-cache {DIGITS} --pipeline cuda {}", file.display()));
    assert_eq!(code, 0, "{saved}");
    assert_eq!(said(&at, "cache clear").1, 0);
    let (saved, code) = said(&at, &format!("save-cache {DIGITS} --pipeline cuda {}", file.display()));
    assert_eq!(code, 0, "{saved}");
    assert_eq!(said(&at, "cache clear").1, 0);
    let (loaded, code) = said(&at, &format!("load-cache {}", file.display()));
    assert_eq!(code, 0, "{loaded}");
    assert!(said(&at, &compile).0.contains("hit: entry "));
}

#[test]
fn a_plan_priced_by_a_program_is_not_kept_and_the_reason_is_reported() {
    let at = folder("process");
    let program = at.join("price.sh");
    std::fs::write(&program, "while read line; do echo '{\"seconds\": 1e-6}'; done\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .args("compile examples/digits/digits.onnx --dim N=1 --threads 1 --process".split(' '))
        .arg(format!("sh {}", program.display()))
        .env("OVOLO_CACHE", at.join("cache"))
        .current_dir(crate::common::root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("miss: not kept: a plan that a program has priced or chosen has no key"), "{text}");
}

#[test]
fn kernels_is_a_command_of_the_shipped_program() {
    let at = folder("kernels");
    let (help, code) = said(&at, "--help");
    assert_eq!(code, 0, "{help}");
    let about = "Compile the kernels of a model's plan for a device, and report the result";
    let listed = help.lines().find(|line| line.trim_start().starts_with("kernels "));
    assert!(listed.is_some_and(|line| line.ends_with(about)), "{help}");
    let (own, code) = said(&at, "kernels --help");
    assert!(code == 0 && own.starts_with(about) && own.contains("--no-cache"), "{own}");
    let (version, code) = said(&at, "kernels --version");
    assert!(code == 0 && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    // The text of the kernels needs neither a device nor a compiler; the pipeline is one with kernels of a device.
    let (source, code) = said(&at, "kernels examples/digits/digits.onnx --dim N=1 --source");
    assert!(code == 0 && source.contains("__global__"), "{source}");
    let (wrong, code) = said(&at, "kernels examples/digits/digits.onnx --dim N=1 --arch gfx90a");
    assert!(code == 1 && wrong.starts_with("error: `gfx90a` is not an architecture"), "{wrong}");
}
