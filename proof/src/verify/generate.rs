//! Generates left sides for a rule: wanted types and attributes are passed from the root down, then the
//! values are typed from the leaves up.

use super::draft::{Draft, Filling};
use super::edge::{self, Edge};
use super::hint::{self, Hints, Known};
use super::palette::{Palette, ones};
use super::rng::Rng;
use super::sampler::{self, Ask, Offer, Rank, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::{Op, Values};
use ovolo::rule::print::Names;
use ovolo::rule::{AttrPattern, Interval, Pattern, RestVar, Rule};
use ovolo::tensor::{DType, TensorType};
use std::sync::Arc;

/// Generates left sides of one rule.
pub(super) struct Generator<'a> {
    rule: &'a Rule,
    hints: Hints,
    palette: Palette,
    names: Arc<Names>,
    /// The edge values; `None` for rules to which they do not apply.
    edge: Option<Edge>,
}

/// The most values that a rest is bound to.
const LONGEST_REST: usize = 6;
/// The largest length that a guard may demand of a rest.
const LONGEST_WISHED: usize = 16;
/// The percentage of roots whose rank is drawn freely, whatever is known about it.
const FREE: usize = 6;
/// The most values of a rest that is not the last operand.
const MIDDLE_REST: usize = 3;

impl<'a> Generator<'a> {
    /// Returns a generator for one rule.
    pub fn new(rule: &'a Rule, palette: &Palette) -> Self {
        let numbers = edge::literals(rule);
        let palette = palette.with(&hint::wishes(rule), &numbers);
        let edge = (!edge::rounds(rule)).then(|| Edge {
            literals: numbers,
            targets: edge::targets(rule),
            none: edge::asks_for_none(rule),
        });
        Self { rule, hints: Hints::new(rule), palette, names: Arc::new(Names::new(rule)), edge }
    }

    /// Generates one left side; the guards may still refuse it.
    ///
    /// # Errors
    /// The reason if the parts do not fit together.
    pub(super) fn left(&self, rng: &mut Rng) -> Result<Draft, String> {
        let mut draft = Draft::new(self.rule, self.palette.largest);
        draft.names = Some(Arc::clone(&self.names));
        let dtype = self.hints.dtype(rng, &self.palette);
        for pattern in &self.rule.from {
            let wish = match draft.left.first() {
                // Further results often have the type of the first one.
                Some(first) if rng.percent(70) => draft.values[*first].ty.clone(),
                _ => self.root(pattern, dtype, rng),
            };
            let root = self.value(pattern, &Wish::any(wish), &mut draft, rng)?;
            draft.left.push(root);
        }
        match &self.edge {
            Some(edge) => edge.fill(&mut draft, rng),
            None if edge::powers(&draft) => {
                return Err("the instance takes a power, and the rule's right sides round".into());
            }
            None => {}
        }
        Ok(draft)
    }

    /// Draws the wanted type of the first result.
    fn root(&self, pattern: &Pattern, dtype: DType, rng: &mut Rng) -> TensorType {
        // The hints may be too strict, so they are sometimes ignored.
        let rank = match self.rank(pattern).filter(|_| !rng.percent(FREE)) {
            Some(Rank::Exactly(rank)) => rank,
            Some(Rank::AtLeast(least)) => self.palette.rank_from(rng, least),
            None => self.palette.any_rank(rng),
        };
        let ty = TensorType::plain(dtype, self.palette.shape(rng, rank));
        let agnostic = matches!(pattern, Pattern::Op { op, .. } if op.flags.layout_agnostic);
        match self.palette.layout(rng, rank).filter(|_| agnostic && rng.percent(15)) {
            Some(layout) => ty.with_layout(layout),
            None => ty,
        }
    }

