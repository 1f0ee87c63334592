//! The orders of execution among which memory planning chooses.

use super::order::{Task, orders};
use crate::tensor::Device;

/// An order of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tasks, by their indices.
    pub tasks: Vec<usize>,
    /// The expected bytes of constants that are read again from beyond a cache; zero if only live bytes count.
    pub reread: usize,
}

/// Orders of the tasks of a program, and what is known about all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The orders. In each of them, every task comes after its inputs.
    pub orders: Vec<Candidate>,
    /// For devices, a number of bytes such that at least as many are live at one time in every order. For a device
    /// without an entry, a bound is computed without a search.
    pub least: Vec<(Device, usize)>,
}

/// A method to order the tasks of a program. Memory is planned for each candidate, and the best plan is kept.
pub trait Order: Send + Sync {
    /// Returns the name in pipelines.
    fn name(&self) -> &'static str;

    /// Returns the candidates.
    fn candidates(&self, tasks: &[Task]) -> Candidates;
}

/// Orders for few live bytes.
pub(super) struct Peak;

impl Order for Peak {
    fn name(&self) -> &'static str {
        "peak"
    }

    fn candidates(&self, tasks: &[Task]) -> Candidates {
        let orders = orders(tasks).into_iter().map(|tasks| Candidate { tasks, reread: 0 });
        Candidates { orders: orders.collect(), least: Vec::new() }
    }
}

/// The program's own order.
pub(super) struct Given;

impl Order for Given {
    fn name(&self) -> &'static str {
        "given"
    }

    fn candidates(&self, tasks: &[Task]) -> Candidates {
        let given = Candidate { tasks: (0..tasks.len()).collect(), reread: 0 };
        Candidates { orders: vec![given], least: Vec::new() }
    }
}
