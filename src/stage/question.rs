//! Questions about the programs of a priced e-graph.

mod curve;
mod exchange;
mod member;
mod runner_up;
mod what_if;
mod without;

pub use curve::{Curve, Point};
pub use what_if::{Scale, Supposed};
