//! Normalisations and softmax.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::tensor::{Shape, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("BatchNormalization", 5, 5, batch),
    entry("InstanceNormalization", 3, 3, instance),
    entry("LayerNormalization", 2, 3, layer),
    entry("LRN", 1, 1, local_response),
    entry("Softmax", 1, 1, |call| softmax(call, "softmax")),
    entry("LogSoftmax", 1, 1, |call| softmax(call, "log-softmax")),
];

fn batch(call: &mut Call<'_>) -> Results {
    let momentum = call.float("momentum", 0.9)?;
    call.ignore(&["is_test"]);
    let training = if call.opset >= 14 {
        call.flag("training_mode", false)?
    } else {
        call.node.output.iter().skip(1).any(|name| !name.is_empty())
    };
    if training {
        let epsilon = call.float("epsilon", 1e-5)?;
        return super::loss::batch_in_training(call, epsilon, momentum);
    }
    if call.opset < 9 && !call.flag("spatial", true)? {
        return Err(Refusal::attribute("spatial", "is 0; ovolo normalises over whole channels only"));
    }
    let attrs = Attrs::new().float("epsilon", call.float("epsilon", 1e-5)?);
    let operands = (0..5).map(|at| call.input(at)).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![call.result("batch-norm", attrs, &operands.iter().collect::<Vec<_>>())?])
}

fn instance(call: &mut Call<'_>) -> Results {
    let attrs = Attrs::new().float("epsilon", call.float("epsilon", 1e-5)?);
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(vec![call.result("instance-norm", attrs, &[&x, &scale, &bias])?])
}

fn layer(call: &mut Call<'_>) -> Results {
    if call.int("stash_type", 1)? != 1 {
        return Err(Refusal::attribute("stash_type", "asks for another precision than float32"));
    }
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let at = axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let attrs = Attrs::new().int("axis", signed(&[at])[0]).float("epsilon", epsilon);
    let dims = x.dims()[at..].to_vec();
    let scale = spread(call, "scale", scale, &dims)?;
    let bias = match call.optional(2) {
        Some(bias) => spread(call, "bias", bias, &dims)?,
        None => call.constant("bias", Tensor::zeros(TensorType::plain(scale.ty.dtype, Shape::new(dims)))),
    };
    let y = call.result("layer-norm", attrs, &[&x, &scale, &bias])?;
    if call.node.output.iter().skip(1).all(String::is_empty) {
        return Ok(vec![y]);
    }
    let [mean, deviation] = super::loss::layer_statistics(call, &x, at, epsilon)?;
    Ok(vec![y, mean, deviation])
}

/// Broadcasts a parameter to the shape that is normalised over.
fn spread(
    call: &mut Call<'_>,
    what: &str,
    value: ImportedValue,
    dims: &[usize],
) -> Result<ImportedValue, Refusal> {
    if value.dims() == dims {
        return Ok(value);
    }
    let shape = Shape::from(dims);
    if value.ty.shape.broadcast(&shape).as_ref() != Some(&shape) {
        return Err(Refusal::other(format!(
            "its {what} is {}, which does not broadcast to {shape}",
            value.ty
        )));
    }
    call.helper(what, "expand", Attrs::new().ints("shape", &signed(dims)), &[&value])
}

fn local_response(call: &mut Call<'_>) -> Results {
    let size = call.int("size", 0)?;
    if size < 1 {
        return Err(Refusal::attribute("size", "is missing, or less than 1"));
    }
    let x = call.input(0)?;
    let attrs = Attrs::new()
        .int("size", size)
        .float("alpha", call.float("alpha", 1e-4)?)
        .float("beta", call.float("beta", 0.75)?)
        .float("bias", call.float("bias", 1.0)?);
    Ok(vec![call.result("lrn", attrs, &[&x])?])
}

/// The sum is over one axis since opset 13, and over all axes from one on before that.
fn softmax(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    if x.rank() == 0 {
        return Err(Refusal::other("it needs an axis, but its operand is a scalar"));
    }
    let over = |axis: usize| Attrs::new().int("axis", signed(&[axis])[0]);
    if call.opset >= 13 {
        let at = axis(call.int("axis", -1)?, x.rank())?;
        return Ok(vec![call.result(op, over(at), &[&x])?]);
    }
    let at = axis(call.int("axis", 1)?, x.rank())?;
    if x.dims()[at..].iter().filter(|&&dim| dim > 1).count() <= 1 {
        // Only if at most one axis has more than one element can this be a softmax over that axis.
        let one = (at..x.rank()).find(|&axis| x.dims()[axis] > 1).unwrap_or(x.rank() - 1);
        return Ok(vec![call.result(op, over(one), &[&x])?]);
    }
    let rows: usize = x.dims()[..at].iter().product();
    let columns: usize = x.dims()[at..].iter().product();
    let flat = call.reshape(Some("rows"), &x, &[rows, columns])?;
    let result = call.helper("softmax", op, over(1), &[&flat])?;
    Ok(vec![call.reshape(None, &result, x.dims())?])
}
