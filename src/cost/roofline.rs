//! The roofline model: a kernel takes as long as its arithmetic or its memory traffic, whichever is
//! longer, and a fixed time to start (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009).

use super::{CostModel, Query};
use crate::attr::Step;
use crate::op::pointwise;
use crate::tensor::{DType, TensorType};
use serde::{Deserialize, Serialize};

/// The speeds of a machine, with all threads of the plan at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Float32 operations a second of the best matrix kernel.
    pub flops: f64,
    /// Bytes a second from memory.
    pub memory: f64,
    /// Bytes a second from the last cache.
    pub cache: f64,
    /// Seconds to start a kernel.
    pub start: f64,
    /// `f32` elements of a vector of that matrix kernel. Kernels for narrower ones do less at a time.
    pub lanes: usize,
}

impl Machine {
    /// A round machine that is nobody's: what snapshots use.
    pub const NOMINAL: Self = Self { flops: 2.0e11, memory: 2.0e10, cache: 6.0e10, start: 1.0e-6, lanes: 16 };

    /// Seconds to copy so many bytes that were just written.
    #[allow(clippy::cast_precision_loss)]
    pub fn copy(&self, bytes: usize) -> f64 {
        self.start + 2.0 * bytes as f64 / self.cache
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::NOMINAL
    }
}

/// Roofline over given speeds.
#[derive(Clone, Copy, Debug)]
pub struct Roofline {
    name: &'static str,
    machine: Machine,
}

impl Roofline {
    /// A model with a name of its own.
    pub const fn new(name: &'static str, machine: Machine) -> Self {
        Self { name, machine }
    }
}

impl CostModel for Roofline {
    fn name(&self) -> &'static str {
        self.name
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.machine.copy(bytes)
    }

    #[allow(clippy::cast_precision_loss)]
    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let Query { call, constant, .. } = query;
        if let Some(seconds) = call.op.lowered.as_ref().and_then(|lowered| lowered.declaration.seconds) {
            return Some(seconds(call, query.contract));
        }
        let flops = (call.op.flops)(call.attrs, call.inputs, call.output);
        let arithmetic = flops / (self.machine.flops * efficiency(query, self.machine.lanes));
        let mut traffic = call.output.bytes() as f64 / self.machine.cache;
        for (operand, (ty, constant)) in call.inputs.iter().zip(*constant).enumerate() {
            if query.contract.alias == Some(operand) {
                continue; // It is read where the result is written, which has to be fetched anyhow.
            }
            let speed = if *constant { self.machine.memory } else { self.machine.cache };
            traffic += ty.bytes() as f64 / speed;
        }
        if query.contract.implementation.starts_with("widened ") {
            traffic *= WIDENED;
        }
        let functions = functions(query) / self.machine.flops;
        Some(self.machine.start + arithmetic.max(traffic) + 0.25 * arithmetic.min(traffic) + functions)
    }
}

/// The share of the machine's arithmetic that a kind of kernel reaches, as measured by
/// `ovolo bench --profile`.
const EFFICIENCY: &[(&str, f64)] = &[
    ("native.conv-direct", 0.85),
    ("native.conv-first", 0.70),
    ("native.conv-depthwise", 0.35),
    ("native.conv-narrow", 0.50),
    ("native.conv-nhwc", 0.78),
    ("native.conv", 0.68),
    ("native.matmul-packed", 0.92),
    ("native.matmul", 0.85),
    ("native.attention", 0.80),
    ("native.conv-transpose", 0.08),
];

