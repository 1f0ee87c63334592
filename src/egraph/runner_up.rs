//! What would be chosen in place of each chosen node, and what that would cost.

use super::{Pick, Term};
use crate::extract::{Extraction, Extractor};

/// The next best for one value.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerUp {
    /// The value, by its name in the extracted program.
    pub value: String,
    /// What computes it now: op and attributes.
    pub chosen: String,
    /// Seconds of that node alone.
    pub seconds: f64,
    /// What would compute it; `None` where the whole program would do without the value.
    pub instead: Option<String>,
    /// Seconds by which the whole program would be dearer: the node must cost so much more for the
    /// choice to flip.
    pub margin: f64,
    /// Whether both programs are proven to be the cheapest, so that the margin is exact.
    pub proven: bool,
}

impl Pick<'_> {
    /// The runner-up of every chosen node that costs something: the cheapest program without that
    /// node, extracted anew. Values that can be computed in no other way have none.
    pub fn runner_ups(&self, extractor: &dyn Extractor, extraction: &Extraction) -> Vec<RunnerUp> {
        let names = self.names();
        let mut found = Vec::new();
        for (class, choice) in extraction.choice.iter().enumerate() {
            let Some(place) = *choice else { continue };
            let seconds = self.problem.classes[class].nodes[place as usize].cost;
            if seconds <= 0.0 {
                continue;
            }
            let mut without = self.problem.clone();
            without.classes[class].nodes[place as usize].cost = f64::INFINITY;
            let Ok(other) = extractor.extract(&without) else { continue };
            let value = names.get(&self.classes[class]).map_or_else(
                || format!("a value of type {}", self.egraph.ty(self.classes[class])),
                |name| name.to_string(),
            );
            found.push(RunnerUp {
                value,
                chosen: words(self.terms[class][place as usize]),
                seconds,
                instead: other.choice[class].map(|place| words(self.terms[class][place as usize])),
                margin: other.cost - extraction.cost,
                proven: extraction.proven && other.proven,
            });
        }
        found
    }
}

fn words(term: &Term) -> String {
    if term.attrs.is_empty() { term.op.to_owned() } else { format!("{} {}", term.op, term.attrs) }
}
