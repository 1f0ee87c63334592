//! Winograd's minimal filtering for convolutions without strides: F(m,r) along each axis.
//!
//! A tile of `m` by `n` outputs is `A' [(G g H') * (B' d C)] D`, where `g` is the filter of `r` by `s` taps, `d`
//! the `m + r - 1` by `n + s - 1` inputs and `*` multiplies element by element; over channels that product is a
//! matrix product for each of the elements ("frequencies"). Along an axis of one tap a tile has one output and
//! nothing is transformed. The matrices are those of Toom and Cook, as in Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks" (CVPR 2016), with the points 0, infinity and pairs of [`POINTS`]: one pair for
//! four inputs, two for six, and so on. (Tiles of 6 for 3 taps were measured on every shape of the shipped
//! models: not one was faster by more than noise, and they lose half a digit more.)

use super::{Arity, Flags, Op, OpDef, attr, plain, post, post_attr, rank, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// Points of interpolation, each with its negative. The last was picked among ten for the least error of F(4,7).
pub const POINTS: [f64; 4] = [1.0, 2.0, 0.5, 4.0 / 3.0];

/// An axis of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Of the filter.
    pub taps: usize,
    /// Outputs of a tile.
    pub tile: usize,
}

/// Rows and columns of the tiles that there are.
pub const FORMS: [[Axis; 2]; 7] = [
    form([3, 3], [2, 2]),
    form([3, 3], [4, 4]),
    form([1, 3], [1, 4]),
    form([3, 1], [4, 1]),
    form([5, 5], [4, 4]),
    form([1, 7], [1, 4]),
    form([7, 1], [4, 1]),
];

const fn form(taps: [usize; 2], tile: [usize; 2]) -> [Axis; 2] {
    [Axis { taps: taps[0], tile: tile[0] }, Axis { taps: taps[1], tile: tile[1] }]
}

impl Axis {
    /// Inputs of a tile, and its frequencies.
    pub fn size(self) -> usize {
        self.taps + self.tile - 1
    }

    /// The matrices, row by row.
    fn form(self) -> Form {
        let size = self.size();
        let finite: Vec<f64> =
            std::iter::once(0.0).chain(POINTS.iter().flat_map(|p| [*p, -*p])).take(size - 1).collect();
        // The product of `x - q` over all points but one, by rising powers.
        let product = |except: Option<usize>| {
            let mut polynomial = vec![1.0];
            for (_, point) in finite.iter().enumerate().filter(|(at, _)| Some(*at) != except) {
                polynomial.insert(0, 0.0);
                for power in 1..polynomial.len() {
                    polynomial[power - 1] -= point * polynomial[power];
                }
            }
            polynomial.resize(size, 0.0);
            polynomial
        };
        let powers = |point: f64, count: usize| (0..count).map(move |power| point.powi(power as i32));
        let mut form = Form { input: Vec::new(), filter: Vec::new(), output: vec![0.0; self.tile * size] };
        for (at, point) in finite.iter().enumerate() {
            form.input.extend(product(Some(at)));
            let others = finite.iter().enumerate().filter(|(other, _)| *other != at);
            let scale: f64 = others.map(|(_, other)| point - other).product();
            form.filter.extend(powers(*point, self.taps).map(|power| power / scale));
            for (row, power) in powers(*point, self.tile).enumerate() {
                form.output[row * size + at] = power;
            }
        }
        form.input.extend(product(None));
        form.filter.extend((0..self.taps).map(|tap| if tap + 1 == self.taps { 1.0 } else { 0.0 }));
        form.output[self.tile * size - 1] = 1.0;
        form
    }
}

/// The matrices of an axis, row by row: `B'`, `G` and `A'`.
struct Form {
    input: Vec<f64>,
    filter: Vec<f64>,
    output: Vec<f64>,
}

/// Rows and columns of tiles, for a filter of so many taps.
pub fn axes(taps: [usize; 2], attrs: &Attrs) -> Option<[Axis; 2]> {
    let asked = attrs.expect_ints("tile");
    FORMS
        .into_iter()
        .find(|form| form.map(|axis| axis.taps) == taps && sizes(form.map(|axis| axis.tile)) == asked)
}

/// Sizes as attributes have them.
#[allow(clippy::cast_possible_wrap)]
pub fn sizes(sizes: [usize; 2]) -> [i64; 2] {
    sizes.map(|size| size as i64)
}

