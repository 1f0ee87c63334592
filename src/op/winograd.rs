//! Winograd's minimal filtering F(m,r) along each axis, for convolutions without strides.
//!
//! A tile of `m` by `n` outputs is `A' [(G g H') * (B' d C)] D`, where `g` is the filter of `r` by `s` taps, `d`
//! the `m + r - 1` by `n + s - 1` inputs and `*` multiplies element by element; over channels that product is a
//! matrix product for each of the elements ("frequencies"). Along an axis of one tap a tile has one output and
//! nothing is transformed. The matrices are those of Toom and Cook, as in Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks" (CVPR 2016), with the points 0, infinity and pairs of [`Axis::POINTS`]: one pair for
//! four inputs, two for six, and so on. Tiles of 6 for 3 taps are left out: on every shape of the shipped models
//! they were no faster beyond noise, and they lose half a digit more.

mod axis;

pub use axis::Axis;

use super::{Arity, AttrDef, Flags, OpDef, OpError, plain, rank};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorType};

/// The supported tiles, each with its rows and columns.
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

/// Returns the rows and columns of the tiles for a filter with these taps; `None` if there are no such tiles.
pub(crate) fn axes(taps: [usize; 2], attrs: &Attrs) -> Option<[Axis; 2]> {
    let asked = attrs.expect_ints("tile");
    FORMS
        .into_iter()
        .find(|form| form.map(|axis| axis.taps) == taps && sizes(form.map(|axis| axis.tile)) == asked)
}

/// Returns sizes in the form that attributes have.
#[allow(clippy::cast_possible_wrap)]
pub fn sizes(sizes: [usize; 2]) -> [i64; 2] {
    sizes.map(|size| size as i64)
}

/// Returns the same for a convolution that takes transformed weights, and whose attribute `kernel` has the taps of
/// its filter.
pub fn axes_of(attrs: &Attrs) -> Option<[Axis; 2]> {
    let [rows, columns] = attrs.expect_ints("kernel") else { return None };
    axes([usize::try_from(*rows).ok()?, usize::try_from(*columns).ok()?], attrs)
}

/// Makes the error of an unknown tile, which lists the known ones.
fn known(tile: &[i64], taps: &str) -> OpError {
    let known: Vec<String> = FORMS
        .iter()
        .map(|form| {
            let [tile, taps] = [form.map(|axis| axis.tile), form.map(|axis| axis.taps)];
            format!("{tile:?} for {taps:?}")
        })
        .collect();
    OpError::attribute("tile", format!("is {tile:?} for {taps}: it is {}", known.join(", ")))
}

/// Returns the op that transforms weights. It is only evaluated for constants, as `widen-groups` is.
pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "winograd-weights",
        doc: "weights w[O,C,r,s] in the form that Winograd's algorithm takes: u[(m+r-1)(n+s-1),C,O] for tiles of m by n",
        arity: Arity::Exactly(1),
        attrs: vec![tile_attr()],
        flags: Flags { inexact: true, ..Flags::default() },
        infer: |attrs, types| {
            plain(types)?;
            rank(types, 0, 4)?;
            let w = types[0];
            if w.dtype != DType::F32 {
                return Err(OpError::operand(0, w, ", not f32 weights"));
            }
            let axes = axes([w.shape[2], w.shape[3]], attrs)
                .ok_or_else(|| known(attrs.expect_ints("tile"), &format!("weights {w}")))?;
            Ok(TensorType::plain(w.dtype, [axes[0].size() * axes[1].size(), w.shape[1], w.shape[0]]))
        },
        eval: eval_weights,
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }]
}

/// Declares the attribute `tile`, which the op that transforms weights and the ops that take them have.
pub fn tile_attr() -> AttrDef {
    AttrDef::new(
        "tile",
        AttrKind::Ints,
        None,
        "rows and columns of a tile of outputs: for 3x3 filters 2 or 4 each, for 5x5 4 each, for 3 or 7 taps along \
         one axis 4 along that and 1 along the other",
    )
}

/// A matrix in row-major order, with its number of columns.
pub struct Matrix<'a>(pub &'a [f64], pub usize);

impl Matrix<'_> {
    fn rows(&self) -> usize {
        self.0.len() / self.1
    }
}

/// Returns `left * middle * right'` in row-major order.
pub fn sandwich(left: &Matrix<'_>, right: &Matrix<'_>, middle: &[f64]) -> Vec<f64> {
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
    let filters = operands[0].to_layout(&Layout::PLAIN);
    // Without copies of the elements in `f64`, which for the weights of a network are many.
    if (filters.ty().dtype, ty.dtype) == (DType::F32, DType::F32) {
        let mut result = Tensor::zeros(TensorType::plain(ty.dtype, ty.shape.clone()));
        let (from, to) = (filters.elements::<f32>(), result.elements_mut::<f32>());
        #[allow(clippy::cast_possible_truncation)]
        transform(axes, &ty.shape, |at| f64::from(from[at]), |at, value| to[at] = value as f32);
        return result;
    }
    let (from, mut to) = (filters.to_f64(), vec![0.0; ty.shape.count()]);
    transform(axes, &ty.shape, |at| from[at], |at, value| to[at] = value);
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &to)
}

/// Transforms filters `[O,C,r,s]`, which `read` returns by offset, to `shape`, `[frequencies,C,O]`. It takes [`LANES`]
/// outputs at a time, which are adjacent in the result.
fn transform(axes: [Axis; 2], shape: &Shape, read: impl Fn(usize) -> f64, mut write: impl FnMut(usize, f64)) {
    const LANES: usize = 16;
    let [rows, columns] = axes.map(|axis| axis.matrices().filter);
    let [(r, s), (m, n)] = [(axes[0].taps, axes[1].taps), (axes[0].size(), axes[1].size())];
    let (channels, outputs) = (shape[1], shape[2]);
    let mut filter = vec![[0.0; LANES]; r * s];
    let mut half = vec![[0.0; LANES]; m * s];
    let add = |sum: &mut [f64; LANES], factor: f64, values: &[f64; LANES]| {
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
    };
    for first in (0..outputs).step_by(LANES) {
        let lanes = LANES.min(outputs - first);
        for channel in 0..channels {
            for lane in 0..lanes {
                let base = ((first + lane) * channels + channel) * r * s;
                filter.iter_mut().enumerate().for_each(|(tap, values)| values[lane] = read(base + tap));
            }
            for row in 0..m {
                for column in 0..s {
                    let mut sum = [0.0; LANES];
                    (0..r).for_each(|i| add(&mut sum, rows[row * r + i], &filter[i * s + column]));
                    half[row * s + column] = sum;
                }
            }
            for row in 0..m {
                for column in 0..n {
                    let mut sum = [0.0; LANES];
                    (0..s).for_each(|i| add(&mut sum, columns[column * s + i], &half[row * s + i]));
                    let base = ((row * n + column) * channels + channel) * outputs + first;
                    sum[..lanes].iter().enumerate().for_each(|(lane, value)| write(base + lane, *value));
                }
            }
        }
    }
}
