//! Levels of normalised numbers: normalisations that read numbers or levels, and give levels.

use super::integer::{eval_dequantize, eval_quantize};
use super::{Arity, Draw, OpDef, OpError, Sample, axis, count, normalize, plain, rank};
use crate::attr::Attrs;
use crate::tensor::{DType, Tensor, TensorType};

/// The operands before the parameters of the normalisation: numbers, and the scale and the zero point of the result.
const OWN: usize = 3;
/// The operands after them, if the first operand is levels: their scale and their zero point.
const SOURCE: usize = 2;
/// The scale and the bias of a layer norm.
const LAYER: usize = 2;

pub(super) fn ops() -> Vec<OpDef> {
    let (softmax, layer_norm) = (normalize::softmax, normalize::layer_norm);
    vec![
        OpDef {
            name: "softmax-requantize",
            doc: "quantize(softmax(x), s, z), for x of f32, or for 8-bit levels x, which stand for their floats, and whose scale and zero point are the last operands. Scales and zero points are scalars, and the result has 8 bits",
            arity: Arity::Between(OWN, OWN + SOURCE),
            infer: |attrs, types| infer(&normalize::softmax(), attrs, types),
            eval: |attrs, operands, ty| eval(&normalize::softmax(), attrs, operands, ty),
            flops: |attrs, types, output| flops(&normalize::softmax(), attrs, types, output),
            sample: Some(|draw| sample(draw, 0)),
            ..softmax()
        },
        OpDef {
            name: "layer-norm-requantize",
            doc: "quantize(layer-norm(x, scale, bias), s, z), for x of f32, or for 8-bit levels x, which stand for their floats, and whose scale and zero point are the last operands; the operands are x, s, z, scale and bias. Scales and zero points of levels are scalars, and the result has 8 bits",
            arity: Arity::Between(OWN + LAYER, OWN + LAYER + SOURCE),
            infer: |attrs, types| infer(&normalize::layer_norm(), attrs, types),
            eval: |attrs, operands, ty| eval(&normalize::layer_norm(), attrs, operands, ty),
            flops: |attrs, types, output| flops(&normalize::layer_norm(), attrs, types, output),
            sample: Some(|draw| sample(draw, LAYER)),
            ..layer_norm()
        },
    ]
}

/// Returns whether a type is one of levels.
fn is_levels(ty: &TensorType) -> bool {
    matches!(ty.dtype, DType::U8 | DType::I8)
}

/// Returns the operands of the normalisation after its first one, and those that belong to levels.
fn parts<'a, 'b, T>(norm: &OpDef, operands: &'b [&'a T]) -> (&'b [&'a T], &'b [&'a T]) {
    let Arity::Exactly(of_norm) = norm.arity else { return (&[], &[]) };
    operands[OWN..].split_at(of_norm - 1)
}

/// Checks that two operands are a scale and a zero point.
fn check_levels(types: &[&TensorType], first: usize) -> Result<(), OpError> {
    rank(types, first, 0)?;
    rank(types, first + 1, 0)?;
    if types[first].dtype != DType::F32 {
        return Err(OpError::operand(first, types[first], ", which is no scale of levels"));
    }
    if !is_levels(types[first + 1]) {
        return Err(OpError::operand(first + 1, types[first + 1], ", which is no zero point of 8 bits"));
    }
    Ok(())
}

fn infer(norm: &OpDef, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    check_levels(types, 1)?;
    let (parameters, source) = parts(norm, types);
    if source.len() == SOURCE {
        let first = types.len() - SOURCE;
        check_levels(types, first)?;
        if types[0].dtype != types[first + 1].dtype {
            return Err(OpError::operand(
                0,
                types[0],
                format!(", and its zero point is {}", types[first + 1]),
            ));
        }
    } else if !source.is_empty() {
        return Err(OpError::operands("levels have a scale and a zero point".to_owned()));
    } else if types[0].dtype != DType::F32 {
        return Err(OpError::operand(0, types[0], ", not f32, and without a scale and a zero point"));
    }
    let floats = TensorType { dtype: DType::F32, ..types[0].clone() };
    let inner: Vec<&TensorType> = [&floats].into_iter().chain(parameters.iter().copied()).collect();
    (norm.infer)(attrs, &inner)?;
    Ok(TensorType { dtype: types[2].dtype, ..floats })
}

fn eval(norm: &OpDef, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let floats = TensorType { dtype: DType::F32, ..ty.clone() };
    let (parameters, source) = parts(norm, operands);
    let x = match source {
        [scale, zero] => eval_dequantize(attrs, &[operands[0], scale, zero], &floats),
        _ => operands[0].clone(),
    };
    let inner: Vec<&Tensor> = [&x].into_iter().chain(parameters.iter().copied()).collect();
    let numbers = (norm.eval)(attrs, &inner, &floats);
    eval_quantize(attrs, &[&numbers, operands[1], operands[2]], ty)
}

/// As many operations as the normalisation has, and those of `quantize` and `dequantize`.
fn flops(norm: &OpDef, attrs: &Attrs, types: &[&TensorType], output: &TensorType) -> f64 {
    const CONVERSION: f64 = 4.0;
    let conversions = if is_levels(types[0]) { 2.0 } else { 1.0 };
    (norm.flops)(attrs, types, output) + conversions * CONVERSION * count(output)
}

/// Draws numbers or levels of the wanted shape, an axis, and as many parameters as the normalisation has, which have the
/// axes from there on.
fn sample(draw: &mut dyn Draw, parameters: usize) -> Option<Sample> {
    let shape = draw.wanted().shape.to_vec();
    let levels = [DType::U8, DType::I8];
    let to = if is_levels(draw.wanted()) { draw.wanted().dtype } else { draw.pick(&levels) };
    let whole = OWN + parameters;
    let source = match draw.known(0).map(|ty| ty.dtype) {
        Some(dtype) => dtype,
        None if *draw.operands().end() < whole + SOURCE => DType::F32,
        None if *draw.operands().start() > whole => draw.pick(&levels),
        None => draw.pick(&[DType::F32, DType::U8, DType::I8]),
    };
    let at = match draw.fixed("axis").cloned() {
        Some(fixed) => axis(&Attrs::new().with("axis", fixed), "axis", shape.len()).ok()?,
        None if shape.is_empty() => return None,
        None if draw.usual() => shape.len() - 1,
        None => draw.below(shape.len()),
    };
    let one = |dtype: DType| TensorType::plain(dtype, vec![]);
    let mut types = vec![TensorType::plain(source, shape.clone()), one(DType::F32), one(to)];
    types.extend((0..parameters).map(|_| TensorType::plain(DType::F32, shape[at..].to_vec())));
    if source != DType::F32 {
        types.extend([one(DType::F32), one(source)]);
    }
    let mut attrs = Attrs::new().size("axis", at);
    if parameters > 0 {
        attrs = attrs.float("epsilon", draw.float("epsilon"));
    }
    Some(Sample::new(attrs, types))
}