    /// What the pattern and the guards tell about the rank of a pattern's value.
    fn rank(&self, pattern: &Pattern) -> Option<Rank> {
        match pattern {
            Pattern::Operand(var) => self.hints.rank(var.0),
            Pattern::Rest(var) => self.hints.rest_rank(var.0),
            Pattern::Number(..) | Pattern::Optional(_) => None,
            Pattern::Op { op, children, attrs, .. } => {
                let literals = attrs.iter().filter_map(|(name, value)| match value {
                    AttrPattern::Literal(value) => Some((*name, value.clone())),
                    AttrPattern::Var(_) => None,
                });
                let fixed = literals.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value));
                // A value of low rank broadcasts, so it tells nothing about the result.
                let ranks = children.iter().filter_map(|child| self.rank(child));
                let ranks = ranks.filter(|rank| rank.least() > 1 || children.len() == 1);
                // The result has the largest rank of its operands; if one is only known to be at least some
                // rank, so is the result.
                let ranks = ranks.reduce(|one, other| match (one, other) {
                    (Rank::Exactly(one), Rank::Exactly(other)) => Rank::Exactly(one.max(other)),
                    _ => Rank::AtLeast(one.least().max(other.least())),
                });
                sampler::result_rank(*op, &fixed, ranks)
            }
        }
    }

    /// What the pattern, the guards and the values so far tell about the element type of a pattern's value.
    fn element(&self, pattern: &Pattern, draft: &Draft) -> Option<DType> {
        match pattern {
            Pattern::Operand(var) => match draft.operands[var.0] {
                Some(bound) => Some(draft.values[bound].ty.dtype),
                None => self.hints.element(var.0),
            },
            Pattern::Rest(_) | Pattern::Number(..) | Pattern::Optional(_) => None,
            Pattern::Op { op, children, .. } => {
                let child = || children.iter().find_map(|child| self.element(child, draft));
                sampler::result_dtype(*op, &self.fixed(pattern, draft), &child)
            }
        }
    }

    fn value(
        &self,
        pattern: &Pattern,
        wish: &Wish,
        draft: &mut Draft,
        rng: &mut Rng,
    ) -> Result<usize, String> {
        match pattern {
            Pattern::Operand(var) => {
                if let Some(bound) = draft.operands[var.0] {
                    return Ok(bound);
                }
                let (ty, constant, known) = self.hints.operand(var.0, draft, &wish.ty, rng, &self.palette);
                draft.fits(&ty)?;
                let constant = constant.unwrap_or_else(|| rng.percent(30));
                let filling = self.filling(&ty, wish.values, known, rng);
                let leaf = draft.leaf(ty, constant, filling)?;
                draft.operands[var.0] = Some(leaf);
                Ok(leaf)
            }
            Pattern::Number(interval, var) => {
                if let Some(bound) = var.and_then(|var| draft.operands[var.0]) {
                    let is = draft.values[bound].leaf.as_ref().map(|leaf| &leaf.values);
                    return match is {
                        Some(Filling::Splat(value)) if interval.holds(*value) => Ok(bound),
                        _ => Err(format!("the constant is not in {interval}")),
                    };
                }
                let shape = ones(rng, wish.ty.shape.rank());
                let ty = TensorType::plain(wish.ty.dtype, shape);
                let value = number(*interval, ty.dtype, &self.palette.numbers, rng)?;
                let leaf = draft.leaf(ty, true, Filling::Splat(value))?;
                if let Some(var) = var {
                    draft.operands[var.0] = Some(leaf);
                }
                Ok(leaf)
            }
            Pattern::Rest(_) | Pattern::Optional(_) => {
                Err("a rest stands in the place of one operand".into())
            }
            Pattern::Op { op, .. } => self.op(*op, pattern, wish, draft, rng),
        }
    }

    fn filling(&self, ty: &TensorType, values: Values, known: Known, rng: &mut Rng) -> Filling {
        let seed = rng.word() >> 40;
        match known {
            Known::Splat(value) => Filling::Splat(value),
            Known::Blocks(layout) => Filling::Blocks(layout, seed),
            Known::Nothing if self.palette.plain_values && values == Values::Any && ty.shape.count() > 0 => {
                Filling::Seeded(seed)
            }
            Known::Nothing => Filling::Drawn(values, seed),
        }
    }

    fn op(
        &self,
        op: Op,
        pattern: &Pattern,
        wish: &Wish,
        draft: &mut Draft,
        rng: &mut Rng,
    ) -> Result<usize, String> {
        let Pattern::Op { children, .. } = pattern else { return Err("no op".into()) };
        // The result is mostly what is wanted, and samplers count its elements, so check the size first.
        draft.fits(&wish.ty)?;
        // Below an op that changes the element type, the root's element type says nothing.
        let mut wish = wish.clone();
        wish.ty.dtype = self.element(pattern, draft).unwrap_or(wish.ty.dtype);
        let wish = &wish;
        let (slots, open) = slots(children, draft, &self.palette, rng);
        let mut inputs: Vec<Option<usize>> =
            slots.iter().map(|slot| self.made_before(slot, children, wish, draft, rng)).collect();
        let least = slots.len();
        let most = least + open.map_or(0, |(_, longest)| longest);
        let ask = |draft: &Draft, inputs: &[Option<usize>], fixed: &Attrs, rng: &mut Rng| {
            let known: Vec<Option<TensorType>> =
                inputs.iter().map(|input| input.map(|at| draft.values[at].ty.clone())).collect();
            let palette = &self.palette;
            sampler::offer(&mut Ask { op, rng, palette, wish: &wish.ty, known: &known, fixed, least, most })
                .ok_or_else(|| format!("no operands found for `{}`", op.name))
        };
        let before = self.fixed(pattern, draft);
        if let Some((name, value)) = before.iter().find(|(_, value)| sampler::beyond(value)) {
            return Err(format!("attribute `{name}` of `{}` is {value}, too large to evaluate", op.name));
        }
        let mut offer: Offer = ask(draft, &inputs, &before, rng)?;
        self.bind(pattern, &offer.attrs, draft);
        for (at, slot) in slots.iter().enumerate() {
            if inputs[at].is_some() {
                continue;
            }
            let wished = offer.operands[at].clone();
            let made = match slot {
                Slot::Bound(value) => *value,
                Slot::Child(child) => self.value(child, &wished, draft, rng)?,
                Slot::Item(var) => self.item(*var, &wished, draft, rng)?,
            };
            inputs[at] = Some(made);
            if draft.values[made].ty != wished.ty && inputs.iter().any(Option::is_none) {
                // This operand is not what was wanted, so the others must be chosen again to fit it.
                let fixed = self.fixed(pattern, draft);
                offer = ask(draft, &inputs, &fixed, rng).or_else(|_| {
                    let mut again = before.clone();
                    if let Some(chain) = offer.attrs.get("post") {
                        again.set("post", chain.clone());
                    }
                    ask(draft, &inputs, &again, rng)
                })?;
            }
        }
        bind_rests(children, &slots, &inputs, draft);
        if let Some((var, _)) = open {
            let wishes = offer.operands.get(least..).unwrap_or_default().to_vec();
            let items = wishes.iter().map(|wished| self.item(var, wished, draft, rng));
            let items = items.collect::<Result<Vec<usize>, String>>()?;
            inputs.extend(items.iter().map(|item| Some(*item)));
            draft.rests[var.0] = Some(items);
        }
        let inputs: Option<Vec<usize>> = inputs.into_iter().collect();
        let inputs = inputs.ok_or("an operand was not made")?;
        let number = |slot: &Slot<'_>| matches!(slot, Slot::Child(Pattern::Number(..)));
        let numbers: Vec<bool> = slots.iter().map(number).collect();
        adds_no_dimension(&numbers, &inputs, draft)?;
        // All variables are bound now, and their values replace the offer's attributes.
        let fixed = self.fixed(pattern, draft);
        let mut attrs = offer.attrs;
        for (name, value) in fixed.iter() {
            attrs.set(name, value.clone());
        }
        self.matches(pattern, &attrs, draft)?;
        Ok(draft.op(op, attrs, inputs)?)
    }

    /// Returns an operand that exists before the others are chosen: one that is bound, or a number.
    fn made_before(
        &self,
        slot: &Slot<'_>,
        children: &[Pattern],
        wish: &Wish,
        draft: &mut Draft,
        rng: &mut Rng,
    ) -> Option<usize> {
        match slot {
            Slot::Bound(value) => Some(*value),
            Slot::Child(Pattern::Operand(var)) => draft.operands[var.0],
            // A number adds no dimension, so the wanted shape is that of the other operand.
            Slot::Child(child @ Pattern::Number(..)) => {
                let beside = children.iter().find_map(|child| self.element(child, draft));
                let dtype = beside.unwrap_or(wish.ty.dtype);
                let wish = Wish { ty: TensorType { dtype, ..wish.ty.clone() }, values: wish.values };
                self.value(child, &wish, draft, rng).ok()
            }
            Slot::Child(_) | Slot::Item(_) => None,
        }
    }

    /// Generates one value of a rest.
    fn item(&self, var: RestVar, wished: &Wish, draft: &mut Draft, rng: &mut Rng) -> Result<usize, String> {
        let ty = self.hints.rest(var.0, &wished.ty, rng, &self.palette);
        draft.fits(&ty)?;
        let constant = rng.percent(30) || self.hints.rest_is_constant(var.0);
        let filling = self.filling(&ty, wished.values, Known::Nothing, rng);
        Ok(draft.leaf(ty, constant, filling)?)
    }

    /// Attributes that the pattern, bound variables or the guards determine.
    fn fixed(&self, pattern: &Pattern, draft: &Draft) -> Attrs {
        let mut fixed = Attrs::new();
        let Pattern::Op { attrs, rest_attrs, .. } = pattern else { return fixed };
        if let Some(var) = rest_attrs {
            for (name, value) in draft.rest_attrs[var.0].iter().flatten() {
                fixed.set(name, value.clone());
            }
        }
        for (name, value) in attrs {
            let value = match value {
                AttrPattern::Literal(value) => Some(value.clone()),
                AttrPattern::Var(var) => draft.attrs[var.0].clone().or_else(|| self.hints.attr(var.0, draft)),
            };
            if let Some(value) = value {
                fixed.set(name, value);
            }
        }
        fixed
    }

    /// Checks that the pattern matches a node with these attributes, as the e-graph's matcher does.
    fn matches(&self, pattern: &Pattern, given: &Attrs, draft: &Draft) -> Result<(), String> {
        let Pattern::Op { attrs, rest_attrs, .. } = pattern else { return Ok(()) };
        for (name, value) in attrs {
            let expected = match value {
                AttrPattern::Literal(value) => Some(value),
                AttrPattern::Var(var) => draft.attrs[var.0].as_ref(),
            };
            if given.get(name) != expected {
                return Err(format!("attribute `{name}` differs from the pattern"));
            }
        }
        let others = given.iter().filter(|(name, _)| !attrs.iter().any(|(written, _)| written == name));
        match rest_attrs.and_then(|var| draft.rest_attrs[var.0].as_ref()) {
            Some(bound) if !others.eq(bound.iter().map(|(name, value)| (*name, value))) => {
                Err("the rest of the attributes differs from its other occurrence".into())
            }
            _ => Ok(()),
        }
    }

    /// Binds the pattern's unbound attribute variables to the offered values.
    fn bind(&self, pattern: &Pattern, offered: &Attrs, draft: &mut Draft) {
        let Pattern::Op { attrs, rest_attrs, .. } = pattern else { return };
        for (name, value) in attrs {
            if let AttrPattern::Var(var) = value
                && draft.attrs[var.0].is_none()
            {
                draft.attrs[var.0] = offered.get(name).cloned();
            }
        }
        if let Some(var) = rest_attrs
            && draft.rest_attrs[var.0].is_none()
        {
            let others = offered.iter().filter(|(name, _)| !attrs.iter().any(|(written, _)| written == name));
            let others: Vec<(&'static str, Attr)> =
                others.map(|(name, value)| (name, value.clone())).collect();
            draft.rest_attrs[var.0] = Some(others);
        }
    }
}

