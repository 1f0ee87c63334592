//! Winograd's minimal filtering for 3x3 convolutions without strides: F(2,3) and F(4,3).
//!
//! A tile of `m` by `m` outputs is `A' [(G g G') * (B' d B)] A`, where `g` is the filter, `d` the
//! `m + 2` by `m + 2` inputs and `*` multiplies element by element; over channels that product is a
//! matrix product for each of the `(m + 2)^2` elements ("frequencies"). The matrices are those of
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), with the points
//! 0, 1, -1 and infinity, and for tiles of 4 also 2 and -2. (Tiles of 6 were measured on every shape
//! of the shipped models: not one was faster by more than noise, and they lose half a digit more.)

use super::{Arity, Flags, OpDef, attr, plain, post, post_attr, rank, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// The matrices of one tile size.
struct Form {
    /// Rows and columns of a tile of outputs.
    tile: usize,
    /// `B'`, `G` and `A'`, row by row.
    input: &'static [f64],
    filter: &'static [f64],
    output: &'static [f64],
}

impl Form {
    /// Rows and columns of a tile of inputs.
    fn size(&self) -> usize {
        self.tile + 2
    }
}

const FORMS: [Form; 2] = [
    Form {
        tile: 2,
        #[rustfmt::skip]
        input: &[
            1., 0., -1., 0.,
            0., 1., 1., 0.,
            0., -1., 1., 0.,
            0., 1., 0., -1.,
        ],
        filter: &[1., 0., 0., 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0., 0., 1.],
        output: &[1., 1., 1., 0., 0., 1., -1., -1.],
    },
    Form {
        tile: 4,
        #[rustfmt::skip]
        input: &[
            4., 0., -5., 0., 1., 0.,
            0., -4., -4., 1., 1., 0.,
            0., 4., -4., -1., 1., 0.,
            0., -2., -1., 2., 1., 0.,
            0., 2., -1., -2., 1., 0.,
            0., 4., 0., -5., 0., 1.,
        ],
        #[rustfmt::skip]
        filter: &[
            1. / 4., 0., 0.,
            -1. / 6., -1. / 6., -1. / 6.,
            -1. / 6., 1. / 6., -1. / 6.,
            1. / 24., 1. / 12., 1. / 6.,
            1. / 24., -1. / 12., 1. / 6.,
            0., 0., 1.,
        ],
        #[rustfmt::skip]
        output: &[
            1., 1., 1., 1., 1., 0.,
            0., 1., -1., 2., -2., 0.,
            0., 1., 1., 4., 4., 0.,
            0., 1., -1., 8., -8., 1.,
        ],
    },
];

/// The transform of weights: pure arithmetic on constants, as `widen-groups` is.
pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "winograd-weights",
        doc: "3x3 weights w[O,C,3,3] as Winograd's algorithm takes them: u[(tile+2)^2,C,O]",
        arity: Arity::Exactly(1),
        attrs: vec![attr("tile", AttrKind::Int, None, "rows and columns of a tile of outputs: 2 or 4")],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            rank(types, 0, 4)?;
            let w = types[0];
            if w.dtype != DType::F32 || w.shape[2..] != [3, 3] {
                return Err(format!("operand 0 is {w}, not f32 weights of 3x3"));
            }
            let tile = attrs.expect_int("tile");
            let form = FORMS.iter().find(|form| i64::try_from(form.tile) == Ok(tile));
            let size = form.ok_or_else(|| format!("attribute `tile` is {tile}, not 2 or 4"))?.size();
            Ok(TensorType::plain(w.dtype, [size * size, w.shape[1], w.shape[0]]))
        },
        eval: eval_weights,
        flops: |_, _, _| 0.0,
        logical: None,
    }]
}

/// The lowered convolution.
pub(super) fn lowered() -> Vec<OpDef> {
    let pads = Some(Attr::Ints(vec![0; 4]));
    vec![OpDef {
        name: "native.conv-winograd",
        doc: "a 3x3 convolution without strides, by Winograd's algorithm, from transformed weights; then a post chain",
        arity: Arity::Post(3),
        attrs: vec![
            attr("pads", AttrKind::Ints, pads, "padding at the top, left, bottom and right"),
            post_attr(),
        ],
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval,
        flops,
        logical: Some("conv"),
    }]
}

/// The form of transformed weights.
fn form_of(u: &TensorType) -> Option<&'static Form> {
    FORMS.iter().find(|form| u.shape.first() == Some(&(form.size() * form.size())))
}

