//! Memory planning: turns lifetimes into offsets.
//!
//! A planner takes buffers, each with the steps at which it is live, and gives each an offset, so that buffers that
//! are live at the same time do not overlap. It returns how many bytes this takes, and whether fewer would be
//! possible ([`Packing::proven`]). A new planner is a file and a line in [`planners`].
//!
//! ```
//! use ovolo::memory::{Buffer, planners};
//! let buffer = |lower, upper, size| Buffer { lower, upper, size, align: 1 };
//! let buffers = [buffer(0, 3, 4), buffer(3, 9, 4), buffer(0, 9, 4), buffer(9, 21, 4), buffer(0, 21, 4)];
//! let packing = planners().find("exact")?.plan(&buffers);
//! assert_eq!(packing.peak, 12);
//! assert!(packing.proven);
//! # Ok::<(), ovolo::error::Unknown>(())
//! ```

mod exact;
mod fit;
mod limit;
mod order;
mod recompute;
mod reuse;
mod search;
mod sequence;

pub use exact::Exact;
pub use limit::Limit;
pub use order::Task;
pub(crate) use recompute::Recomputation;
pub use search::Search;
pub(crate) use search::least as least_live;
pub use sequence::{Candidate, Candidates, Order};

use crate::table::Table;
use std::sync::Arc;

/// A range of steps during which a number of bytes is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The first step at which the buffer is live.
    pub lower: usize,
    /// The first step at which it is no longer live.
    pub upper: usize,
    /// The size in bytes.
    pub size: usize,
    /// The alignment in bytes: the offset is a multiple of it.
    pub align: usize,
}

/// The offsets of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The offset of each buffer, in bytes.
    pub offsets: Vec<usize>,
    /// The total size in bytes.
    pub peak: usize,
    /// The most bytes that are live at one step.
    pub lower_bound: usize,
    /// Whether no packing has a lower peak: the peak is the lower bound, or the search was exhaustive.
    pub proven: bool,
    /// The steps that the search took; none for a heuristic.
    pub steps: u64,
    /// The number of steps after which the peak was lowered for the last time.
    pub gained: u64,
}

/// A memory planner, which gives buffers their offsets.
pub trait Planner: Send + Sync {
    /// Returns the name in pipelines.
    fn name(&self) -> &'static str;

    /// Returns offsets with which buffers that are live at the same step do not overlap. All sizes and alignments
    /// together must be less than 2^60 bytes.
    fn plan(&self, buffers: &[Buffer]) -> Packing;
}

/// Planners by name.
pub(crate) type Planners = Table<Arc<dyn Planner>>;

/// Returns the planners that ship with ovolo.
pub fn planners() -> Planners {
    let own: [Arc<dyn Planner>; 3] = [Arc::new(Exact::DEFAULT), Arc::new(fit::Best), Arc::new(fit::FirstFit)];
    Table::from_entries("memory planner", own.map(|planner| (planner.name(), planner)))
}

/// Orders of execution by name.
pub(crate) type Orders = Table<Arc<dyn Order>>;

/// Returns the orders of execution that ship with ovolo.
pub fn execution_orders() -> Orders {
    let own: [Arc<dyn Order>; 4] = [
        Arc::new(Search::DEFAULT),
        Arc::new(reuse::Reuse),
        Arc::new(sequence::Peak),
        Arc::new(sequence::Given),
    ];
    Table::from_entries("order of execution", own.map(|order| (order.name(), order)))
}

/// Returns the most bytes that are live at one step. No packing can be smaller.
pub(crate) fn lower_bound(buffers: &[Buffer]) -> usize {
    let mut events: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * buffers.len());
    for buffer in buffers.iter().filter(|buffer| buffer.lower < buffer.upper) {
        events.push((buffer.lower, true, buffer.size));
        events.push((buffer.upper, false, buffer.size));
    }
    events.sort_unstable(); // ends come before beginnings at the same step
    let (mut live, mut most) = (0, 0);
    for (_, begins, size) in events {
        if begins {
            live += size
        } else {
            live -= size
        }
        most = most.max(live);
    }
    most
}