/// What one operand comes from.
enum Slot<'a> {
    /// A pattern of its own.
    Child(&'a Pattern),
    /// One value of a rest that is not bound yet.
    Item(RestVar),
    /// One value of a rest that is bound, by index.
    Bound(usize),
}

/// Returns the slots of an op's operands. An unbound rest gets a random length here. But if it is the last
/// operand, the op's sampler decides its length, and the rest is returned with its greatest length.
fn slots<'a>(
    children: &'a [Pattern],
    draft: &Draft,
    palette: &Palette,
    rng: &mut Rng,
) -> (Vec<Slot<'a>>, Option<(RestVar, usize)>) {
    let mut slots = Vec::with_capacity(children.len());
    for (at, child) in children.iter().enumerate() {
        let Some(var) = child.spread() else {
            slots.push(Slot::Child(child));
            continue;
        };
        let wished = palette.wishes.iter().copied().filter(|wish| *wish <= LONGEST_WISHED).max();
        let longest = match child {
            Pattern::Optional(_) => 1,
            _ => LONGEST_REST.max(wished.unwrap_or(0)),
        };
        match &draft.rests[var.0] {
            Some(bound) => slots.extend(bound.iter().map(|value| Slot::Bound(*value))),
            None if at + 1 == children.len() => return (slots, Some((var, longest))),
            None => {
                let length = rng.below(longest.min(wished.unwrap_or(0).max(MIDDLE_REST)) + 1);
                slots.extend((0..length).map(|_| Slot::Item(var)));
            }
        }
    }
    (slots, None)
}

