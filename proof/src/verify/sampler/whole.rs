//! Samplers of ops that rules only move as a whole: positions, samples, bits, integers and recurrent layers.
//!
//! What these ops give seldom has the wanted type, so they propose operands of their own.

use super::reduce::{int, ints};
use super::{Ask, Offer, Wish};
use crate::verify::value::Values;
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, TensorType};

const INTEGERS: [DType; 6] = [DType::I64, DType::I32, DType::U8, DType::I8, DType::U32, DType::I16];

/// A size from 1 to 4.
fn size(ask: &mut Ask<'_>) -> usize {
    1 + ask.rng.below(4)
}

/// As many sizes.
fn sizes(ask: &mut Ask<'_>, count: usize) -> Vec<usize> {
    (0..count).map(|_| size(ask)).collect()
}

/// An element type that is a float.
fn float(ask: &mut Ask<'_>) -> DType {
    ask.rng.pick(&[DType::F32, DType::F32, DType::F64, DType::F16])
}

/// Positions in an axis.
fn positions(ask: &mut Ask<'_>, shape: Vec<usize>, axis: usize) -> Wish {
    let dtype = ask.rng.pick(&[DType::I64, DType::I64, DType::I32]);
    Wish { values: Values::Below(axis), ..Wish::plain(dtype, shape) }
}

#[allow(clippy::unnecessary_wraps)]
fn offer(attrs: Attrs, operands: Vec<Wish>) -> Option<Offer> {
    Some(Offer { attrs, operands })
}

/// A number that becomes a narrow float.
pub(super) fn cast_narrow(ask: &mut Ask<'_>) -> Option<Offer> {
    let narrow = [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0];
    let (rank, to) = (ask.rng.below(4), ask.rng.pick(&narrow));
    let shape = sizes(ask, rank);
    let attrs = Attrs::new().with("to", Attr::DType(to)).int("saturate", int(ask.rng.below(2)));
    let attrs = match to {
        DType::F8E8M0 => attrs.with("round", Attr::Str(ask.rng.pick(&["up", "down", "nearest"]).into())),
        _ => attrs,
    };
    offer(attrs, vec![Wish::plain(DType::F32, shape)])
}

/// The bits of one type read as another one.
pub(super) fn bitcast(ask: &mut Ask<'_>) -> Option<Offer> {
    let (from, to) = ask.rng.pick(&[
        (DType::F32, DType::I32),
        (DType::I32, DType::U32),
        (DType::F64, DType::I64),
        (DType::F16, DType::U16),
        (DType::U8, DType::I8),
    ]);
    let rank = ask.rng.below(4);
    let shape = sizes(ask, rank);
    offer(Attrs::new().with("to", Attr::DType(to)), vec![Wish::plain(from, shape)])
}

/// Values at positions along an axis.
pub(super) fn scatter_elements(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(3);
    let (x, axis, dtype) = (sizes(ask, rank), ask.rng.below(rank), float(ask));
    let mut moved: Vec<usize> = x.iter().map(|size| 1 + ask.rng.below(*size)).collect();
    moved[axis] = size(ask);
    let at = positions(ask, moved.clone(), x[axis]);
    let reduction = ask.rng.pick(&["none", "add", "mul", "min", "max"]);
    let attrs = Attrs::new().int("axis", int(axis)).with("reduction", Attr::Str(reduction.into()));
    offer(attrs, vec![Wish::plain(dtype, x), at, Wish::plain(dtype, moved)])
}

/// Slices at positions.
pub(super) fn scatter_nd(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(3);
    let (x, count, dtype) = (sizes(ask, rank), size(ask), float(ask));
    let depth = 1 + ask.rng.below(rank);
    let least = x[..depth].iter().copied().min().unwrap_or(1);
    let at = positions(ask, vec![count, depth], least);
    let slices = [&[count], &x[depth..]].concat();
    let reduction = ask.rng.pick(&["none", "add", "mul", "min", "max"]);
    let attrs = Attrs::new().with("reduction", Attr::Str(reduction.into()));
    offer(attrs, vec![Wish::plain(dtype, x), at, Wish::plain(dtype, slices)])
}

/// Slices of an operand at positions.
pub(super) fn gather_nd(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = 1 + size(ask).min(3);
    let (x, count, dtype) = (sizes(ask, rank), size(ask), float(ask));
    let batch = ask.rng.below(2);
    let depth = 1 + ask.rng.below(rank - batch);
    let least = x[batch..batch + depth].iter().copied().min().unwrap_or(1);
    let at = positions(ask, [&x[..batch], &[count, depth]].concat(), least);
    offer(Attrs::new().int("batch-dims", int(batch)), vec![Wish::plain(dtype, x), at])
}

