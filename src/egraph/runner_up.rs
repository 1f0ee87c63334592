//! The next best choice for each chosen node, and what it would cost.

use super::{Contracts, Pick, Term};
use crate::extract::{Extraction, Extractor};
use crate::tensor::TensorType;
use egg::Id;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The next best choice for one value.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerUp {
    /// The name of the value in the extracted graph.
    pub value: String,
    /// The node that computes it: op and attributes.
    pub chosen: String,
    /// Seconds of that node alone.
    pub seconds: f64,
    /// The node that would compute it; `None` if the other program does not need the value.
    pub instead: Option<String>,
    /// The differences between the two nodes: attributes, the kernel's implementation, operands.
    pub differs: Vec<String>,
    /// The additional seconds of the whole other program. If the chosen node cost this much more, the choice would
    /// change.
    pub margin: f64,
    /// Whether both programs are proven to be the cheapest, so that the margin is exact.
    pub proven: bool,
    /// The nodes that only the other program has, in the order of the classes.
    pub adds: Vec<Change>,
    /// The nodes that only this program has. The margin is the seconds of `adds` minus the seconds of `drops`.
    pub drops: Vec<Change>,
}

/// A node that only one of two programs has.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Op and attributes.
    pub node: String,
    /// Type of its value.
    pub ty: TensorType,
    /// Seconds, more than zero.
    pub seconds: f64,
}

impl Pick<'_> {
    /// Returns the runner-up of every chosen node that costs something: the cheapest program without that node, which
    /// is extracted anew. A node without an alternative has none. `kernels` gives contracts for this number of
    /// threads. `progress` is called with the number of extractions that have begun and the number of all.
    pub(crate) fn runner_ups(
        &self,
        extractor: &dyn Extractor,
        extraction: &Extraction,
        (threads, kernels): (usize, Contracts<'_>),
        progress: &mut dyn FnMut(usize, usize),
    ) -> Vec<RunnerUp> {
        let program = self.build(extraction);
        let names = self.names();
        let mut found = Vec::new();
        let paid = |(class, choice): (usize, &Option<u32>)| {
            let place = (*choice)?;
            let seconds = self.problem.classes[class].nodes[place as usize].cost;
            (seconds > 0.0).then_some((class, place, seconds))
        };
        let choices: Vec<_> = extraction.choice.iter().enumerate().filter_map(paid).collect();
        for (done, &(class, place, seconds)) in choices.iter().enumerate() {
            progress(done + 1, choices.len());
            let mut without = self.problem.clone();
            without.classes[class].nodes[place as usize].cost = f64::INFINITY;
            let Ok(other) = extractor.extract(&without) else { continue };
            let value = program.node(self.classes[class]).expect("a program has every class it pays for");
            found.push(RunnerUp {
                value: program.graph[value].name.to_string(),
                chosen: words(self.terms[class][place as usize]),
                seconds,
                instead: other.choice[class].map(|place| words(self.terms[class][place as usize])),
                differs: other.choice[class].map_or_else(Vec::new, |other| {
                    let [chosen, instead] = [place, other].map(|place| self.terms[class][place as usize]);
                    let mut differs = self.differences(chosen, instead, &names);
                    let contract = |place: u32| self.contract(class, place as usize, threads, kernels);
                    if let (true, Some(was), Some(is)) =
                        (chosen.op == instead.op, contract(place), contract(other))
                        && was.implementation != is.implementation
                    {
                        differs.push(format!("kernel `{}` for `{}`", is.implementation, was.implementation));
                    }
                    differs
                }),
                margin: other.cost - extraction.cost,
                proven: extraction.proven && other.proven,
                adds: self.only_in(&other, extraction),
                drops: self.only_in(extraction, &other),
            });
        }
        found
    }

    /// Describes the differences between two nodes of one class as `… for …`; the chosen one comes last.
    fn differences(&self, chosen: &Term, instead: &Term, names: &FxHashMap<Id, Arc<str>>) -> Vec<String> {
        let mut differs = Vec::new();
        if chosen.op != instead.op {
            differs.push(format!("op `{}` for `{}`", instead.op, chosen.op));
        }
        for (name, value) in instead.attrs.iter() {
            match chosen.attrs.get(name) {
                Some(other) if other != value => differs.push(format!("{name} {value} for {other}")),
                _ => {}
            }
        }
        if chosen.children.len() != instead.children.len() {
            differs.push(format!("{} operands for {}", instead.children.len(), chosen.children.len()));
        }
        for (at, (one, other)) in chosen.children.iter().zip(&instead.children).enumerate() {
            let [one, other] = [one, other].map(|id| self.egraph.egg.find(*id));
            if one == other {
                continue;
            }
            let facts = &self.egraph.egg[other].data;
            let operand = if facts.constant { "constant operand" } else { "operand" };
            let (was, is) = (self.egraph.ty(one), self.egraph.ty(other));
            let label = |id: Id| match names.get(&id) {
                Some(name) => format!("`{name}`"),
                None => format!("a value by {}", self.egraph.ops(id)),
            };
            differs.push(if was.layout != is.layout {
                format!("{operand} {at} in {} for {}", is.layout, was.layout)
            } else if was != is {
                format!("{operand} {at} of type {is} for {was}")
            } else {
                format!("{operand} {at} {} for {}", label(other), label(one))
            });
        }
        differs
    }

    /// Returns the nodes with a cost that one extraction chooses and the other does not.
    fn only_in(&self, one: &Extraction, other: &Extraction) -> Vec<Change> {
        let mut changes = Vec::new();
        for (class, (choice, another)) in one.choice.iter().zip(&other.choice).enumerate() {
            let Some(place) = choice.filter(|_| choice != another) else { continue };
            let seconds = self.problem.classes[class].nodes[place as usize].cost;
            if seconds > 0.0 {
                let node = words(self.terms[class][place as usize]);
                changes.push(Change { node, ty: self.egraph.ty(self.classes[class]).clone(), seconds });
            }
        }
        changes
    }
}

pub(super) fn words(term: &Term) -> String {
    if term.attrs.is_empty() { term.op.to_string() } else { format!("{} {}", term.op, term.attrs) }
}
