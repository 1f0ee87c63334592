//! The parts of `FlexAttention`, between which graphs of the model change scores and weights.

use super::attend::{repeated, transpose};
use super::{Call, ImportedValue};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::tensor::DType;

/// Returns the scores of queries and keys, in the precision of the softmax.
pub(crate) fn scores(call: &mut Call<'_>) -> Result<ImportedValue, Refusal> {
    let (q, mut k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if [&q, &k, &v].iter().any(|value| value.rank() != 4) {
        return Err(Refusal::other("its queries, keys and values need four dimensions each"));
    }
    if let Some(times) = shared(&q, &k)? {
        k = repeated(call, "keys", &k, times)?;
    }
    #[allow(clippy::cast_precision_loss)]
    let usual = 1.0 / (q.dims()[3].max(1) as f64).sqrt();
    let scale = call.float_if("scale")?.unwrap_or(usual);
    let root = call.scalar("scale", q.ty.dtype, scale.sqrt());
    let turned = transpose(call, "turned-keys", &k, &[0, 1, 3, 2])?;
    let turned = call.helper("scaled-keys", "mul", Attrs::new(), &[&turned, &root])?;
    let q = call.helper("scaled-queries", "mul", Attrs::new(), &[&q, &root])?;
    let scores = call.helper("scores", "matmul", Attrs::new(), &[&q, &turned])?;
    let precise = precision(call, q.ty.dtype)?;
    cast(call, "wide-scores", scores, precise)
}

/// Returns the weights of values, which are the softmax of scores.
pub(crate) fn weights(call: &mut Call<'_>, scores: &ImportedValue) -> Result<ImportedValue, Refusal> {
    let precise = precision(call, call.input(0)?.ty.dtype)?;
    let scores = cast(call, "changed-scores", scores.clone(), precise)?;
    call.helper("weights", "softmax", Attrs::new().int("axis", 3), &[&scores])
}

/// Returns the sums of values by their weights, which are the result.
pub(crate) fn product(call: &mut Call<'_>, weights: &ImportedValue) -> Result<ImportedValue, Refusal> {
    let (q, mut v) = (call.input(0)?, call.input(2)?);
    let dtype = v.ty.dtype;
    if let Some(times) = shared(&q, &v)? {
        v = repeated(call, "values", &v, times)?;
    }
    let precise = precision(call, q.ty.dtype)?;
    let weights = cast(call, "changed-weights", weights.clone(), precise)?;
    let v = cast(call, "wide-values", v, precise)?;
    if dtype == precise {
        return call.result("matmul", Attrs::new(), &[&weights, &v]);
    }
    let y = call.helper("product", "matmul", Attrs::new(), &[&weights, &v])?;
    call.result("cast", Attrs::new().with("to", Attr::DType(dtype)), &[&y])
}

/// Returns by how many heads of queries each head of keys is shared; `None` if it is not shared.
fn shared(q: &ImportedValue, k: &ImportedValue) -> Result<Option<usize>, Refusal> {
    let (all, some) = (q.dims()[1], k.dims()[1]);
    if all == some {
        return Ok(None);
    }
    if some == 0 || all % some != 0 {
        return Err(Refusal::other(format!(
            "its {all} heads of queries are no multiple of {some} heads of keys"
        )));
    }
    Ok(Some(all / some))
}

/// Returns the type in which the softmax is computed: that of the attribute, or one of at least 32 bits.
fn precision(call: &Call<'_>, dtype: DType) -> Result<DType, Refusal> {
    match call.int("softmax_precision", 0)? {
        0 => Ok(if dtype.bits() < 32 { DType::F32 } else { dtype }),
        number => {
            let number = i32::try_from(number).unwrap_or(-1);
            crate::onnx::element::element_type(number)
        }
    }
}

fn cast(call: &mut Call<'_>, name: &str, x: ImportedValue, to: DType) -> Result<ImportedValue, Refusal> {
    if x.ty.dtype == to {
        return Ok(x);
    }
    call.helper(name, "cast", Attrs::new().with("to", Attr::DType(to)), &[&x])
}
