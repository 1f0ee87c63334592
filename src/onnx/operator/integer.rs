//! Products and convolutions of integers.

use super::window::Window;
use super::{ANY, Call, ImportedValue, Operator, Results, body, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::{axis, signed};

pub(super) const TABLE: &[Operator] = &[
    entry("ConvInteger", 2, 4, convolution),
    entry("MatMulInteger", 2, 4, product),
    entry("com.microsoft.QLinearConcat", 5, ANY, concat),
    // The heart of `QuantizeLinear` and `DequantizeLinear`, for their definitions in `ops/quantised.ron`.
    entry("ovolo.Quantize", 3, 3, |call| level(call, "quantize")),
    entry("ovolo.Dequantize", 3, 3, |call| level(call, "dequantize")),
];

/// Levels of numbers, or numbers of levels, with scales and zero points that broadcast to them.
fn level(call: &mut Call<'_>, op: &str) -> Results {
    let (x, scale, zero) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(vec![call.result(op, Attrs::new(), &[&x, &scale, &zero])?])
}

/// Joins levels of numbers as levels of another scale. The scale and the zero point of the result come first, then a
/// tensor, its scale and its zero point for each part.
fn concat(call: &mut Call<'_>) -> Results {
    let (scale, zero) = (call.input(0)?, call.input(1)?);
    let count = call.input_count() - 2;
    if !count.is_multiple_of(3) {
        return Err(Refusal::other(format!(
            "it joins tensors with a scale and a zero point each, but has {count} operands beside those of its result"
        )));
    }
    let mut parts = Vec::new();
    for at in (2..call.input_count()).step_by(3) {
        let operands = vec![Some(call.input(at)?), Some(call.input(at + 1)?), call.optional(at + 2)];
        let name = call.inner_name("part");
        parts.push(body::apply_to(call, &name, "DequantizeLinear", operands)?);
    }
    let attrs = Attrs::new().int("axis", signed(&[axis(call.int("axis", 1)?, parts[0].rank())?])[0]);
    let joined = call.helper("joined", "concat", attrs, &parts.iter().collect::<Vec<_>>())?;
    let name = call.node.output.first().cloned().unwrap_or_default();
    Ok(vec![body::apply_to(call, &name, "QuantizeLinear", vec![Some(joined), Some(scale), Some(zero)])?])
}

/// Returns the zero point of a factor, which is 0 if it is left out.
fn zero_point(call: &mut Call<'_>, at: usize, factor: &ImportedValue) -> ImportedValue {
    match call.optional(at) {
        Some(point) => point,
        None => call.scalar("zero-point", factor.ty.dtype, 0.0),
    }
}

/// A zero point of one dimension is that of rows for the first factor, and that of columns for the second one.
fn product(call: &mut Call<'_>) -> Results {
    let (mut a, mut b) = (call.input(0)?, call.input(1)?);
    let (mut p, mut q) = (zero_point(call, 2, &a), zero_point(call, 3, &b));
    if a.rank() == 0 || b.rank() == 0 {
        return Err(Refusal::other("it multiplies matrices, but an operand is a scalar"));
    }
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    if p.rank() == 1 {
        let length = p.dims()[0];
        p = call.reshape(Some("rows"), &p, &[length, 1])?;
    }
    if q.rank() == 1 && column {
        q = call.reshape(Some("zero"), &q, &[])?;
    }
    if row {
        let length = a.dims()[0];
        a = call.reshape(Some("row"), &a, &[1, length])?;
    }
    if column {
        let length = b.dims()[0];
        b = call.reshape(Some("column"), &b, &[length, 1])?;
    }
    if !row && !column {
        return Ok(vec![call.result("matmul-integer", Attrs::new(), &[&a, &b, &p, &q])?]);
    }
    let result = call.helper("product", "matmul-integer", Attrs::new(), &[&a, &b, &p, &q])?;
    let mut dims = result.dims().to_vec();
    let last = dims.len() - 1;
    if column {
        dims.remove(last);
    }
    if row {
        dims.remove(last - usize::from(true));
    }
    Ok(vec![call.reshape(None, &result, &dims)?])
}

fn convolution(call: &mut Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (p, q) = (zero_point(call, 2, &x), zero_point(call, 3, &w));
    if x.rank() != w.rank() {
        return Err(Refusal::other("its image and its weights differ in their number of dimensions"));
    }
    let group = call.int("group", 1)?;
    let window = Window::read(call, &x, Some(w.dims().get(2..).unwrap_or(&[])))?;
    window.no_ceil()?;
    let flat = x.rank() == 3;
    let (x, w) =
        if flat { (window.lift(call, "image", &x)?, window.lift(call, "weights", &w)?) } else { (x, w) };
    let attrs = Attrs::new()
        .ints("strides", &window.strides)
        .ints("pads", &window.pads())
        .ints("dilations", &window.dilations)
        .int("groups", group);
    window.finish(call, flat, "conv-integer", attrs, &[&x, &w, &p, &q])
}
