//! Operators whose results are known from attributes, shapes and constants alone.

use super::{Call, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::element::checked_type;
use crate::onnx::{Refusal, call::signed};
use crate::tensor::{DType, Tensor};

/// The most elements of a `Range`.
const LONGEST: usize = 1 << 24;

pub(super) const TABLE: &[Operator] = &[
    entry("Constant", 0, 0, constant),
    entry("ConstantOfShape", 1, 1, constant_of_shape),
    entry("EyeLike", 1, 1, eye_like),
    entry("Range", 3, 3, range),
    entry("Shape", 1, 1, shape),
    entry("Size", 1, 1, size),
    entry("Identity", 1, 1, |call| Ok(vec![call.input(0)?])),
    entry("Dropout", 1, 3, dropout),
];

fn constant(call: &mut Call<'_>) -> Results {
    let tensor = if let Some(tensor) = call.tensor("value")? {
        tensor
    } else if let Some(tensor) = call.sparse_tensor("sparse_value")? {
        tensor
    } else if let Some(values) = call.floats("value_floats")? {
        Tensor::from_elements([values.len()], values)
    } else if let Some(values) = call.ints("value_ints")? {
        Tensor::from_elements([values.len()], values)
    } else if call.has("value_int") {
        Tensor::scalar(call.int("value_int", 0)?)
    } else if let Some(value) = call.float_if("value_float")? {
        Tensor::from_f64(DType::F32, [0_usize; 0], &[value])
    } else if let Some(texts) = call.texts("value_strings")? {
        Tensor::from_texts([texts.len()], &texts)
    } else if call.has("value_string") {
        Tensor::from_texts([0_usize; 0], &[call.text("value_string", "")?])
    } else {
        return Err(Refusal::other("it has no attribute that gives its value"));
    };
    Ok(vec![call.constant_result(tensor)])
}

fn constant_of_shape(call: &mut Call<'_>) -> Results {
    let dims = call.known_ints(0, "shape")?.unwrap_or_default();
    let value = call.tensor("value")?.unwrap_or_else(|| Tensor::from_elements([1_usize], &[0_f32]));
    if value.ty().shape.count() != 1 {
        return Err(Refusal::attribute("value", format!("is {}, not one element", value.ty())));
    }
    let sizes: Option<Vec<usize>> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let sizes =
        sizes.ok_or_else(|| Refusal::other(format!("its shape {dims:?} has a negative dimension")))?;
    let mut tensor = Tensor::zeros(checked_type(value.ty().dtype, sizes)?);
    if value.bytes().iter().any(|&byte| byte != 0) {
        fill(tensor.bytes_mut(), value.bytes());
    }
    Ok(vec![call.constant_result(tensor)])
}

/// Fills a buffer with an element, by copying the part that is already filled.
fn fill(bytes: &mut [u8], element: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    /// The size of a copy, small enough that its source is still in the processor's cache.
    const CHUNK: usize = 1 << 16;
    let mut done = element.len();
    bytes[..done].copy_from_slice(element);
    while done < bytes.len() {
        let next = done.min(CHUNK).min(bytes.len() - done);
        bytes.copy_within(..next, done);
        done += next;
    }
}

fn eye_like(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let &[rows, columns] = x.dims() else {
        return Err(Refusal::other(format!("it needs two dimensions, but has {}", x.ty)));
    };
    let number = i32::try_from(call.int("dtype", 1)?)
        .map_err(|_| Refusal::attribute("dtype", "is no element type"))?;
    let dtype = if call.has("dtype") { crate::onnx::element::element_type(number)? } else { x.ty.dtype };
    let diagonal = call.int("k", 0)?;
    let at = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
    let values: Vec<f64> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| f64::from(u8::from(at(column).checked_sub(at(row)) == Some(diagonal))))
        .collect();
    Ok(vec![call.constant_result(Tensor::from_f64(dtype, [rows, columns], &values))])
}

