//! Times convolutions and attention by each way to compute them: cuDNN's operation graphs, its direct calls,
//! and generated kernels. It shows the times that tuning measures for each, side by side.

use super::kit::Kit;
use super::table::{Row, Table};
use super::{finished, text};
use std::process::Command;

/// A graph with its name.
struct Case {
    name: &'static str,
    graph: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "a convolution and relu, f16",
        graph: "x: f16[32,64,56,56] = input\nw: f16[64,64,3,3] = const ~1\nb: f16[64] = const ~2\nc = conv(x, w, b) {pads: [1,1,1,1]}\ny = relu(c)\nreturn y",
    },
    Case {
        name: "a convolution, a residual and relu, bf16",
        graph: "x: bf16[32,256,14,14] = input\nw: bf16[256,256,3,3] = const ~1\nb: bf16[256] = const ~2\nc = conv(x, w, b) {pads: [1,1,1,1]}\nd = add(c, x)\ny = relu(d)\nreturn y",
    },
    Case {
        name: "a convolution and silu, f16",
        graph: "x: f16[32,96,28,28] = input\nw: f16[192,96,1,1] = const ~1\nb: f16[192] = const ~2\nc = conv(x, w, b)\ny = silu(c)\nreturn y",
    },
    Case {
        name: "a depthwise convolution and relu6, f16",
        graph: "x: f16[32,192,28,28] = input\nw: f16[192,1,3,3] = const ~1\nb: f16[192] = const ~2\nc = conv(x, w, b) {pads: [1,1,1,1], groups: 192}\ny = clip(c) {min: 0.0, max: 6.0}\nreturn y",
    },
    Case {
        name: "a convolution and relu, f32",
        graph: "x: f32[32,64,56,56] = input\nw: f32[64,64,3,3] = const ~1\nb: f32[64] = const ~2\nc = conv(x, w, b) {pads: [1,1,1,1]}\ny = relu(c)\nreturn y",
    },
    Case {
        name: "attention, f16",
        graph: "q: f16[8,12,512,64] = input\nk: f16[8,12,512,64] = input\nv: f16[8,12,512,64] = input\ny = attention(q, k, v) {scale: 0.125}\nreturn y",
    },
    Case {
        name: "attention with a mask, bf16",
        graph: "q: bf16[8,12,128,64] = input\nk: bf16[8,12,128,64] = input\nv: bf16[8,12,128,64] = input\nm: bf16[8,1,1,128] = input\ny = attention(q, k, v, m) {scale: 0.125}\nreturn y",
    },
];

/// The ways: the name of each, and the rule sets of the library that it leaves out.
const WAYS: &[(&str, &[&str])] =
    &[("graph", &["cudnn"]), ("call", &["cudnn-graph"]), ("generated", &["cudnn", "cudnn-graph"])];

/// Measures all lines that are asked for.
pub fn measure(kit: &Kit, table: &mut Table) -> Result<(), String> {
    for case in CASES {
        table.measure(&format!("cuDNN's ways and ours: {}", case.name), || race(kit, case))?;
    }
    Ok(())
}

/// Returns the time of the kernels that each way leads to, and their names. Generated kernels are used if a
/// way has none that is faster.
fn race(kit: &Kit, case: &Case) -> Result<Row, String> {
    let folder = &kit.work;
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(said)?;
    let graph = folder.join("engine.ovolo");
    std::fs::write(&graph, format!("graph {{\n{}\n}}\n", case.graph)).map_err(said)?;
    let file = kit.root.join("passes/cuda.ron");
    let shipped = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut lines = Vec::new();
    for (name, less) in WAYS {
        let pipeline = folder.join(format!("{name}.ron"));
        std::fs::write(&pipeline, without(&shipped, less)).map_err(said)?;
        let mut command = Command::new(&kit.ovolo);
        command.args(["explain", "--cost", "measured", "--json", "--pipeline"]).arg(&pipeline).arg(&graph);
        let (seconds, kernels) = told(&text(&finished(&mut command)?))?;
        lines.push(format!("{name} {:.1} us ({})", 1e6 * seconds, kernels.join(", ")));
    }
    Ok(Row::said(lines.join("; ")))
}

/// Returns the text of a pipeline without some of its rule sets.
fn without(pipeline: &str, sets: &[&str]) -> String {
    let mut text = pipeline.to_owned();
    for set in sets {
        let followed = format!("\"{set}\",");
        let last = format!(", \"{set}\"");
        text = text.replacen(if text.contains(&followed) { &followed } else { &last }, "", 1);
    }
    text
}

/// Returns the seconds of the steps other than copies between the host and the device, and their names.
fn told(said: &str) -> Result<(f64, Vec<String>), String> {
    let said: serde_json::Value = serde_json::from_str(said).map_err(|error| error.to_string())?;
    let steps = said["steps"].as_array().ok_or("there are no steps")?;
    let (mut seconds, mut kernels) = (0.0, Vec::new());
    for step in steps {
        let op = step["op"].as_str().unwrap_or_default();
        if ["cuda.upload", "cuda.download"].contains(&op) {
            continue;
        }
        seconds += step["seconds"].as_f64().unwrap_or(0.0);
        kernels.push(format!("{op} {}", step["implementation"].as_str().unwrap_or_default()));
    }
    if seconds > 0.0 { Ok((seconds, kernels)) } else { Err("the plan has no kernel of the device".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::root;

    #[test]
    fn each_way_leaves_rule_sets_out_of_the_shipped_pipeline() {
        let shipped = std::fs::read_to_string(root().join("passes/cuda.ron")).unwrap();
        for (name, less) in WAYS {
            let text = without(&shipped, less);
            let lower = text.split("name: \"lower\"").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
            for set in ["cudnn", "cudnn-graph"] {
                let there = lower.contains(&format!("\"{set}\""));
                assert_eq!(there, !less.contains(&set), "{name}: {lower}");
            }
        }
    }

    #[test]
    fn the_steps_on_the_device_are_summed_and_named() {
        let said = r#"{"steps":[{"op":"cuda.upload","implementation":"copy","seconds":1.0},
            {"op":"cudnn.conv-graph","implementation":"f16-engine-2","seconds":0.00003}]}"#;
        let (seconds, kernels) = told(said).unwrap();
        assert!((seconds - 3e-5).abs() < 1e-12);
        assert_eq!(kernels, ["cudnn.conv-graph f16-engine-2"]);
        assert!(told(r#"{"steps":[]}"#).is_err());
    }
}
