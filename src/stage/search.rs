//! The search for a program by what it costs with its plan.
//!
//! What an extraction chose is planned at once: a copy that the plan had to add, or an arena that is too
//! large, goes back into the prices, and the best of what was planned is kept.

mod effort;
pub(super) mod memory;
mod room;
mod trial;

pub(super) use effort::Effort;
pub(super) use memory::too_large;
pub(super) use room::Room;
pub(super) use trial::{Chooser, Trial};

/// Why nothing is chosen.
pub(super) const NOTHING: &str = "nothing that can be run computes the outputs";
