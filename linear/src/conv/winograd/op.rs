//! The declaration of `native.conv-winograd`: its operands, and what it computes.

use super::{choices, contract, kernel};
use crate::ISAS;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::op::winograd::{Axis, FORMS, Matrix, axes_of, sandwich, sizes, tile_attr};
use ovolo::op::{Arity, AttrDef, Attributes, Draw, Form, Layouts, Lowering, Made, Own, Reference, post};
use ovolo::tensor::{DType, Tensor, TensorType};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The declaration of the op.
pub(in crate::conv) const OP: Lowering = Lowering {
    doc: Some(
        "convolution without strides by Winograd's algorithm, with transformed weights; then a post chain",
    ),
    arity: Some(Arity::Post(3)),
    attributes: Attributes::Only(attributes),
    layouts: Layouts::Forms(&[
        Form::new(&["nChw16c", "Cab16c", "plain"], "nChw16c"),
        Form::new(&["nChw8c", "Cab8c", "plain"], "nChw8c"),
    ]),
    makes: &[Made { operand: 1, maker: "winograd-weights", source, sample }],
    reference: Reference::Own(eval),
    flops: Some(|attrs, types, output| products(attrs, types, output) + transforms(attrs, types, output)),
    features: &[
        Own {
            name: "winograd_products",
            doc: "floating-point operations of the matrix products of Winograd's algorithm",
            value: |call| products(call.attrs, call.inputs, call.output),
        },
        Own {
            name: "winograd_transforms",
            doc: "floating-point operations of its transforms",
            value: |call| transforms(call.attrs, call.inputs, call.output),
        },
    ],
    instruction_sets: ISAS,
    choices,
    ..Lowering::new("native.conv-winograd", "conv", contract, kernel)
};

fn attributes() -> Vec<AttrDef> {
    let pads = Some(Attr::Ints(vec![0; 4]));
    vec![
        AttrDef::new("kernel", AttrKind::Ints, None, "rows and columns of the filter"),
        tile_attr(),
        AttrDef::new("pads", AttrKind::Ints, pads, "padding at the top, left, bottom and right"),
        AttrDef::post(),
    ]
}

/// Returns the weights from which the transformed weights were computed.
fn source(attrs: &Attrs, made: &TensorType) -> Option<(TensorType, Attrs)> {
    let [rows, columns] = axes_of(attrs)?;
    let [_, channels, outputs] = made.shape[..] else { return None };
    let weights = TensorType::plain(made.dtype, [outputs, channels, rows.taps, columns.taps]);
    Some((weights, Attrs::new().ints("tile", attrs.expect_ints("tile"))))
}

fn sample(draw: &mut dyn Draw) -> (Attrs, TensorType) {
    let form = FORMS[draw.below(FORMS.len())];
    let (kernel, tile) = (form.map(|axis| axis.taps), form.map(|axis| axis.tile));
    let attrs = Attrs::new().ints("kernel", &sizes(kernel)).ints("tile", &sizes(tile));
    let source = TensorType::plain(DType::F32, [draw.size(), draw.size(), kernel[0], kernel[1]]);
    (attrs, source)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, u) = (operands[0].ty(), operands[1].ty());
    let axes = axes_of(attrs).expect("inference has checked the attributes");
    let (tile, size, forms) = (axes.map(|axis| axis.tile), axes.map(Axis::size), axes.map(Axis::matrices));
    let inputs_by = [0, 1].map(|axis| Matrix(&forms[axis].input, size[axis]));
    let outputs_by = [0, 1].map(|axis| Matrix(&forms[axis].output, size[axis]));
    let (xs, us, bias) = (operands[0].to_f64(), operands[1].to_f64(), operands[2].to_f64());
    let (channels, outputs) = (u.shape[1], u.shape[2]);
    let [height, width, rows, columns] = [x.shape[2], x.shape[3], ty.shape[2], ty.shape[3]];
    let pads: Vec<usize> =
        attrs.expect_ints("pads").iter().map(|pad| usize::try_from(*pad).unwrap_or(0)).collect();
    let mut result = vec![0.0; ty.shape.count()];
    for image in 0..x.shape[0] {
        for (top, left) in (0..rows)
            .step_by(tile[0])
            .flat_map(|top| (0..columns).step_by(tile[1]).map(move |left| (top, left)))
        {
            let at = |channel: usize, row: usize, column: usize| {
                let row = (top + row).checked_sub(pads[0]).filter(|row| *row < height)?;
                let column = (left + column).checked_sub(pads[1]).filter(|column| *column < width)?;
                Some(xs[((image * channels + channel) * height + row) * width + column])
            };
            let mut sums = vec![vec![0.0; size[0] * size[1]]; outputs];
            for channel in 0..channels {
                let inputs: Vec<f64> = (0..size[0] * size[1])
                    .map(|index| at(channel, index / size[1], index % size[1]).unwrap_or(0.0))
                    .collect();
                let inputs = sandwich(&inputs_by[0], &inputs_by[1], &inputs);
                for (output, sums) in sums.iter_mut().enumerate() {
                    for (frequency, sum) in sums.iter_mut().enumerate() {
                        *sum += inputs[frequency] * us[(frequency * channels + channel) * outputs + output];
                    }
                }
            }
            for (output, sums) in sums.iter().enumerate() {
                let values = sandwich(&outputs_by[0], &outputs_by[1], sums);
                for row in 0..tile[0].min(rows - top) {
                    for column in 0..tile[1].min(columns - left) {
                        let to = ((image * outputs + output) * rows + top + row) * columns + left + column;
                        result[to] = bias[output] + values[row * tile[1] + column];
                    }
                }
            }
        }
    }
    let result = Tensor::from_f64(ty.dtype, ty.shape.clone(), &result);
    post::apply(attrs.post(), &operands[3..], result)
}

