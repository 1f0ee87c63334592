//! Operators that take parts of values, or put parts together.

use super::{ANY, Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::{axes, axis, signed};
use crate::tensor::{Shape, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("Concat", 1, ANY, concat),
    entry("Gather", 2, 2, |call| gather(call, "gather")),
    entry("GatherElements", 2, 2, |call| gather(call, "gather-elements")),
    entry("Pad", 1, 4, pad),
    entry("Slice", 1, 5, slice),
    entry("Split", 1, 2, split),
    entry("Trilu", 1, 2, trilu),
];

fn concat(call: &mut Call<'_>) -> Results {
    let parts = (0..call.input_count()).map(|at| call.input(at)).collect::<Result<Vec<_>, _>>()?;
    if !call.has("axis") && call.opset >= 4 {
        return Err(Refusal::attribute("axis", "is missing"));
    }
    let at = axis(call.int("axis", 1)?, parts[0].rank())?;
    let dtype = parts[0].ty.dtype;
    if let Some(other) = parts.iter().find(|part| part.ty.dtype != dtype || part.rank() != parts[0].rank()) {
        return Err(Refusal::other(format!(
            "it joins {} and {}, which differ in type or number of dimensions",
            parts[0].ty, other.ty
        )));
    }
    // Parts without elements come from computations of shapes, and add nothing.
    let full: Vec<&ImportedValue> = parts.iter().filter(|part| part.dims()[at] > 0).collect();
    match full.as_slice() {
        [] => Ok(vec![parts[0].clone()]),
        [one] => Ok(vec![ImportedValue::clone(one)]),
        full => Ok(vec![call.result("concat", Attrs::new().int("axis", signed(&[at])[0]), full)?]),
    }
}

fn gather(call: &mut Call<'_>, op: &str) -> Results {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let at = axis(call.int("axis", 0)?, x.rank())?;
    if let Some(values) = indices.known().and_then(Tensor::to_i64) {
        let size = signed(&[x.dims()[at]])[0];
        if let Some(index) = values.into_iter().find(|index| !(-size..size).contains(index)) {
            return Err(Refusal::other(format!(
                "its index {index} is out of range for dimension {at}, which is {size}"
            )));
        }
    }
    Ok(vec![call.result(op, Attrs::new().int("axis", signed(&[at])[0]), &[&x, &indices])?])
}

/// A part of a value, with one start, size and step for each dimension.
struct Part {
    starts: Vec<i64>,
    sizes: Vec<i64>,
    steps: Vec<i64>,
}

impl Part {
    /// Returns the part that is all of a value.
    fn whole(x: &ImportedValue) -> Self {
        Self { starts: vec![0; x.rank()], sizes: signed(x.dims()), steps: vec![1; x.rank()] }
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("starts", &self.starts).ints("sizes", &self.sizes).ints("steps", &self.steps)
    }

    fn is_whole(&self, x: &ImportedValue) -> bool {
        self.sizes == signed(x.dims()) && self.steps.iter().all(|&step| step == 1)
    }

    /// Returns a value without elements if the part has none.
    fn empty(&self, x: &ImportedValue) -> Option<Tensor> {
        let dims: Vec<usize> = self.sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        dims.contains(&0).then(|| Tensor::zeros(TensorType::plain(x.ty.dtype, Shape::new(dims))))
    }
}

/// Starts, ends and axes are attributes before opset 10, and operands since then.
fn slice(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let (starts, ends, over, steps) = if call.opset < 10 {
        if call.input_count() > 1 {
            return Err(Refusal::other("its limits are operands, which they are from opset 10 on"));
        }
        let list = |name| Ok::<_, Refusal>(call.ints(name)?.map(<[i64]>::to_vec));
        (list("starts")?, list("ends")?, list("axes")?, None)
    } else {
        (
            call.known_ints(1, "starts")?,
            call.known_ints(2, "ends")?,
            call.known_ints(3, "axes")?,
            call.known_ints(4, "steps")?,
        )
    };
    let (starts, ends) = (
        starts.ok_or_else(|| Refusal::other("its starts are missing"))?,
        ends.ok_or_else(|| Refusal::other("its ends are missing"))?,
    );
    let over = over.unwrap_or_else(|| (0..signed(&[starts.len()])[0]).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), over.len(), steps.len()] != [starts.len(); 3] {
        let lengths = [starts.len(), ends.len(), over.len(), steps.len()];
        return Err(Refusal::other(format!(
            "its starts, ends, axes and steps have {lengths:?} numbers, and must have as many"
        )));
    }
    axes(&over, x.rank())?;
    let mut part = Part::whole(&x);
    for (((&start, &end), &over), &step) in starts.iter().zip(&ends).zip(&over).zip(&steps) {
        let at = axis(over, x.rank())?;
        let size = signed(&[x.dims()[at]])[0];
        let wrap = |value: i64| {
            if value < 0 { value.saturating_add(size) } else { value }
        };
        if step == 0 {
            return Err(Refusal::other(format!("its step is 0 in dimension {at}")));
        }
        let (start, distance) = if step > 0 {
            let start = wrap(start).clamp(0, size);
            (start, wrap(end).clamp(0, size) - start)
        } else {
            let start = wrap(start).min(size - 1).max(0);
            (start, start - wrap(end).min(size - 1).max(-1))
        };
        let stride = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
        part.sizes[at] = if distance <= 0 || size == 0 { 0 } else { (distance - 1) / stride + 1 };
        // The step of a single element is never used. It is set to 1, since an enormous one could overflow.
        part.steps[at] = if part.sizes[at] <= 1 { 1 } else { step };
        part.starts[at] = start;
    }
    if let Some(empty) = part.empty(&x) {
        return Ok(vec![call.constant_result(empty)]);
    }
    if part.is_whole(&x) {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("slice", part.attrs(), &[&x])?])
}

