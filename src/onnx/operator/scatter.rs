//! Operators that read from or write to positions which operands hold.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::tensor::{DType, Tensor};

pub(super) const TABLE: &[Operator] = &[
    entry("Scatter", 3, 3, elements),
    entry("ScatterElements", 3, 3, elements),
    entry("ScatterND", 3, 3, nd),
    entry("GatherND", 2, 2, gather_nd),
    entry("OneHot", 3, 3, one_hot),
    entry("Hardmax", 1, 1, hardmax),
    entry("ReverseSequence", 2, 2, reverse_sequence),
    entry("TensorScatter", 2, 3, tensor_scatter),
    entry("MaxUnpool", 2, 3, max_unpool),
];

/// Converts an operand of positions to a type that ops take.
fn positions(call: &mut Call<'_>, at: usize) -> Result<ImportedValue, Refusal> {
    let value = call.input(at)?;
    match value.ty.dtype {
        DType::I32 | DType::I64 => Ok(value),
        _ => call.helper("positions", "cast", Attrs::new().with("to", Attr::DType(DType::I64)), &[&value]),
    }
}

fn reduction(call: &Call<'_>, attrs: Attrs) -> Result<Attrs, Refusal> {
    let reduction = if call.has("reduction") { call.text("reduction", "none")? } else { "none" };
    Ok(attrs.with("reduction", Attr::Str(reduction.into())))
}

fn elements(call: &mut Call<'_>) -> Results {
    let (x, updates) = (call.input(0)?, call.input(2)?);
    let at = axis(call.int("axis", 0)?, x.rank())?;
    let attrs = reduction(call, Attrs::new().int("axis", signed(&[at])[0]))?;
    let positions = positions(call, 1)?;
    if positions.ty.shape.count() == 0 {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("scatter-elements", attrs, &[&x, &positions, &updates])?])
}

fn nd(call: &mut Call<'_>) -> Results {
    let (x, updates) = (call.input(0)?, call.input(2)?);
    let attrs = reduction(call, Attrs::new())?;
    let positions = positions(call, 1)?;
    if updates.ty.shape.count() == 0 {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("scatter-nd", attrs, &[&x, &positions, &updates])?])
}

fn gather_nd(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let attrs = Attrs::new().int("batch-dims", call.int("batch_dims", 0)?);
    let positions = positions(call, 1)?;
    Ok(vec![call.result("gather-nd", attrs, &[&x, &positions])?])
}

/// The position is compared with every number below the depth. Negative positions count from the end.
fn one_hot(call: &mut Call<'_>) -> Results {
    let (positions, depth, values) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let depth = call.demand(&depth, "depth")?.to_f64().first().copied().unwrap_or(0.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let depth =
        if depth >= 1.0 { depth as usize } else { return Err(Refusal::other("its depth is below 1")) };
    let at = axis(call.int("axis", -1)?, positions.rank() + 1)?;
    let mut dims = positions.dims().to_vec();
    dims.insert(at, 1);
    let wide =
        call.helper("wide", "cast", Attrs::new().with("to", Attr::DType(DType::F64)), &[&positions])?;
    let wide = if positions.ty.dtype == DType::F64 { positions.clone() } else { wide };
    let column = call.reshape(Some("column"), &wide, &dims)?;
    let zero = call.scalar("zero", DType::F64, 0.0);
    #[allow(clippy::cast_precision_loss)]
    let size = call.scalar("depth", DType::F64, depth as f64);
    let below = call.helper("below", "less", Attrs::new(), &[&column, &zero])?;
    let from_end = call.helper("from-end", "add", Attrs::new(), &[&column, &size])?;
    let position = call.helper("position", "where", Attrs::new(), &[&below, &from_end, &column])?;
    let mut line = vec![1; dims.len()];
    line[at] = depth;
    #[allow(clippy::cast_precision_loss)]
    let numbers: Vec<f64> = (0..depth).map(|number| number as f64).collect();
    let numbers = call.constant("numbers", Tensor::from_f64(DType::F64, line, &numbers));
    let hot = call.helper("hot", "equal", Attrs::new(), &[&position, &numbers])?;
    let value = |call: &mut Call<'_>, at: i64, name: &str| {
        let attrs = Attrs::new().ints("starts", &[at]).ints("sizes", &[1]).ints("steps", &[1]);
        let one = call.helper(&format!("{name}-value"), "slice", attrs, &[&values])?;
        call.reshape(Some(name), &one, &[])
    };
    let (off, on) = (value(call, 0, "off")?, value(call, 1, "on")?);
    Ok(vec![call.result("where", Attrs::new(), &[&hot, &on, &off])?])
}