/// Returns the number of tiles in all images; tiles at the border are whole.
#[allow(clippy::cast_precision_loss)]
fn tiles(axes: [Axis; 2], output: &TensorType) -> f64 {
    let across = |axis: usize| output.shape[2 + axis].div_ceil(axes[axis].tile);
    (output.shape[0] * across(0) * across(1)) as f64
}

/// Returns the floating-point operations of the matrix products.
#[allow(clippy::cast_precision_loss)]
fn products(attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Some(axes) = axes_of(attrs) else { return 0.0 };
    let (size, [channels, outputs]) = (axes.map(Axis::size), [1, 2].map(|axis| types[1].shape[axis]));
    2.0 * tiles(axes, output) * (size[0] * size[1] * channels * outputs) as f64
}

/// Returns the floating-point operations of the transforms: one multiply-add for each nonzero element of a matrix,
/// for whole blocks of channels.
#[allow(clippy::cast_precision_loss)]
fn transforms(attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Some(axes) = axes_of(attrs) else { return 0.0 };
    let (taken, size) = (axes.map(nonzeros), axes.map(Axis::size));
    let whole = |channels: usize| channels.next_multiple_of(output.layout.block(1)) as f64;
    // Columns are transformed first, then rows.
    let inputs = size[1] * taken[0].inputs + size[0] * taken[1].inputs;
    let results = size[1] * taken[0].results + axes[0].tile * taken[1].results;
    let (channels, outputs) = (types[1].shape[1], types[1].shape[2]);
    2.0 * tiles(axes, output) * (inputs as f64 * whole(channels) + results as f64 * whole(outputs))
}

/// The nonzero elements of the matrices of an axis.
#[derive(Clone, Copy)]
struct Nonzeros {
    /// Of the matrix that transforms inputs.
    inputs: usize,
    /// Of the matrix that transforms results.
    results: usize,
}

/// Counts the nonzero elements of the matrices of an axis. Cost models ask for every candidate, so each axis is counted
/// once.
fn nonzeros(axis: Axis) -> Nonzeros {
    static KNOWN: RwLock<BTreeMap<(usize, usize), Nonzeros>> = RwLock::new(BTreeMap::new());
    // An axis with one tap is not transformed.
    if axis.taps == 1 {
        return Nonzeros { inputs: 0, results: 0 };
    }
    let key = (axis.taps, axis.tile);
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *known;
    }
    let matrices = axis.matrices();
    let count = |matrix: &[f64]| matrix.iter().filter(|factor| **factor != 0.0).count();
    let counted = Nonzeros { inputs: count(&matrices.input), results: count(&matrices.output) };
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(key, counted);
    counted
}
