//! The program that is planned, with the data of its kernels.

use super::update::Updates;
use crate::graph::Graph;
use crate::op::Contract;

/// The program that is planned, with the data of its kernels.
pub(super) struct Subject<'a> {
    pub graph: &'a Graph,
    /// For each node, whether it depends on no input.
    pub constant: &'a [bool],
    /// For each node that runs, its contract and the seconds of one run.
    pub contracts: &'a [Option<(Contract, f64)>],
    /// The inputs that are replaced by their next values.
    pub updates: &'a Updates,
    /// Returns the seconds for copying a number of bytes.
    pub copy: &'a dyn Fn(usize) -> f64,
}
