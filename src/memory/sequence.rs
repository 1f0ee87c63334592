//! The orders of execution among which memory planning chooses.

use super::{Task, orders, reuse};
use crate::table::Table;
use std::sync::Arc;

/// An order of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tasks, by their indices.
    pub tasks: Vec<usize>,
    /// The expected bytes of constants that are read again from beyond a cache; zero if only live bytes count.
    pub reread: usize,
}

/// A method to order the tasks of a program. Memory is planned for each candidate, and the best plan is kept.
pub trait Order: Send + Sync {
    /// Returns the name in pipelines.
    fn name(&self) -> &'static str;

    /// Returns the candidates. In each of them, every task comes after its inputs.
    fn candidates(&self, tasks: &[Task]) -> Vec<Candidate>;
}

/// Orders of execution by name.
pub(crate) type Orders = Table<Arc<dyn Order>>;

/// Returns the orders of execution that ship with ovolo.
pub fn execution_orders() -> Orders {
    let own: [Arc<dyn Order>; 3] = [Arc::new(Reuse), Arc::new(Peak), Arc::new(Given)];
    Table::from_entries("order of execution", own.map(|order| (order.name(), order)))
}

/// Orders for few live bytes, and for reading shared weights again while a cache still holds them.
struct Reuse;

impl Order for Reuse {
    fn name(&self) -> &'static str {
        "reuse"
    }

    fn candidates(&self, tasks: &[Task]) -> Vec<Candidate> {
        let mut orders = orders(tasks);
        let reuse = reuse::order(tasks);
        let counts = reuse.is_some();
        orders.extend(reuse.filter(|order| !orders.contains(order)));
        let reread = |order: &[usize]| if counts { reuse::reread(tasks, order) } else { 0 };
        orders.into_iter().map(|order| Candidate { reread: reread(&order), tasks: order }).collect()
    }
}

/// Orders for few live bytes.
struct Peak;

impl Order for Peak {
    fn name(&self) -> &'static str {
        "peak"
    }

    fn candidates(&self, tasks: &[Task]) -> Vec<Candidate> {
        orders(tasks).into_iter().map(|tasks| Candidate { tasks, reread: 0 }).collect()
    }
}

/// The program's own order.
struct Given;

impl Order for Given {
    fn name(&self) -> &'static str {
        "given"
    }

    fn candidates(&self, tasks: &[Task]) -> Vec<Candidate> {
        vec![Candidate { tasks: (0..tasks.len()).collect(), reread: 0 }]
    }
}
