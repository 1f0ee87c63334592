//! Tuning: measures the times of kernels and plans on this machine, and keeps them.
//!
//! [`calibrate`] measures the speeds of the machine, and [`topology`] reads which cores and caches it has. A
//! [`Tuner`] times the kernels among which the extraction of a model chooses. [`compile`] also times the few
//! best plans whole, and keeps which one won beside the times. [`examples`] gives the data to which the cost
//! model `learned` and [corrections](correct) of the price list are fitted.

pub mod calibrate;
pub mod correct;
pub mod placement;
pub mod topology;

mod check;
mod choose;
mod clock;
mod fit;
mod gain;
mod in_plan;
mod limit;
mod merge;
mod operand;
mod race;
mod ratios;
mod sample;
mod shard;
mod shared;
mod source;
mod tuner;

pub use choose::{Tuned, compile, settle};
pub use fit::examples;
pub use limit::TimeLimit;
pub use merge::{Comparison, MergeError, Merged, Part, compare, merge};
pub use race::profile;
pub use sample::{Drawn, Sampling, Timed, draw, draw_evenly, time};
pub use shard::{NoShard, Shard};
pub use tuner::{Progress, Tally, Tuner, TuningStage, Untimed, Within};

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from
/// others.
pub const BUILD: &str = env!("OVOLO_BUILD");
