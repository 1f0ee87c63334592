//! Memory planning: lifetimes in, offsets out.
//!
//! Takes buffers, each with the steps at which it is live, gives an offset for each so that buffers
//! that are live together lie apart, and says how many bytes that takes and whether fewer could do
//! ([`Packing::proven`]). A planner is a file and a line in [`planners`].
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
pub mod reuse;
mod sequence;

pub use exact::Exact;
pub use limit::Limit;
pub use order::{Task, orders};
pub(crate) use sequence::Orders;
pub use sequence::{Candidate, Order, execution_orders};

use crate::table::Table;
use std::sync::Arc;

/// A range of steps during which so many bytes are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The first step at which the buffer is live.
    pub lower: usize,
    /// The first step at which it is no longer.
    pub upper: usize,
    /// Bytes.
    pub size: usize,
    /// What its offset is a multiple of.
    pub align: usize,
}

/// Offsets for buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The offset of each buffer.
    pub offsets: Vec<usize>,
    /// Bytes in all.
    pub peak: usize,
    /// The most bytes live at one step.
    pub lower_bound: usize,
    /// Whether no packing has a lower peak: it is the lower bound, or the search was exhaustive.
    pub proven: bool,
    /// Steps that a search took; none for a heuristic.
    pub steps: u64,
    /// After how many of them the peak was lowered for the last time.
    pub gained: u64,
}

/// Gives buffers their offsets.
pub trait Planner: Send + Sync {
    /// Its name in pipelines.
    fn name(&self) -> &'static str;

    /// Offsets such that buffers that are live at one step do not overlap. Sizes and alignments
    /// are less than 2^60 bytes in all.
    fn plan(&self, buffers: &[Buffer]) -> Packing;
}

/// Planners by name.
pub type Planners = Table<Arc<dyn Planner>>;

/// The planners that ovolo has.
pub fn planners() -> Planners {
    let own: [Arc<dyn Planner>; 3] = [Arc::new(Exact::DEFAULT), Arc::new(fit::Best), Arc::new(fit::FirstFit)];
    Table::of("memory planner", own.map(|planner| (planner.name(), planner)))
}

/// The most bytes live at one step: no packing can be smaller.
pub fn lower_bound(buffers: &[Buffer]) -> usize {
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
