//! E-matching: finds all matches of a rule's left sides in the e-graph.
//!
//! Patterns bind operands and attributes, and also the rest of both. The patterns of egg cannot do that, so this
//! module walks egg's classes itself. It visits classes and nodes in the order of their ids.

use super::change::{Depth, Reach};
use super::miss::Nearest;
use super::shared::Shared;
use super::{EGraph, Operands, Term};
use crate::attr::Attr;
use crate::rule::{AttrPattern, Pattern, RestAttrVar, Rule};
use egg::Id;
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The attributes of a node that a pattern does not mention.
#[derive(Clone, Debug)]
pub(super) struct Others {
    all: Shared,
    written: SmallVec<[&'static str; 4]>,
}

impl Others {
    /// Returns names and values, in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Attr)> {
        self.all.iter().filter(|(name, _)| !self.written.contains(name))
    }
}

impl PartialEq for Others {
    fn eq(&self, other: &Self) -> bool {
        (self.all == other.all && self.written == other.written) || self.iter().eq(other.iter())
    }
}

impl Eq for Others {}

/// The values of a rule's variables in one match. The indices are those of the rule's lists of names.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub operands: SmallVec<[Option<Id>; 6]>,
    pub rests: SmallVec<[Option<Rc<[Id]>>; 1]>,
    pub attrs: SmallVec<[Option<Attr>; 2]>,
    pub rest_attrs: SmallVec<[Option<Others>; 1]>,
    /// The class of each left side's root.
    pub roots: SmallVec<[Id; 2]>,
    /// The node at the root of the first left side.
    pub head: Option<Term>,
    /// Whether a commutative op is matched with its operands exchanged. This is only reported; it does not
    /// distinguish matches.
    pub turned: bool,
}

impl PartialEq for Match {
    fn eq(&self, other: &Self) -> bool {
        let Self { operands, rests, attrs, rest_attrs, roots, head, turned: _ } = self;
        *operands == other.operands
            && *rests == other.rests
            && *attrs == other.attrs
            && *rest_attrs == other.rest_attrs
            && *roots == other.roots
            && *head == other.head
    }
}

impl Eq for Match {}

