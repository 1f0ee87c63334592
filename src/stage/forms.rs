//! The price of further forms of weights, for a plan that is chosen beside other plans of the model.

use crate::egraph::Pick;
use crate::extract::{Extraction, Problem};
use crate::session::Held;

/// A problem in which kernels that read further forms of weights cost more than their time, so that a plan takes the
/// forms that are there already unless other ones are clearly faster.
///
/// Plans for two sizes of a model's inputs may each be fastest with the weights in another form, and then both forms
/// stay in memory. Where the prices of two kernels are closer than prices are exact, the second form is not worth its
/// memory.
pub(super) struct Forms {
    /// The problem with these prices.
    pub(super) problem: Problem,
    /// For each class, what its candidates cost above their time, in seconds.
    surcharges: Vec<Vec<f64>>,
}

impl Forms {
    /// Adds `share` of its time to the price of each kernel that reads a further form.
    pub(super) fn new(pick: &Pick<'_>, held: &Held, share: f64) -> Self {
        let mut problem = pick.problem.clone();
        let constants = pick.constants_alone();
        let mut further = vec![false; problem.classes.len()];
        for (class, is_further) in constants.classes.iter().zip(held.further_forms(&constants.graph)) {
            if let (Some(class), true) = (*class, is_further) {
                further[class] = true;
            }
        }
        let surcharges = problem.classes.iter_mut().map(|class| {
            let surcharge = class.nodes.iter_mut().map(|node| {
                let reads = node.children.iter().any(|child| further[child.index()]);
                let more = if reads { share * node.cost } else { 0.0 };
                node.cost += more;
                more
            });
            surcharge.collect()
        });
        let surcharges = surcharges.collect();
        Self { problem, surcharges }
    }

    /// Returns what a choice costs above its time, in seconds.
    pub(super) fn surcharge(&self, extraction: &Extraction) -> f64 {
        let chosen = extraction.choice.iter().zip(&self.surcharges);
        chosen.filter_map(|(choice, class)| Some(class[(*choice)? as usize])).sum()
    }
}
