//! The candidates of the working copy, and a total order of costs.

/// A candidate of the working copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub cost: f64,
    /// The classes that it reads, sorted, each once.
    pub children: Vec<u32>,
    /// Its index in the class of the problem.
    pub index: u32,
}

/// A cost with a total order.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Key(pub f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