/// The sizes are an attribute before opset 13, and an operand since then. Without sizes, the parts are
/// equal.
fn split(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let at = axis(call.int("axis", 0)?, x.rank())?;
    let total = signed(&[x.dims()[at]])[0];
    let given = if call.opset >= 13 {
        call.known_ints(1, "sizes")?
    } else if call.input_count() > 1 {
        return Err(Refusal::other("its sizes are an operand, which they are from opset 13 on"));
    } else {
        call.ints("split")?.map(<[i64]>::to_vec)
    };
    let outputs = signed(&[call.node.output.len()])[0];
    let count = if call.opset >= 18 { call.int("num_outputs", outputs)? } else { outputs };
    let sizes = match given {
        Some(sizes) => sizes,
        None if count != outputs => {
            return Err(Refusal::other(format!("it splits into {count} parts, but has {outputs} results")));
        }
        None if total % count != 0 && call.opset < 18 => {
            return Err(Refusal::other(format!(
                "it splits dimension {at}, which is {total}, into {count} equal parts"
            )));
        }
        None => {
            let size = (total + count - 1) / count;
            (0..count).map(|part| (total - part * size).clamp(0, size)).collect()
        }
    };
    let sum = sizes.iter().try_fold(0_i64, |sum, &size| sum.checked_add(size));
    if sum != Some(total) || sizes.iter().any(|&size| size < 0) {
        return Err(Refusal::other(format!(
            "its parts {sizes:?} do not make up dimension {at}, which is {total}"
        )));
    }
    if signed(&[sizes.len()])[0] < outputs {
        return Err(Refusal::other(format!("it has {outputs} results, but only {} parts", sizes.len())));
    }
    let mut results = Vec::new();
    let mut start = 0;
    for (position, &size) in sizes.iter().take(call.node.output.len()).enumerate() {
        let mut part = Part::whole(&x);
        (part.starts[at], part.sizes[at]) = (start, size);
        start += size;
        results.push(if part.is_whole(&x) {
            x.clone()
        } else if let Some(empty) = part.empty(&x) {
            ImportedValue::constant(call.output_name(position), empty)
        } else {
            call.result_at(position, "slice", part.attrs(), &[&x])?
        });
    }
    Ok(results)
}

