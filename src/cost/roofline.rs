//! The roofline model: a kernel takes as long as its arithmetic or its memory traffic, whichever is
//! longer, and a fixed time to start (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009).

use super::{CostModel, Query};
use crate::op::winograd::{Parts, parts};
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
}

impl Machine {
    /// A round machine that is nobody's: what snapshots use.
    pub const NOMINAL: Self = Self { flops: 2.0e11, memory: 2.0e10, cache: 6.0e10, start: 1.0e-6 };
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

    #[allow(clippy::cast_precision_loss)]
    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let Query { def, call, constant, .. } = query;
        let flops = (def.flops)(call.attrs, call.inputs, call.output);
        let arithmetic = flops / (self.machine.flops * efficiency(query));
        let mut traffic = call.output.bytes() as f64 / self.machine.cache;
        for (ty, constant) in call.inputs.iter().zip(*constant) {
            let speed = if *constant { self.machine.memory } else { self.machine.cache };
            traffic += ty.bytes() as f64 / speed;
        }
        Some(self.machine.start + arithmetic.max(traffic) + 0.25 * arithmetic.min(traffic))
    }
}

/// The share of the machine's arithmetic that a kind of kernel reaches, as measured by
/// `ovolo bench --profile`.
const EFFICIENCY: &[(&str, f64)] = &[
    ("native.conv-direct", 0.85),
    ("native.conv-first", 0.70),
    ("native.conv-depthwise", 0.25),
    ("native.conv-narrow", 0.50),
    ("native.conv-nhwc", 0.78),
    ("native.conv", 0.68),
    ("native.matmul-packed", 0.92),
    ("native.matmul", 0.85),
    ("native.attention", 0.80),
];

/// The same for the two parts of Winograd's algorithm: matrix products, and transforms, which load
/// and store about as much as they compute.
const WINOGRAD: Parts = Parts { products: 0.80, transforms: 0.20 };

/// The reference evaluation, one element after another in double precision.
const REFERENCE: f64 = 0.004;

/// Kernels that are not listed do a few operations an element.
const OTHERWISE: f64 = 0.10;

fn efficiency(query: &Query<'_>) -> f64 {
    if query.contract.implementation == "reference" {
        return REFERENCE;
    }
    let known = EFFICIENCY.iter().find(|(op, _)| *op == query.def.name);
    let share = match query.def.name {
        "native.conv-winograd" => winograd(query),
        "native.conv-direct" => known.map_or(OTHERWISE, |(_, share)| *share) * filling(query),
        "native.conv-nhwc" => known.map_or(OTHERWISE, |(_, share)| *share) * panels(query),
        "native.conv" => known.map_or(OTHERWISE, |(_, share)| *share) * spreading(query),
        _ => known.map_or(OTHERWISE, |(_, share)| *share),
    };
    // Lanes that hold padding work for nothing.
    let ty = query.call.output;
    #[allow(clippy::cast_precision_loss)]
    let useful = ty.shape.count().max(1) as f64 / ty.layout.padded_count(&ty.shape).max(1) as f64;
    let narrow = if ty.layout.blocks().iter().any(|(_, size)| *size == 8) { 0.55 } else { 1.0 };
    share * useful * narrow
}

/// The share that Winograd's algorithm reaches, by how much of it is products.
fn winograd(query: &Query<'_>) -> f64 {
    let parts = parts(query.call.inputs, query.call.output);
    let time = parts.products / WINOGRAD.products + parts.transforms / WINOGRAD.transforms;
    (parts.products + parts.transforms).max(f64::MIN_POSITIVE) / time.max(f64::MIN_POSITIVE)
}

/// How well the input channels of a direct convolution fill their blocks: the last block counts as
/// a whole one, and a block of few channels takes about two more to begin.
#[allow(clippy::cast_precision_loss)]
fn filling(query: &Query<'_>) -> f64 {
    let channels = query.call.inputs[1].shape[1].max(1);
    let block = query.call.output.layout.block(1);
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