/// Rows and columns of a tile of outputs, from the type of the transformed weights.
pub fn tile_of(u: &TensorType) -> Option<usize> {
    form_of(u).map(|form| form.tile)
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let (x, u) = (types[0], types[1]);
    let layouts = (x.layout.to_string(), u.layout.to_string());
    if !matches!((layouts.0.as_str(), layouts.1.as_str()), ("nChw16c", "Cab16c") | ("nChw8c", "Cab8c")) {
        return Err(format!(
            "input {} with weights {}: it takes nChw16c with Cab16c or nChw8c with Cab8c",
            layouts.0, layouts.1
        ));
    }
    if x.dtype != DType::F32 || form_of(u).is_none() {
        return Err(format!("input {x} with weights {u}: it takes f32, and weights of 16 or 36 frequencies"));
    }
    let w = TensorType::plain(u.dtype, [u.shape[2], u.shape[1], 3, 3]);
    let unit = Attrs::new().ints("strides", &[1, 1]).ints("dilations", &[1, 1]).int("groups", 1);
    let unit = unit.ints("pads", attrs.expect_ints("pads")).with("post", Attr::Post(Vec::new()));
    let result = window::infer_conv(&unit, &[x, &w, types[2]])?.with_layout(x.layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}

/// `left * middle * left'`, where `left` has `rows` rows and `middle` `inner` by `inner` elements.
fn sandwich(left: &[f64], rows: usize, inner: usize, middle: &[f64]) -> Vec<f64> {
    let mut half = vec![0.0; rows * inner];
    for row in 0..rows {
        for column in 0..inner {
            half[row * inner + column] =
                (0..inner).map(|i| left[row * inner + i] * middle[i * inner + column]).sum();
        }
    }
    let mut whole = vec![0.0; rows * rows];
    for row in 0..rows {
        for column in 0..rows {
            whole[row * rows + column] =
                (0..inner).map(|i| half[row * inner + i] * left[column * inner + i]).sum();
        }
    }
    whole
}

#[allow(clippy::cast_possible_truncation)]
fn eval_weights(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let form = form_of(ty).expect("infer accepted");
    let (channels, outputs) = (ty.shape[1], ty.shape[2]);
    let mut result = vec![0.0; ty.shape.count()];
    let filters = operands[0].to_f64();
    for (index, filter) in filters.chunks_exact(9).enumerate().take(channels * outputs) {
        let (output, channel) = (index / channels, index % channels);
        for (frequency, value) in sandwich(form.filter, form.size(), 3, filter).into_iter().enumerate() {
            result[(frequency * channels + channel) * outputs + output] = value;
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let plain: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    let (x, u) = (plain[0].ty(), plain[1].ty());
    let form = form_of(u).expect("infer accepted");
    let (tile, size) = (form.tile, form.size());
    let (xs, us, bias) = (plain[0].to_f64(), plain[1].to_f64(), plain[2].to_f64());
    let (channels, outputs) = (u.shape[1], u.shape[2]);
    let [height, width, rows, columns] = [x.shape[2], x.shape[3], ty.shape[2], ty.shape[3]];
    let pads: Vec<usize> =
        attrs.expect_ints("pads").iter().map(|pad| usize::try_from(*pad).unwrap_or(0)).collect();
    let mut result = vec![0.0; ty.shape.count()];
    for image in 0..x.shape[0] {
        for (top, left) in
            (0..rows).step_by(tile).flat_map(|top| (0..columns).step_by(tile).map(move |left| (top, left)))
        {
            let at = |channel: usize, row: usize, column: usize| {
                let row = (top + row).checked_sub(pads[0]).filter(|row| *row < height)?;
                let column = (left + column).checked_sub(pads[1]).filter(|column| *column < width)?;
                Some(xs[((image * channels + channel) * height + row) * width + column])
            };
            let mut sums = vec![vec![0.0; size * size]; outputs];
            for channel in 0..channels {
                let inputs: Vec<f64> = (0..size * size)
                    .map(|index| at(channel, index / size, index % size).unwrap_or(0.0))
                    .collect();
                let inputs = sandwich(form.input, size, size, &inputs);
                for (output, sums) in sums.iter_mut().enumerate() {
                    for (frequency, sum) in sums.iter_mut().enumerate() {
                        *sum += inputs[frequency] * us[(frequency * channels + channel) * outputs + output];
                    }
                }
            }
            for (output, sums) in sums.iter().enumerate() {
                let values = sandwich(form.output, tile, size, sums);
                for row in 0..tile.min(rows - top) {
                    for column in 0..tile.min(columns - left) {
                        let to = ((image * outputs + output) * rows + top + row) * columns + left + column;
                        result[to] = bias[output] + values[row * tile + column];
                    }
                }
            }
        }
    }
    let result = Tensor::from_f64(ty.dtype, ty.shape.clone(), &result);
    let extras: Vec<&Tensor> = plain[3..].iter().collect();
    post::apply(attrs.post(), &extras, result).to_layout(&ty.layout)
}

fn flops(_: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Parts { products, transforms } = parts(types, output);
    products + transforms
}

/// Floating-point operations of the parts of a convolution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Of the matrix products.
    pub products: f64,
    /// Of the transforms, one multiply-add for each element of a matrix that is not zero.
    pub transforms: f64,
}

/// What a convolution really computes: whole tiles, and whole blocks of channels in transforms.
#[allow(clippy::cast_precision_loss)]
pub fn parts(types: &[&TensorType], output: &TensorType) -> Parts {
    let Some(form) = form_of(types[1]) else { return Parts::default() };
    let (tile, size) = (form.tile, form.size());
    let across = |axis: usize| output.shape[axis].div_ceil(tile);
    let tiles = (output.shape[0] * across(2) * across(3)) as f64;
    let taken = |matrix: &[f64]| matrix.iter().filter(|factor| **factor != 0.0).count() as f64;
    let (channels, outputs) = (types[1].shape[1], types[1].shape[2]);
    let whole = |channels: usize| channels.next_multiple_of(output.layout.block(1)) as f64;
    let inputs = size as f64 * 2.0 * taken(form.input) * whole(channels);
    let results = (size + tile) as f64 * taken(form.output) * whole(outputs);
    Parts {
        products: 2.0 * tiles * (size * size * channels * outputs) as f64,
        transforms: 2.0 * tiles * (inputs + results),
    }
}