/// Pads with a constant, or with the edge, the reflection or the other end of the value, which are taken by the
/// indices of each axis.
fn pad(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let mode = call.text("mode", "constant")?;
    let (amounts, fill, over) = if call.opset < 11 {
        let name = if call.opset < 2 { "paddings" } else { "pads" };
        let amounts = call.ints(name)?.map(<[i64]>::to_vec);
        let fill = call.float("value", 0.0)?;
        (amounts, call.scalar("value", x.ty.dtype, fill), None)
    } else {
        let fill = match call.optional(2) {
            Some(value) if value.ty.shape.count() == 1 => call.reshape(Some("value"), &value, &[])?,
            Some(value) => return Err(Refusal::other(format!("its value is {}, not one element", value.ty))),
            None => call.scalar("value", x.ty.dtype, 0.0),
        };
        (call.known_ints(1, "pads")?, fill, call.known_ints(3, "axes")?)
    };
    let amounts = amounts.ok_or_else(|| Refusal::other("its amounts of padding are missing"))?;
    let over = over.unwrap_or_else(|| (0..signed(&[x.rank()])[0]).collect());
    axes(&over, x.rank())?;
    if amounts.len() != 2 * over.len() {
        return Err(Refusal::other(format!(
            "it has {} amounts of padding for both ends of {} dimensions",
            amounts.len(),
            over.len()
        )));
    }
    let (mut begin, mut end) = (vec![0; x.rank()], vec![0; x.rank()]);
    for (position, &over_axis) in over.iter().enumerate() {
        let at = axis(over_axis, x.rank())?;
        (begin[at], end[at]) = (amounts[position], amounts[position + over.len()]);
    }
    if amounts.iter().any(|amount| amount.unsigned_abs() > 1 << 24) {
        return Err(Refusal::other(format!("its amounts of padding {amounts:?} are out of range")));
    }
    let x = crop(call, x, &mut begin, &mut end)?;
    if begin.iter().chain(&end).all(|&amount| amount == 0) {
        return Ok(vec![x]);
    }
    if mode == "constant" {
        return Ok(vec![call.result(
            "pad",
            Attrs::new().ints("pads", &[begin, end].concat()),
            &[&x, &fill],
        )?]);
    }
    let padded: Vec<usize> = (0..x.rank()).filter(|&at| begin[at] != 0 || end[at] != 0).collect();
    let mut value = x;
    for &at in &padded {
        let size = signed(&[value.dims()[at]])[0];
        if size == 0 {
            return Err(Refusal::other(format!(
                "dimension {at} has no elements to pad with (mode `{mode}`)"
            )));
        }
        let list = (-begin[at]..size + end[at])
            .map(|index| source(mode, index, size))
            .collect::<Result<Vec<_>, _>>()?;
        let indices = call.constant(&format!("indices-of-{at}"), Tensor::from_elements([list.len()], &list));
        let attrs = Attrs::new().int("axis", signed(&[at])[0]);
        value = if Some(&at) == padded.last() {
            call.result("gather", attrs, &[&value, &indices])?
        } else {
            call.helper(&format!("padded-in-{at}"), "gather", attrs, &[&value, &indices])?
        };
    }
    Ok(vec![value])
}

/// Removes the elements that negative padding takes away.
fn crop(
    call: &mut Call<'_>,
    x: ImportedValue,
    begin: &mut [i64],
    end: &mut [i64],
) -> Result<ImportedValue, Refusal> {
    let mut part = Part::whole(&x);
    for at in 0..x.rank() {
        part.starts[at] = (-begin[at]).max(0);
        part.sizes[at] -= part.starts[at] + (-end[at]).max(0);
        if part.sizes[at] < 0 {
            return Err(Refusal::other(format!(
                "its negative padding takes more than all of dimension {at}"
            )));
        }
        (begin[at], end[at]) = (begin[at].max(0), end[at].max(0));
    }
    if part.is_whole(&x) {
        return Ok(x);
    }
    match part.empty(&x) {
        Some(empty) => Ok(call.constant("cropped", empty)),
        None => call.helper("cropped", "slice", part.attrs(), &[&x]),
    }
}

/// Returns the index of the element that is repeated at an index outside of a dimension.
fn source(mode: &str, index: i64, size: i64) -> Result<i64, Refusal> {
    match mode {
        "edge" => Ok(index.clamp(0, size - 1)),
        "wrap" => Ok(index.rem_euclid(size)),
        "reflect" if size == 1 => Ok(0),
        "reflect" => {
            let folded = index.rem_euclid(2 * (size - 1));
            Ok(folded.min(2 * (size - 1) - folded))
        }
        other => {
            Err(Refusal::attribute("mode", format!("is `{other}`, not constant, edge, reflect or wrap")))
        }
    }
}

/// Keeps a triangle of the last two dimensions and sets the other elements to zero, with a constant mask.
fn trilu(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let upper = call.flag("upper", true)?;
    let diagonal = call.known_ints(1, "diagonal")?.and_then(|list| list.first().copied()).unwrap_or(0);
    let &[.., rows, columns] = x.dims() else {
        return Err(Refusal::other(format!("it needs two dimensions, but has {}", x.ty)));
    };
    let (row_count, column_count) = (signed(&[rows])[0], signed(&[columns])[0]);
    let kept = |row: i64, column: i64| {
        let offset = (column - row).saturating_sub(diagonal);
        if upper { offset >= 0 } else { offset <= 0 }
    };
    let mask: Vec<bool> =
        (0..row_count).flat_map(|row| (0..column_count).map(move |column| kept(row, column))).collect();
    let mask = call.constant("mask", Tensor::from_bools([rows, columns], &mask));
    let zero = call.scalar("zero", x.ty.dtype, 0.0);
    Ok(vec![call.result("where", Attrs::new(), &[&mask, &x, &zero])?])
}