/// Candidates for a number in an interval.
const NUMBERS: &[f64] = &[0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 0.25, 10.0, -10.0, 100.0, -100.0];

/// Draws a number in an interval: mostly its ends, where mistakes are likely; numbers in or close to those of
/// the rule; small and large ones within the interval.
fn number(interval: Interval, dtype: DType, others: &[f64], rng: &mut Rng) -> Result<f64, String> {
    let Interval { least, most } = interval;
    let inside = match (least.is_finite(), most.is_finite()) {
        (true, true) => least + (most - least) * rng.unit(),
        (true, false) => least + rng.pick(&[0.25, 0.5, 1.0, 3.0]),
        (false, true) => most - rng.pick(&[0.25, 0.5, 1.0, 3.0]),
        (false, false) => rng.pick(NUMBERS),
    };
    let fitting: Vec<f64> = NUMBERS.iter().copied().filter(|one| interval.holds(*one)).collect();
    let drawn = match rng.below(6) {
        0 if least.is_finite() => least,
        1 if most.is_finite() => most,
        2 | 3 if !others.is_empty() => {
            Some(edge::beside(rng, others)).filter(|one| interval.holds(*one)).unwrap_or(inside)
        }
        3..=4 if !fitting.is_empty() => rng.pick(&fitting),
        _ => inside,
    };
    // A constant of an integer type must be an integer: a half would be rounded and then match.
    let drawn = if dtype.is_float() { drawn } else { drawn.round() };
    if !interval.holds(drawn) || dtype == DType::Bool || dtype == DType::U8 && drawn < 0.0 {
        return Err(format!("no number of type {dtype} was drawn that is in {interval}"));
    }
    Ok(drawn)
}

