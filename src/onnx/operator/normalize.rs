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
    entry("GroupNormalization", 3, 3, group),
    entry("RMSNormalization", 2, 2, root_mean_square),
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

/// Each group is normalised as an image of one channel without scale and bias. These are then applied by channel
/// (since opset 21) or by group (before).
fn group(call: &mut Call<'_>) -> Results {
    call.ignore(&["stash_type"]);
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let groups = usize::try_from(call.int("num_groups", 0)?).unwrap_or(0);
    if x.rank() < 3 || groups == 0 || x.dims()[1] == 0 || !x.dims()[1].is_multiple_of(groups) {
        return Err(Refusal::other(format!("its {groups} groups do not divide the channels of {}", x.ty)));
    }
    let (batch, channels, dtype) = (x.dims()[0], x.dims()[1], x.ty.dtype);
    let image: usize = x.dims()[1..].iter().product::<usize>() / groups;
    let grouped = call.reshape(Some("grouped"), &x, &[batch, groups, image])?;
    let one = call.constant("one", Tensor::from_f64(dtype, [groups], &vec![1.0; groups]));
    let zero = call.constant("zero", Tensor::zeros(TensorType::plain(dtype, [groups])));
    let attrs = Attrs::new().float("epsilon", call.float("epsilon", 1e-5)?);
    let normal = call.helper("normal", "instance-norm", attrs, &[&grouped, &one, &zero])?;
    // The channels of a group get a dimension of their own, so that both kinds of parameters broadcast.
    let wanted = if call.opset >= 21 { channels } else { groups };
    if scale.dims() != [wanted] || bias.dims() != [wanted] {
        return Err(Refusal::other(format!("its scale and bias must be of shape [{wanted}]")));
    }
    let split = [batch, groups, channels / groups, image * groups / channels];
    let parameter = [1, groups, wanted / groups, 1];
    let normal = call.reshape(Some("split"), &normal, &split)?;
    let scale = call.reshape(Some("scale"), &scale, &parameter)?;
    let bias = call.reshape(Some("bias"), &bias, &parameter)?;
    let scaled = call.helper("scaled", "mul", Attrs::new(), &[&normal, &scale])?;
    let shifted = call.helper("shifted", "add", Attrs::new(), &[&scaled, &bias])?;
    Ok(vec![call.reshape(None, &shifted, x.dims())?])
}

/// `x / sqrt(mean(x * x) + epsilon) * scale`.
fn root_mean_square(call: &mut Call<'_>) -> Results {
    if call.int("stash_type", 1)? != 1 {
        return Err(Refusal::attribute("stash_type", "asks for another precision than float32"));
    }
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let at = axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let epsilon = call.scalar("epsilon", x.ty.dtype, epsilon);
    let axes = Attrs::new().ints("axes", &signed(&(at..x.rank()).collect::<Vec<_>>())).int("keepdims", 1);
    let square = call.helper("square", "mul", Attrs::new(), &[&x, &x])?;
    let mean = call.helper("mean", "reduce-mean", axes, &[&square])?;
    let above = call.helper("above-zero", "add", Attrs::new(), &[&mean, &epsilon])?;
    let root = call.helper("root", "sqrt", Attrs::new(), &[&above])?;
    let normal = call.helper("normal", "div", Attrs::new(), &[&x, &root])?;
    Ok(vec![call.result("mul", Attrs::new(), &[&normal, &scale])?])
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
