//! Samplers that ops bring themselves, and the sampler of lowered ops that take operands made by another op.

use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::{Draw, Lowered, Sample, Values};
use ovolo::tensor::TensorType;
use std::ops::RangeInclusive;

/// What an op's own sampler draws from.
struct Draws<'a, 'b>(&'a mut Ask<'b>);

impl Draw for Draws<'_, '_> {
    fn below(&mut self, limit: usize) -> usize {
        self.0.rng.below(limit)
    }

    fn size(&mut self) -> usize {
        self.0.rng.pick(&self.0.palette.channels)
    }

    fn usual(&mut self) -> bool {
        self.0.palette.default(self.0.rng)
    }

    fn wanted(&self) -> &TensorType {
        self.0.wish
    }

    fn known(&self, operand: usize) -> Option<&TensorType> {
        self.0.known(operand)
    }

    fn fixed(&self, name: &str) -> Option<&Attr> {
        self.0.fixed.get(name)
    }

    fn operands(&self) -> RangeInclusive<usize> {
        self.0.least..=self.0.most
    }

    fn float(&mut self, name: &str) -> f64 {
        self.0.float(name)
    }

    fn post(&mut self, base: usize, result: &TensorType) -> Option<Sample> {
        let (steps, extras) = self.0.post(base, result)?;
        let operands: Vec<(TensorType, Values)> =
            extras.into_iter().map(|wish| (wish.ty, wish.values)).collect();
        Some(Sample { attrs: Attrs::new().with("post", Attr::Post(steps)), operands })
    }
}

/// Asks an op's own sampler.
pub(super) fn sampled(ask: &mut Ask<'_>, sample: fn(&mut dyn Draw) -> Option<Sample>) -> Option<Offer> {
    let Sample { attrs, operands } = sample(&mut Draws(ask))?;
    let operands = operands.into_iter().map(|(ty, values)| Wish { ty, values }).collect();
    Some(Offer { attrs, operands })
}

/// Samples the sources of the made operands, asks the logical op's sampler for a proposal with these sources,
/// and then replaces them by what is made of them. Attributes that the lowered op lacks have the logical op's
/// defaults.
pub(super) fn made(ask: &mut Ask<'_>, lowered: &Lowered) -> Option<Offer> {
    let with = |attrs: Attrs, more: &Attrs| {
        more.iter().fold(attrs, |attrs, (name, value)| attrs.with(name, value.clone()))
    };
    let mut own = Attrs::new();
    let mut known = ask.known.to_vec();
    let mut made = Vec::new();
    for (one, maker) in lowered.declaration.makes.iter().zip(&lowered.makers) {
        let (drawn, source) = (one.sample)(&mut Draws(ask));
        let attrs = drawn.iter().filter(|(name, _)| maker.attr(name).is_some());
        let attrs = attrs.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone()));
        made.push((one.operand, maker.result(&maker.complete(attrs), &[&source]).ok()?));
        known.resize(known.len().max(one.operand + 1), None);
        known[one.operand] = Some(source);
        own = with(own, &drawn);
    }
    let absent = lowered.logical.attrs.iter().filter(|attr| ask.op.attr(attr.name).is_none());
    let defaults = absent.filter_map(|attr| Some((attr.name, attr.default.clone()?)));
    let defaults = defaults.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value));
    let fixed = with(with(defaults, ask.fixed), &own);
    let mut ask_logical = Ask {
        op: lowered.logical,
        rng: &mut *ask.rng,
        palette: ask.palette,
        wish: ask.wish,
        known: &known,
        fixed: &fixed,
        least: ask.least,
        most: ask.most,
    };
    let mut offer = super::logical(lowered.logical, &mut ask_logical)?;
    for (operand, ty) in made {
        offer.operands.get_mut(operand)?.ty = ty;
    }
    let kept = offer.attrs.iter().filter(|(name, _)| ask.op.attr(name).is_some());
    let kept = kept.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone()));
    offer.attrs = with(kept, &own);
    Some(offer)
}
