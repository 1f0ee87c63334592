//! Prices of a device's kernels, and of copies to and from it: roofline over nominal speeds.

use ovolo::attr::{Attr, Attrs};
use ovolo::op::{Call, Contract};
use ovolo::tensor::DType;

/// The speeds of a device, as its data sheet has them: H200.
struct Speeds {
    /// Operations a second in float32, without tensor cores.
    flops: f64,
    /// The same in f16 and bf16, in TF32, and in float64, with them.
    half: f64,
    tf32: f64,
    double: f64,
    /// Bytes a second of its memory.
    memory: f64,
    /// Seconds to start a kernel.
    start: f64,
    /// Bytes a second between it and the host, pinned.
    link: f64,
    /// Seconds to start a copy.
    latency: f64,
}

const NOMINAL: Speeds = Speeds {
    flops: 6.0e13,
    half: 9.9e14,
    tf32: 4.9e14,
    double: 6.7e13,
    memory: 4.5e12,
    start: 2.5e-6,
    link: 5.0e10,
    latency: 8.0e-6,
};

/// The share of the device's arithmetic that generated kernels reach; they use no tensor cores.
const GENERATED: f64 = 0.3;
/// The same of libraries' kernels, in float32 and float64, and in narrow types, which few shapes keep fed.
const LIBRARY: f64 = 0.75;
const LIBRARY_HALF: f64 = 0.55;
/// The same of engines of graphs that take any chain without tensor cores: the library's last resort.
const LAST_RESORT: f64 = 0.1;
/// Elements of a result that keep all multiprocessors of the device at work: a square of 128 by 64 each.
const FULL: f64 = 132.0 * 128.0 * 64.0;
/// What a library's further guesses cost more than its first one, each, until they are measured.
const GUESS: f64 = 0.03;

/// What an engine of a graph costs more than the call of the library's that does the same, in such guesses.
const GRAPH: f64 = 0.25;

/// The algorithms of convolutions, by their numbers, those first that have a kernel for most shapes.
const CONVOLUTIONS: &[i64] = &[1, 0, 6, 7, 2, 5, 4];

/// Seconds of one run.
#[allow(clippy::cast_precision_loss)]
pub(super) fn seconds(call: &Call<'_>, contract: &Contract) -> f64 {
    if call.op.flags.transfer.is_some() {
        return NOMINAL.latency + call.output.bytes() as f64 / NOMINAL.link;
    }
    let work = call.op.work(call.attrs, call.inputs, call.output);
    if call.op.backend() != Some("cuda") {
        return library(call, work.flops, work.bytes);
    }
    // What one kernel leaves to the next is written and read.
    let traffic = (work.bytes + 2.0 * contract.scratch as f64) / NOMINAL.memory;
    let starts = if contract.scratch > 0 { 2.0 } else { 1.0 };
    let busy = if matches!(call.op.meaning(), "matmul" | "conv") { busy(call) } else { 1.0 };
    starts * NOMINAL.start + traffic.max(work.flops / (NOMINAL.flops * GENERATED * busy))
}

/// The share of the device that a product keeps at work: a small result leaves multiprocessors idle; those at work
/// share what is summed, up to a point.
#[allow(clippy::cast_precision_loss)]
fn busy(call: &Call<'_>) -> f64 {
    (call.output.shape.count() as f64 / FULL).clamp(1.0 / 32.0, 1.0).sqrt()
}

/// Seconds of a library's kernel. Its scratch is what it may take: few algorithms do.
#[allow(clippy::cast_precision_loss)]
fn library(call: &Call<'_>, flops: f64, bytes: f64) -> f64 {
    let (speed, share) = match call.inputs[0].dtype {
        DType::F16 | DType::BF16 => (NOMINAL.half, LIBRARY_HALF),
        DType::F64 => (NOMINAL.double, LIBRARY),
        _ if int(call.attrs, "tf32") == 1 => (NOMINAL.tf32, LIBRARY_HALF),
        _ if chained(call) => (NOMINAL.flops, LAST_RESORT),
        _ => (NOMINAL.flops, LIBRARY),
    };
    let arithmetic = flops / (speed * share * busy(call));
    let mut seconds = NOMINAL.start + (bytes / NOMINAL.memory).max(arithmetic);
    if narrow(call) && call.op.meaning() == "conv" && call.output.layout.is_plain() {
        // Tensor cores take channels side by side: the library moves what lies otherwise, there and back.
        seconds += 2.0 * (NOMINAL.start + bytes / NOMINAL.memory);
    }
    seconds * (1.0 + GUESS * guess(call))
}

/// Whether tensor cores that multiply narrow types are at work.
fn narrow(call: &Call<'_>) -> bool {
    matches!(call.inputs[0].dtype, DType::F16 | DType::BF16) || int(call.attrs, "tf32") == 1
}

/// Whether a graph follows a convolution by more than what engines that are compiled ahead take.
fn chained(call: &Call<'_>) -> bool {
    call.op.name == "cudnn.conv-graph"
        && call.attrs.post().iter().any(|step| !matches!(step.op, "add" | "relu"))
}

/// Which guess a library's algorithm is: its own order, or ours.
#[allow(clippy::cast_precision_loss)]
fn guess(call: &Call<'_>) -> f64 {
    let algorithm = int(call.attrs, "algorithm");
    let engine = int(call.attrs, "engine") as f64;
    if call.op.meaning() == "attention" {
        return engine;
    }
    if call.op.name == "cudnn.conv-graph" {
        let layout = if narrow(call) || call.output.layout.is_plain() { 0.0 } else { 0.5 };
        return layout + GRAPH + engine;
    }
    if call.op.meaning() == "conv" {
        // Without tensor cores what lies in `nchw` has more kernels.
        let layout = if narrow(call) || call.output.layout.is_plain() { 0.0 } else { 0.5 };
        return layout + CONVOLUTIONS.iter().position(|known| *known == algorithm).unwrap_or(0) as f64;
    }
    // Of the same algorithm, the scratch that most want is the first choice.
    let scratch = match int(call.attrs, "workspace") {
        4 => 0.0,
        0 => 0.2,
        _ => 0.1,
    };
    algorithm as f64 + scratch
}

fn int(attrs: &Attrs, name: &str) -> i64 {
    match attrs.get(name) {
        Some(Attr::Int(value)) => *value,
        _ => 0,
    }
}
