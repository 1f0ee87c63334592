//! Shrinks a counterexample in single steps, until nothing can be removed.
//!
//! The steps are, in this order: elements (axes, sizes), operands and steps of chains, attributes that differ
//! from their defaults, element types and layouts, and values that are not small integers. A smaller left
//! side is typed from its leaves up, matched with the rule's patterns as in the e-graph, tested against the
//! guards, and kept if the sides still differ. Nothing is random.

use super::draft::{Draft, DraftValue, Filling, Leaf, filled};
use super::{Difference, Judge, Tried, generate};
use ovolo::attr::{Attr, Attrs, Float};
use ovolo::op::{Arity, Op, post};
use ovolo::rule::{AttrPattern, Pattern, Rule};
use ovolo::tensor::{DType, Layout, Shape};

/// The most left sides that are tried.
const TRIES: usize = 20_000;
/// The most work on them, in elements drawn plus operations evaluated.
const WORK: f64 = 2e9;
/// The most elements of a value that are written one by one.
const WRITTEN: usize = 16;

/// Returns the smallest counterexample that single steps reach from this one.
pub(super) fn shrink(rule: &Rule, found: (Draft, Difference), judge: Judge) -> (Draft, Difference) {
    let mut left = Left::from_draft(&found.0);
    let mut best = found;
    let (mut tries, mut work) = (0, 0.0);
    'next: loop {
        for smaller in left.smaller() {
            tries += 1;
            work += smaller.values.iter().map(|value| value.work).sum::<f64>();
            if tries > TRIES || work > WORK {
                return best;
            }
            if let Some(found) = smaller.wrong(rule, judge) {
                (left, best) = (Left::from_draft(&found.0), found);
                continue 'next;
            }
        }
        return best;
    }
}

/// The left sides of an instance.
#[derive(Clone)]
struct Left {
    /// Operands before their users.
    values: Vec<DraftValue>,
    roots: Vec<usize>,
    /// The most elements of a value.
    largest: usize,
}

impl Left {
    fn from_draft(draft: &Draft) -> Self {
        Self { values: draft.values.clone(), roots: draft.left.clone(), largest: draft.largest }.reached()
    }

    /// Removes the values that no root depends on.
    fn reached(mut self) -> Self {
        let mut wanted = vec![false; self.values.len()];
        self.roots.iter().for_each(|root| wanted[*root] = true);
        // Operands come before their users, so one pass backwards finds all of them.
        for at in (0..self.values.len()).rev() {
            if wanted[at] {
                self.values[at].inputs.iter().for_each(|input| wanted[*input] = true);
            }
        }
        let place: Vec<usize> = wanted
            .iter()
            .scan(0, |count, wanted| {
                *count += usize::from(*wanted);
                Some(count.saturating_sub(1))
            })
            .collect();
        let mut at = 0;
        self.values.retain(|_| {
            at += 1;
            wanted[at - 1]
        });
        let inputs = self.values.iter_mut().flat_map(|value| &mut value.inputs);
        inputs.chain(&mut self.roots).for_each(|at| *at = place[*at]);
        self
    }

    /// Returns the instance of the rule with these left sides, if it exists and its sides differ.
    fn wrong(self, rule: &Rule, judge: Judge) -> Option<(Draft, Difference)> {
        let Self { values, roots, largest } = self.reached();
        let mut draft = Draft::new(rule, largest);
        for value in values {
            match (value.op, value.leaf) {
                (Some(op), _) => draft.op(op, value.attrs, value.inputs).ok()?,
                (None, Some(leaf)) => draft.leaf(value.ty, leaf.constant, leaf.values).ok()?,
                (None, None) => return None,
            };
        }
        draft.left = roots;
        for (pattern, root) in rule.from.iter().zip(draft.left.clone()) {
            stands(pattern, root, &mut draft).then_some(())?;
        }
        match judge(rule, draft) {
            Tried::Wrong(draft, difference) => Some((draft, difference)),
            Tried::Agrees(_) | Tried::Refused(_) => None,
        }
    }