impl Hash for Match {
    /// Hashes only what distinguishes most matches. Attributes are long, and the head determines nearly all of them.
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
            turned: false,
        }
    }

    /// Returns the same match with the current class ids.
    pub(crate) fn canonical(&self, egraph: &EGraph) -> Self {
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
    /// Returns the matches of a rule's left sides in a fixed order: all of them, or those that may be new after the
    /// changes of `reach`. A rule with several outputs is always searched completely: a new match of it need not lie
    /// above a changed class, because its left sides are connected by their operands.
    pub(super) fn matches(&self, rule: &Rule, reach: Option<&Reach>) -> Vec<Match> {
        self.search(rule, reach, None, None)
    }

    /// Returns the matches of [`EGraph::matches`] that are not known, and the number of the others. Most matches above a
    /// changed class are known, so they are compared before they are copied. After `most` matches of both kinds, the search
    /// ends.
    pub(super) fn unknown_matches(
        &self,
        rule: &Rule,
        reach: Option<&Reach>,
        known: &FxHashSet<Rc<Match>>,
        most: usize,
    ) -> (Vec<Match>, usize) {
        let known = Known { all: known, met: Cell::new(0), left: Cell::new(most) };
        let found = self.search(rule, reach, None, Some(&known));
        (found, known.met.get())
    }

    /// Does the same as [`EGraph::matches`], and also notes the failed match that came furthest. The search begins
    /// with the left side that `nearest` names. Matches that are `known` are only counted.
    pub(super) fn search(
        &self,
        rule: &Rule,
        reach: Option<&Reach>,
        mut nearest: Option<&mut Nearest>,
        known: Option<&Known<'_>>,
    ) -> Vec<Match> {
        let depth = Depth::new(rule);
        let reach = reach.filter(|_| rule.from.len() == 1);
        let only = nearest.as_ref().and_then(|nearest| nearest.only);
        let first = nearest.as_ref().map_or(0, |nearest| nearest.first);
        let order: SmallVec<[usize; 3]> =
            std::iter::once(first).chain((0..rule.from.len()).filter(|at| *at != first)).collect();
        let mut found = vec![Match::empty(rule)];
        let mut stands = 0;
        for (turn, position) in order.iter().copied().enumerate() {
            let pattern = &rule.from[position];
            let only = only.filter(|_| turn == 0);
            let (mut next, mut other_order) = (Vec::new(), Vec::new());
            // Each search leaves both as it found them, so they are not made anew for each class.
            let mut goals = Vec::new();
            for mut partial in found {
                let mut tried = false;
                let candidates = match only {
                    Some(class) => vec![class],
                    None => self.candidates(pattern, &partial),
                };
                for class in candidates {
                    if reach.is_some_and(|reach| !reach.holds(class, depth)) {
                        continue;
                    }
                    if partial.roots.contains(&class) {
                        continue;
                    }
                    let root = |term: &Term| matches!(pattern, Pattern::Op { op, .. } if *op == term.op);
                    tried |= nearest.is_some() && self.egg[class].iter().any(root);
                    // If the order of two left sides does not matter, only matches whose first root is the smaller
                    // class are kept. The nearest miss may still be in the other order, so that order is searched for
                    // it.
                    let twice =
                        rule.symmetric && turn > 0 && (class < partial.roots[0]) == (position > first);
                    if twice && nearest.is_none() {
                        continue;
                    }
                    partial.roots.push(class);
                    let mut search = Search {
                        egraph: self,
                        bound: &mut partial,
                        goals,
                        found: if twice { &mut other_order } else { &mut next },
                        depth: stands,
                        nearest: nearest.as_deref_mut(),
                        known: known.filter(|_| turn + 1 == order.len()),
                        trail: None,
                    };
                    search.root(pattern, class, position == 0);
                    goals = search.goals;
                    partial.roots.pop();
                }
                let Some(nearest) = nearest.as_deref_mut().filter(|_| !tried) else { continue };
                if let Some(class) = only {
                    let why = || format!("it is computed by {}", self.ops(class));
                    nearest.note(stands, pattern, Some(class), why);
                } else if let Pattern::Op { op, .. } = pattern
                    && turn > 0
                {
                    nearest.note(stands, pattern, None, || match self.shared(pattern, &partial) {
                        Some(operand) => format!("no other `{}` reads {}", op.name, self.label(operand)),
                        None => format!("there is no other `{}` in the e-graph", op.name),
                    });
                }
            }
            stands += size(pattern);
            found = next;
        }
        // Put the roots into the order of the left sides.
        for one in found.iter_mut().filter(|_| first > 0) {
            one.roots[..=first].rotate_left(1);
        }
        found
    }

    /// Returns the nodes that the ops of a rule's left sides match, for a match that was found before.
    pub(super) fn support(&self, rule: &Rule, one: &Match) -> Vec<Term> {
        let one = one.canonical(self);
        let mut support = Vec::new();
        for (position, (pattern, root)) in rule.from.iter().zip(&one.roots).enumerate() {
            let mut bound = one.clone();
            let mut trail = Trail::default();
            let mut search = Search {
                egraph: self,
                bound: &mut bound,
                goals: Vec::new(),
                found: &mut Vec::new(),
                depth: 0,
                nearest: None,
                known: None,
                trail: Some(&mut trail),
            };
            match &one.head {
                // The match has stored the node of its first left side.
                Some(head) if position == 0 => {
                    for term in self.egg[*root].iter().filter(|term| self.same(term, head)) {
                        search.term(pattern, term, *root);
                    }
                }
                _ => search.root(pattern, *root, false),
            }
            support.extend(trail.whole.unwrap_or_default().into_iter().cloned());
        }
        support
    }

    /// Returns whether two terms are equal in the current e-graph.
    pub(super) fn same(&self, one: &Term, other: &Term) -> bool {
        one.op == other.op
            && one.attrs == other.attrs
            && one.children.len() == other.children.len()
            && one.children.iter().zip(&other.children).all(|(a, b)| self.egg.find(*a) == self.egg.find(*b))
    }

    /// Returns the classes that the root of the pattern may match, sorted.
    fn candidates(&self, pattern: &Pattern, partial: &Match) -> Vec<Id> {
        let Pattern::Op { op, .. } = pattern else { return Vec::new() };
        // If an operand is bound already, only its readers can match.
        let mut classes: Vec<Id> = match self.shared(pattern, partial) {
            Some(operand) => self.egg[operand].parents().map(|parent| self.egg.find(parent)).collect(),
            None => self.egg.classes_for_op(op).map(Iterator::collect).unwrap_or_default(),
        };
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Returns an operand of the pattern's root that is already bound.
    fn shared(&self, pattern: &Pattern, partial: &Match) -> Option<Id> {
        let Pattern::Op { children, .. } = pattern else { return None };
        children.iter().find_map(|child| match child {
            Pattern::Operand(var) => partial.operands[var.0],
            _ => None,
        })
    }

    /// Returns the value of a class that is a constant of one element.
    pub(super) fn scalar(&self, class: Id) -> Option<f64> {
        let value = self.egg[class].data.value.as_ref()?;
        if value.ty().shape.count() == 1 { value.to_f64().first().copied() } else { None }
    }
}

/// A depth-first search: the current bindings, and what is still to be matched. Every step undoes its bindings, so
/// only complete matches are copied.
struct Search<'a, 's> {
    egraph: &'a EGraph,
    bound: &'s mut Match,
    /// Patterns and the classes that they must match; the next one is the last of the list.
    goals: Vec<(&'a Pattern, Id)>,
    found: &'s mut Vec<Match>,
    /// The number of parts of the left sides that match so far.
    depth: usize,
    /// The failed match that came furthest, if it is wanted.
    nearest: Option<&'s mut Nearest>,
    /// The matches that are not wanted.
    known: Option<&'s Known<'s>>,
    /// The matched nodes, if they are wanted.
    trail: Option<&'s mut Trail<'a>>,
}

/// Matches of a rule that were found before.
pub(super) struct Known<'a> {
    all: &'a FxHashSet<Rc<Match>>,
    /// How often a search came to one of them.
    met: Cell<usize>,
    /// How many more matches are wanted, known ones included.
    left: Cell<usize>,
}

/// The nodes that the ops of a left side match.
#[derive(Default)]
struct Trail<'a> {
    /// Those of the match that is in progress.
    open: Vec<&'a Term>,
    /// Those of the first complete match.
    whole: Option<Vec<&'a Term>>,
}

