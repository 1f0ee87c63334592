//! What a plan is made for.

use crate::graph::Graph;
use crate::op::Contract;

/// What is planned: a program, and what is known of its kernels.
pub(super) struct Subject<'a> {
    pub graph: &'a Graph,
    /// Whether each node depends on no input.
    pub constant: &'a [bool],
    /// Of each node that runs, its contract and the seconds of one run.
    pub contracts: &'a [Option<(Contract, f64)>],
    /// Prices a copy of so many bytes.
    pub copy: &'a dyn Fn(usize) -> f64,
}
