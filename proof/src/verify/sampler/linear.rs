//! Samplers of matrix products and attention.

use super::super::palette::{pair, partner};
use super::super::rng::Rng;
use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::attention::AxisOrder;
use ovolo::tensor::{DType, TensorType};

/// Matrices whose inner sizes agree and whose batches broadcast.
pub(super) fn matmul(ask: &mut Ask<'_>) -> Option<Offer> {
    let mut result = ask.wish.shape.to_vec();
    while result.len() < 2 {
        result.insert(0, ask.rng.pick(&ask.palette.sizes));
    }
    let rank = result.len();
    let (left, right) = (ask.known(0).cloned(), ask.known(1).cloned());
    let matrix = |ty: &TensorType| ty.shape.rank().checked_sub(2).map(|at| [ty.shape[at], ty.shape[at + 1]]);
    let mut inner = ask.rng.pick(&ask.palette.sizes);
    if let Some([m, k]) = left.as_ref().and_then(matrix) {
        (result[rank - 2], inner) = (m, k);
    }
    if let Some([k, n]) = right.as_ref().and_then(matrix) {
        (inner, result[rank - 1]) = (k, n);
    }
    let (mut batch_left, mut batch_right) = pair(ask.rng, &result[..rank - 2]);
    if left.is_some() || ask.rng.percent(30) {
        // Weights have no batch.
        batch_right = if ask.rng.percent(50) { Vec::new() } else { result[..rank - 2].to_vec() };
    }
    if right.is_some() {
        batch_left = result[..rank - 2].to_vec();
    }
    let join = |batch: &[usize], matrix: [usize; 2]| [batch, matrix.as_slice()].concat();
    let dtype = left.as_ref().or(right.as_ref()).unwrap_or(ask.wish).dtype;
    let a = left.map_or_else(|| join(&batch_left, [result[rank - 2], inner]), |ty| ty.shape.to_vec());
    let b = right.map_or_else(|| join(&batch_right, [inner, result[rank - 1]]), |ty| ty.shape.to_vec());
    // The extra operands must fit the real result, which may differ from the wanted one.
    let batch: ovolo::tensor::Shape = a[..a.len().saturating_sub(2)].into();
    let batch = batch.broadcast(&b[..b.len().saturating_sub(2)].into())?;
    let ty = TensorType::plain(dtype, join(&batch, [*a.iter().rev().nth(1)?, *b.last()?]));
    let (steps, extras) = ask.post(2, &ty)?;
    let mut operands = vec![Wish::plain(dtype, a), Wish::plain(dtype, b)];
    operands.extend(extras);
    Some(Offer { attrs: Attrs::new().with("post", Attr::Post(steps)), operands })
}

/// The letters of an equation: of each operand, and of the result.
type Terms = (Vec<Vec<char>>, Vec<char>);

/// Operands whose axes have the sizes of an equation's letters: the determined equation, or a random one.
pub(super) fn einsum(ask: &mut Ask<'_>) -> Option<Offer> {
    // Equal sizes let a wrong axis pass the types.
    let alike = ask.rng.percent(40);
    let size = |rng: &mut Rng| if alike { 2 } else { rng.pick(&[1, 2, 2, 3, 4]) };
    let mut sizes: Vec<(char, usize)> = ('a'..='e').map(|letter| (letter, size(ask.rng))).collect();
    let (operands, result) = match ask.fixed.get("equation") {
        Some(Attr::Str(text)) => {
            let (left, right) = text.split_once("->")?;
            (left.split(',').map(|term| term.chars().collect()).collect(), right.chars().collect())
        }
        _ => equation(ask, &sizes),
    };
    for (at, term) in operands.iter().enumerate() {
        let Some(known) = ask.known(at) else { continue };
        if known.shape.rank() != term.len() {
            return None;
        }
        for (letter, size) in term.iter().zip(known.shape.iter()) {
            sizes.retain(|(other, _)| other != letter);
            sizes.push((*letter, *size));
        }
    }
    let size = |letter: &char| sizes.iter().find(|(other, _)| other == letter).map_or(2, |(_, size)| *size);
    let dtype = (0..operands.len()).find_map(|at| ask.known(at)).unwrap_or(ask.wish).dtype;
    let dtype = if dtype.is_number() { dtype } else { DType::F32 };
    let wishes = operands.iter().map(|term| Wish::plain(dtype, term.iter().map(size).collect())).collect();
    let write = |term: &Vec<char>| term.iter().collect::<String>();
    let left: Vec<String> = operands.iter().map(write).collect();
    let text = format!("{}->{}", left.join(","), write(&result));
    Some(Offer { attrs: Attrs::new().with("equation", Attr::Str(text.into())), operands: wishes })
}

