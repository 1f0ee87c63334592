//! What is decided outside of the e-graph is said where a user looks: by `explain`, `run` and `compile --growth`.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo};
use std::path::Path;

fn output(at: &Path, command: &str) -> (String, String) {
    let arguments: Vec<&str> = command.split(' ').chain(["--cost", "flops", "--threads", "2"]).collect();
    let output = ovolo(at, &arguments);
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{command}: {error}");
    (out, error)
}

#[test]
fn explain_says_what_kernels_decide_for_themselves() {
    let at = common::folder("decided");
    let text = "graph {\n  x: f32[1,64,28,28] = input\n  w: f32[64,64,3,3] = const ~1\n  b: f32[64] = const ~2\n  \
                y = conv(x, w, b) {pads: [1,1,1,1]}\n  return y\n}\n";
    std::fs::write(at.join("conv.ovolo"), text).unwrap();
    let (conv, _) = output(&at, "explain conv.ovolo");
    assert!(conv.contains("native.conv-winograd"), "{conv}");
    assert!(conv.contains("decided by the kernel: threads: "), "{conv}");
    assert!(conv.contains("tiles of a chunk: "), "{conv}");
    let text =
        "graph {\n  x: f32[40,96] = input\n  v: f32[96,33] = input\n  y = matmul(x, v)\n  return y\n}\n";
    std::fs::write(at.join("matmul.ovolo"), text).unwrap();
    let (matmul, _) = output(&at, "explain matmul.ovolo");
    let packed =
        "decided by the kernel: right operand: packed in parts while it runs; pieces: 40 rows of 32 columns";
    assert!(matmul.contains(packed), "{matmul}");
    std::fs::write(at.join("matmul.ovolo"), text.replace("40,", "4,")).unwrap();
    let (matmul, _) = output(&at, "explain matmul.ovolo");
    assert!(matmul.contains("right operand: read as it lies"), "{matmul}");
    // The machine's form has what plans are compared by, and nothing of this.
    let (json, _) = output(&at, "explain matmul.ovolo --json");
    assert!(!json.contains("decided"), "{json}");
}

#[test]
fn run_says_in_one_line_which_steps_have_no_kernel_for_their_types() {
    let at = common::folder("unfit");
    let text = "graph {\n  x: f16[2,64] = input\n  s = softmax(x) {axis: 1}\n  n: i64[3] = input\n  m = mul(n, n)\n  \
                return s\n  return m\n}\n";
    std::fs::write(at.join("types.ovolo"), text).unwrap();
    let read = |text: &str| {
        let graph = ovolo::graph::text::parse(common::ops(), text).unwrap();
        common::inputs(&graph)
    };
    for (name, tensor) in ["x", "n"].iter().zip(read(text)) {
        ovolo::npy::write(at.join(format!("{name}.npy")), &tensor).unwrap();
    }
    let (_, said) = output(&at, "run types.ovolo --input x=x.npy --input n=n.npy --no-cache");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("have a kernel of their own")).collect();
    let [line] = lines[..] else { panic!("one line: {said}") };
    assert!(line.starts_with("note: not all of 2 step(s) have a kernel of their own: "), "{line}");
    assert!(
        line.contains("1 by kernels for f32 that convert their operands and results inside (native.softmax)"),
        "{line}"
    );
    // From the cache as well, and not where each step has its own.
    output(&at, "run types.ovolo --input x=x.npy --input n=n.npy");
    let (_, again) = output(&at, "run types.ovolo --input x=x.npy --input n=n.npy");
    assert!(again.contains(line), "{again}");
    let plain = text
        .replace("f16", "f32")
        .replace("n: i64[3] = input\n  m = mul(n, n)\n  return s\n  return m", "return s");
    std::fs::write(at.join("plain.ovolo"), &plain).unwrap();
    ovolo::npy::write(at.join("x.npy"), &read(&plain)[0]).unwrap();
    let (_, said) = output(&at, "run plain.ovolo --input x=x.npy");
    assert!(!said.contains("a kernel of their own"), "{said}");
}

#[test]
fn growth_and_memory_name_what_no_rule_did_and_what_is_kept() {
    let at = common::folder("decided-beside");
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/digits.onnx");
    let (growth, _) = output(&at, &format!("compile {digits} --dim N=4 --growth"));
    let beside = growth.lines().filter(|line| line.contains("beside the rules: ")).count();
    let phases = growth.lines().filter(|line| line.contains("saturated after ")).count();
    assert!(beside > 0 && beside == phases, "{growth}");
    assert!(growth.contains(" classes united as operands of equal injective ops"), "{growth}");
    let constants = |text: &str| -> usize {
        let (_, after) = text.split_once("; constants ").unwrap();
        after.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(growth.contains(" of them packed or computed"), "{growth}");
    assert!(growth.contains(" of the lower bound for its order of steps, "), "{growth}");
    // What was kept is told of a plan from the cache, too.
    let compile = format!("compile {digits} --dim N=4");
    output(&at, &compile);
    let (hit, _) = output(&at, &compile);
    assert!(hit.contains("hit: entry") && constants(&hit) == constants(&growth), "{hit}");
    let (explained, _) = output(&at, &format!("explain {digits} --dim N=4"));
    assert!(explained.contains(&format!("constants {} bytes", constants(&growth))), "{explained}");
    assert!(explained.contains("(lower bound for this order of steps "), "{explained}");
}
