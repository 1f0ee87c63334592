//! E-matching: all the ways in which a rule's left side stands in the e-graph.
//!
//! Patterns bind operands, attributes, and the rest of either, which egg's own patterns cannot; so
//! this walks egg's classes itself. Classes and nodes are visited in order of their ids.

use super::change::{Depth, Reach};
use super::nearest::Nearest;
use super::shared::Shared;
use super::{EGraph, Operands, Term};
use crate::attr::Attr;
use crate::rule::{AttrPattern, Pattern, RestAttrVar, RestVar, Rule};
use egg::Id;
use smallvec::{SmallVec, smallvec};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The attributes of a node that a pattern does not write.
#[derive(Clone, Debug)]
pub(super) struct Others {
    all: Shared,
    written: SmallVec<[&'static str; 4]>,
}

impl Others {
    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Attr)> {
        self.all.iter().filter(|(name, _)| !self.written.contains(name))
    }
}

impl PartialEq for Others {
    fn eq(&self, other: &Self) -> bool {
        (self.all == other.all && self.written == other.written) || self.iter().eq(other.iter())
    }
}

impl Eq for Others {}

/// What the variables of a rule stand for in one match; indexed as the rule's lists of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub operands: SmallVec<[Option<Id>; 6]>,
    pub rests: SmallVec<[Option<Rc<[Id]>>; 1]>,
    pub attrs: SmallVec<[Option<Attr>; 2]>,
    pub rest_attrs: SmallVec<[Option<Others>; 1]>,
    /// The class of each left side's root.
    pub roots: SmallVec<[Id; 2]>,
    /// The node at the root of the first left side.
    pub head: Option<Term>,
}

impl Hash for Match {
    /// Of what tells most matches apart; attributes are long, and follow from the head but for few.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operands.hash(state);
        self.rests.hash(state);
        self.roots.hash(state);
        self.head.hash(state);
    }
}

impl Match {
    fn empty(rule: &Rule) -> Self {
        Self {
            operands: smallvec![None; rule.operand_vars.len()],
            rests: smallvec![None; rule.rest_vars.len()],
            attrs: smallvec![None; rule.attr_vars.len()],
            rest_attrs: smallvec![None; rule.rest_attr_vars.len()],
            roots: SmallVec::new(),
            head: None,
        }
    }

    /// The same match with today's class ids.
    pub fn canonical(&self, egraph: &EGraph) -> Self {
        let mut one = self.clone();
        let find = |id: &mut Id| *id = egraph.egg.find(*id);
        one.operands.iter_mut().flatten().for_each(find);
        for rest in one.rests.iter_mut().flatten() {
            *rest = rest.iter().map(|id| egraph.egg.find(*id)).collect();
        }
        one.roots.iter_mut().for_each(find);
        one
    }
}

impl EGraph {
    /// The matches of a rule's left sides, in a fixed order: all of them, or those that may be new
    /// with what changed. A multi-output rule is searched for whole: its left sides hang together
    /// by operands, below which nothing need have changed.
    pub(super) fn matches(&self, rule: &Rule, reach: Option<&Reach>) -> Vec<Match> {
        self.search(rule, reach, None)
    }

