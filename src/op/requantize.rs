//! Levels of the results of chains: steps on integers or floats, alone or after a convolution of integers.

use super::independence::broadcast;
use super::integer::{self, draw_conv, eval_convolution, eval_dequantize, eval_quantize, infer_convolution};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, Values, post, window};
use crate::attr::Attrs;
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// The operands of `requantize` before the extra operands of its steps.
const OWN: usize = 3;
/// The operands of a convolution of integers.
const CONVOLUTION: usize = 4;

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "requantize",
            doc: "quantize(map(x as f32, e..), s, z): the levels of numbers after a chain of elementwise steps, for x of i32, f32 or 8-bit integers. e are the extra operands of the steps: floats, or 8-bit levels, each followed by its scale and its zero point, which stand for their floats",
            arity: Arity::AtLeast(OWN),
            attrs: vec![AttrDef::post()],
            flags: Flags::independent(broadcast),
            infer,
            eval,
            flops: |attrs, _, output| flops(attrs, output),
            sample: Some(draw),
            lowered: None,
        },
        OpDef {
            name: "conv-requantize",
            doc: "requantize(conv-integer(x, w, p, q), s, z, e..)",
            arity: Arity::AtLeast(CONVOLUTION + OWN - 1),
            attrs: integer::convolution_attrs().into_iter().chain([AttrDef::post()]).collect(),
            flags: Flags::default(),
            infer: |attrs, types| {
                let sums = infer_convolution(attrs, &types[..CONVOLUTION])?;
                infer(attrs, &after_convolution(&sums, types))
            },
            eval: |attrs, operands, ty| {
                let sums = TensorType::plain(DType::I32, ty.shape.clone());
                let sums = eval_convolution(attrs, &operands[..CONVOLUTION], &sums);
                eval(attrs, &after_convolution(&sums, operands), ty)
            },
            flops: |attrs, types, output| window::flops_conv(attrs, types, output) + flops(attrs, output),
            sample: Some(draw_after_convolution),
            lowered: None,
        },
    ]
}

/// Returns the operands of `requantize` after a convolution with these operands.
fn after_convolution<'a, T>(sums: &'a T, operands: &[&'a T]) -> Vec<&'a T> {
    [sums].into_iter().chain(operands[CONVOLUTION..].iter().copied()).collect()
}

#[allow(clippy::cast_precision_loss)]
fn flops(attrs: &Attrs, output: &TensorType) -> f64 {
    (5 + attrs.post().len()) as f64 * output.shape.count() as f64
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let x = types[0];
    if !matches!(x.dtype, DType::F32 | DType::I32 | DType::I8 | DType::U8) {
        return Err(OpError::operand(0, x, ", none of f32, i32, i8 and u8"));
    }
    let floats = TensorType { dtype: DType::F32, ..x.clone() };
    let extras = extras(&types[OWN..])?;
    post::check(attrs.post(), &extras.iter().collect::<Vec<_>>(), &floats)?;
    integer::levels(&[&floats, types[1], types[2]], 2)?;
    Ok(TensorType { dtype: types[2].dtype, ..floats })
}

/// Returns whether an extra operand is levels, which their scale and their zero point follow.
fn is_levels(ty: &TensorType) -> bool {
    matches!(ty.dtype, DType::U8 | DType::I8)
}

/// Returns the types of the extra operands as floats, and checks the scales and zero points of levels.
fn extras(types: &[&TensorType]) -> Result<Vec<TensorType>, OpError> {
    let mut rest = types;
    let mut extras = Vec::new();
    while let [ty, after @ ..] = rest {
        extras.push(TensorType { dtype: DType::F32, ..(*ty).clone() });
        rest = after;
        if is_levels(ty) {
            let [scale, zero, after @ ..] = rest else {
                return Err(OpError::steps(format!("{ty} lacks its scale and its zero point")));
            };
            let fits = scale.dtype == DType::F32 && zero.dtype == ty.dtype;
            if !fits || [scale, zero].iter().any(|one| one.shape.count() != 1) {
                let given = format!("{scale} and {zero}");
                return Err(OpError::steps(format!(
                    "{given} are no scale and zero point of {ty}, which are one f32 and one {}",
                    ty.dtype
                )));
            }
            rest = after;
        } else if ty.dtype != DType::F32 {
            return Err(OpError::steps(format!("an operand of the chain is {ty}, not f32 or 8-bit levels")));
        }
    }
    Ok(extras)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let plain = |tensor: &Tensor| tensor.to_layout(&Layout::PLAIN);
    let x = plain(operands[0]);
    let floats = Tensor::from_f64(DType::F32, ty.shape.clone(), &x.to_f64());
    let mut extras = Vec::new();
    let mut rest = &operands[OWN..];
    while let [extra, after @ ..] = rest {
        let extra = plain(extra);
        rest = after;
        if is_levels(extra.ty()) {
            let (scale, zero) = (plain(rest[0]), plain(rest[1]));
            let floats = TensorType { dtype: DType::F32, ..extra.ty().clone() };
            extras.push(eval_dequantize(attrs, &[&extra, &scale, &zero], &floats));
            rest = &rest[2..];
        } else {
            extras.push(extra);
        }
    }
    let values = post::apply(attrs.post(), &extras.iter().collect::<Vec<_>>(), floats);
    eval_quantize(attrs, &[&values, operands[1], operands[2]], ty)
}

/// Draws a chain on numbers.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let x = match draw.known(0) {
        Some(known) => known.clone(),
        None => {
            let source = draw.pick(&[DType::F32, DType::I32, DType::U8, DType::I8]);
            let rank = draw.small();
            TensorType::plain(source, draw.shape(rank))
        }
    };
    let floats = TensorType { dtype: DType::F32, ..x.clone() };
    ended(draw, Sample::new(Attrs::new(), [x]), OWN, &floats)
}