/// The best elements along an axis.
pub(super) fn top(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(3);
    let (x, axis, dtype) = (sizes(ask, rank), ask.rng.below(rank), float(ask));
    let k = 1 + ask.rng.below(x[axis]);
    let attrs = Attrs::new().int("axis", int(axis)).int("k", int(k)).int("largest", int(ask.rng.below(2)));
    offer(attrs, vec![Wish::plain(dtype, x)])
}

/// Sums or products of the elements before.
pub(super) fn cumulative(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(3);
    let (x, axis, dtype) = (sizes(ask, rank), ask.rng.below(rank), float(ask));
    let attrs = Attrs::new().int("axis", int(axis)).int("exclusive", int(ask.rng.below(2)));
    offer(attrs.int("reverse", int(ask.rng.below(2))), vec![Wish::plain(dtype, x)])
}

/// One operand of any shape.
pub(super) fn one(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(3);
    let (x, dtype) = (sizes(ask, rank), float(ask));
    offer(Attrs::new(), vec![Wish::plain(dtype, x)])
}

/// Distinct slices.
pub(super) fn unique(ask: &mut Ask<'_>) -> Option<Offer> {
    let rank = size(ask).min(2);
    let (x, dtype) = (sizes(ask, rank), float(ask));
    offer(Attrs::new().int("sorted", int(ask.rng.below(2))), vec![Wish::plain(dtype, x)])
}

/// An image and a grid of points in it.
pub(super) fn grid_sample(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, space) = (float(ask), 1 + size(ask).min(2));
    let (x, points) = (sizes(ask, 2 + space), sizes(ask, space));
    let grid = [&x[..1], &points, &[space]].concat();
    let attrs = Attrs::new().with("mode", Attr::Str(ask.rng.pick(&["linear", "nearest", "cubic"]).into()));
    let attrs = attrs.with("padding", Attr::Str(ask.rng.pick(&["zeros", "border", "reflection"]).into()));
    let attrs = attrs.int("align-corners", int(ask.rng.below(2)));
    offer(attrs, vec![Wish::plain(dtype, x), Wish::plain(dtype, grid)])
}

/// Regions of images.
pub(super) fn roi_align(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, regions, x) = (float(ask), size(ask), sizes(ask, 4));
    let image = Wish { values: Values::Below(x[0]), ..Wish::plain(DType::I64, vec![regions]) };
    let attrs = Attrs::new().ints("output-size", &ints(&sizes(ask, 2))).int("samples", int(ask.rng.below(3)));
    let attrs = attrs.float("scale", 0.5).int("half-pixel", int(ask.rng.below(2)));
    let attrs = attrs.with("mode", Attr::Str(ask.rng.pick(&["avg", "max"]).into()));
    offer(attrs, vec![Wish::plain(dtype, x), Wish::plain(dtype, vec![regions, 4]), image])
}

/// A convolution with moved taps.
pub(super) fn deform_conv(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, batch, outputs, inputs) = (float(ask), size(ask), size(ask), size(ask));
    let (window, result) = (sizes(ask, 2), sizes(ask, 2));
    let mut one_of = |from: usize| from + ask.rng.below(2);
    let (groups, shared) = (one_of(1), one_of(1));
    let mut two = |from: usize| [0, 1].map(|_| one_of(from));
    let (strides, dilations, begin, end) = (two(1), two(1), two(0), two(0));
    let channels = inputs * groups * shared;
    let image = [0, 1].map(|axis| {
        let spanned = (result[axis] - 1) * strides[axis] + (window[axis] - 1) * dilations[axis] + 1;
        spanned.saturating_sub(begin[axis] + end[axis]).max(1)
    });
    let fit = [0, 1].map(|axis| {
        let spanned = (window[axis] - 1) * dilations[axis] + 1;
        (image[axis] + begin[axis] + end[axis] - spanned) / strides[axis] + 1
    });
    let attrs = Attrs::new()
        .ints("strides", &ints(&strides))
        .ints("pads", &ints(&[begin, end].concat()))
        .ints("dilations", &ints(&dilations))
        .int("groups", int(groups))
        .int("offset-groups", int(shared));
    let taps = shared * window[0] * window[1];
    let field = |maps: usize| Wish::plain(dtype, vec![batch, maps, fit[0], fit[1]]);
    let x = Wish::plain(dtype, vec![batch, channels, image[0], image[1]]);
    let w = Wish::plain(dtype, vec![outputs * groups, channels / groups, window[0], window[1]]);
    offer(attrs, vec![x, w, field(2 * taps), field(taps)])
}