/// The same for kernels of oneDNN, by how their implementations' names begin: a first price, from
/// `ovolo bench --profile` of seven networks on a processor with AVX-512, relative to native kernels.
const ONEDNN: &[(&str, &str, f64)] = &[
    ("onednn.conv", "brgconv_1x1:", 0.86),
    ("onednn.conv", "brgconv:", 0.81),
    ("onednn.conv", "jit_1x1:", 0.84),
    ("onednn.conv", "jit_dw:", 0.29),
    ("onednn.conv", "jit:", 0.77),
    ("onednn.conv", "", 0.40),
    ("onednn.conv-transpose", "jit", 0.60),
    ("onednn.conv-transpose", "brg", 0.60),
    ("onednn.conv-transpose", "", 0.30),
    ("onednn.matmul", "brg", 0.86),
    ("onednn.matmul", "", 0.80),
    ("onednn.matmul-packed", "", 1.00),
    ("onednn.max-pool", "jit:", 0.17),
    ("onednn.avg-pool", "jit:", 0.22),
];

/// The same in bf16, where instructions for it are emulated, and by these. The first are measured on a
/// processor with AVX-512 and without them, on which a kernel takes 5 to 11 times as long as in f32; the
/// second are not measured: they are what twice the operations an instruction would give.
const BF16: &[(&str, &str, f64, f64)] = &[
    ("onednn.conv", "jit_bf16_1x1:", 0.16, 1.3),
    ("onednn.conv", "jit_bf16:", 0.09, 1.3),
    ("onednn.conv", "jit_dw:", 0.29, 0.29),
    ("onednn.matmul", "", 0.09, 1.3),
];

/// What conversions between `f32` and a narrow type cost beside the kernel: as many times its own traffic.
const WIDENED: f64 = 4.0;

/// The same for the two parts of Winograd's algorithm: matrix products, and transforms, which load
/// and store about as much as they compute.
const WINOGRAD: [f64; 2] = [0.80, 0.20];

/// The same for the seven products of Strassen's algorithm, of large halves.
const STRASSEN: f64 = 0.90;

/// The same for a 1x1 convolution and the depthwise one that reads it row by row.
const IN_CACHES: [f64; 2] = [0.76, 0.40];

/// The reference evaluation, one element after another in double precision.
const REFERENCE: f64 = 0.004;

/// Kernels that are not listed do a few operations an element.
const OTHERWISE: f64 = 0.10;

/// What an element costs in a function that is a polynomial, a division or a root and no single instruction,
/// in operations of the best matrix kernel: measured on a processor with AVX-512, less the way to memory.
const FUNCTIONS: &[(&str, f64)] = &[
    ("reciprocal", 23.0),
    ("div", 23.0),
    ("rdiv", 23.0),
    ("softsign", 23.0),
    ("exp", 25.0),
    ("sqrt", 30.0),
    ("elu", 33.0),
    ("sigmoid", 39.0),
    ("silu", 41.0),
    ("mish", 47.0),
    ("log", 56.0),
    ("tanh", 59.0),
    ("erf", 79.0),
    ("gelu-tanh", 81.0),
    ("gelu", 93.0),
    ("softplus", 157.0),
];

/// The same for oneDNN's, against ours.
const FUNCTIONS_ONEDNN: f64 = 2.0;

/// What all elements cost in the functions that they go through.
#[allow(clippy::cast_precision_loss)]
pub(super) fn functions(query: &Query<'_>) -> f64 {
    let call = query.call;
    let cost = |name: &str| FUNCTIONS.iter().find(|(op, _)| *op == name).map_or(0.0, |(_, cost)| *cost);
    let chain = |steps: &[Step]| steps.iter().map(|step| cost(step.op)).sum::<f64>();
    let (backend, own) = query.call.op.name.split_once('.').unwrap_or(("", query.call.op.name));
    let mut operations = call.output.shape.count() as f64 * (cost(own) + chain(call.attrs.post()));
    if query.call.op.meaning() == "pointwise-depthwise" {
        let between = pointwise::between(call.inputs).shape.count() as f64;
        operations += between * chain(call.attrs.steps("inner"));
    }
    operations * if backend == "onednn" { FUNCTIONS_ONEDNN } else { 1.0 }
}