impl<'a> Search<'a, '_> {
    /// Matches a left side with a class. The node of the first left side is noted as the head.
    fn root(&mut self, pattern: &'a Pattern, class: Id, first: bool) {
        let Pattern::Op { op, .. } = pattern else { return };
        let egraph = self.egraph;
        for term in egraph.egg[class].iter().filter(|term| term.op == *op) {
            if first {
                self.bound.head = Some(term.clone());
            }
            self.term(pattern, term, class);
            if first {
                self.bound.head = None;
            }
        }
    }

    /// Matches the next goal. If there is none left, the match is complete.
    fn next(&mut self) {
        if self.known.is_some_and(|known| known.left.get() == 0) {
            return;
        }
        let Some((pattern, class)) = self.goals.pop() else {
            if let Some(known) = self.known {
                known.left.update(|left| left - 1);
            }
            match self.known {
                Some(known) if known.all.contains(&*self.bound) => known.met.update(|met| met + 1),
                _ => self.found.push(self.bound.clone()),
            }
            if let Some(trail) = &mut self.trail {
                trail.whole.get_or_insert_with(|| trail.open.clone());
            }
            return;
        };
        let egraph = self.egraph;
        match pattern {
            Pattern::Operand(var) => self.operand(pattern, var.0, class),
            Pattern::Number(interval, var) => match egraph.scalar(class) {
                Some(value) if interval.holds(value) => match var {
                    None => self.step(),
                    Some(var) => self.operand(pattern, var.0, class),
                },
                Some(value) => self.miss(pattern, class, || format!("it is {value}")),
                None => self.miss(pattern, class, || "it is not a constant of one element".into()),
            },
            // These occur only in operand lists, where `share` binds them.
            Pattern::Rest(_) | Pattern::Optional(_) => {}
            Pattern::Op { op, .. } => {
                let mut terms = egraph.egg[class].iter().filter(|term| term.op == *op).peekable();
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

    /// Matches a variable with a class: binds it, or compares the class with the one that is bound.
    fn operand(&mut self, pattern: &'a Pattern, var: usize, class: Id) {
        let egraph = self.egraph;
        match self.bound.operands[var] {
            Some(bound) if egraph.egg.find(bound) != class => {
                self.miss(pattern, class, || {
                    format!("the variable is already bound to {}", egraph.label(bound))
                });
            }
            Some(_) => self.step(),
            None => {
                self.bound.operands[var] = Some(class);
                self.step();
                self.bound.operands[var] = None;
            }
        }
    }

    /// Goes on after one more part matches.
    fn step(&mut self) {
        self.depth += 1;
        self.next();
        self.depth -= 1;
    }

    /// Notes that a part does not match.
    fn miss(&mut self, pattern: &'a Pattern, class: Id, why: impl FnOnce() -> String) {
        if let Some(nearest) = &mut self.nearest {
            nearest.note(self.depth, pattern, Some(class), why);
        }
    }

    /// Matches an op's pattern with a node: first the attributes, then the operands as goals.
    fn term(&mut self, pattern: &'a Pattern, term: &'a Term, class: Id) {
        let Pattern::Op { children, attrs, rest_attrs, .. } = pattern else { return };
        let (least, most) = bounds(children);
        if !(least..=most).contains(&term.children.len()) {
            let count = term.children.len();
            self.miss(pattern, class, || format!("its `{}` has {count} operand(s)", term.op));
            return;
        }
        // Check first what needs no binding: most nodes fail here, and nothing has to be undone.
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
        if let Some(trail) = &mut self.trail {
            trail.open.push(term);
        }
        let mut undo = Undo::default();
        if self.attributes(attrs, rest_attrs.as_ref(), term, &mut undo) {
            let egraph = self.egraph;
            let ids: Operands = term.children.iter().map(|id| egraph.egg.find(*id)).collect();
            self.operands(pattern, &ids);
            // A commutative op has the same value with its operands exchanged, and needs no second node for it.
            if let (true, true, [left, right]) = (term.op.flags.commutative, least > 0, &ids[..])
                && left != right
            {
                let before = std::mem::replace(&mut self.bound.turned, true);
                self.operands(pattern, &[*right, *left]);
                self.bound.turned = before;
            }
        }
        self.depth -= 1;
        if let Some(trail) = &mut self.trail {
            trail.open.pop();
        }
        for var in undo.attrs {
            self.bound.attrs[var] = None;
        }
        if let Some(var) = undo.rest_attrs {
            self.bound.rest_attrs[var] = None;
        }
    }

    /// Binds attribute variables. Returns whether the attributes agree with earlier bindings.
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

    /// Matches the operands of an op with its pattern, in every way to distribute them among the patterns of
    /// operands.
    fn operands(&mut self, pattern: &'a Pattern, ids: &[Id]) {
        let Pattern::Op { children, .. } = pattern else { return };
        let first = self.goals.len();
        self.share(pattern, children, ids, first);
    }

    /// Distributes operands from left to right. A rest takes no operand first, then one, two, and so on. The goals
    /// from `first` on are those of this op; they are in the order of its operands until all are distributed.
    fn share(&mut self, pattern: &'a Pattern, children: &'a [Pattern], ids: &[Id], first: usize) {
        let Some((child, more)) = children.split_first() else {
            if ids.is_empty() && !self.number_adds_dimension(pattern, first) {
                self.goals[first..].reverse();
                self.next();
                self.goals[first..].reverse();
            }
            return;
        };
        let Some(var) = child.spread() else {
            if let Some((id, ids)) = ids.split_first() {
                self.goals.push((child, *id));
                self.share(pattern, more, ids, first);
                self.goals.pop();
            }
            return;
        };
        if let Some(bound) = self.bound.rests[var.0].clone() {
            if let Some(ids) = ids.strip_prefix(&bound[..]) {
                self.share(pattern, more, ids, first);
            }
            return;
        }
        let (least, most) = bounds(more);
        let longest = if matches!(child, Pattern::Optional(_)) { 1 } else { usize::MAX };
        for length in ids.len().saturating_sub(most)..=ids.len().saturating_sub(least).min(longest) {
            self.bound.rests[var.0] = Some(ids[..length].into());
            self.share(pattern, more, &ids[length..], first);
            self.bound.rests[var.0] = None;
        }
    }

    /// Returns whether a number of the pattern matches a constant that has more dimensions than all other operands.
    /// The result would have these dimensions too, and the right side would not.
    fn number_adds_dimension(&mut self, pattern: &'a Pattern, first: usize) -> bool {
        let is_number = |(pattern, _): &&(&Pattern, Id)| matches!(pattern, Pattern::Number(..));
        let goals = &self.goals[first..];
        let rank = |id: Id| self.egraph.ty(id).shape.rank();
        let Some(number) = goals.iter().filter(is_number).max_by_key(|(_, id)| rank(*id)).copied() else {
            return false;
        };
        let Pattern::Op { children, .. } = pattern else { return false };
        let spread = children.iter().filter_map(Pattern::spread);
        let rests = spread.filter_map(|var| self.bound.rests[var.0].as_ref()).flat_map(|rest| rest.iter());
        let others = goals.iter().filter(|goal| !is_number(goal)).map(|(_, id)| *id).chain(rests.copied());
        let (has, beside) = (rank(number.1), others.map(rank).max());
        let Some(beside) = beside.filter(|beside| has > *beside) else { return false };
        // If the value is wrong too, the search reports that later, when it comes to this goal.
        let Some(value) = self.egraph.scalar(number.1) else { return false };
        if !matches!(number.0, Pattern::Number(interval, _) if interval.holds(value)) {
            return false;
        }
        // The value itself matches.
        self.depth += 1;
        self.miss(number.0, number.1, || {
            format!(
                "it is {value} with {has} dimension(s), and what stands beside it has {beside}: \
                 the others would show in the result (law 6)"
            )
        });
        self.depth -= 1;
        true
    }
}

/// Returns the fewest and the most operands that these patterns can match.
fn bounds(children: &[Pattern]) -> (usize, usize) {
    children.iter().fold((0, 0), |(least, most), child| match child {
        Pattern::Rest(_) => (least, usize::MAX),
        Pattern::Optional(_) => (least, most.saturating_add(1)),
        _ => (least + 1, most.saturating_add(1)),
    })
}

/// The variables that one step of a search bound.
#[derive(Default)]
struct Undo {
    attrs: SmallVec<[usize; 4]>,
    rest_attrs: Option<usize>,
}

/// Returns the number of parts of a pattern that a complete match counts.
pub(super) fn size(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Operand(_) | Pattern::Number(..) => 1,
        Pattern::Rest(_) | Pattern::Optional(_) => 0,
        Pattern::Op { children, .. } => 1 + children.iter().map(size).sum::<usize>(),
    }
}