/// Blocks of an image.
pub(super) fn col2im(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, block, counts, outer) = (float(ask), sizes(ask, 2), sizes(ask, 2), sizes(ask, 2));
    let image = [0, 1].map(|at| block[at] + counts[at] - 1);
    let attrs = Attrs::new().ints("image", &ints(&image)).ints("block", &ints(&block));
    let attrs = attrs.ints("strides", &[1, 1]).ints("pads", &[0; 4]).ints("dilations", &[1, 1]);
    let x = vec![outer[0], outer[1] * block[0] * block[1], counts[0] * counts[1]];
    offer(attrs, vec![Wish::plain(dtype, x)])
}

/// Complex numbers along an axis.
pub(super) fn dft(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, rank) = (ask.rng.pick(&[DType::F32, DType::F64]), size(ask).min(3));
    let axis = ask.rng.below(rank);
    let x = [sizes(ask, rank), vec![2]].concat();
    let attrs = Attrs::new().int("axis", int(axis)).int("inverse", int(ask.rng.below(2)));
    offer(attrs, vec![Wish::plain(dtype, x)])
}

/// Square matrices.
pub(super) fn det(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, n, rank) = (ask.rng.pick(&[DType::F32, DType::F64]), size(ask), ask.rng.below(3));
    let x = [sizes(ask, rank), vec![n, n]].concat();
    offer(Attrs::new(), vec![Wish::plain(dtype, x)])
}

/// Boxes with scores.
pub(super) fn suppression(ask: &mut Ask<'_>) -> Option<Offer> {
    let (images, classes, boxes) = (size(ask), size(ask), size(ask) + 2);
    let attrs = Attrs::new().int("most", int(size(ask))).float("overlap", 0.5).float("least", 0.0);
    let attrs = attrs.int("center", int(ask.rng.below(2)));
    let operands = [vec![images, boxes, 4], vec![images, classes, boxes]];
    offer(attrs, operands.map(|shape| Wish::plain(DType::F32, shape)).to_vec())
}

/// Integers, the second operand of which broadcasts.
pub(super) fn bits(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, rank) = (ask.rng.pick(&INTEGERS), ask.rng.below(4));
    let x = sizes(ask, rank);
    let y = x[ask.rng.below(rank + 1).min(rank)..].to_vec();
    let count = if ask.op.name == "bit-not" { 1 } else { 2 };
    offer(Attrs::new(), [x, y].map(|shape| Wish::plain(dtype, shape))[..count].to_vec())
}

/// Windows of an image.
pub(super) fn pool_positions(ask: &mut Ask<'_>) -> Option<Offer> {
    let (dtype, kernel, result, outer) = (float(ask), sizes(ask, 2), sizes(ask, 2), sizes(ask, 2));
    let x = vec![outer[0], outer[1], kernel[0] + result[0] - 1, kernel[1] + result[1] - 1];
    let attrs = Attrs::new().ints("kernel", &ints(&kernel)).ints("strides", &ints(&sizes(ask, 2)));
    let attrs = attrs.ints("dilations", &[1, 1]).ints("pads", &[0; 4]);
    offer(attrs.int("column-major", int(ask.rng.below(2))), vec![Wish::plain(dtype, x)])
}

/// Products of matrices of bytes.
pub(super) fn matmul_integer(ask: &mut Ask<'_>) -> Option<Offer> {
    let bytes = [DType::U8, DType::I8];
    let (a, b, dims, rank) = (ask.rng.pick(&bytes), ask.rng.pick(&bytes), sizes(ask, 3), ask.rng.below(2));
    let batch = sizes(ask, rank);
    let operands = vec![
        Wish::plain(a, [&batch[..], &dims[..2]].concat()),
        Wish::plain(b, [&batch[..], &dims[1..]].concat()),
        Wish::plain(a, vec![]),
        Wish::plain(b, if ask.rng.percent(50) { vec![] } else { vec![dims[2]] }),
    ];
    offer(Attrs::new(), operands)
}

