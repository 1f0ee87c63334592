//! Convolutions and matrix products.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::operator::window::Window;
use crate::onnx::{Refusal, call::signed};
use crate::tensor::{Tensor, TensorType};

pub(super) const TABLE: &[Operator] =
    &[entry("Conv", 2, 3, conv), entry("Gemm", 2, 3, gemm), entry("MatMul", 2, 2, matmul)];

/// Convolutions have one or two dimensions. One dimension becomes two, of which the first has size 1.
fn conv(call: &mut Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(1)?);
    if x.rank() != w.rank() {
        return Err(Refusal::other("its image and its weights differ in their number of dimensions"));
    }
    let group = call.int("group", 1)?;
    let groups = usize::try_from(group).ok().filter(|&groups| groups > 0);
    let groups =
        groups.ok_or_else(|| Refusal::attribute("group", format!("is {group}, and must be at least 1")))?;
    if x.rank() >= 2 {
        let (channels, outputs, depth) = (x.dims()[1], w.dims()[0], w.dims()[1]);
        if depth.checked_mul(groups) != Some(channels) || outputs % groups != 0 {
            return Err(Refusal::other(format!(
                "its image has {channels} channels, but its weights {} are for {} in {groups} group{}",
                w.ty.shape,
                depth.saturating_mul(groups),
                if groups == 1 { "" } else { "s" }
            )));
        }
    }
    if x.rank() == 5 {
        return super::volume::conv(call, &x, &w, group);
    }
    let window = Window::read(call, &x, Some(w.dims().get(2..).unwrap_or(&[])))?;
    window.no_ceil()?;
    let flat = x.rank() == 3;
    let (x, w) =
        if flat { (window.lift(call, "image", &x)?, window.lift(call, "weights", &w)?) } else { (x, w) };
    let bias = match call.optional(2) {
        Some(bias) => bias,
        None => call.constant("bias", Tensor::zeros(TensorType::plain(w.ty.dtype, [w.dims()[0]]))),
    };
    let attrs = Attrs::new()
        .ints("strides", &window.strides)
        .ints("pads", &window.pads())
        .ints("dilations", &window.dilations)
        .int("groups", group);
    window.finish(call, flat, "conv", attrs, &[&x, &w, &bias])
}

/// `alpha * A' * B' + beta * C`.
fn gemm(call: &mut Call<'_>) -> Results {
    let (mut a, mut b) = (call.input(0)?, call.input(1)?);
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    call.ignore(&["broadcast"]); // Since opset 7 the third operand always broadcasts.
    if a.rank() != 2 || b.rank() != 2 {
        return Err(Refusal::other(
            "it multiplies matrices, so its first two operands need two dimensions each",
        ));
    }
    let swap = Attrs::new().ints("perm", &[1, 0]);
    if call.flag("transA", false)? {
        a = call.helper("a", "transpose", swap.clone(), &[&a])?;
    }
    if call.flag("transB", false)? {
        b = call.helper("b", "transpose", swap, &[&b])?;
    }
    if a.dims()[1] != b.dims()[0] {
        return Err(Refusal::other(format!(
            "its matrices are {} and {} where they are multiplied",
            a.ty.shape, b.ty.shape
        )));
    }
    let c = match call.optional(2) {
        Some(_) if beta == 0.0 => None,
        Some(c) if beta != 1.0 => {
            let beta = call.scalar("beta", c.ty.dtype, beta);
            Some(call.helper("c", "mul", Attrs::new(), &[&c, &beta])?)
        }
        c => c,
    };
    if alpha == 1.0 {
        let Some(c) = c else {
            return Ok(vec![call.result("matmul", Attrs::new(), &[&a, &b])?]);
        };
        let product = call.helper("product", "matmul", Attrs::new(), &[&a, &b])?;
        return add(call, &product, &c);
    }
    let product = call.helper("product", "matmul", Attrs::new(), &[&a, &b])?;
    let alpha = call.scalar("alpha", product.ty.dtype, alpha);
    let Some(c) = c else {
        return Ok(vec![call.result("mul", Attrs::new(), &[&product, &alpha])?]);
    };
    let scaled = call.helper("scaled", "mul", Attrs::new(), &[&product, &alpha])?;
    add(call, &scaled, &c)
}

fn add(call: &mut Call<'_>, product: &ImportedValue, c: &ImportedValue) -> Results {
    if product.ty.shape.broadcast(&c.ty.shape).as_ref() != Some(&product.ty.shape) {
        return Err(Refusal::other(format!(
            "its third operand does not broadcast to the product, {}",
            product.ty
        )));
    }
    Ok(vec![call.result("add", Attrs::new(), &[product, c])?])
}

/// Operands of one dimension become a row or a column, and that dimension is removed from the result again.
fn matmul(call: &mut Call<'_>) -> Results {
    let (mut a, mut b) = (call.input(0)?, call.input(1)?);
    if a.rank() == 0 || b.rank() == 0 {
        return Err(Refusal::other("it multiplies matrices, but an operand is a scalar"));
    }
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    if !row && !column {
        return Ok(vec![call.result("matmul", Attrs::new(), &[&a, &b])?]);
    }
    if row {
        let length = a.dims()[0];
        a = call.reshape(Some("row"), &a, &[1, length])?;
    }
    if column {
        let length = b.dims()[0];
        b = call.reshape(Some("column"), &b, &[length, 1])?;
    }
    let product = call.helper("product", "matmul", Attrs::new(), &[&a, &b])?;
    let mut dims = product.dims().to_vec();
    let last = dims.len() - 1;
    if column {
        dims.remove(last);
    }
    if row {
        dims.remove(last - 1);
    }
    let attrs = Attrs::new().ints("shape", &signed(&dims));
    Ok(vec![call.result("reshape", attrs, &[&product])?])
}