fn efficiency(query: &Query<'_>, lanes: usize) -> f64 {
    if query.contract.implementation == "reference" {
        return REFERENCE;
    }
    let known = EFFICIENCY.iter().find(|(op, _)| *op == query.call.op.name);
    let share = match query.call.op.name {
        "native.conv-winograd" => winograd(query),
        "native.matmul-strassen" | "native.conv-strassen" => STRASSEN * halves(query),
        "native.conv-direct" => {
            known.map_or(OTHERWISE, |(_, share)| *share) * filling(query, query.call.output.layout.block(1))
        }
        "native.pointwise-depthwise" => in_caches(query),
        "native.conv-nhwc" => known.map_or(OTHERWISE, |(_, share)| *share) * panels(query),
        "native.conv" => known.map_or(OTHERWISE, |(_, share)| *share) * spreading(query),
        "native.resize" => {
            if query.call.output.layout.is_plain() {
                0.015
            } else {
                0.10
            }
        }
        "onednn.resize" => {
            if query.call.output.layout.is_plain() {
                0.045
            } else {
                0.20
            }
        }
        "onednn.conv" => onednn(query, lanes) * grouping(query) * sharing(query),
        name if name.starts_with("onednn.") => onednn(query, lanes),
        _ => known.map_or(OTHERWISE, |(_, share)| *share),
    };
    // Lanes that hold padding work for nothing.
    let ty = query.call.output;
    #[allow(clippy::cast_precision_loss)]
    let useful = ty.shape.count().max(1) as f64 / ty.layout.padded_count(&ty.shape).max(1) as f64;
    let by_eight = |ty: &TensorType| ty.layout.blocks().iter().any(|(_, size)| *size == 8);
    let half = lanes > 8 && (by_eight(ty) || query.call.inputs.iter().any(|ty| by_eight(ty)));
    let narrow = if half { 0.55 } else { 1.0 };
    share * useful * narrow
}

fn onednn(query: &Query<'_>, lanes: usize) -> f64 {
    let name = &query.contract.implementation;
    if query.call.inputs[0].dtype == DType::BF16 {
        let fits =
            |(op, start, ..): &&(&str, &str, f64, f64)| *op == query.call.op.name && name.starts_with(start);
        let by_instructions = name.ends_with("_bf16") || name.contains("amx");
        return BF16.iter().find(fits).map_or(
            OTHERWISE,
            |(_, _, emulated, real)| {
                if by_instructions { *real } else { *emulated }
            },
        );
    }
    let fits = |(op, start, _): &&(&str, &str, f64)| {
        *op == query.call.op.name && query.contract.implementation.starts_with(start)
    };
    let share = ONEDNN.iter().find(fits).map_or(OTHERWISE, |(_, _, share)| *share);
    // Of kernels for narrower registers each name says so; blocks of 8 are priced with all others.
    let by_eight = query.call.inputs.iter().any(|ty| ty.layout.blocks().iter().any(|(_, size)| *size == 8));
    let register = if name.ends_with("sse41") {
        0.15
    } else if lanes > 8 && name.ends_with("avx2") && !by_eight {
        0.50
    } else {
        1.0
    };
    share * register
}

/// How evenly threads share a convolution of the library: images, then what lies outermost in memory.
#[allow(clippy::cast_precision_loss)]
fn sharing(query: &Query<'_>) -> f64 {
    let (y, threads) = (query.call.output, query.call.threads.max(1));
    let dim = if y.shape[0] >= threads { 0 } else { y.layout.order(4)[1] };
    let units = y.shape[dim].div_ceil(y.layout.block(dim)).max(1);
    units as f64 / units.next_multiple_of(threads) as f64
}

