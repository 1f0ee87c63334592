//! Extraction as an integer program, which the crate `microlp` solves (feature `ilp`), for comparison with other
//! extractors.
//!
//! Each candidate has a variable that says whether it is chosen. At most one candidate of a class is chosen. Exactly
//! one is chosen for a root and for each class that every program needs; without the latter the relaxation would give
//! a weak bound. The classes that a chosen candidate reads have chosen candidates. Within a component, classes have
//! an order, and a candidate comes after the classes that it reads, so that there is no cycle.

use super::bound::chain;
use super::canonical::{Trees, Work, price, reach};
use super::component::Components;
use super::node::Node;
use super::reduce::Reduced;
use super::search::SLACK;
use super::{Claim, ExtractError, Extraction, Extractor, Problem, Report};
use microlp::{ComparisonOp, OptimizationDirection, SolutionStatus, SolveOptions, SolveOutcome, Variable};
use serde::{Deserialize, Serialize};

/// Extraction by integer programming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ilp {
    /// The most candidates after reduction.
    pub candidates: usize,
    /// The most nodes of branch and bound.
    pub nodes: u64,
}

impl Ilp {
    /// The limits by default: a solution takes seconds.
    pub(crate) const DEFAULT: Self = Self { candidates: 4_000, nodes: 20_000 };
}

impl Default for Ilp {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The largest price in the program. The solver's tolerances are absolute and seconds are small, so prices are
/// scaled.
const SCALE: f64 = 1e3;

impl Extractor for Ilp {
    fn name(&self) -> &'static str {
        "ilp"
    }

    fn claim(&self) -> Claim {
        Claim::Optimal
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let whole = Work::new(problem)?;
        let reduced = Reduced::new(&whole);
        let work = &reduced.work;
        let components = Components::new(work);
        let mut report = Report::new(&whole, &reduced, &components);
        report.method = "integer program".to_owned();
        let large = |steps| ExtractError::TooLarge { extractor: "ilp", steps };
        if report.reduced.nodes > self.candidates {
            return Err(large(report.reduced.nodes));
        }
        let (program, chosen) = program(work, &components);
        let start = Trees::new(&work.classes).choice;
        let used = reach(&work.classes, &work.roots, &start);
        let hint = chosen.iter().enumerate().flat_map(|(class, nodes)| {
            let (start, used) = (start[class], used[class]);
            let value = move |place: usize| f64::from(u8::from(used && start == Some(place as u32)));
            nodes.iter().enumerate().map(move |(place, variable)| (*variable, value(place)))
        });
        let mut options = SolveOptions::default();
        options.node_limit = Some(self.nodes);
        options.warm_start = Some(hint.collect());
        // A solution that cannot be verified, or that is not found within the limit, is discarded.
        let steps = usize::try_from(self.nodes).unwrap_or(usize::MAX);
        let Ok(SolveOutcome::Solution(solution)) = program.solve_with(options) else {
            return Err(large(steps));
        };
        let one = |nodes: &Vec<Variable>| {
            let chosen = |variable: &Variable| solution.var_value(*variable) > 0.5;
            nodes.iter().position(chosen).map(|place| place as u32)
        };
        let choice: Vec<Option<u32>> = chosen.iter().map(one).collect();
        let proven = solution.status() == SolutionStatus::Optimal;
        report.limit = (!proven).then(|| format!("{steps} nodes of branch and bound"));
        let bound = if proven {
            price(&work.classes, &work.roots, &choice)
        } else {
            chain(&work.classes, &work.roots)
        };
        Ok(whole.finish(&reduced.restore(&choice), (bound + reduced.sunk) * SLACK, proven, report))
    }
}

/// Returns the integer program, and for each class the variables of its candidates.
#[allow(clippy::cast_precision_loss)] // Components are small.
fn program(work: &Work, components: &Components) -> (microlp::Problem, Vec<Vec<Variable>>) {
    let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
    let dearest = work.classes.iter().flatten().map(|node| node.cost).fold(1e-300, f64::max);
    let chosen: Vec<Vec<Variable>> = work
        .classes
        .iter()
        .map(|nodes| nodes.iter().map(|node| program.add_binary_var(node.cost / dearest * SCALE)).collect())
        .collect();
    let sum = |class: usize, factor: f64| chosen[class].iter().map(move |one| (*one, factor));
    let needed = needed(&work.classes, &work.roots);
    for class in (0..work.classes.len()).filter(|class| !chosen[*class].is_empty()) {
        let how = if needed[class] { ComparisonOp::Eq } else { ComparisonOp::Le };
        program.add_constraint(sum(class, 1.0).collect::<Vec<_>>(), how, 1.0);
        let mut read: Vec<u32> =
            work.classes[class].iter().flat_map(|node| &node.children).copied().collect();
        read.sort_unstable();
        read.dedup();
        for child in read {
            let readers = work.classes[class].iter().zip(&chosen[class]);
            let readers = readers.filter(|(node, _)| node.children.contains(&child));
            let mut row: Vec<(Variable, f64)> = sum(child as usize, 1.0).collect();
            row.extend(readers.map(|(_, one)| (*one, -1.0)));
            program.add_constraint(row, ComparisonOp::Ge, 0.0);
        }
    }
    for members in components.classes.iter().filter(|members| members.len() > 1) {
        let many = members.len() as f64;
        let order: Vec<Variable> = members.iter().map(|_| program.add_var(0.0, (0.0, many))).collect();
        for (at, &class) in members.iter().enumerate() {
            for (node, one) in work.classes[class as usize].iter().zip(&chosen[class as usize]) {
                for child in &node.children {
                    if let Some(before) = members.iter().position(|member| member == child) {
                        let row = [(order[at], 1.0), (order[before], -1.0), (*one, -many - 1.0)];
                        program.add_constraint(row, ComparisonOp::Ge, -many);
                    }
                }
            }
        }
    }
    (program, chosen)
}

/// Returns the classes without which a root cannot be computed.
fn needed(classes: &[Vec<Node>], roots: &[u32]) -> Vec<bool> {
    let without = |left_out: usize| {
        let mut can = vec![false; classes.len()];
        loop {
            let mut changed = false;
            for (class, nodes) in classes.iter().enumerate() {
                let runs = |node: &Node| node.children.iter().all(|child| can[*child as usize]);
                if !can[class] && class != left_out && nodes.iter().any(runs) {
                    (can[class], changed) = (true, true);
                }
            }
            if !changed {
                return roots.iter().all(|root| can[*root as usize]);
            }
        }
    };
    (0..classes.len()).map(|class| !classes[class].is_empty() && !without(class)).collect()
}