/// One at the first largest element along an axis, else zero. Before opset 13 the axes from the given one on are one.
fn hardmax(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let new = call.opset >= 13;
    let at = axis(call.int("axis", if new { -1 } else { 1 })?, x.rank().max(1))?;
    let rows: usize = x.dims()[..at].iter().product();
    let flat = if new {
        x.clone()
    } else {
        call.reshape(Some("rows"), &x, &[rows, x.ty.shape.count() / rows.max(1)])?
    };
    let at = if new { at } else { 1 };
    let size = flat.dims()[at];
    let attrs = Attrs::new().int("axis", signed(&[at])[0]).int("keepdims", 1);
    let best = call.helper("best", "arg-max", attrs, &[&flat])?;
    let mut line = vec![1; flat.rank()];
    line[at] = size;
    let numbers = Tensor::from_elements(line, &signed(&(0..size).collect::<Vec<_>>()));
    let numbers = call.constant("numbers", numbers);
    let hot = call.helper("hot", "equal", Attrs::new(), &[&best, &numbers])?;
    let to = Attrs::new().with("to", Attr::DType(x.ty.dtype));
    if new {
        return Ok(vec![call.result("cast", to, &[&hot])?]);
    }
    let number = call.helper("number", "cast", to, &[&hot])?;
    Ok(vec![call.reshape(None, &number, x.dims())?])
}

/// Element t of a sequence becomes element length - 1 - t, if it is within the length.
fn reverse_sequence(call: &mut Call<'_>) -> Results {
    let (x, lengths) = (call.input(0)?, positions(call, 1)?);
    let batch = axis(call.int("batch_axis", 1)?, x.rank())?;
    let time = axis(call.int("time_axis", 0)?, x.rank())?;
    let mut dims = vec![1; x.rank()];
    dims[batch] = x.dims()[batch];
    let lengths = call.reshape(Some("lengths"), &lengths, &dims)?;
    let mut line = vec![1; x.rank()];
    line[time] = x.dims()[time];
    let steps: Vec<f64> =
        signed(&(0..x.dims()[time]).collect::<Vec<_>>()).iter().map(|t| *t as f64).collect();
    let steps = call.constant("steps", Tensor::from_f64(lengths.ty.dtype, line, &steps));
    let one = call.scalar("one", lengths.ty.dtype, 1.0);
    let last = call.helper("last", "sub", Attrs::new(), &[&lengths, &one])?;
    let mirrored = call.helper("mirrored", "sub", Attrs::new(), &[&last, &steps])?;
    let within = call.helper("within", "less", Attrs::new(), &[&steps, &lengths])?;
    let from = call.helper("from", "where", Attrs::new(), &[&within, &mirrored, &steps])?;
    let shape = Attrs::new().ints("shape", &signed(x.dims()));
    let from = call.helper("positions", "expand", shape, &[&from])?;
    let attrs = Attrs::new().int("axis", signed(&[time])[0]);
    Ok(vec![call.result("gather-elements", attrs, &[&x, &from])?])
}