    /// All left sides that are smaller by one step, the largest steps first.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        self.axes(&mut all);
        self.sizes(&mut all);
        self.operands(&mut all);
        self.attributes(&mut all);
        self.types(&mut all);
        self.fillings(&mut all);
        all
    }

    fn leaves(&self) -> Vec<usize> {
        (0..self.values.len()).filter(|at| self.values[*at].leaf.is_some()).collect()
    }

    fn ops(&self) -> Vec<(usize, Op)> {
        self.values.iter().enumerate().filter_map(|(at, value)| Some((at, value.op?))).collect()
    }

    /// Gives some leaves new shapes. Listed values are filled up with ones, or only some are kept: once for each choice
    /// that makes a difference.
    fn reshaped(&self, shapes: &[(usize, Vec<usize>)]) -> Vec<Self> {
        let listed = |at: &usize| match self.values[*at].leaf.as_ref().map(|leaf| &leaf.values) {
            Some(Filling::Given(given)) => Some(given.len()),
            Some(Filling::Whole(whole)) => Some(whole.len()),
            _ => None,
        };
        let fewer = |(at, shape): &(usize, Vec<usize>)| {
            listed(at).is_some_and(|count| shape.iter().product::<usize>() < count)
        };
        let choices: &[Kept] = if shapes.iter().any(fewer) { &Kept::ALL } else { &[Kept::First] };
        choices.iter().map(|kept| self.reshaped_with(shapes, *kept)).collect()
    }

    fn reshaped_with(&self, shapes: &[(usize, Vec<usize>)], kept: Kept) -> Self {
        let mut smaller = self.clone();
        for (at, shape) in shapes {
            let value = &mut smaller.values[*at];
            if shape.len() != value.ty.shape.rank() {
                // A layout belongs to a rank, so it is dropped.
                value.ty.layout = Layout::PLAIN;
            }
            value.ty.shape = Shape::from(&shape[..]);
            let Some(leaf) = &value.leaf else { continue };
            let count = value.ty.shape.count();
            let values = match &leaf.values {
                Filling::Given(given) => Filling::Given(kept.of(given, count, 1.0, |one| !one.is_finite())),
                Filling::Whole(whole) => Filling::Whole(kept.of(whole, count, 1, |_| false)),
                other => other.clone(),
            };
            value.leaf = Some(Leaf::new(leaf.constant, values));
        }
        smaller
    }

    /// Removes an axis from the leaves of the highest rank, with or without adapting the attributes.
    fn axes(&self, all: &mut Vec<Self>) {
        let leaves = self.leaves();
        let rank = leaves.iter().map(|at| self.values[*at].ty.shape.rank()).max().unwrap_or(0);
        for axis in 0..rank {
            let shapes: Vec<(usize, Vec<usize>)> = leaves
                .iter()
                .filter(|at| self.values[**at].ty.shape.rank() == rank)
                .map(|at| {
                    let mut shape = self.values[*at].ty.shape.to_vec();
                    shape.remove(axis);
                    (*at, shape)
                })
                .collect();
            let reshaped = self.reshaped(&shapes);
            for mut smaller in reshaped.clone() {
                for value in &mut smaller.values {
                    let attrs: Vec<(&'static str, Attr)> = value
                        .attrs
                        .iter()
                        .map(|(name, attr)| (name, without_axis(name, attr, axis, rank)))
                        .collect();
                    attrs.into_iter().for_each(|(name, attr)| value.attrs.set(name, attr));
                }
                all.push(smaller);
            }
            // Attributes that do not refer to axes stay as they are.
            all.extend(reshaped);
        }
    }

    /// Makes sizes smaller: all equal sizes at once, one axis, or two axes of equal size; each with and
    /// without changing attributes of that value.
    fn sizes(&self, all: &mut Vec<Self>) {
        let leaves = self.leaves();
        let places: Vec<(usize, usize, usize)> = leaves
            .iter()
            .flat_map(|at| {
                self.values[*at].ty.shape.iter().enumerate().map(|(axis, size)| (*at, axis, *size))
            })
            .filter(|(_, _, size)| *size > 1)
            .collect();
        let with = |places: &[(usize, usize, usize)], size: usize| {
            let mut shapes: Vec<(usize, Vec<usize>)> =
                leaves.iter().map(|at| (*at, self.values[*at].ty.shape.to_vec())).collect();
            for (leaf, axis, _) in places {
                if let Some((_, shape)) = shapes.iter_mut().find(|(at, _)| at == leaf) {
                    shape[*axis] = size;
                }
            }
            self.reshaped(&shapes)
        };
        let mut push = |places: &[(usize, usize, usize)], size: usize, less: usize| {
            for smaller in with(places, less) {
                all.push(smaller.clone());
                all.push(smaller.renumbered(size, less));
            }
        };
        let mut distinct: Vec<usize> = places.iter().map(|(_, _, size)| *size).collect();
        distinct.sort_unstable();
        distinct.dedup();
        for size in distinct.into_iter().rev() {
            let here: Vec<_> = places.iter().filter(|place| place.2 == size).copied().collect();
            for less in less(size) {
                push(&here, size, less);
            }
        }
        for place in &places {
            for less in less(place.2) {
                push(&[*place], place.2, less);
            }
        }
        for (at, one) in places.iter().enumerate() {
            for other in places[at + 1..].iter().filter(|other| other.2 == one.2) {
                for less in less(one.2) {
                    push(&[*one, *other], one.2, less);
                }
            }
        }
    }

    /// Replaces a number in all attributes.
    fn renumbered(mut self, from: usize, to: usize) -> Self {
        let (Ok(from), Ok(to)) = (i64::try_from(from), i64::try_from(to)) else { return self };
        for value in &mut self.values {
            let changed: Vec<(&'static str, Attr)> = value
                .attrs
                .iter()
                .filter_map(|(name, attr)| match attr {
                    Attr::Int(number) if *number == from => Some((name, Attr::Int(to))),
                    Attr::Ints(list) if list.contains(&from) && name != "perm" => {
                        let list = list.iter().map(|number| if *number == from { to } else { *number });
                        Some((name, Attr::Ints(list.collect())))
                    }
                    _ => None,
                })
                .collect();
            changed.into_iter().for_each(|(name, attr)| value.attrs.set(name, attr));
        }
        self
    }

    /// Removes an operand, or a step of a chain in one op or in every op with that chain.
    fn operands(&self, all: &mut Vec<Self>) {
        for (at, op) in self.ops() {
            if matches!(op.arity, Arity::AtLeast(_)) {
                for operand in 0..self.values[at].inputs.len() {
                    let mut smaller = self.clone();
                    smaller.values[at].inputs.remove(operand);
                    all.push(smaller);
                }
            }
            let chain = self.values[at].attrs.post();
            for step in 0..chain.len() {
                let same = |other: &(usize, Op)| self.values[other.0].attrs.post() == chain;
                let others: Vec<usize> = self.ops().into_iter().filter(same).map(|(at, _)| at).collect();
                for places in [others, vec![at]] {
                    let mut smaller = self.clone();
                    places.iter().for_each(|at| without_step(&mut smaller.values[*at], step));
                    all.push(smaller);
                }
            }
        }
    }

    /// Sets an attribute to its default or closer to it, in one op or in every op with the same value.
    fn attributes(&self, all: &mut Vec<Self>) {
        for (at, op) in self.ops() {
            for (name, attr) in self.values[at].attrs.iter() {
                if name == "post" {
                    continue;
                }
                let default = op.attr(name).and_then(|def| def.default.as_ref());
                let same = |other: &(usize, Op)| self.values[other.0].attrs.get(name) == Some(attr);
                let others: Vec<usize> = self.ops().into_iter().filter(same).map(|(at, _)| at).collect();
                for nearer in nearer(name, attr, default) {
                    for places in [others.clone(), vec![at]] {
                        let mut smaller = self.clone();
                        places.iter().for_each(|at| smaller.values[*at].attrs.set(name, nearer.clone()));
                        all.push(smaller);
                    }
                }
            }
        }
    }

    /// Gives leaves the usual type and layout.
    fn types(&self, all: &mut Vec<Self>) {
        let mut found: Vec<DType> = self.leaves().iter().map(|at| self.values[*at].ty.dtype).collect();
        found.sort_unstable();
        found.dedup();
        for dtype in found.into_iter().filter(|dtype| *dtype != DType::F32) {
            let mut smaller = self.clone();
            for at in self.leaves() {
                let value = &mut smaller.values[at];
                if value.ty.dtype == dtype {
                    value.ty.dtype = DType::F32;
                    value.leaf =
                        value.leaf.as_ref().map(|leaf| Leaf::new(leaf.constant, leaf.values.clone()));
                }
            }
            all.push(smaller);
        }
        if self.leaves().iter().any(|at| !self.values[*at].ty.layout.is_plain()) {
            let mut smaller = self.clone();
            for at in self.leaves() {
                let value = &mut smaller.values[at];
                value.ty.layout = Layout::PLAIN;
                value.leaf = value.leaf.as_ref().map(|leaf| Leaf::new(leaf.constant, leaf.values.clone()));
            }
            all.push(smaller);
        }
    }

    /// Replaces values by small integers.
    fn fillings(&self, all: &mut Vec<Self>) {
        for at in self.leaves() {
            let Some(leaf) = &self.values[at].leaf else { continue };
            let tensor = filled(&self.values[at].ty, leaf);
            let least = self.values[at].ty.dtype.integer_range().map_or(i128::MIN, |(least, _)| least);
            for values in simpler(&leaf.values, &tensor.to_f64(), least < 0) {
                let mut smaller = self.clone();
                smaller.values[at].leaf = Some(Leaf::new(leaf.constant, values));
                all.push(smaller);
            }
        }
    }
}

/// Which of its listed values a leaf keeps when it becomes smaller. The sides may differ because of any of them, and
/// often do because of an infinity or NaN.
#[derive(Clone, Copy)]
enum Kept {
    /// The first ones.
    First,
    /// The last ones.
    Last,
    /// Those that are no numbers, and then the first of the others.
    OddFirst,
    /// The same, with those that are no numbers at the end.
    OddLast,
}

impl Kept {
    const ALL: [Self; 4] = [Self::First, Self::Last, Self::OddFirst, Self::OddLast];

    /// Returns `count` of the values, with `one` for those that are missing.
    fn of<T: Copy>(self, values: &[T], count: usize, one: T, odd: impl Fn(&T) -> bool) -> Vec<T> {
        let mut kept = values.to_vec();
        match self {
            Self::First => {}
            Self::Last => drop(kept.drain(..values.len().saturating_sub(count))),
            Self::OddFirst | Self::OddLast => kept.sort_by_key(|value| !odd(value)),
        }
        kept.resize(count, one);
        if matches!(self, Self::OddLast) {
            kept.sort_by_key(|value| odd(value));
        }
        kept
    }
}

/// Numbers below a size, starting from 1.
fn less(size: usize) -> Vec<usize> {
    let mut less = vec![1, 2, size / 2, size - 1];
    less.retain(|less| (1..size).contains(less));
    less.sort_unstable();
    less.dedup();
    less
}

/// Adapts an attribute of an op to values that have lost an axis.
fn without_axis(name: &str, attr: &Attr, axis: usize, rank: usize) -> Attr {
    let Ok(gone) = i64::try_from(axis) else { return attr.clone() };
    let moved = |one: i64| if one > gone { one - 1 } else { one };
    match attr {
        Attr::Int(one) if name == "axis" => Attr::Int(moved(*one)),
        Attr::Ints(list) if name == "axes" => {
            Attr::Ints(list.iter().filter(|one| **one != gone).map(|one| moved(*one)).collect())
        }
        Attr::Ints(list) if name == "perm" && list.len() == rank => {
            Attr::Ints(list.iter().filter(|one| **one != gone).map(|one| moved(*one)).collect())
        }
        Attr::Ints(list) if list.len() == rank || list.len() == 2 * rank => Attr::Ints(
            list.iter().enumerate().filter(|(at, _)| at % rank != axis).map(|(_, one)| *one).collect(),
        ),
        _ => attr.clone(),
    }
}

/// Removes a step from a chain, with its operand.
fn without_step(value: &mut DraftValue, step: usize) {
    let mut chain = value.attrs.post().to_vec();
    let first = value.inputs.len().saturating_sub(post::extras(&chain));
    let gone = chain.remove(step);
    if post::takes_operand(&gone) {
        let operand = first + post::extras(&chain[..step]);
        if operand < value.inputs.len() {
            value.inputs.remove(operand);
        }
    }
    value.attrs.set("post", Attr::Post(chain));
}

/// Attributes between this one and its default.
fn nearer(name: &str, attr: &Attr, default: Option<&Attr>) -> Vec<Attr> {
    let mut nearer: Vec<Attr> = default.filter(|default| *default != attr).cloned().into_iter().collect();
    match attr {
        Attr::Int(number) => {
            let goal = if let Some(Attr::Int(goal)) = default { *goal } else { 0 };
            nearer.extend(between(*number, goal).into_iter().map(Attr::Int));
        }
        Attr::Ints(list) if name != "perm" => {
            for (at, number) in list.iter().enumerate() {
                let goal = match default {
                    Some(Attr::Ints(goals)) => goals.get(at).copied().unwrap_or(0),
                    _ => 0,
                };
                for number in between(*number, goal) {
                    let mut list = list.clone();
                    list[at] = number;
                    nearer.push(Attr::Ints(list));
                }
            }
        }
        // The default is the simplest of all. Rounding it would only lead back to it, without end.
        Attr::Float(Float(number)) if default != Some(attr) => {
            nearer.extend(simpler_numbers(*number).into_iter().map(|one| Attr::Float(Float(one))));
        }
        _ => {}
    }
    nearer
}

/// The goal, and the number one step closer to the goal.
fn between(number: i64, goal: i64) -> Vec<i64> {
    let mut between = vec![goal, number - (number - goal).signum()];
    between.dedup();
    between.retain(|one| *one != number);
    between
}

/// The simplest numbers, the first of all first.
const SIMPLE: [f64; 5] = [0.0, 1.0, -1.0, 2.0, -2.0];

/// Numbers that are simpler than this one, the simplest first: small integers, the integer beside it, and half of a larger
/// one. Each is simpler in one order, so that steps from number to number come to an end.
fn simpler_numbers(value: f64) -> Vec<f64> {
    if value == 0.0 {
        return if value.is_sign_negative() { vec![0.0] } else { Vec::new() };
    }
    let known = SIMPLE.iter().position(|simple| *simple == value);
    let mut simpler = SIMPLE[..known.unwrap_or(SIMPLE.len())].to_vec();
    if value == f64::NEG_INFINITY {
        simpler.push(f64::INFINITY);
    } else if value.is_finite() && known.is_none() {
        simpler.push(if value.round() == value { (value / 2.0).trunc() } else { value.round() });
    }
    simpler
}

/// The same for integers.
fn simpler_integers(value: i64) -> Vec<i64> {
    let simple = [0, 1, -1, 2, -2];
    let known = simple.iter().position(|simple| *simple == value);
    let mut simpler = simple[..known.unwrap_or(simple.len())].to_vec();
    if known.is_none() {
        simpler.push(value / 2);
    }
    simpler
}

/// Simpler values, the simplest first: one number everywhere; a list of simpler numbers; or a seed if there are too many
/// to list. `negative` says whether the type has negative numbers.
fn simpler(filling: &Filling, values: &[f64], negative: bool) -> Vec<Filling> {
    let numbers = |value: f64| simpler_numbers(value).into_iter().filter(move |one| negative || *one >= 0.0);
    let mut simpler = Vec::new();
    match filling {
        Filling::Splat(value) => simpler.extend(numbers(*value).map(Filling::Splat)),
        Filling::Given(_) => {
            simpler.extend([0.0, 1.0].map(Filling::Splat));
            for (at, value) in values.iter().enumerate() {
                for number in numbers(*value) {
                    let mut given = values.to_vec();
                    given[at] = number;
                    simpler.push(Filling::Given(given));
                }
            }
        }
        Filling::Whole(whole) => {
            simpler.extend([0.0, 1.0].map(Filling::Splat));
            for (at, value) in whole.iter().enumerate() {
                for number in simpler_integers(*value).into_iter().filter(|one| negative || *one >= 0) {
                    let mut given = whole.clone();
                    given[at] = number;
                    simpler.push(Filling::Whole(given));
                }
            }
        }
        Filling::Seeded(_) | Filling::Drawn(..) | Filling::Blocks(..) => {
            simpler.extend([0.0, 1.0, 2.0].map(Filling::Splat));
            if values.len() <= WRITTEN {
                simpler.push(Filling::Given(values.iter().map(|value| value.round()).collect()));
                simpler.push(Filling::Given(values.to_vec()));
            } else if matches!(filling, Filling::Drawn(..)) {
                simpler.extend((0..4).map(Filling::Seeded));
            }
        }
    }
    simpler
}

/// Whether a pattern matches at a value. Binds the rule's variables, as the e-graph's matcher does.
fn stands(pattern: &Pattern, at: usize, draft: &mut Draft) -> bool {
    let (op, children, attrs, rest_attrs) = match pattern {
        Pattern::Operand(var) => return *draft.operands[var.0].get_or_insert(at) == at,
        Pattern::Number(interval, var) => {
            let holds =
                |tensor: &ovolo::tensor::Tensor| tensor.to_f64().iter().all(|one| interval.holds(*one));
            return draft.values[at].constant
                && draft.tensor(at).is_some_and(holds)
                && var.is_none_or(|var| *draft.operands[var.0].get_or_insert(at) == at);
        }
        Pattern::Rest(_) | Pattern::Optional(_) => return false,
        Pattern::Op { op, children, attrs, rest_attrs } => (op, children, attrs, rest_attrs),
    };
    let DraftValue { op: found, attrs: given, inputs, .. } = draft.values[at].clone();
    found.is_some_and(|found| found.name == op.name)
        && share(children, &inputs, &mut Vec::new(), &inputs, draft)
        && attributes(attrs, rest_attrs.as_ref().map(|var| var.0), &given, draft)
}

/// Whether the remaining operands match the remaining patterns, taking the first assignment that matches.
/// `numbers` marks which of the earlier operands matched a number.
fn share(
    children: &[Pattern],
    left: &[usize],
    numbers: &mut Vec<bool>,
    all: &[usize],
    draft: &mut Draft,
) -> bool {
    let Some((child, more)) = children.split_first() else {
        return left.is_empty() && generate::adds_no_dimension(numbers, all, draft).is_ok();
    };
    let longest = match child {
        Pattern::Rest(_) => left.len(),
        Pattern::Optional(_) => left.len().min(1),
        _ => {
            let Some((first, left)) = left.split_first() else { return false };
            if !stands(child, *first, draft) {
                return false;
            }
            numbers.push(matches!(child, Pattern::Number(..)));
            return share(more, left, numbers, all, draft);
        }
    };
    let Some(var) = child.spread() else { return false };
    (0..=longest).any(|length| {
        let mut tried = draft.clone();
        let (taken, left) = left.split_at(length);
        let mut numbers = numbers.clone();
        numbers.extend(taken.iter().map(|_| false));
        let stands = *tried.rests[var.0].get_or_insert_with(|| taken.to_vec()) == taken
            && share(more, left, &mut numbers, all, &mut tried);
        if stands {
            *draft = tried;
        }
        stands
    })
}

fn attributes(
    attrs: &[(&'static str, AttrPattern)],
    rest: Option<usize>,
    given: &Attrs,
    draft: &mut Draft,
) -> bool {
    let written = attrs.iter().all(|(name, pattern)| match (pattern, given.get(name)) {
        (AttrPattern::Literal(value), found) => found == Some(value),
        (AttrPattern::Var(var), Some(found)) => {
            draft.attrs[var.0].get_or_insert_with(|| found.clone()) == found
        }
        (AttrPattern::Var(_), None) => false,
    });
    let Some(rest) = rest else { return written };
    let others: Vec<(&'static str, Attr)> = given
        .iter()
        .filter(|(name, _)| !attrs.iter().any(|(written, _)| written == name))
        .map(|(name, value)| (name, value.clone()))
        .collect();
    written && *draft.rest_attrs[rest].get_or_insert_with(|| others.clone()) == others
}