fn range(call: &mut Call<'_>) -> Results {
    call.ignore(&["stash_type"]);
    let scalar =
        |at, what| Ok::<_, Refusal>(call.known_scalar(at, what)?.unwrap_or_else(|| Tensor::scalar(0_i64)));
    let (start, limit, delta) = (scalar(0, "start")?, scalar(1, "limit")?, scalar(2, "delta")?);
    let dtype = start.ty().dtype;
    if limit.ty().dtype != dtype || delta.ty().dtype != dtype || dtype == DType::Bool {
        return Err(Refusal::other("its operands must be numbers of one type"));
    }
    let (from, to, step) = (start.to_f64()[0], limit.to_f64()[0], delta.to_f64()[0]);
    if step == 0.0 || !(from.is_finite() && to.is_finite() && step.is_finite()) {
        return Err(Refusal::other(format!("it cannot count from {from} to {to} in steps of {step}")));
    }
    let count = ((to - from) / step).ceil().max(0.0);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = if count <= LONGEST as f64 { count as usize } else { usize::MAX };
    if count > LONGEST {
        return Err(Refusal::other(format!("it would count more than {LONGEST} numbers")));
    }
    #[allow(clippy::cast_precision_loss)]
    let tensor = match (start.to_i64(), delta.to_i64()) {
        (Some(first), Some(stride)) if dtype == DType::I64 => {
            let values: Vec<i64> =
                (0..count).map(|k| first[0].wrapping_add(stride[0].wrapping_mul(k as i64))).collect();
            Tensor::from_elements([count], &values)
        }
        _ => {
            let values: Vec<f64> = (0..count).map(|k| from + step * k as f64).collect();
            Tensor::from_f64(dtype, [count], &values)
        }
    };
    Ok(vec![call.constant_result(tensor)])
}

fn shape(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let rank = i64::try_from(x.rank()).unwrap_or(i64::MAX);
    let (start, end) =
        if call.opset < 15 { (0, rank) } else { (call.int("start", 0)?, call.int("end", rank)?) };
    let clamp = |at: i64| {
        usize::try_from(if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank)).unwrap_or(0)
    };
    let (start, end) = (clamp(start), clamp(end));
    let dims = signed(x.dims().get(start..end).unwrap_or(&[]));
    Ok(vec![call.constant_result(Tensor::from_elements([dims.len()], &dims))])
}

fn size(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    Ok(vec![call.constant_result(Tensor::scalar(i64::try_from(x.ty.shape.count()).unwrap_or(i64::MAX)))])
}

/// In inference, and in training with the ratio 0, dropout returns its operand. In training, elements are dropped by
/// numbers that are drawn from the seed when the model is imported.
fn dropout(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let training = match call.opset {
        ..12 => false,
        _ => call.known_scalar(2, "training mode")?.is_some_and(|training| training.to_f64()[0] != 0.0),
    };
    let ratio = match call.opset {
        ..12 => call.float("ratio", 0.5)?,
        _ => call.known_scalar(1, "ratio")?.map_or(0.5, |ratio| ratio.to_f64()[0]),
    };
    call.ignore(&["seed", "ratio", "is_test", "consumed_inputs"]);
    if training && ratio > 0.0 {
        let drawn = super::random::uniform(call, DType::F32, x.dims().to_vec())?;
        let ratio_value = call.scalar("ratio", DType::F32, ratio);
        let mask = call.result_at(1, "greater-equal", Attrs::new(), &[&drawn, &ratio_value])?;
        let scale = call.scalar("scale", x.ty.dtype, 1.0 / (1.0 - ratio));
        let scaled = call.helper("scaled", "mul", Attrs::new(), &[&x, &scale])?;
        let zero = call.scalar("zero", x.ty.dtype, 0.0);
        return Ok(vec![call.result("where", Attrs::new(), &[&mask, &scaled, &zero])?, mask]);
    }
    let mask = super::loss::all_true(call, x.dims());
    Ok(vec![x, mask])
}
