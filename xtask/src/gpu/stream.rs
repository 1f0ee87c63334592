//! Measures fused kernels that are limited by memory: their share of the bandwidth of a copy on the device.

use super::kit::Kit;
use super::table::{Row, Table, open};
use super::{finished, text};
use std::process::Command;

/// Sizes of the largest tensor, in MiB.
const SIZES: &[usize] = &[64, 256, 1024];

/// The share that is wanted.
const WANTED: f64 = 0.85;

/// A graph that one kernel computes, and how many of its largest tensors it reads and writes. $N stands for
/// the elements of the largest tensors, and $R for their rows of 1024.
struct Stream {
    name: &'static str,
    graph: &'static str,
    tensors: usize,
}

const STREAMS: &[Stream] = &[
    Stream { name: "relu", graph: "x: f32[$N] = input\ny = relu(x)\nreturn y", tensors: 2 },
    Stream {
        name: "gelu of a square",
        graph: "x: f32[$N] = input\na = mul(x, x)\ny = gelu(a)\nreturn y",
        tensors: 2,
    },
    Stream {
        name: "a gate, sigmoid(a + b) * tanh(a - b)",
        graph: "a: f32[$N] = input\nb: f32[$N] = input\ns = add(a, b)\nd = sub(a, b)\ng = sigmoid(s)\nt = tanh(d)\ny = mul(g, t)\nreturn y",
        tensors: 3,
    },
    Stream {
        name: "a row added to all rows, then silu",
        graph: "x: f32[$R,1024] = input\nb: f32[1024] = input\na = add(x, b)\ny = silu(a)\nreturn y",
        tensors: 2,
    },
    Stream {
        name: "sums of rows",
        graph: "x: f32[$R,1024] = input\ny = reduce-sum(x) {axes: [1]}\nreturn y",
        tensors: 1,
    },
    Stream {
        name: "sums of columns",
        graph: "x: f32[$R,1024] = input\ny = reduce-sum(x) {axes: [0]}\nreturn y",
        tensors: 1,
    },
    Stream {
        name: "roots of means of squares",
        graph: "x: f32[$R,1024] = input\nq = mul(x, x)\nm = reduce-mean(q) {axes: [1]}\ny = sqrt(m)\nreturn y",
        tensors: 1,
    },
    Stream {
        name: "softmax of rows",
        graph: "x: f32[$R,1024] = input\ny = softmax(x) {axis: 1}\nreturn y",
        tensors: 2,
    },
];

impl Stream {
    fn source(&self, mebibytes: usize) -> String {
        let elements = mebibytes << 18;
        let lines = self.graph.replace("$N", &elements.to_string());
        format!("graph {{\n{}\n}}\n", lines.replace("$R", &(elements / 1024).to_string()))
    }
}

/// Measures all lines that are asked for.
pub fn measure(kit: &Kit, table: &mut Table) -> Result<(), String> {
    for size in SIZES {
        let name = |stream: &Stream| format!("{}, {size} MiB", stream.name);
        let wanted = STREAMS.iter().any(|stream| table.wanted(&name(stream)));
        let copy = if wanted { copy(kit, *size) } else { Err(String::new()) };
        for stream in STREAMS {
            table.measure(&name(stream), || {
                let copy = copy.as_ref().map_err(|why| open(&format!("the copy: {why}")))?;
                let seconds = kernels(kit, &stream.source(*size))?;
                Ok(share(stream.tensors * (size << 20), seconds, *copy))
            })?;
        }
    }
    Ok(())
}

/// The bandwidth of a copy on the device in GB/s.
fn copy(kit: &Kit, mebibytes: usize) -> Result<f64, String> {
    let said = text(&finished(kit.script().arg("copy").arg(mebibytes.to_string()))?);
    let number = said.lines().find_map(|line| line.strip_prefix(&format!("{mebibytes}\t"))?.parse().ok());
    number.ok_or_else(|| "the script gives no bandwidth".to_owned())
}

/// Returns the seconds of all kernels of a graph, as tuning timed them: many in one queue, so that the cost
/// of starting them is as small as in a plan.
fn kernels(kit: &Kit, source: &str) -> Result<f64, String> {
    let folder = &kit.work;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join("stream.ovolo");
    std::fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(&kit.ovolo);
    command.args(["explain", "--pipeline", "cuda", "--cost", "measured", "--json"]).arg(&file);
    seconds(&text(&finished(&mut command)?))
}

/// The sum over the steps other than copies between the host and the device.
fn seconds(said: &str) -> Result<f64, String> {
    let said: serde_json::Value = serde_json::from_str(said).map_err(|error| error.to_string())?;
    let steps = said["steps"].as_array().ok_or("there are no steps")?;
    let kernel = |step: &&serde_json::Value| {
        step["backend"] == "cuda" && step["op"] != "cuda.upload" && step["op"] != "cuda.download"
    };
    let seconds: f64 = steps.iter().filter(kernel).filter_map(|step| step["seconds"].as_f64()).sum();
    if seconds > 0.0 { Ok(seconds) } else { Err("the plan has no kernel of the device".into()) }
}

#[allow(clippy::cast_precision_loss)]
fn share(bytes: usize, seconds: f64, copy: f64) -> Row {
    let speed = bytes as f64 / seconds / 1e9;
    let share = speed / copy;
    let short = if share < WANTED { format!(", short of {:.0} %", 100.0 * WANTED) } else { String::new() };
    Row::said(format!("{speed:.0} GB/s, {:.1} % of the copy's {copy:.0}{short}", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_on_the_device_are_summed_and_compared_with_the_copy() {
        let said = r#"{"steps":[{"op":"cuda.upload","backend":"cuda","seconds":1.0},
            {"op":"cuda.map","backend":"cuda","seconds":0.00003},{"op":"cuda.reduce-sum","backend":"cuda","seconds":0.00001},
            {"op":"native.map","backend":"native","seconds":5.0}]}"#;
        assert!((seconds(said).unwrap() - 4e-5).abs() < 1e-12);
        assert!(seconds(r#"{"steps":[]}"#).is_err());
        assert_eq!(
            share(80_000_000, 4e-5, 4000.0).said,
            "2000 GB/s, 50.0 % of the copy's 4000, short of 85 %"
        );
        assert_eq!(share(144_000_000, 4e-5, 4000.0).said, "3600 GB/s, 90.0 % of the copy's 4000");
    }

    #[test]
    fn graphs_have_the_declared_bytes() {
        let source = STREAMS[4].source(64);
        assert!(source.contains("f32[16384,1024]"), "{source}");
        assert!(STREAMS[0].source(64).contains("f32[16777216]"));
        assert!(STREAMS.iter().all(|stream| !stream.source(64).contains('$')));
    }
}