/// Convolutions of bytes.
pub(super) fn conv_integer(ask: &mut Ask<'_>) -> Option<Offer> {
    let bytes = [DType::U8, DType::I8];
    let (x, w) = (ask.rng.pick(&bytes), ask.rng.pick(&bytes));
    let (batch, channels, outputs) = (size(ask), size(ask), size(ask));
    let (window, result) = (sizes(ask, 2), sizes(ask, 2));
    let mut two = |from: usize| [0, 1].map(|_| from + ask.rng.below(2));
    let (strides, dilations, begin, end) = (two(1), two(1), two(0), two(0));
    let image = [0, 1].map(|axis| {
        let spanned = (result[axis] - 1) * strides[axis] + (window[axis] - 1) * dilations[axis] + 1;
        spanned.saturating_sub(begin[axis] + end[axis]).max(1)
    });
    let operands = vec![
        Wish::plain(x, vec![batch, channels, image[0], image[1]]),
        Wish::plain(w, vec![outputs, channels, window[0], window[1]]),
        Wish::plain(x, vec![]),
        Wish::plain(w, if ask.rng.percent(50) { vec![] } else { vec![outputs] }),
    ];
    let attrs = Attrs::new()
        .with("strides", Attr::Ints(ints(&strides)))
        .with("dilations", Attr::Ints(ints(&dilations)))
        .with("pads", Attr::Ints(ints(&[begin, end].concat())));
    offer(attrs, operands)
}

/// Levels with scales and zero points, each one for all elements or one for each index of an axis.
pub(super) fn levels(ask: &mut Ask<'_>) -> Option<Offer> {
    let dtype = ask.rng.pick(&[DType::U8, DType::I8, DType::U16, DType::I16]);
    let rank = 1 + ask.rng.below(3);
    let dims = sizes(ask, rank);
    let axis = ask.rng.below(rank);
    let mut column = vec![1; rank];
    column[axis] = dims[axis];
    let small = |ask: &mut Ask<'_>| if ask.rng.percent(50) { vec![] } else { column.clone() };
    let (scale, zero) = (small(ask), small(ask));
    let x = if ask.op.logical().name == "quantize" { DType::F32 } else { dtype };
    offer(Attrs::new(), vec![Wish::plain(x, dims), Wish::plain(DType::F32, scale), Wish::plain(dtype, zero)])
}

/// A chain of steps on numbers, with one scale and one zero point for its results.
pub(super) fn requantize(ask: &mut Ask<'_>) -> Option<Offer> {
    let source = ask.rng.pick(&[DType::F32, DType::I32, DType::U8, DType::I8]);
    let rank = 1 + ask.rng.below(3);
    let dims = sizes(ask, rank);
    let (steps, extras) = ask.post(3, &TensorType::plain(DType::F32, dims.clone()))?;
    let levels = ask.rng.pick(&[DType::U8, DType::I8]);
    let mut operands =
        vec![Wish::plain(source, dims), Wish::plain(DType::F32, vec![]), Wish::plain(levels, vec![])];
    operands.extend(extras);
    offer(Attrs::new().with("post", Attr::Post(steps)), operands)
}

/// The steps of an LSTM with weights of 8 bits.
pub(super) fn lstm_integer(ask: &mut Ask<'_>) -> Option<Offer> {
    let (steps, batch, hidden, directions) = (size(ask), size(ask), size(ask), 1 + ask.rng.below(2));
    let dtype = ask.rng.pick(&[DType::U8, DType::I8]);
    let mut operands = vec![
        Wish::plain(DType::F32, vec![steps, batch, directions, 4 * hidden]),
        Wish::plain(dtype, vec![directions, hidden, 4 * hidden]),
    ];
    for _ in 0..2 {
        let columns = if ask.rng.percent(50) { 1 } else { 4 * hidden };
        operands.push(Wish::plain(DType::F32, vec![directions, 1, columns]));
    }
    operands.resize(6, Wish::plain(DType::F32, vec![directions, batch, hidden]));
    let activations = vec!["sigmoid 0 0, tanh 0 0, tanh 0 0"; directions].join(", ");
    let attrs = Attrs::new().with("activations", Attr::Str(activations.into()));
    let reverse = int(if directions == 1 { ask.rng.below(2) } else { 0 });
    offer(attrs.int("reverse", reverse), operands)
}

/// Functions of recurrent layers: those of most models, and the others with parameters. Jumps are left out, since a
/// rounding error beside one looks like a mistake.
const ACTIVATIONS: [&str; 14] = [
    "sigmoid 0 0",
    "tanh 0 0",
    "sigmoid 0 0",
    "tanh 0 0",
    "relu 0 0",
    "affine 0.5 -0.25",
    "leaky-relu 0.2 0",
    "leaky-relu -0.5 0",
    "scaled-tanh 0.75 1.5",
    "hard-sigmoid 0.3 0.4",
    "hard-sigmoid -0.2 0.5",
    "elu 0.5 0",
    "softsign 0 0",
    "softplus 0 0",
];

