//! Tuning: what this machine takes for kernels and plans, measured and kept.
//!
//! [`calibrate`] measures the speeds of the machine; a [`Tuner`] times the kernels among which a model's extraction
//! picks; [`compile`] also times the few best plans whole, and keeps which one won beside the times; [`examples`] is
//! what the cost model `learned` is fitted on.

pub mod calibrate;
pub mod placement;

mod check;
mod choose;
mod clock;
mod fit;
mod in_plan;
mod merge;
mod native;
mod race;
mod sample;
mod shard;
mod tuner;

pub use choose::{Tuned, compile, settle};
pub use fit::examples;
pub use merge::{Comparison, MergeError, Merged, Part, compare, merge};
pub use race::profile;
pub use sample::{Drawn, Sampling, Timed, draw, draw_evenly, time};
pub use shard::{NoShard, Shard};
pub use tuner::{Differs, Progress, Stage, Tally, Tuner, Within};

/// What tells this build of the crate from others: a digest of its sources and of the compiler's settings.
pub const BUILD: &str = env!("OVOLO_BUILD");