/// Writes an update along an axis of a cache, from a position of each batch on.
fn tensor_scatter(call: &mut Call<'_>) -> Results {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let at = axis(call.int("axis", -2)?, cache.rank())?;
    let circular = call.text("mode", "linear")? == "circular";
    let mut line = vec![1; cache.rank()];
    line[at] = update.dims()[at];
    let steps = Tensor::from_elements(line, &signed(&(0..update.dims()[at]).collect::<Vec<_>>()));
    let mut to = call.constant("steps", steps);
    if call.optional(2).is_some() {
        let start = positions(call, 2)?;
        let start = match start.ty.dtype {
            DType::I64 => start,
            _ => call.helper("start", "cast", Attrs::new().with("to", Attr::DType(DType::I64)), &[&start])?,
        };
        let mut dims = vec![1; cache.rank()];
        dims[0] = cache.dims()[0];
        let start = call.reshape(Some("starts"), &start, &dims)?;
        to = call.helper("to", "add", Attrs::new(), &[&start, &to])?;
    }
    if circular {
        #[allow(clippy::cast_precision_loss)]
        let size = call.scalar("size", DType::I64, cache.dims()[at] as f64);
        to = call.helper("wrapped", "mod", Attrs::new().int("fmod", 0), &[&to, &size])?;
    }
    let to =
        call.helper("positions", "expand", Attrs::new().ints("shape", &signed(update.dims())), &[&to])?;
    let attrs = Attrs::new().int("axis", signed(&[at])[0]).with("reduction", Attr::Str("none".into()));
    Ok(vec![call.result("scatter-elements", attrs, &[&cache, &to, &update])?])
}

/// Writes each element to its position in an image of zeros; positions count over the whole result.
fn max_unpool(call: &mut Call<'_>) -> Results {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let spatial = x.rank().saturating_sub(2);
    let kernel = call.ints("kernel_shape")?.unwrap_or_default().to_vec();
    let strides = call.ints("strides")?.map_or_else(|| vec![1; spatial], <[i64]>::to_vec);
    let pads = call.ints("pads")?.map_or_else(|| vec![0; 2 * spatial], <[i64]>::to_vec);
    if kernel.len() != spatial || strides.len() != spatial || pads.len() != 2 * spatial {
        return Err(Refusal::other("its kernel_shape, strides and pads do not fit the image"));
    }
    let mut natural = signed(&x.dims()[..2]);
    for at in 0..spatial {
        let size = signed(x.dims())[2 + at];
        natural.push((size - 1) * strides[at] + kernel[at] - pads[at] - pads[spatial + at]);
    }
    let wanted = call.known_ints(2, "output shape")?.unwrap_or_else(|| natural.clone());
    let sizes =
        |list: &[i64]| list.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>();
    let (Some(from), Some(to)) = (sizes(&natural), sizes(&wanted)) else {
        return Err(Refusal::other("its result has a negative size"));
    };
    let total: usize = to.iter().product();
    let zero = call.constant("zero", Tensor::zeros(crate::tensor::TensorType::plain(x.ty.dtype, [total])));
    let count = x.ty.shape.count();
    let flat = call.reshape(Some("elements"), &x, &[count])?;
    let mut flat_places = call.reshape(Some("places"), &places, &[count])?;
    if from != to {
        // Positions count in the natural size, and are converted to those in the wanted size.
        flat_places = moved(call, &flat_places, &from, &to)?;
    }
    let attrs = Attrs::new().int("axis", 0).with("reduction", Attr::Str("none".into()));
    let written = call.helper("written", "scatter-elements", attrs, &[&zero, &flat_places, &flat])?;
    Ok(vec![call.reshape(None, &written, &to)?])
}

/// Converts positions in one shape to the positions of the same indices in another shape.
fn moved(
    call: &mut Call<'_>,
    places: &ImportedValue,
    from: &[usize],
    to: &[usize],
) -> Result<ImportedValue, Refusal> {
    let strides = |dims: &[usize]| crate::tensor::Shape::from(dims).strides();
    let (old, new) = (strides(from), strides(to));
    let mut result: Option<ImportedValue> = None;
    for at in 0..from.len() {
        #[allow(clippy::cast_precision_loss)]
        let number =
            |call: &mut Call<'_>, name: &str, value: usize| call.scalar(name, DType::I64, value as f64);
        let (stride, size, next) =
            (number(call, "stride", old[at]), number(call, "size", from[at]), number(call, "step", new[at]));
        let index = call.helper(&format!("index-{at}"), "div", Attrs::new(), &[places, &stride])?;
        let index =
            call.helper(&format!("along-{at}"), "mod", Attrs::new().int("fmod", 0), &[&index, &size])?;
        let part = call.helper(&format!("part-{at}"), "mul", Attrs::new(), &[&index, &next])?;
        result = Some(match result {
            None => part,
            Some(sum) => call.helper(&format!("sum-{at}"), "add", Attrs::new(), &[&sum, &part])?,
        });
    }
    result.ok_or_else(|| Refusal::other("its image has no axes"))
}