/// Draws an equation. An operand that is determined gets letters of its sizes as far as there are some.
fn equation(ask: &mut Ask<'_>, sizes: &[(char, usize)]) -> Terms {
    let count = ask.least.max(1) + ask.rng.below(3).min(ask.most.saturating_sub(ask.least));
    let shuffled = |rng: &mut Rng, letters: &[char]| -> Vec<char> {
        rng.order(letters.len()).into_iter().map(|at| letters[at]).collect()
    };
    let pool: Vec<char> = sizes.iter().map(|(letter, _)| *letter).collect();
    let mut operands: Vec<Vec<char>> = Vec::new();
    for at in 0..count {
        let mut letters = shuffled(ask.rng, &pool);
        match ask.known(at).map(|ty| ty.shape.rank()) {
            Some(rank) => {
                // An operand of a higher rank than the pool has letters gets new ones.
                letters.extend(('f'..='z').take(rank.saturating_sub(letters.len())));
                letters.truncate(rank);
            }
            None => letters.truncate(ask.rng.below(5)),
        }
        operands.push(letters);
    }
    let all: Vec<char> = operands.concat();
    let often = |letter: &char| all.iter().filter(|other| *other == letter).count() > 1;
    // Letters that stand in one operand alone are seldom summed, because then nothing else is done.
    let (alone, everything) = (ask.rng.percent(25), ask.rng.percent(30));
    let mut result: Vec<char> = Vec::new();
    for letter in all.iter().copied() {
        let summed =
            !everything && if often(&letter) { ask.rng.percent(50) } else { alone && ask.rng.percent(60) };
        if !summed && !result.contains(&letter) {
            result.push(letter);
        }
    }
    let result = shuffled(ask.rng, &result);
    (operands, result)
}

/// Weights of a product or of a 1x1 convolution, of which both sizes are even.
pub(super) fn strassen_weights(ask: &mut Ask<'_>) -> Option<Offer> {
    let even = |ask: &mut Ask<'_>| 2 * ask.rng.pick(&ask.palette.sizes).max(1);
    let (depth, columns) = match &ask.wish.shape[..] {
        [7, depth, columns] => (2 * depth, 2 * columns),
        _ => (even(ask), even(ask)),
    };
    let shape = if ask.rng.percent(50) { vec![depth, columns] } else { vec![columns, depth, 1, 1] };
    Some(Offer { attrs: Attrs::new(), operands: vec![Wish::plain(DType::F32, shape)] })
}

/// Queries, keys and values that fit together, sometimes with a mask, and in any order of axes.
pub(super) fn attention(ask: &mut Ask<'_>) -> Option<Offer> {
    let usual = vec![0, 1, 2, 3];
    let axes = ask.list("order").unwrap_or_else(|| {
        if ask.rng.percent(40) {
            return usual.clone();
        }
        ask.rng.order(3).into_iter().chain([3]).collect()
    });
    let order = Attrs::new().ints("order", &axes.iter().map(|axis| *axis as i64).collect::<Vec<_>>());
    let order = AxisOrder::new(&order).ok()?;
    let shape = match &ask.wish.shape[..] {
        [_, _, _, _] => order.sizes(&ask.wish.shape),
        _ => [0; 4].map(|_| ask.rng.pick(&[1, 2, 3])),
    };
    let [b, h, m, e] = shape;
    let (d, n) = (ask.rng.pick(&ask.palette.sizes), ask.rng.pick(&ask.palette.sizes));
    let dtype = if ask.wish.dtype.is_float() { ask.wish.dtype } else { DType::F32 };
    let mut operands: Vec<Wish> = [[b, h, m, d], [b, h, n, d], [b, h, n, e]]
        .into_iter()
        .map(|shape| Wish::plain(dtype, order.stored(shape).to_vec()))
        .collect();
    if ask.least > 3 || ask.most > 3 && ask.rng.percent(50) {
        operands.push(Wish::plain(dtype, partner(ask.rng, &[b, h, m, n])));
    }
    let zero = ask.int("nan_as_zero").unwrap_or_else(|| usize::from(ask.rng.percent(30)));
    let attrs = Attrs::new()
        .float("scale", ask.float("scale"))
        .ints("order", &order.axes.map(|axis| axis as i64))
        .int("nan_as_zero", zero as i64);
    Some(Offer { attrs, operands })
}
