//! E-matching: all the ways in which a rule's left side stands in the e-graph.
//!
//! Patterns bind operands, attributes, and the rest of either, which egg's own patterns cannot; so
//! this walks egg's classes itself. Classes and nodes are visited in order of their ids.

use super::{EGraph, Term};
use crate::attr::Attr;
use crate::rule::{AttrPattern, Pattern, Rule};
use egg::Id;

/// What the variables of a rule stand for in one match; indexed as the rule's lists of names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Match {
    pub operands: Vec<Option<Id>>,
    pub rests: Vec<Option<Vec<Id>>>,
    pub attrs: Vec<Option<Attr>>,
    pub rest_attrs: Vec<Option<Vec<(&'static str, Attr)>>>,
    /// The class of each left side's root.
    pub roots: Vec<Id>,
    /// The node at the root of the first left side.
    pub head: Option<Term>,
}

impl Match {
    fn empty(rule: &Rule) -> Self {
        Self {
            operands: vec![None; rule.operand_vars.len()],
            rests: vec![None; rule.rest_vars.len()],
            attrs: vec![None; rule.attr_vars.len()],
            rest_attrs: vec![None; rule.rest_attr_vars.len()],
            roots: Vec::new(),
            head: None,
        }
    }

    /// The same match with today's class ids, so that equal matches compare equal.
    pub fn canonical(mut self, egraph: &EGraph) -> Self {
        let find = |id: &mut Id| *id = egraph.egg.find(*id);
        self.operands.iter_mut().flatten().for_each(find);
        self.rests.iter_mut().flatten().flatten().for_each(find);
        self.roots.iter_mut().for_each(find);
        self
    }
}

impl EGraph {
    /// Every match of a rule's left sides, in a fixed order.
    pub(super) fn matches(&self, rule: &Rule) -> Vec<Match> {
        let mut found = vec![Match::empty(rule)];
        for (position, pattern) in rule.from.iter().enumerate() {
            let mut next = Vec::new();
            for partial in &found {
                for class in self.candidates(pattern, partial) {
                    let already = partial.roots.contains(&class);
                    if already || (rule.symmetric && position > 0 && class < partial.roots[position - 1]) {
                        continue;
                    }
                    let before = next.len();
                    self.match_root(pattern, class, partial, &mut next);
                    for full in &mut next[before..] {
                        full.roots.push(class);
                    }
                }
            }
            found = next;
        }
        found
    }

    /// Classes in which the pattern's root may stand, sorted.
    fn candidates(&self, pattern: &Pattern, partial: &Match) -> Vec<Id> {
        let Pattern::Op { op, children, .. } = pattern else { return Vec::new() };
        // A left side that shares an operand with an earlier one is found among its readers.
        let shared = children.iter().find_map(|child| match child {
            Pattern::Operand(var) => partial.operands[var.0],
            _ => None,
        });
        let mut classes: Vec<Id> = match shared {
            Some(operand) => self.egg[operand].parents().map(|parent| self.egg.find(parent)).collect(),
            None => self.egg.classes_for_op(&op.name).map(Iterator::collect).unwrap_or_default(),
        };
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// As [`EGraph::match_class`], and notes which node stands at the root.
    fn match_root(&self, pattern: &Pattern, class: Id, partial: &Match, found: &mut Vec<Match>) {
        let Pattern::Op { op, .. } = pattern else { return };
        for term in self.egg[class].iter().filter(|term| term.op == op.name) {
            let before = found.len();
            self.match_term(pattern, term, partial, found);
            for one in &mut found[before..] {
                one.head.get_or_insert_with(|| term.clone());
            }
        }
    }

    fn match_class(&self, pattern: &Pattern, class: Id, partial: &Match, found: &mut Vec<Match>) {
        match pattern {
            Pattern::Operand(var) => match partial.operands[var.0] {
                Some(bound) if self.egg.find(bound) != class => {}
                Some(_) => found.push(partial.clone()),
                None => {
                    let mut bound = partial.clone();
                    bound.operands[var.0] = Some(class);
                    found.push(bound);
                }
            },
            Pattern::Scalar(expected) => {
                if self.scalar(class).is_some_and(|value| close(value, *expected)) {
                    found.push(partial.clone());
                }
            }
            Pattern::Op { op, .. } => {
                for term in self.egg[class].iter().filter(|term| term.op == op.name) {
                    self.match_term(pattern, term, partial, found);
                }
            }
        }
    }

    fn match_term(&self, pattern: &Pattern, term: &Term, partial: &Match, found: &mut Vec<Match>) {
        let Pattern::Op { children, rest, attrs, rest_attrs, .. } = pattern else { return };
        let fits = if rest.is_some() {
            term.children.len() >= children.len()
        } else {
            term.children.len() == children.len()
        };
        if !fits {
            return;
        }
        let mut start = partial.clone();
        for (name, expected) in attrs {
            let Some(value) = term.attrs.get(name).cloned() else { return };
            match expected {
                AttrPattern::Literal(literal) if *literal != value => return,
                AttrPattern::Literal(_) => {}
                AttrPattern::Var(var) => match &start.attrs[var.0] {
                    Some(bound) if *bound != value => return,
                    Some(_) => {}
                    None => start.attrs[var.0] = Some(value),
                },
            }
        }
        if let Some(var) = rest_attrs {
            let others: Vec<_> = term
                .attrs
                .iter()
                .filter(|(name, _)| !attrs.iter().any(|(written, _)| written == name))
                .map(|(name, value)| (name, value.clone()))
                .collect();
            match &start.rest_attrs[var.0] {
                Some(bound) if *bound != others => return,
                Some(_) => {}
                None => start.rest_attrs[var.0] = Some(others),
            }
        }
        if let Some(var) = rest {
            let others: Vec<Id> =
                term.children[children.len()..].iter().map(|id| self.egg.find(*id)).collect();
            match &start.rests[var.0] {
                Some(bound) if *bound != others => return,
                Some(_) => {}
                None => start.rests[var.0] = Some(others),
            }
        }
        self.match_children(children, &term.children, start.clone(), found);
        // The other order of a commutative op is the same value, without a node of its own.
        if let (true, 2, [left, right]) = (term.def().flags.commutative, children.len(), &term.children[..])
            && left != right
        {
            self.match_children(children, &[*right, *left], start, found);
        }
    }

    fn match_children(&self, children: &[Pattern], ids: &[Id], start: Match, found: &mut Vec<Match>) {
        let mut partials = vec![start];
        for (child, id) in children.iter().zip(ids) {
            let mut next = Vec::new();
            for partial in &partials {
                self.match_class(child, self.egg.find(*id), partial, &mut next);
            }
            if next.is_empty() {
                return;
            }
            partials = next;
        }
        found.append(&mut partials);
    }

    /// The value of a class that is a constant of one element.
    pub(super) fn scalar(&self, class: Id) -> Option<f64> {
        let value = self.egg[class].data.value.as_ref()?;
        if value.ty().shape.count() == 1 { value.to_f64().first().copied() } else { None }
    }
}

/// Whether a constant is the number written in a rule, up to the rounding of exporters to `f32`.
fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-6 * expected.abs()
}