/// How well the weights' blocks are filled, which is what a convolution of the library computes: those
/// of inputs as for [`filling`], those of outputs by whole ones, a group each.
#[allow(clippy::cast_precision_loss)]
fn grouping(query: &Query<'_>) -> f64 {
    let w = query.call.inputs[1];
    let groups = (query.call.inputs[0].shape[1] / w.shape[1].max(1)).max(1);
    let outputs = (w.shape[0] / groups).max(1);
    let block = w.layout.block(0);
    let whole = if outputs == 1 { 1 } else { outputs.next_multiple_of(block) };
    // Blocks of four channels fill a quarter of a register.
    let register = if (2..8).contains(&w.layout.block(1)) { 0.30 } else { 1.0 };
    let useful = if query.call.output.layout.block(1) > 1 { 1.0 } else { outputs as f64 / whole as f64 };
    let deep = if w.layout.block(1) > 1 { filling(query, w.layout.block(1)) } else { 1.0 };
    useful * deep * register
}

/// The share that Winograd's algorithm reaches, by how much of it is products.
fn winograd(query: &Query<'_>) -> f64 {
    together(["winograd_products", "winograd_transforms"].map(|part| query.own(part)), WINOGRAD)
}

/// What is left of a share by sums: those of products are made once for all of the inner dimension, those of
/// the left operand once for all columns. Fitted to nine products on a processor with AVX-512.
#[allow(clippy::cast_precision_loss)]
fn halves(query: &Query<'_>) -> f64 {
    let u = query.call.inputs[1];
    let (inner, columns) = (u.shape[1].max(1) as f64, u.shape[2].max(1) as f64);
    1.0 / (1.0 + 10.0 / inner + 14.0 / columns)
}

/// The share that a 1x1 convolution and the depthwise one that reads it reach together.
fn in_caches(query: &Query<'_>) -> f64 {
    let block = query.call.output.layout.block(1);
    let [pointwise, depthwise] = IN_CACHES;
    let shares = [pointwise * filling(query, block), depthwise];
    together(["pointwise_flops", "depthwise_flops"].map(|part| query.own(part)), shares)
}

/// The share that two parts reach together, from their operations and the share of each.
fn together(operations: [f64; 2], shares: [f64; 2]) -> f64 {
    let time = operations[0] / shares[0] + operations[1] / shares[1];
    (operations[0] + operations[1]).max(f64::MIN_POSITIVE) / time.max(f64::MIN_POSITIVE)
}

/// How well the input channels of a direct convolution fill their blocks: the last block counts as
/// a whole one, and a block of few channels takes about two more to begin.
#[allow(clippy::cast_precision_loss)]
fn filling(query: &Query<'_>, block: usize) -> f64 {
    let channels = query.call.inputs[1].shape[1].max(1);
    let lanes = channels.min(block);
    let begun = lanes as f64 / (lanes + 2) as f64 * (block + 2) as f64 / block as f64;
    begun * channels as f64 / channels.next_multiple_of(lanes) as f64
}

/// How well a convolution with channels side by side fills panels of 32 outputs, vectors of 16 of them,
/// and sums that begin and end with a load and a store for each kernel element.
#[allow(clippy::cast_precision_loss)]
fn panels(query: &Query<'_>) -> f64 {
    let w = &query.call.inputs[1].shape;
    let (outputs, inputs) = (w[0].max(1), w[1].max(1));
    outputs as f64 / outputs.next_multiple_of(16) as f64 * inputs as f64 / (inputs + 8) as f64
}

/// How many outputs share the panels of a plain convolution, which cost as much to fill as 32
/// outputs, and how well pixels fill vectors of 16.
#[allow(clippy::cast_precision_loss)]
fn spreading(query: &Query<'_>) -> f64 {
    let (x, w, y) = (query.call.inputs[0], query.call.inputs[1], query.call.output);
    let groups = x.shape[1] / w.shape[1].max(1);
    let outputs = (w.shape[0] / groups.max(1)).max(1) as f64;
    let pixels = (y.shape[2] * y.shape[3]).max(1);
    outputs / (outputs + 32.0) * pixels as f64 / pixels.next_multiple_of(16) as f64
}
