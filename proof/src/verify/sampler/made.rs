//! The sampler of lowered ops that take operands made by another op.

use super::{Ask, Offer, named};
use ovolo::attr::Attrs;
use ovolo::op::{Draw, Lowered, complete};

struct Draws<'a, 'b>(&'a mut Ask<'b>);

impl Draw for Draws<'_, '_> {
    fn below(&mut self, limit: usize) -> usize {
        self.0.rng.below(limit)
    }

    fn size(&mut self) -> usize {
        self.0.rng.pick(&self.0.palette.channels)
    }
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
        let sample = (one.sample)(&mut Draws(ask));
        let attrs = sample.attrs.iter().filter(|(name, _)| maker.attr(name).is_some());
        let attrs = attrs.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone()));
        made.push((one.operand, maker.result(&complete(*maker, attrs), &[&sample.source]).ok()?));
        known.resize(known.len().max(one.operand + 1), None);
        known[one.operand] = Some(sample.source);
        own = with(own, &sample.attrs);
    }
    let absent = lowered.logical.attrs.iter().filter(|attr| ask.op.attr(attr.name).is_none());
    let defaults = absent.filter_map(|attr| Some((attr.name, attr.default.clone()?)));
    let defaults = defaults.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value));
    let fixed = with(with(defaults, ask.fixed), &own);
    let sampler = named(lowered.logical)?;
    let mut offer = sampler(&mut Ask {
        op: lowered.logical,
        rng: &mut *ask.rng,
        palette: ask.palette,
        wish: ask.wish,
        known: &known,
        fixed: &fixed,
        least: ask.least,
        most: ask.most,
    })?;
    for (operand, ty) in made {
        offer.operands.get_mut(operand)?.ty = ty;
    }
    let kept = offer.attrs.iter().filter(|(name, _)| ask.op.attr(name).is_some());
    let kept = kept.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone()));
    offer.attrs = with(kept, &own);
    Some(offer)
}