/// The steps of a recurrent layer. Rules that write out one step, or that divide layers, ask for few steps, for one
/// direction or two, and for operands after the states.
pub(super) fn recurrent(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = |operand: usize, axis: usize| ask.known(operand).and_then(|ty| ty.shape.get(axis).copied());
    let (steps, directions, batch) = (known(0, 0), known(0, 2), known(0, 1));
    let steps = steps.unwrap_or_else(|| if ask.rng.percent(40) { 1 } else { size(ask) });
    let directions = directions.unwrap_or_else(|| 1 + ask.rng.below(2));
    let (batch, hidden) = (batch.unwrap_or_else(|| size(ask)), size(ask));
    let (gates, usual, states): (usize, &[&str], usize) = match ask.op.logical().name {
        "lstm" => (4, &["sigmoid 0 0", "tanh 0 0", "tanh 0 0"], 2),
        "gru" => (3, &["sigmoid 0 0", "tanh 0 0"], 1),
        _ => (1, &["tanh 0 0"], 1),
    };
    let dtype = ask.rng.pick(&[DType::F32, DType::F32, DType::F64]);
    let mut operands = vec![
        Wish::plain(dtype, vec![steps, batch, directions, gates * hidden]),
        Wish::plain(dtype, vec![directions, gates * hidden, hidden]),
    ];
    operands.resize(2 + states, Wish::plain(dtype, vec![directions, batch, hidden]));
    // Weights of the memory, or the bias inside of a reset gate.
    let extra = if gates == 4 { 3 * hidden } else { hidden };
    let takes = ask.most > operands.len() && (ask.least > operands.len() || ask.rng.percent(40));
    if takes {
        operands.push(Wish::plain(dtype, vec![directions, extra]));
        // The op takes two and reads the last one.
        if ask.most > operands.len() && ask.rng.percent(10) {
            operands.push(Wish::plain(dtype, vec![directions, extra]));
        }
    }
    // Guards may ask for the usual functions of all gates.
    let all_usual = ask.palette.default(ask.rng);
    let mut function = |at: usize| match all_usual || ask.palette.default(ask.rng) {
        true => usual[at % usual.len()],
        false => ask.rng.pick(&ACTIVATIONS),
    };
    let activations: Vec<&str> = (0..directions * usual.len()).map(&mut function).collect();
    let attrs = Attrs::new().with("activations", Attr::Str(activations.join(", ").into()));
    let clip = ask.float("clip");
    let (reverse, rounded) = (int(ask.rng.below(2)), i64::from(ask.rng.percent(20)));
    let mut attrs = attrs.float("clip", clip).int("reverse", reverse).int("rounded", rounded);
    for name in ["coupled", "linear"] {
        if ask.op.attr(name).is_some() {
            attrs = attrs.int(name, i64::from(ask.flag(name)));
        }
    }
    offer(attrs, operands)
}

/// The inputs, weights, bias and states of a recurrent layer with the products of its inputs.
pub(super) fn layer(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = |operand: usize, axis: usize| ask.known(operand).and_then(|ty| ty.shape.get(axis).copied());
    let (steps, batch, features) = (known(0, 0), known(0, 1), known(0, 2));
    let (steps, batch, features) = (
        steps.unwrap_or_else(|| size(ask)),
        batch.unwrap_or_else(|| size(ask)),
        features.unwrap_or_else(|| size(ask)),
    );
    let (gates, states) = if ask.op.logical().name == "lstm-layer" { (4, 2) } else { (1, 1) };
    let (directions, hidden) = (1 + ask.rng.below(2), size(ask));
    let dtype = ask.rng.pick(&[DType::F32, DType::F32, DType::F64]);
    let mut operands = vec![
        Wish::plain(dtype, vec![steps, batch, features]),
        Wish::plain(dtype, vec![directions, features, gates, hidden]),
        Wish::plain(dtype, vec![directions, hidden, gates, hidden]),
        Wish::plain(dtype, vec![directions, gates, hidden]),
    ];
    operands.resize(4 + states, Wish::plain(dtype, vec![directions, batch, hidden]));
    offer(Attrs::new().int("reverse", int(ask.rng.below(2))), operands)
}
