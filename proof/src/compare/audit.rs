//! Finds the rule whose equality does not hold on the values of a run.

use super::distance::{Distance, TIMES, noise, plain};
use super::truth::Truth;
use ovolo::egraph::{Derivation, ENode};
use ovolo::rule::Rule;
use ovolo::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A rule whose two sides differ on the values of a run.
#[derive(Clone, Debug)]
pub struct WrongRule {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The op at the root of its left side.
    pub left: String,
    /// The op at the root of its right side.
    pub right: String,
    /// How far the right side's value is from the left side's.
    pub distance: Distance,
}

/// The values of e-nodes: those of the model as they should be, and all others by the reference evaluation.
pub(super) struct Values<'a, 'b> {
    derivation: &'b Derivation<'a>,
    /// The positions of the model's nodes, by their numbers.
    imported: FxHashMap<usize, usize>,
    known: FxHashMap<usize, Tensor>,
}

impl<'a, 'b> Values<'a, 'b> {
    pub fn new(derivation: &'b Derivation<'a>) -> Self {
        // Of nodes that the model computes twice, the first one counts.
        let mut imported = FxHashMap::default();
        for (position, number) in derivation.imported().enumerate() {
            imported.entry(number).or_insert(position);
        }
        Self { derivation, imported, known: FxHashMap::default() }
    }

    /// Returns the position of a node of the model.
    pub fn position(&self, number: usize) -> Option<usize> {
        self.imported.get(&number).copied()
    }

    /// Returns the value of an e-node by its own operands.
    pub fn value(&mut self, number: usize, truth: &mut Truth<'_>) -> Tensor {
        let mut open = vec![number];
        while let Some(&next) = open.last() {
            if self.known.contains_key(&next) {
                open.pop();
                continue;
            }
            let value = match self.position(next) {
                Some(position) => Some(truth.value(position).clone()),
                None => {
                    let node = self.derivation.node(next);
                    let missing = |operand: &&usize| !self.known.contains_key(operand);
                    let missing: Vec<usize> = node.operands.iter().filter(missing).copied().collect();
                    let value = missing.is_empty().then(|| self.evaluated(&node));
                    open.extend(missing);
                    value
                }
            };
            if let Some(value) = value {
                self.known.insert(next, value);
            }
        }
        self.known[&number].clone()
    }

    fn operands(&self, node: &ENode<'_>) -> Vec<&Tensor> {
        node.operands.iter().map(|operand| &self.known[operand]).collect()
    }

    /// Evaluates a node whose operands are known.
    fn evaluated(&self, node: &ENode<'_>) -> Tensor {
        match node.constant {
            Some(constant) => constant.clone(),
            None => node.op.evaluate(node.attrs, &self.operands(node), node.ty),
        }
    }

    /// Returns how far the two sides of an equality are apart, if that is more than `limit` and than rounding explains.
    fn broken(&mut self, number: usize, limit: f64, truth: &mut Truth<'_>) -> Option<WrongRule> {
        let equality = self.derivation.equality(number);
        for operand in &equality.left.operands {
            self.value(*operand, truth);
        }
        let right = self.value(equality.right, truth);
        let leaf = equality.left.op.is_leaf() && equality.left.constant.is_none();
        let left = if leaf {
            // The left side is an input of the model.
            self.value(self.derivation.oldest(equality.right), truth)
        } else {
            self.evaluated(&equality.left)
        };
        let distance = Distance::between(&right, &left);
        if distance.relative <= limit {
            return None;
        }
        if !equality.left.op.is_leaf() && distance.relative.is_finite() {
            let node = &equality.left;
            let explained = noise(node.op, node.attrs, &self.operands(node), node.ty, &plain(&left));
            if distance.relative <= TIMES * explained {
                return None;
            }
        }
        let name = |op: ovolo::op::Op| op.name.to_owned();
        Some(WrongRule {
            rule: Arc::clone(equality.rule),
            left: name(equality.left.op),
            right: name(self.derivation.node(equality.right).op),
            distance,
        })
    }

    /// Returns the first rule, in the order in which rules were applied, that led to some e-nodes and whose equality
    /// does not hold. What follows from a wrong equality may look wrong as well, so whatever led to one is asked again.
    pub fn audit(&mut self, from: &[usize], limit: f64, truth: &mut Truth<'_>) -> Option<WrongRule> {
        let mut numbers = self.derivation.equalities(from);
        let mut asked: FxHashMap<usize, bool> = FxHashMap::default();
        let mut first: Option<(usize, WrongRule)> = None;
        loop {
            let mut found = None;
            for number in numbers {
                if first.as_ref().is_some_and(|(known, _)| number >= *known) {
                    break;
                }
                if asked.insert(number, true).is_none()
                    && let Some(wrong) = self.broken(number, limit, truth)
                {
                    found = Some((number, wrong));
                    break;
                }
            }
            let Some((number, wrong)) = found else { return first.map(|(_, wrong)| wrong) };
            let support = self.derivation.support(number);
            first = Some((number, wrong));
            numbers = self.derivation.equalities(&support);
        }
    }
}
