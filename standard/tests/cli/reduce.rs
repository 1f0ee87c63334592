//! `ovolo reduce`, and what else helps to try rules: `--add`, and the exit code of `diff`.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo};
use std::path::{Path, PathBuf};

const OVOLO: &str = env!("CARGO_BIN_EXE_ovolo");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/digits.onnx");

/// Runs a command in a folder, and returns the exit code, what it printed, and its errors.
fn run(at: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = ovolo(at, arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder with a wrong rule and a graph that it changes.
fn with_wrong_rule(name: &str) -> PathBuf {
    let at = folder(name);
    std::fs::create_dir(at.join("rules")).unwrap();
    let rule = "// Wrong: negative numbers change.\n[Rule(name: \"forget-relu\", from: \"(relu ?x)\", to: \"?x\")]\n";
    std::fs::write(at.join("rules/mine.ron"), rule).unwrap();
    let graph = "graph {\n  x: f32[4,8] = input\n  w: f32[8,6] = const ~3\n  a = matmul(x, w)\n  b = relu(a)\n  \
                 c = exp(b)\n  d = tanh(c)\n  e = softmax(d) {axis: 1}\n  return c\n  return e\n}\n";
    std::fs::write(at.join("graph.ovolo"), graph).unwrap();
    at
}

#[test]
fn a_wrong_rule_is_left_with_the_call_that_it_changes() {
    let at = with_wrong_rule("reduce-rule");
    let compare = ["--", OVOLO, "compare", "{}", "--with", "reference", "--add", "rules/mine.ron:fuse"];
    let arguments = [&["reduce", "graph.ovolo", "--says", "DEPARTS"][..], &compare].concat();
    let (code, printed, why) = run(&at, &arguments);
    assert_eq!(code, Some(0), "{printed}{why}");
    assert!(printed.starts_with("reduced.ovolo: 1 of 5 calls, 2 of 7 values, after "), "{printed}");
    let reduced = std::fs::read_to_string(at.join("reduced.ovolo")).unwrap();
    assert_eq!(reduced, "graph {\n  a: f32[1,1] = input\n  b: f32[1,1] = relu(a)\n  return b\n}\n");
}

#[test]
fn an_error_is_kept_and_weights_become_seeds() {
    let at = folder("reduce-error");
    let arguments = ["reduce", DIGITS, "--dim", "N=4", "--out", "small.ovolo", "--"];
    // The command fails if a matrix product follows a relu, however many lines are between.
    let script = "if grep -q ' = relu(' \"$0\" && grep -q 'matmul' \"$0\"; then echo \"error: 7 of \\`$0\\`\" >&2; exit 3; fi; \
                  if grep -q matmul \"$0\"; then echo 'error: another' >&2; exit 3; fi";
    let (code, printed, why) = run(&at, &[&arguments[..], &["sh", "-c", script]].concat());
    assert_eq!(code, Some(0), "{printed}{why}");
    let reduced = std::fs::read_to_string(at.join("small.ovolo")).unwrap();
    assert!(reduced.contains(" = relu(") && reduced.contains(" = matmul("), "{reduced}");
    assert!(!reduced.contains('#') && !reduced.contains("conv("), "{reduced}");
    // It has its constants, so it runs alone.
    let (code, _, why) = run(&at, &["compile", "small.ovolo", "--no-cache"]);
    assert_eq!(code, Some(0), "{why}");
}

#[test]
fn reduce_refuses_a_command_that_leaves_nothing_to_keep() {
    let at = with_wrong_rule("reduce-refused");
    let refused = |arguments: &[&str]| {
        let (code, printed, why) = run(&at, arguments);
        assert_eq!((code, printed.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(!at.join("reduced.ovolo").exists());
        why
    };
    let why = refused(&["reduce", "graph.ovolo", "--", "true"]);
    assert!(why.contains("succeeds on the whole graph: say with --says TEXT"), "{why}");
    let why = refused(&["reduce", "graph.ovolo", "--says", "nothing of the kind", "--", "cat"]);
    assert!(why.contains("does not say `nothing of the kind` (exit status: 0)"), "{why}");
    let why = refused(&["reduce", "graph.ovolo", "--", "./there-is-no-such-program"]);
    assert!(why.contains("`./there-is-no-such-program`"), "{why}");
    let why = refused(&["reduce", "graph.ovolo", "--timeout", "1", "--", "sh", "-c", "sleep 30"]);
    assert!(why.contains("does not end within 1 s on the whole graph"), "{why}");
    let why = refused(&["reduce", "graph.ovolo", "--out", "graph.ovolo", "--", "false"]);
    assert!(why.contains("--out graph.ovolo"), "{why}");
}

#[test]
fn rules_join_a_phase_and_rules_of_no_phase_are_reported() {
    let at = with_wrong_rule("add");
    let dump = ["dump", "graph.ovolo", "--after", "extract", "--threads", "1", "--cost", "flops"];
    let said = |more: &[&str]| run(&at, &[&dump[..], more].concat());
    let (code, printed, why) = said(&["--add", "rules/mine.ron:fuse"]);
    assert_eq!(code, Some(0), "{why}");
    assert!(!printed.contains("relu") && !why.contains("no phase"), "{printed}{why}");
    let (_, printed, _) = said(&["--rules", "rules", "--add", "forget-relu:fuse"]);
    assert!(!printed.contains("relu"), "{printed}");
    let (code, printed, why) = said(&["--rules", "rules"]);
    assert_eq!(code, Some(0), "{why}");
    assert!(printed.contains("relu"), "{printed}");
    let note = "note: no phase of pipeline `native` has the rules of rules/mine.ron, so they do nothing: add them with \
                `--add mine:fuse`, or name them in a pipeline of your own";
    assert_eq!(why.lines().filter(|line| *line == note).count(), 1, "{why}");
    for (added, message) in [
        ("rules/mine.ron", "--add needs RULES:PHASE"),
        (
            "rules/mine.ron:fusion",
            "no `Rewrite` of the pipeline is called `fusion`; they are `fuse`, `axes`, `lower`",
        ),
        ("rules/none.ron:fuse", "--add rules/none.ron:fuse: rules/none.ron: "),
        ("forget-rely:fuse", "no rule and no rule file is called `forget-rely`"),
    ] {
        let (code, _, why) = said(&["--add", added]);
        assert!(code == Some(1) && why.contains(message), "{added}: {why}");
    }
    // A plan without the rule is none with it.
    let compile = ["compile", "graph.ovolo", "--threads", "1", "--cost", "flops"];
    assert!(run(&at, &compile).1.contains("miss: kept as entry"));
    assert!(
        run(&at, &[&compile[..], &["--add", "rules/mine.ron:fuse"]].concat())
            .1
            .contains("miss: kept as entry")
    );
}

#[test]
fn diff_exits_with_1_for_a_difference_and_2_for_trouble() {
    let at = with_wrong_rule("diff");
    let diff = |more: &[&str]| {
        run(&at, &[&["diff", "graph.ovolo", "--threads", "1", "--cost", "flops"][..], more].concat())
    };
    let (code, printed, _) = diff(&["--to", "import"]);
    assert_eq!((code, printed.as_str()), (Some(0), "no difference\n"));
    let (code, printed, _) = diff(&[]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("~ c: exp(b) => native.matmul(x, w) {post: <relu,exp>}"), "{printed}");
    let (code, printed, why) = diff(&["--to", "nowhere"]);
    assert_eq!((code, printed.as_str()), (Some(2), ""));
    assert!(why.contains("there is no stage `nowhere`"), "{why}");
}

#[test]
fn diff_compares_every_stage_with_a_saved_one() {
    let at = with_wrong_rule("diff-saved");
    let same = ["graph.ovolo", "--threads", "1", "--cost", "flops"];
    for stage in ["import", "fuse", "extract", "plan"] {
        let (code, saved, why) = run(&at, &[&["dump"][..], &same, &["--after", stage]].concat());
        assert_eq!(code, Some(0), "{why}");
        std::fs::write(at.join("saved.txt"), saved).unwrap();
        let diff = |more: &[&str]| {
            run(&at, &[&["diff"][..], &same, &["--to", stage, "--saved", "saved.txt"], more].concat())
        };
        let (code, printed, _) = diff(&[]);
        assert_eq!((code, printed.as_str()), (Some(0), "no difference\n"), "{stage}");
        let (code, printed, _) = diff(&["--add", "rules/mine.ron:fuse"]);
        let changed = stage != "import";
        assert_eq!(code, Some(i32::from(changed)), "{stage}: {printed}");
        assert!(!changed || printed.starts_with("--- saved.txt\n+++ now\n@@ "), "{printed}");
    }
}