/// Checks that numbers on the left are constants with no more dimensions than the other operands. `numbers`
/// marks which of the first operands are numbers.
pub(super) fn adds_no_dimension(numbers: &[bool], inputs: &[usize], draft: &Draft) -> Result<(), String> {
    let rank = |at: usize| draft.values[inputs[at]].ty.shape.rank();
    let number = |at: usize| numbers.get(at).is_some_and(|number| *number);
    let numbers = (0..inputs.len()).filter(|at| number(*at));
    let others = (0..inputs.len()).filter(|at| !number(*at));
    match (numbers.map(rank).max(), others.map(rank).max()) {
        (Some(number), Some(other)) if number > other => {
            Err("the number has more dimensions than the other operand".into())
        }
        _ => Ok(()),
    }
}

/// Binds the rests whose operands are all made.
fn bind_rests(children: &[Pattern], slots: &[Slot<'_>], inputs: &[Option<usize>], draft: &mut Draft) {
    for var in children.iter().filter_map(Pattern::spread) {
        if draft.rests[var.0].is_none() {
            let of = |slot: &Slot<'_>| matches!(slot, Slot::Item(item) if *item == var);
            let items = slots.iter().zip(inputs).filter(|(slot, _)| of(slot));
            draft.rests[var.0] = Some(items.filter_map(|(_, input)| *input).collect());
        }
    }
}
