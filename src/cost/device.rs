//! Prices of a device's kernels, and of copies to and from it: roofline over nominal speeds.

use super::Query;

/// The backend whose kernels run there.
pub(super) const BACKEND: &str = "cuda";

/// The speeds of a device, as its data sheet has them: H200, float32 without tensor cores.
struct Speeds {
    /// Operations a second.
    flops: f64,
    /// Bytes a second of its memory.
    memory: f64,
    /// Seconds to start a kernel.
    start: f64,
    /// Bytes a second between it and the host, pinned.
    link: f64,
    /// Seconds to start a copy.
    latency: f64,
}

const NOMINAL: Speeds =
    Speeds { flops: 6.0e13, memory: 4.5e12, start: 2.5e-6, link: 5.0e10, latency: 8.0e-6 };

/// The share of the device's arithmetic that generated kernels reach.
const GENERATED: f64 = 0.3;

/// Seconds of one run.
#[allow(clippy::cast_precision_loss)]
pub(super) fn seconds(query: &Query<'_>) -> f64 {
    let Query { def, call, contract, .. } = query;
    if matches!(def.logical, Some("upload" | "download")) {
        return NOMINAL.latency + call.output.bytes() as f64 / NOMINAL.link;
    }
    let work = def.work(call.attrs, call.inputs, call.output);
    // What one kernel leaves to the next is written and read.
    let traffic = (work.bytes + 2.0 * contract.scratch as f64) / NOMINAL.memory;
    let starts = if contract.scratch > 0 { 2.0 } else { 1.0 };
    starts * NOMINAL.start + traffic.max(work.flops / (NOMINAL.flops * GENERATED))
}
