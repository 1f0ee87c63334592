//! Orders of execution: which orders of a program's tasks come into question.

use super::{Task, orders, reuse};
use crate::table::Table;
use std::sync::Arc;

/// An order of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tasks, by their places in what was given.
    pub tasks: Vec<usize>,
    /// Bytes of constants that are expected to be read again from beyond a cache that had them; zero where only
    /// the bytes that are live count.
    pub reread: usize,
}

/// A way to order the tasks of a program. Memory is planned for each candidate, and the best plan is kept.
pub trait Order: Send + Sync {
    /// Its name in pipelines.
    fn name(&self) -> &'static str;

    /// The orders that come into question; in each every task comes after its inputs.
    fn candidates(&self, tasks: &[Task]) -> Vec<Candidate>;
}

/// Orders of execution by name.
pub(crate) type Orders = Table<Arc<dyn Order>>;

/// The orders of execution that ovolo has.
pub fn execution_orders() -> Orders {
    let own: [Arc<dyn Order>; 3] = [Arc::new(Reuse), Arc::new(Peak), Arc::new(Given)];
    Table::of("order of execution", own.map(|order| (order.name(), order)))
}

/// For the fewest live bytes, and so that shared weights are read again while a cache has them.
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

/// For the fewest live bytes.
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