/// Draws a chain on the sums of a convolution.
fn draw_after_convolution(draw: &mut dyn Draw) -> Option<Sample> {
    let convolution = draw_conv(draw)?;
    let types: Vec<&TensorType> = convolution.operands.iter().map(|(ty, _)| ty).collect();
    let sums = infer_convolution(&with_defaults(&convolution.attrs), &types).ok()?;
    ended(draw, convolution, CONVOLUTION + OWN - 1, &TensorType { dtype: DType::F32, ..sums })
}

/// Returns the attributes of a convolution with defaults for those that are absent.
fn with_defaults(attrs: &Attrs) -> Attrs {
    let mut all = attrs.clone();
    for declared in integer::convolution_attrs() {
        if let (None, Some(default)) = (attrs.get(declared.name), declared.default) {
            all.set(declared.name, default);
        }
    }
    all
}

/// Adds a scale, a zero point and a chain on `floats`, whose extra operands begin at `first`. One of them may be levels:
/// the one that is known to be, or else the last one.
fn ended(draw: &mut dyn Draw, mut sample: Sample, first: usize, floats: &TensorType) -> Option<Sample> {
    let levels = |draw: &mut dyn Draw| draw.pick(&[DType::U8, DType::I8]);
    let one = |dtype: DType| (TensorType::plain(dtype, vec![]), Values::Any);
    let to = levels(draw);
    sample.operands.extend([one(DType::F32), one(to)]);
    let known = (first..*draw.operands().end()).find(|at| draw.known(*at).is_some_and(is_levels));
    if let Some(at) = known {
        // The scale and the zero point of these levels are operands, but no step takes them.
        let mut chain = draw.post(first + 2, floats)?;
        let ty = draw.known(at)?.clone();
        chain.operands.get_mut(at - first)?.0 = ty.clone();
        let after = at - first + 1;
        chain.operands.splice(after..after, [one(DType::F32), one(ty.dtype)]);
        return Some(sample.then(chain));
    }
    let chain = draw.post(first, floats)?;
    let last = first + chain.operands.len().max(1) - 1;
    let some = !chain.operands.is_empty() && draw.known(last).is_none();
    let mut sample = sample.then(chain);
    if some && draw.percent(30) {
        let dtype = levels(draw);
        sample.operands[last].0.dtype = dtype;
        sample.operands.extend([one(DType::F32), one(dtype)]);
    }
    Some(sample)
}
