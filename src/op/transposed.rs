//! Transposed convolution: it writes where a convolution with the same window reads.

use super::independence::batch;
use super::{Arity, AttrDef, Flags, OpDef, OpError, count, plain, sizes, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let ints = |name, default: &[i64], doc| {
        AttrDef::new(name, AttrKind::Ints, Some(Attr::Ints(default.to_vec())), doc)
    };
    vec![OpDef {
        name: "conv-transpose",
        doc: "transposed convolution of x[N,C,H,W] with w[C,O/groups,h,w], plus a bias[O]",
        arity: Arity::Exactly(3),
        attrs: vec![
            ints("strides", &[1, 1], "rows and columns of the result between those of the operand"),
            ints("pads", &[0, 0, 0, 0], "what is cut off at the top, left, bottom and right"),
            ints("dilations", &[1, 1], "rows and columns between the elements of a window"),
            ints("output-padding", &[0, 0], "rows and columns that are added at the bottom and the right"),
            AttrDef::new(
                "groups",
                AttrKind::Int,
                Some(Attr::Int(1)),
                "the number of groups of channels, each with its own weights",
            ),
        ],
        flags: Flags::independent(batch),
        infer: |attrs, types| {
            plain(types)?;
            infer(attrs, types)
        },
        eval,
        flops,
        sample: None,
        lowered: None,
    }]
}

/// The most elements of an axis of the result.
const LONGEST: usize = 1 << 31;

/// A window along rows (0) or columns (1).
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Elements of the operand.
    pub input: usize,
    /// Elements of the result.
    pub output: usize,
    /// Elements of the window.
    pub kernel: usize,
    /// Distance between windows in the result, in elements.
    pub stride: usize,
    /// Distance between the elements of a window in the result, in elements.
    pub dilation: usize,
    /// The number of elements that are cut off at the start of the result.
    pub before: usize,
    /// The number of elements that are cut off at the end of the result, minus those that are added there.
    pub after: usize,
}

impl Axis {
    /// Reads the attributes of an op for one axis.
    pub fn new(attrs: &Attrs, axis: usize, input: usize, kernel: usize) -> Result<Self, OpError> {
        let entry = |name: &str, length: usize, at: usize| -> Result<usize, OpError> {
            let values = sizes(attrs, name)?;
            if values.len() == length {
                Ok(values[at])
            } else {
                Err(OpError::attribute(name, format!("has {} values, not {length}", values.len())))
            }
        };
        let (stride, dilation) = (entry("strides", 2, axis)?, entry("dilations", 2, axis)?);
        if stride == 0 || dilation == 0 || kernel == 0 {
            return Err(OpError::operands("strides, dilations and kernel sizes are at least 1"));
        }
        let (before, after) = (entry("pads", 4, axis)?, entry("pads", 4, axis + 2)?);
        let added = entry("output-padding", 2, axis)?;
        if added >= stride.max(dilation) {
            return Err(OpError::attribute(
                "output-padding",
                format!("adds {added}, and must be less than the stride or the dilation"),
            ));
        }
        let whole = input
            .checked_sub(1)
            .ok_or_else(|| OpError::operands("an axis of the operand has no elements"))?;
        let reach = (kernel - 1).checked_mul(dilation);
        let length = whole.checked_mul(stride).zip(reach).and_then(|(steps, reach)| {
            steps.checked_add(reach)?.checked_add(1 + added).filter(|length| *length <= LONGEST)
        });
        let length = length.ok_or_else(|| OpError::operands("an axis of the result is too long"))?;
        let output = before.checked_add(after).and_then(|cut| length.checked_sub(cut)).filter(|n| *n > 0);
        let output = output.ok_or_else(|| {
            OpError::operands(format!("of an axis of {length}, {before} and {after} are cut off"))
        })?;
        Ok(Self { input, output, kernel, stride, dilation, before, after })
    }

    /// Returns where an element of the window at an element of the operand is written; `None` if that is cut off.
    fn at(&self, input: usize, element: usize) -> Option<usize> {
        let at = (input * self.stride + element * self.dilation).checked_sub(self.before)?;
        (at < self.output).then_some(at)
    }
}

/// Infers the result's type. The caller handles layouts.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let groups = window::grouped(attrs, types)?;
    let (x, w, bias) = (types[0], types[1], types[2]);
    if w.shape[0] != x.shape[1] || x.shape[1] % groups != 0 {
        return Err(OpError::operands(format!(
            "weights {w} with {groups} group(s) do not fit the input {x}"
        )));
    }
    if w.shape[1].checked_mul(groups) != Some(bias.shape[0]) {
        return Err(OpError::operands(format!(
            "the bias {bias} does not fit the weights {w} of {groups} group(s)"
        )));
    }
    let rows = Axis::new(attrs, 0, x.shape[2], w.shape[2])?.output;
    let columns = Axis::new(attrs, 1, x.shape[3], w.shape[3])?.output;
    Ok(TensorType::plain(x.dtype, [x.shape[0], bias.shape[0], rows, columns]))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, w) = (operands[0].ty(), operands[1].ty());
    let axis = |index: usize| {
        Axis::new(attrs, index, x.shape[2 + index], w.shape[2 + index]).expect("infer accepted")
    };
    let (rows, columns) = (axis(0), axis(1));
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
    let (inputs, outputs) = (x.shape[1] / groups, w.shape[1]);
    let (xs, ws, bias) = (operands[0].to_f64(), operands[1].to_f64(), operands[2].to_f64());
    let mut result = vec![0.0; ty.shape.count()];
    for (plane, out) in result.chunks_exact_mut(rows.output * columns.output).enumerate() {
        let (n, o) = (plane / ty.shape[1], plane % ty.shape[1]);
        out.fill(bias[o]);
        for channel in o / outputs * inputs..(o / outputs + 1) * inputs {
            let image = &xs[(n * x.shape[1] + channel) * rows.input * columns.input..];
            let window = &ws[(channel * outputs + o % outputs) * rows.kernel * columns.kernel..];
            for (y, r) in (0..rows.input).flat_map(|y| (0..rows.kernel).map(move |r| (y, r))) {
                let Some(row) = rows.at(y, r) else { continue };
                for (z, s) in (0..columns.input).flat_map(|z| (0..columns.kernel).map(move |s| (z, s))) {
                    if let Some(column) = columns.at(z, s) {
                        out[row * columns.output + column] +=
                            window[r * columns.kernel + s] * image[y * columns.input + z];
                    }
                }
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn flops(_: &Attrs, types: &[&TensorType], _: &TensorType) -> f64 {
    2.0 * count(types[0]) * types[1].shape[1..].iter().product::<usize>() as f64
}
