//! The search for a program by its cost including its plan.
//!
//! Each extracted program is planned at once. If its plan needs a copy, or an arena that is too large, the prices
//! change accordingly, and another program is extracted. The best planned program is kept.

mod effort;
pub(super) mod memory;
mod room;
mod trial;

pub(super) use effort::Effort;
pub(super) use memory::too_large;
pub(super) use room::Room;
pub(super) use trial::{Chooser, Trial};
