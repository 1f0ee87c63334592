//! Operators whose results are as long as the values of their operands say, and those that follow an order.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    entry("NonZero", 1, 1, non_zero),
    entry("Compress", 2, 2, compress),
    entry("Unique", 1, 1, unique),
    entry("TopK", 1, 2, top_k),
    entry("CumSum", 2, 2, |call| running(call, "cum-sum")),
    entry("CumProd", 2, 2, |call| running(call, "cum-prod")),
];

/// Returns the first columns of a matrix, as many as the elements of a condition that are not zero.
pub(super) fn counted(
    call: &mut Call<'_>,
    condition: &ImportedValue,
    matrix: &ImportedValue,
    name: Option<&str>,
) -> Result<ImportedValue, Refusal> {
    let one = condition.ty.shape.count();
    let flat = call.reshape(Some("flat"), condition, &[one])?;
    let zero = call.scalar("zero", condition.ty.dtype, 0.0);
    let set = if condition.ty.dtype == DType::Bool {
        flat
    } else {
        let equal = call.helper("is-zero", "equal", Attrs::new(), &[&flat, &zero])?;
        call.helper("is-set", "not", Attrs::new(), &[&equal])?
    };
    let number = call.helper("ones", "cast", Attrs::new().with("to", Attr::DType(DType::I64)), &[&set])?;
    let count =
        call.helper("count", "reduce-sum", Attrs::new().ints("axes", &[0]).int("keepdims", 0), &[&number])?;
    let count = call.demand(&count, "number of elements")?.to_i64().unwrap_or_default();
    let count = count.first().copied().unwrap_or(0);
    first(call, matrix, count, name)
}

/// Returns the first columns of a matrix.
fn first(
    call: &mut Call<'_>,
    matrix: &ImportedValue,
    count: i64,
    name: Option<&str>,
) -> Result<ImportedValue, Refusal> {
    let rows = signed(matrix.dims())[0];
    let attrs = Attrs::new().ints("starts", &[0, 0]).ints("sizes", &[rows, count]).ints("steps", &[1, 1]);
    match name {
        Some(name) => call.helper(name, "slice", attrs, &[matrix]),
        None => call.result("slice", attrs, &[matrix]),
    }
}

fn non_zero(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    // A scalar counts as a list of one element.
    let x = if x.rank() == 0 { call.reshape(Some("list"), &x, &[1])? } else { x };
    let all = call.helper("all", "nonzero", Attrs::new(), &[&x])?;
    Ok(vec![counted(call, &x, &all, None)?])
}

fn compress(call: &mut Call<'_>) -> Results {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    let (x, at) = if call.has("axis") {
        let at = axis(call.int("axis", 0)?, x.rank())?;
        (x, at)
    } else {
        let count = x.ty.shape.count();
        (call.reshape(Some("elements"), &x, &[count])?, 0)
    };
    let length = condition.ty.shape.count().min(x.dims()[at]);
    let attrs = Attrs::new().ints("starts", &[0]).ints("sizes", &signed(&[length])).ints("steps", &[1]);
    let condition = call.helper("condition", "slice", attrs, &[&condition])?;
    let all = call.helper("all", "nonzero", Attrs::new(), &[&condition])?;
    let chosen = counted(call, &condition, &all, Some("chosen"))?;
    let count = chosen.dims()[1];
    let positions = call.reshape(Some("positions"), &chosen, &[count])?;
    Ok(vec![call.result("gather", Attrs::new().int("axis", signed(&[at])[0]), &[&x, &positions])?])
}

/// Slices along the axis are compared. Without an axis, these are the single elements.
fn unique(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let sorted = Attrs::new().int("sorted", i64::from(call.flag("sorted", true)?));
    let along = if call.has("axis") { Some(axis(call.int("axis", 0)?, x.rank())?) } else { None };
    let rows = match along {
        None => call.reshape(Some("elements"), &x, &[x.ty.shape.count()])?,
        Some(0) => x.clone(),
        Some(at) => {
            let mut perm: Vec<usize> = (0..x.rank()).collect();
            perm.remove(at);
            perm.insert(0, at);
            call.helper("rows", "transpose", Attrs::new().ints("perm", &signed(&perm)), &[&x])?
        }
    };
    let positions = call.helper("distinct", "unique-position", sorted.clone(), &[&rows])?;
    // Rows that are no first ones have the count 0.
    let length = signed(&[rows.dims()[0]])[0];
    let row = |call: &mut Call<'_>, at: i64, size: i64, name: &str| {
        let attrs = Attrs::new().ints("starts", &[at, 0]).ints("sizes", &[1, size]).ints("steps", &[1, 1]);
        call.helper(name, "slice", attrs, &[&positions])
    };
    let counts = row(call, 1, length, "equal-rows")?;
    let chosen = counted(call, &counts, &positions, Some("chosen"))?;
    let count = chosen.dims()[1];
    let part = |call: &mut Call<'_>, at: i64, name: &str| {
        let size = signed(&[count])[0];
        let attrs = Attrs::new().ints("starts", &[at, 0]).ints("sizes", &[1, size]).ints("steps", &[1, 1]);
        let part = call.helper(&format!("{name}-row"), "slice", attrs, &[&chosen])?;
        call.reshape(Some(name), &part, &[count])
    };
    let firsts = part(call, 0, "first-positions")?;
    let counts = part(call, 1, "counts")?;
    let attrs = Attrs::new().int("axis", signed(&[along.unwrap_or(0)])[0]);
    let source = if along.is_some() { x } else { rows.clone() };
    let values = call.result_at(0, "gather", attrs, &[&source, &firsts])?;
    let inverse = call.result_at(2, "unique-inverse", sorted, &[&rows])?;
    Ok(vec![values, firsts, inverse, counts])
}

/// The positions are found first, and the elements gathered from there. k is an attribute before opset 10.
fn top_k(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let k = if call.opset < 10 {
        call.int("k", 0)?
    } else {
        let k = call.known_ints(1, "k")?.unwrap_or_default();
        k.first().copied().ok_or_else(|| Refusal::other("its k is empty"))?
    };
    let at = axis(call.int("axis", -1)?, x.rank())?;
    call.ignore(&["sorted"]); // The order is free if it is 0, so that the sorted one is right as well.
    let largest = call.flag("largest", true)?;
    let along = Attrs::new().int("axis", signed(&[at])[0]);
    let attrs = along.clone().int("k", k).int("largest", i64::from(largest));
    let positions = call.result_at(1, "top-k-index", attrs, &[&x])?;
    let values = call.result_at(0, "gather-elements", along, &[&x, &positions])?;
    Ok(vec![values, positions])
}

fn running(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    let over = call.known_ints(1, "axis")?.unwrap_or_default();
    let over = over.first().copied().ok_or_else(|| Refusal::other("its axis is empty"))?;
    let attrs = Attrs::new()
        .int("axis", signed(&[axis(over, x.rank())?])[0])
        .int("exclusive", i64::from(call.flag("exclusive", false)?))
        .int("reverse", i64::from(call.flag("reverse", false)?));
    Ok(vec![call.result(op, attrs, &[&x])?])
}
