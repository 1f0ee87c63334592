//! Samplers of conversions, and the layouts of lowered ops.

use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{Layout, TensorType};

fn settled(ask: &Ask<'_>) -> Option<Layout> {
    match ask.fixed.get("layout") {
        Some(Attr::Layout(layout)) => Some(layout.clone()),
        _ => None,
    }
}

/// The shape wished, or one of the rank that the layout demands.
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

/// From the default layout.
pub(super) fn pack(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = ask.known(0).map(|known| known.shape.to_vec());
    let layout = settled(ask).or_else(|| Some(ask.wish.layout.clone()).filter(|layout| !layout.is_plain()));
    let shape = known.unwrap_or_else(|| shape(ask, layout.as_ref()));
    let layout = blocked(ask, shape.len())?;
    let attrs = Attrs::new().with("layout", Attr::Layout(layout));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, shape)] })
}

/// To the default layout.
pub(super) fn unpack(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = shape(ask, None);
    let layout = ask.palette.layout(ask.rng, shape.len())?;
    let operand = TensorType::plain(ask.wish.dtype, shape).with_layout(layout);
    Some(Offer { attrs: Attrs::new(), operands: vec![Wish::any(operand)] })
}

/// Between two layouts.
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

/// Layouts of the operands of lowered ops that take others than the default: a row is one way, by
/// operand; extras of a post chain and further operands have the last one.
const LAYOUTS: &[(&str, &[&[&str]])] = &[
    (
        "native.conv-direct",
        &[&["nChw16c", "OIhw16i16o", "plain", "nChw16c"], &["nChw8c", "OIhw8i8o", "plain", "nChw8c"]],
    ),
    (
        "native.conv-depthwise",
        &[&["nChw16c", "Oihw16o", "plain", "nChw16c"], &["nChw8c", "Oihw8o", "plain", "nChw8c"]],
    ),
    (
        "native.conv-first",
        &[&["plain", "Ohwi16o", "plain", "nChw16c"], &["plain", "Ohwi8o", "plain", "nChw8c"]],
    ),
    (
        "native.conv-narrow",
        &[&["nChw16c", "Ohwi16o", "plain", "nChw16c"], &["nChw8c", "Ohwi8o", "plain", "nChw8c"]],
    ),
    (
        "native.pointwise-depthwise",
        &[
            &["nChw16c", "OIhw16i16o", "plain", "Oihw16o", "plain", "nChw16c"],
            &["nChw8c", "OIhw8i8o", "plain", "Oihw8o", "plain", "nChw8c"],
        ],
    ),
    (
        "native.squeeze-excite",
        &[
            &["nChw16c", "Oihw16o", "plain", "Oihw16o", "plain"],
            &["nChw8c", "Oihw8o", "plain", "Oihw8o", "plain"],
        ],
    ),
    ("native.conv-nhwc", &[&["nhwc", "Ohwi32o", "plain", "nhwc"]]),
    (
        "native.conv-winograd",
        &[&["nChw16c", "Cab16c", "plain", "nChw16c"], &["nChw8c", "Cab8c", "plain", "nChw8c"]],
    ),
    (
        "native.conv-strassen",
        &[&["nChw16c", "Cab16c", "plain", "nChw16c"], &["nChw8c", "Cab8c", "plain", "nChw8c"]],
    ),
    ("native.matmul-strassen", &[&["plain", "Cab16c", "plain"], &["plain", "Cab8c", "plain"]]),
    ("native.matmul-packed", &[&["plain", "Ba32b", "plain"]]),
    ("native.max-pool", &[&["plain"], &["nChw16c"], &["nChw8c"], &["nhwc"]]),
    ("native.avg-pool", &[&["plain"], &["nChw16c"], &["nChw8c"], &["nhwc"]]),
    ("native.resize", &[&["plain"], &["nChw16c"], &["nChw8c"], &["nhwc"]]),
    ("native.reduce-mean", &[&["plain"], &["nChw16c"], &["nChw8c"], &["nhwc"]]),
    ("native.concat", &[&["plain"], &["nChw16c"], &["nChw8c"], &["nhwc"]]),
    (
        "onednn.conv",
        &[&["nhwc", "OIhw16i16o", "plain", "nhwc"], &["nChw16c", "OIhw16i16o", "plain", "nChw16c"]],
    ),
    ("onednn.conv-transpose", &[&["nhwc", "ABcd16a16b", "plain"], &["nChw16c", "ABcd16a16b", "plain"]]),
    ("onednn.resize", &[&["plain"], &["nChw16c"], &["nhwc"]]),
    ("onednn.matmul-packed", &[&["plain", "BA16a64b", "plain"]]),
    ("onednn.max-pool", &[&["plain"], &["nChw16c"], &["nhwc"]]),
    ("onednn.avg-pool", &[&["plain"], &["nChw16c"], &["nhwc"]]),
    ("onednn.reduce-mean", &[&["plain"], &["nChw16c"], &["nhwc"]]),
    ("onednn.concat", &[&["plain"], &["nChw16c"], &["nhwc"]]),
];

/// Puts the layouts of a lowered op into what was offered for its logical op.
pub(super) fn lower(ask: &mut Ask<'_>, offer: &mut Offer) {
    let Some((_, ways)) = LAYOUTS.iter().find(|(name, _)| *name == ask.op.name) else { return };
    let way = ask.rng.pick(ways);
    // Where the result's layout is an attribute, it is that of the operands that meet the result.
    let result = way.last().and_then(|name| name.parse::<Layout>().ok());
    if let (Some(layout), Some(_)) = (result, ask.op.attr("layout")) {
        offer.attrs.set("layout", Attr::Layout(layout));
    }
    for (at, operand) in offer.operands.iter_mut().enumerate() {
        let layout = way.get(at).or(way.last()).and_then(|name| name.parse::<Layout>().ok());
        if let Some(layout) =
            layout.filter(|layout| layout.rank().is_none_or(|r| r == operand.ty.shape.rank()))
        {
            operand.ty.layout = layout;
        }
    }
}
