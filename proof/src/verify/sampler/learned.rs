//! Samplers of ops on trees, on lists of keys and on strings, which rules only move as a whole.

use super::reduce::int;
use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::DType;

/// A size from 1 to 4.
fn size(ask: &mut Ask<'_>) -> usize {
    1 + ask.rng.below(4)
}

#[allow(clippy::unnecessary_wraps)]
fn offer(attrs: Attrs, operands: Vec<Wish>) -> Option<Offer> {
    Some(Offer { attrs, operands })
}

/// Rows and nodes. The nodes are seldom those of trees, which the op allows.
pub(super) fn forest(ask: &mut Ask<'_>) -> Option<Offer> {
    let dtype = ask.rng.pick(&[DType::F32, DType::F64]);
    let [rows, features, nodes, roots, entries] = [0; 5].map(|_| size(ask));
    let attrs = Attrs::new().int("columns", int(size(ask))).int("aggregate", int(ask.rng.below(4)));
    let whole = |dims: Vec<usize>| Wish::plain(DType::I32, dims);
    offer(
        attrs.float("absent", 0.0),
        vec![
            Wish::plain(dtype, vec![rows, features]),
            whole(vec![nodes, 4]),
            Wish::plain(dtype, vec![nodes]),
            whole(vec![roots]),
            whole(vec![entries]),
            Wish::plain(dtype, vec![entries]),
        ],
    )
}

/// Elements and keys.
pub(super) fn find(ask: &mut Ask<'_>) -> Option<Offer> {
    let dtype = ask.rng.pick(&[DType::I64, DType::F32, DType::Text]);
    let (rank, keys) = (ask.rng.below(3), size(ask));
    let shape = (0..rank).map(|_| size(ask)).collect();
    offer(Attrs::new(), vec![Wish::plain(dtype, shape), Wish::plain(dtype, vec![keys])])
}

/// Rows and n-grams.
pub(super) fn grams(ask: &mut Ask<'_>) -> Option<Offer> {
    let dtype = ask.rng.pick(&[DType::I64, DType::Text]);
    let [rows, length, pool, starts] = [0; 4].map(|_| size(ask));
    let attrs =
        Attrs::new().int("shortest", 1).int("longest", int(size(ask))).int("skips", int(ask.rng.below(3)));
    let whole = |dims: Vec<usize>| Wish::plain(DType::I64, dims);
    offer(
        attrs.int("columns", int(size(ask))),
        vec![
            Wish::plain(dtype, vec![rows, length]),
            Wish::plain(dtype, vec![pool]),
            whole(vec![starts]),
            whole(vec![pool]),
        ],
    )
}

fn strings(ask: &mut Ask<'_>) -> Wish {
    let rank = ask.rng.below(3);
    let shape = (0..rank).map(|_| size(ask)).collect();
    Wish::plain(DType::Text, shape)
}

/// Strings of one shape.
pub(super) fn string_concat(ask: &mut Ask<'_>) -> Option<Offer> {
    let one = strings(ask);
    offer(Attrs::new(), vec![one.clone(), one])
}

/// Strings in a case.
pub(super) fn string_case(ask: &mut Ask<'_>) -> Option<Offer> {
    let case = ask.rng.pick(&["lower", "upper"]);
    let one = strings(ask);
    offer(Attrs::new().with("case", Attr::Str(case.into())), vec![one])
}

/// Strings and what separates their parts.
pub(super) fn string_split(ask: &mut Ask<'_>) -> Option<Offer> {
    let delimiter = ask.rng.pick(&["", "1", "."]);
    let attrs = Attrs::new().with("delimiter", Attr::Str(delimiter.into())).int("splits", -1);
    let attrs = if ask.op.meaning() == "string-split" { attrs.int("parts", int(size(ask))) } else { attrs };
    let one = strings(ask);
    offer(attrs, vec![one])
}

/// Strings and an expression.
pub(super) fn regex(ask: &mut Ask<'_>) -> Option<Offer> {
    let pattern = ask.rng.pick(&["[0-3]", ".*", "[4-7]+"]);
    let one = strings(ask);
    offer(Attrs::new().with("pattern", Attr::Str(pattern.into())), vec![one])
}