/// The same for a lowered convolution, which says how many taps its filter has.
pub fn axes_of(attrs: &Attrs) -> Option<[Axis; 2]> {
    let [rows, columns] = attrs.expect_ints("kernel") else { return None };
    axes([usize::try_from(*rows).ok()?, usize::try_from(*columns).ok()?], attrs)
}

/// What tiles there are, for messages.
fn known(tile: &[i64], taps: &str) -> String {
    let known: Vec<String> = FORMS
        .iter()
        .map(|form| {
            let [tile, taps] = [form.map(|axis| axis.tile), form.map(|axis| axis.taps)];
            format!("{tile:?} for {taps:?}")
        })
        .collect();
    format!("attribute `tile` is {tile:?} for {taps}: it is {}", known.join(", "))
}

/// The transform of weights: pure arithmetic on constants, as `widen-groups` is.
pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "winograd-weights",
        doc: "weights w[O,C,r,s] as Winograd's algorithm takes them: u[(m+r-1)(n+s-1),C,O] for tiles of m by n",
        arity: Arity::Exactly(1),
        attrs: vec![tile_attr()],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            rank(types, 0, 4)?;
            let w = types[0];
            if w.dtype != DType::F32 {
                return Err(format!("operand 0 is {w}, not f32 weights"));
            }
            let axes = axes([w.shape[2], w.shape[3]], attrs)
                .ok_or_else(|| known(attrs.expect_ints("tile"), &format!("weights {w}")))?;
            Ok(TensorType::plain(w.dtype, [axes[0].size() * axes[1].size(), w.shape[1], w.shape[0]]))
        },
        eval: eval_weights,
        flops: |_, _, _| 0.0,
        logical: None,
    }]
}

fn tile_attr() -> super::AttrDef {
    attr(
        "tile",
        AttrKind::Ints,
        None,
        "rows and columns of a tile of outputs: for 3x3 filters 2 or 4 each, for 5x5 4 each, for 3 or 7 taps along \
         one axis 4 along that and 1 along the other",
    )
}

/// The lowered convolution.
pub(super) fn lowered(conv: Op) -> Vec<OpDef> {
    let pads = Some(Attr::Ints(vec![0; 4]));
    vec![OpDef {
        name: "native.conv-winograd",
        doc: "a convolution without strides, by Winograd's algorithm, from transformed weights; then a post chain",
        arity: Arity::Post(3),
        attrs: vec![
            attr("kernel", AttrKind::Ints, None, "rows and columns of the filter"),
            tile_attr(),
            attr("pads", AttrKind::Ints, pads, "padding at the top, left, bottom and right"),
            post_attr(),
        ],
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval,
        flops,
        logical: Some(conv),
    }]
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
    let kernel = attrs.expect_ints("kernel");
    let [rows, columns] =
        axes_of(attrs).ok_or_else(|| known(attrs.expect_ints("tile"), &format!("a filter of {kernel:?}")))?;
    let frequencies = rows.size() * columns.size();
    if x.dtype != DType::F32 || u.shape.first() != Some(&frequencies) {
        return Err(format!(
            "input {x} with weights {u}: it takes f32, and weights of {frequencies} frequencies"
        ));
    }
    let w = TensorType::plain(u.dtype, [u.shape[2], u.shape[1], rows.taps, columns.taps]);
    let unit = Attrs::new().ints("strides", &[1, 1]).ints("dilations", &[1, 1]).int("groups", 1);
    let unit = unit.ints("pads", attrs.expect_ints("pads")).with("post", Attr::Post(Vec::new()));
    let result = window::infer_conv(&unit, &[x, &w, types[2]])?.with_layout(x.layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}

/// A matrix of so many columns.
struct Matrix<'a>(&'a [f64], usize);

impl Matrix<'_> {
    fn rows(&self) -> usize {
        self.0.len() / self.1
    }
}

/// `left * middle * right'`.
fn sandwich(left: &Matrix<'_>, right: &Matrix<'_>, middle: &[f64]) -> Vec<f64> {
    let (rows, columns) = (left.rows(), right.rows());
    let mut half = vec![0.0; rows * right.1];
    for row in 0..rows {
        for column in 0..right.1 {
            half[row * right.1 + column] =
                (0..left.1).map(|i| left.0[row * left.1 + i] * middle[i * right.1 + column]).sum();
        }
    }
    let mut whole = vec![0.0; rows * columns];
    for row in 0..rows {
        for column in 0..columns {
            whole[row * columns + column] =
                (0..right.1).map(|i| half[row * right.1 + i] * right.0[column * right.1 + i]).sum();
        }
    }
    whole
}

