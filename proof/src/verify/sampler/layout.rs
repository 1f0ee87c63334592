//! Samplers of conversions, and the layouts of lowered ops.

use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::Layouts;
use ovolo::tensor::{Layout, TensorType};

fn settled(ask: &Ask<'_>) -> Option<Layout> {
    match ask.fixed.get("layout") {
        Some(Attr::Layout(layout)) => Some(layout.clone()),
        _ => None,
    }
}

/// The wanted shape, or one of the rank that the layout demands.
fn shape(ask: &mut Ask<'_>, layout: Option<&Layout>) -> Vec<usize> {
    let wish = ask.wish.shape.to_vec();
    match layout.and_then(Layout::rank) {
        Some(rank) if rank != wish.len() => ask.palette.shape(ask.rng, rank),
        None if !(2..=4).contains(&wish.len()) => {
            let rank = ask.rng.pick(&[4, 4, 4, 2, 3]);
            ask.palette.shape(ask.rng, rank)
        }
        _ => wish,
    }
}

fn blocked(ask: &mut Ask<'_>, rank: usize) -> Option<Layout> {
    if let Some(layout) = settled(ask) {
        return Some(layout);
    }
    if !ask.wish.layout.is_plain() && ask.wish.layout.rank() == Some(rank) {
        return Some(ask.wish.layout.clone());
    }
    ask.palette.layout(ask.rng, rank)
}

/// A conversion from the default layout.
pub(super) fn pack(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = ask.known(0).map(|known| known.shape.to_vec());
    let layout = settled(ask).or_else(|| Some(ask.wish.layout.clone()).filter(|layout| !layout.is_plain()));
    let shape = known.unwrap_or_else(|| shape(ask, layout.as_ref()));
    let layout = blocked(ask, shape.len())?;
    let attrs = Attrs::new().with("layout", Attr::Layout(layout));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, shape)] })
}

/// A conversion to the default layout.
pub(super) fn unpack(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = shape(ask, None);
    let layout = ask.palette.layout(ask.rng, shape.len())?;
    let operand = TensorType::plain(ask.wish.dtype, shape).with_layout(layout);
    Some(Offer { attrs: Attrs::new(), operands: vec![Wish::any(operand)] })
}

/// A conversion between two layouts.
pub(super) fn reorder(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = shape(ask, settled(ask).as_ref());
    let layout = blocked(ask, shape.len())?;
    let other = ask.palette.layout(ask.rng, shape.len()).filter(|other| *other != layout)?;
    let operand = TensorType::plain(ask.wish.dtype, shape).with_layout(other);
    Some(Offer {
        attrs: Attrs::new().with("layout", Attr::Layout(layout)),
        operands: vec![Wish::any(operand)],
    })
}

/// Sets the layouts in the proposal of a lowered op's logical op, using one of the forms that the lowered op
/// declares.
pub(super) fn lower(ask: &mut Ask<'_>, offer: &mut Offer) {
    let Some(lowered) = &ask.op.definition().lowered else { return };
    let forms = match lowered.declaration.layouts {
        Layouts::AsLogical => return,
        Layouts::Forms(forms) | Layouts::Typed { samples: forms, .. } => forms,
    };
    let form = ask.rng.pick(forms);
    // If the result's layout is an attribute, set it to the result's layout of the form.
    if let (Ok(layout), Some(_)) = (form.result.parse::<Layout>(), ask.op.attr("layout")) {
        offer.attrs.set("layout", Attr::Layout(layout));
    }
    for (at, operand) in offer.operands.iter_mut().enumerate() {
        let layout = form.operand(at).parse::<Layout>().ok();
        if let Some(layout) =
            layout.filter(|layout| layout.rank().is_none_or(|r| r == operand.ty.shape.rank()))
        {
            operand.ty.layout = layout;
        }
    }
}
