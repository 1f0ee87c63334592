//! What an extraction would choose if kernels had other costs.

use super::runner_up::words;
use super::{Pick, Program};
use crate::extract::{Extraction, Problem};
use std::collections::BTreeMap;

/// A value that two programs compute in different ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// The name of the value, in the first of the programs that has it.
    pub value: String,
    /// Op and attributes of the node that computes it in the first program; `None` if that program does not need it.
    pub before: Option<String>,
    /// The seconds of this node, by the first prices.
    pub seconds_before: f64,
    /// Op and attributes of the node that computes it in the second program; `None` if that program does not need it.
    pub after: Option<String>,
    /// The seconds of this node, by the second prices.
    pub seconds_after: f64,
}

impl Pick<'_> {
    /// Returns the problem with the cost of each candidate multiplied by the factor of its op.
    pub(crate) fn scaled(&self, factor: &dyn Fn(&str) -> f64) -> Problem {
        let mut problem = self.problem.clone();
        for (class, terms) in problem.classes.iter_mut().zip(&self.terms) {
            for (node, term) in class.nodes.iter_mut().zip(terms).filter(|(node, _)| node.cost > 0.0) {
                node.cost *= factor(term.op.name);
            }
        }
        problem
    }

    /// Counts the candidates of each op that cost something.
    pub(crate) fn priced(&self) -> BTreeMap<&'static str, usize> {
        let mut ops = BTreeMap::new();
        for (class, terms) in self.problem.classes.iter().zip(&self.terms) {
            for (_, term) in class.nodes.iter().zip(terms).filter(|(node, _)| node.cost > 0.0) {
                *ops.entry(term.op.name).or_default() += 1;
            }
        }
        ops
    }

    /// Returns the differences between two choices, in the order of the classes, each with the prices by which it was
    /// made. Nodes that cost nothing in both are left out.
    pub(crate) fn flips(&self, before: (&Problem, &Extraction), after: (&Problem, &Extraction)) -> Vec<Flip> {
        let programs = [self.build(before.1), self.build(after.1)];
        let chosen = |(problem, extraction): (&Problem, &Extraction), class: usize| {
            let place = extraction.choice[class]? as usize;
            Some((words(self.terms[class][place]), problem.classes[class].nodes[place].cost))
        };
        let name = |class: usize| {
            let named =
                |program: &Program| Some(program.graph[program.node(self.classes[class])?].name.to_string());
            programs.iter().find_map(named).unwrap_or_else(|| format!("c{class}"))
        };
        let mut flips = Vec::new();
        for class in 0..self.classes.len() {
            if before.1.choice[class] == after.1.choice[class] {
                continue;
            }
            let (old, new) = (chosen(before, class), chosen(after, class));
            let seconds = |node: &Option<(String, f64)>| node.as_ref().map_or(0.0, |(_, seconds)| *seconds);
            let (seconds_before, seconds_after) = (seconds(&old), seconds(&new));
            if seconds_before > 0.0 || seconds_after > 0.0 {
                flips.push(Flip {
                    value: name(class),
                    before: old.map(|(words, _)| words),
                    seconds_before,
                    after: new.map(|(words, _)| words),
                    seconds_after,
                });
            }
        }
        flips
    }
}