    /// As [`EGraph::matches`], and notes where the search got furthest without a match.
    pub(super) fn search(
        &self,
        rule: &Rule,
        reach: Option<&Reach>,
        mut nearest: Option<&mut Nearest>,
    ) -> Vec<Match> {
        let depth = Depth::of(rule);
        let reach = reach.filter(|_| rule.from.len() == 1);
        let sizes: Vec<usize> = rule.from.iter().map(size).collect();
        let mut found = vec![Match::empty(rule)];
        for (position, pattern) in rule.from.iter().enumerate() {
            let mut next = Vec::new();
            for partial in found {
                for class in self.candidates(pattern, &partial) {
                    if reach.is_some_and(|reach| !reach.holds(class, depth)) {
                        continue;
                    }
                    let already = partial.roots.contains(&class);
                    if already || (rule.symmetric && position > 0 && class < partial.roots[position - 1]) {
                        continue;
                    }
                    if nearest.as_ref().is_some_and(|nearest| !nearest.looks_at(position, class)) {
                        continue;
                    }
                    let mut search = Search {
                        egraph: self,
                        bound: partial.clone(),
                        goals: Vec::new(),
                        found: &mut next,
                        depth: sizes[..position].iter().sum(),
                        nearest: nearest.as_deref_mut(),
                    };
                    search.bound.roots.push(class);
                    search.root(pattern, class);
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

    /// The value of a class that is a constant of one element.
    pub(super) fn scalar(&self, class: Id) -> Option<f64> {
        let value = self.egg[class].data.value.as_ref()?;
        if value.ty().shape.count() == 1 { value.to_f64().first().copied() } else { None }
    }
}

/// A depth-first search: what is bound so far, and what is still to be matched. Every step undoes
/// what it bound, so a match is copied only when it is whole.
struct Search<'a, 's> {
    egraph: &'a EGraph,
    bound: Match,
    /// Patterns and the classes in which they must stand; the next one last.
    goals: Vec<(&'a Pattern, Id)>,
    found: &'s mut Vec<Match>,
    /// Parts of the left sides that stand.
    depth: usize,
    /// Where it got furthest, if that is asked.
    nearest: Option<&'s mut Nearest>,
}

impl<'a> Search<'a, '_> {
    /// A left side at a class. The first left side's node is noted as the head.
    fn root(&mut self, pattern: &'a Pattern, class: Id) {
        let Pattern::Op { op, .. } = pattern else { return };
        let egraph = self.egraph;
        for term in egraph.egg[class].iter().filter(|term| term.op == op.name) {
            let first = self.bound.head.is_none();
            if first {
                self.bound.head = Some(term.clone());
            }
            self.term(pattern, term, class);
            if first {
                self.bound.head = None;
            }
        }
    }

    /// The next goal; with none left, the match is whole.
    fn next(&mut self) {
        let Some((pattern, class)) = self.goals.pop() else {
            self.found.push(self.bound.clone());
            return;
        };
        let egraph = self.egraph;
        match pattern {
            Pattern::Operand(var) => match self.bound.operands[var.0] {
                Some(bound) if egraph.egg.find(bound) != class => {
                    self.miss(pattern, class, || format!("stands for {} already", egraph.label(bound)));
                }
                Some(_) => self.step(),
                None => {
                    self.bound.operands[var.0] = Some(class);
                    self.step();
                    self.bound.operands[var.0] = None;
                }
            },
            Pattern::Scalar(expected) => match egraph.scalar(class) {
                Some(value) if close(value, *expected) => self.step(),
                Some(value) => self.miss(pattern, class, || format!("it is {value}")),
                None => self.miss(pattern, class, || "it is not a constant of one element".into()),
            },
            Pattern::Op { op, .. } => {
                let mut terms = egraph.egg[class].iter().filter(|term| term.op == op.name).peekable();
                if terms.peek().is_none() {
                    self.miss(pattern, class, || format!("it is computed by {}", egraph.ops(class)));
                }
                for term in terms {
                    self.term(pattern, term, class);
                }
            }
        }
        self.goals.push((pattern, class));
    }

    /// One more part stands.
    fn step(&mut self) {
        self.depth += 1;
        self.next();
        self.depth -= 1;
    }

    /// A part does not stand.
    fn miss(&mut self, pattern: &'a Pattern, class: Id, why: impl FnOnce() -> String) {
        if let Some(nearest) = &mut self.nearest {
            nearest.note(self.depth, pattern, class, why);
        }
    }

    /// An op's pattern at a node: attributes, the rest of the operands, then the operands as goals.
    fn term(&mut self, pattern: &'a Pattern, term: &'a Term, class: Id) {
        let Pattern::Op { children, rest, attrs, rest_attrs, .. } = pattern else { return };
        let enough = if rest.is_some() {
            term.children.len() >= children.len()
        } else {
            term.children.len() == children.len()
        };
        if !enough {
            let count = term.children.len();
            self.miss(pattern, class, || format!("its `{}` has {count} operand(s)", term.op));
            return;
        }
        // Cheap conditions first: most nodes fail them, and then nothing was bound.
        let literal = |(name, expected): &(&'static str, AttrPattern)| match expected {
            AttrPattern::Literal(literal) => term.attrs.get(name) == Some(literal),
            AttrPattern::Var(var) => match &self.bound.attrs[var.0] {
                Some(bound) => term.attrs.get(name) == Some(bound),
                None => term.attrs.get(name).is_some(),
            },
        };
        if let Some((name, _)) = attrs.iter().find(|attr| !literal(attr)) {
            let value = term.attrs.get(name);
            self.miss(pattern, class, || match value {
                Some(value) => format!("its `{}` has {name}: {value}", term.op),
                None => format!("its `{}` has no {name}", term.op),
            });
            return;
        }
        self.depth += 1;
        let mut undo = Undo::default();
        if self.attributes(attrs, rest_attrs.as_ref(), term, &mut undo)
            && self.rest(rest.as_ref(), children.len(), term, &mut undo)
        {
            self.operands(children, term.children.iter());
            // The other order of a commutative op is the same value, without a node of its own.
            if let (true, 2, [left, right]) =
                (term.def().flags.commutative, children.len(), &term.children[..])
                && left != right
            {
                self.operands(children, [right, left].into_iter());
            }
        }
        self.depth -= 1;
        for var in undo.attrs {
            self.bound.attrs[var] = None;
        }
        if let Some(var) = undo.rest_attrs {
            self.bound.rest_attrs[var] = None;
        }
        if let Some(var) = undo.rest {
            self.bound.rests[var] = None;
        }
    }

    /// Binds attribute variables; whether they agree with what they are bound to.
    fn attributes(
        &mut self,
        attrs: &[(&'static str, AttrPattern)],
        rest: Option<&RestAttrVar>,
        term: &Term,
        undo: &mut Undo,
    ) -> bool {
        for (name, expected) in attrs {
            let AttrPattern::Var(var) = expected else { continue };
            let value = term.attrs.get(name);
            match &self.bound.attrs[var.0] {
                Some(bound) => {
                    if Some(bound) != value {
                        return false;
                    }
                }
                None => {
                    self.bound.attrs[var.0] = value.cloned();
                    undo.attrs.push(var.0);
                }
            }
        }
        let Some(var) = rest else { return true };
        let others =
            Others { all: term.attrs.clone(), written: attrs.iter().map(|(name, _)| *name).collect() };
        match &self.bound.rest_attrs[var.0] {
            Some(bound) => others == *bound,
            None => {
                self.bound.rest_attrs[var.0] = Some(others);
                undo.rest_attrs = Some(var.0);
                true
            }
        }
    }

    /// Binds the rest of the operands; whether it is what it is bound to.
    fn rest(&mut self, var: Option<&RestVar>, from: usize, term: &Term, undo: &mut Undo) -> bool {
        let Some(var) = var else { return true };
        let egraph = self.egraph;
        let others = term.children[from..].iter().map(|id| egraph.egg.find(*id));
        match &self.bound.rests[var.0] {
            Some(bound) => others.eq(bound.iter().copied()),
            None => {
                self.bound.rests[var.0] = Some(others.collect());
                undo.rest = Some(var.0);
                true
            }
        }
    }

    fn operands<'b>(
        &mut self,
        children: &'a [Pattern],
        ids: impl DoubleEndedIterator<Item = &'b Id> + ExactSizeIterator,
    ) {
        let before = self.goals.len();
        let all: Operands = ids.map(|id| self.egraph.egg.find(*id)).collect();
        if self.number_adds_dimension(children, &all) {
            return;
        }
        let ids = all.into_iter().take(children.len());
        self.goals.extend(children.iter().zip(ids).rev());
        self.next();
        self.goals.truncate(before);
    }

    /// Whether a number of the pattern stands for a constant that has more dimensions than all that
    /// stands beside it. They would show in the result, of which the right side knows nothing.
    fn number_adds_dimension(&self, children: &[Pattern], ids: &[Id]) -> bool {
        let number = |at: usize| matches!(children.get(at), Some(Pattern::Scalar(_)));
        let rank = |at: usize| self.egraph.ty(ids[at]).shape.rank();
        let numbers = (0..ids.len()).filter(|at| number(*at)).map(rank).max();
        let others = (0..ids.len()).filter(|at| !number(*at)).map(rank).max();
        numbers.zip(others).is_some_and(|(number, other)| number > other)
    }
}

/// What one step of a search bound.
#[derive(Default)]
struct Undo {
    attrs: SmallVec<[usize; 4]>,
    rest_attrs: Option<usize>,
    rest: Option<usize>,
}

/// How many parts a pattern has: what a whole match counts.
pub(super) fn size(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Operand(_) | Pattern::Scalar(_) => 1,
        Pattern::Op { children, .. } => 1 + children.iter().map(size).sum::<usize>(),
    }
}

/// Whether a constant is the number written in a rule, up to the rounding of exporters to `f32`.
fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-6 * expected.abs()
}