fn eval_weights(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let taps = [2, 3].map(|axis| operands[0].ty().shape[axis]);
    let axes = axes(taps, attrs).expect("infer accepted");
    let forms = axes.map(Axis::form);
    let [rows, columns] = [0, 1].map(|axis| Matrix(&forms[axis].filter, taps[axis]));
    let (channels, outputs) = (ty.shape[1], ty.shape[2]);
    let mut result = vec![0.0; ty.shape.count()];
    let filters = operands[0].to_f64();
    for (index, filter) in filters.chunks_exact(taps[0] * taps[1]).enumerate().take(channels * outputs) {
        let (output, channel) = (index / channels, index % channels);
        for (frequency, value) in sandwich(&rows, &columns, filter).into_iter().enumerate() {
            result[(frequency * channels + channel) * outputs + output] = value;
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let plain: Vec<Tensor> = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN)).collect();
    let (x, u) = (plain[0].ty(), plain[1].ty());
    let axes = axes_of(attrs).expect("infer accepted");
    let (tile, size, forms) = (axes.map(|axis| axis.tile), axes.map(Axis::size), axes.map(Axis::form));
    let inputs_by = [0, 1].map(|axis| Matrix(&forms[axis].input, size[axis]));
    let outputs_by = [0, 1].map(|axis| Matrix(&forms[axis].output, size[axis]));
    let (xs, us, bias) = (plain[0].to_f64(), plain[1].to_f64(), plain[2].to_f64());
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
    let extras: Vec<&Tensor> = plain[3..].iter().collect();
    post::apply(attrs.post(), &extras, result).to_layout(&ty.layout)
}

fn flops(attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    let Parts { products, transforms } = parts(attrs, types, output);
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
pub fn parts(attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> Parts {
    let Some(axes) = axes_of(attrs) else { return Parts::default() };
    let (forms, size) = (axes.map(Axis::form), axes.map(Axis::size));
    let across = |axis: usize| output.shape[2 + axis].div_ceil(axes[axis].tile);
    let tiles = (output.shape[0] * across(0) * across(1)) as f64;
    // Of an axis of one tap nothing is transformed.
    let taken = |axis: usize, matrix: &[f64]| match axes[axis].taps {
        1 => 0,
        _ => matrix.iter().filter(|factor| **factor != 0.0).count(),
    };
    let (channels, outputs) = (types[1].shape[1], types[1].shape[2]);
    let whole = |channels: usize| channels.next_multiple_of(output.layout.block(1)) as f64;
    // Columns first, then rows.
    let inputs = size[1] * taken(0, &forms[0].input) + size[0] * taken(1, &forms[1].input);
    let results = size[1] * taken(0, &forms[0].output) + axes[0].tile * taken(1, &forms[1].output);
    Parts {
        products: 2.0 * tiles * (size[0] * size[1] * channels * outputs) as f64,
        transforms: 2.0 * tiles * (inputs as f64 * whole(channels) + results as f64 * whole(outputs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every axis gives the sums of the filter's taps, whatever the inputs.
    #[test]
    fn tiles_are_convolutions() {
        for axis in FORMS.into_iter().flatten() {
            let Axis { taps, tile } = axis;
            let (form, size) = (axis.form(), axis.size());
            let times = |matrix: &[f64], vector: &[f64]| -> Vec<f64> {
                let rows = matrix.chunks_exact(vector.len());
                rows.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
            };
            let filter: Vec<f64> = (0..taps).map(|i| (i as f64 * 1.7).sin()).collect();
            let inputs: Vec<f64> = (0..size).map(|i| (i as f64 * 2.3).cos()).collect();
            let (u, v) = (times(&form.filter, &filter), times(&form.input, &inputs));
            let product: Vec<f64> = u.iter().zip(&v).map(|(u, v)| u * v).collect();
            for (at, value) in times(&form.output, &product).into_iter().enumerate() {
                let want: f64 = filter.iter().zip(&inputs[at..]).map(|(g, d)| g * d).sum();
                assert!((value - want).abs() < 1e-12, "F({tile},{taps})[{at}]: {value}, not {want}");
            }
        }
    }
}
