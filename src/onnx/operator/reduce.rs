//! Reductions over axes.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::{axes, axis, signed};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    entry("ReduceSum", 1, 2, |call| plain(call, "reduce-sum")),
    entry("ReduceMean", 1, 2, |call| plain(call, "reduce-mean")),
    entry("ReduceMax", 1, 2, |call| plain(call, "reduce-max")),
    entry("ReduceMin", 1, 2, |call| plain(call, "reduce-min")),
    entry("ReduceProd", 1, 2, |call| plain(call, "reduce-prod")),
    entry("ReduceL1", 1, 2, l1),
    entry("ReduceL2", 1, 2, l2),
    entry("ReduceLogSum", 1, 2, log_sum),
    entry("ReduceLogSumExp", 1, 2, log_sum_exp),
    entry("ReduceSumSquare", 1, 2, sum_square),
    entry("ArgMax", 1, 1, |call| arg(call, "arg-max")),
    entry("ArgMin", 1, 1, |call| arg(call, "arg-min")),
];

/// The axes of a reduction, and whether they stay with size 1.
struct Axes {
    axes: Option<Vec<i64>>,
    keep: bool,
}

impl Axes {
    /// Reads the axes, which are an attribute before opset 18 (13 for `ReduceSum`), and an operand since then.
    fn read(call: &Call<'_>, x: &ImportedValue) -> Result<Self, Refusal> {
        let operand_from = if call.node.op_type == "ReduceSum" { 13 } else { 18 };
        let given = if call.opset >= operand_from {
            call.known_ints(1, "axes")?
        } else if call.input_count() > 1 {
            return Err(Refusal::other(format!(
                "its axes are an operand, which they are from opset {operand_from} on"
            )));
        } else {
            call.ints("axes")?.map(<[i64]>::to_vec)
        };
        let keep = call.flag("keepdims", true)?;
        let idle = call.opset >= operand_from && call.flag("noop_with_empty_axes", false)?;
        let axes = match given.filter(|list| !list.is_empty()) {
            Some(list) => Some(signed(&axes(&list, x.rank())?)),
            None if idle => None,
            None => Some(signed(&(0..x.rank()).collect::<Vec<_>>())),
        };
        Ok(Self { axes: axes.filter(|axes| !axes.is_empty()), keep })
    }

    fn attrs(&self, keep: bool) -> Attrs {
        Attrs::new().ints("axes", self.axes.as_deref().unwrap_or(&[])).int("keepdims", i64::from(keep))
    }

    fn helper(&self, call: &mut Call<'_>, op: &str, x: &ImportedValue) -> Result<ImportedValue, Refusal> {
        if self.axes.is_none() {
            Ok(x.clone())
        } else {
            call.helper("reduced", op, self.attrs(self.keep), &[x])
        }
    }
}

fn plain(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    if axes.axes.is_none() {
        return Ok(vec![x]);
    }
    if x.ty.dtype == DType::Bool && matches!(op, "reduce-max" | "reduce-min") {
        // False is less than true, as 0 is less than 1.
        let to = |dtype| Attrs::new().with("to", Attr::DType(dtype));
        let number = call.helper("number", "cast", to(DType::U8), &[&x])?;
        let reduced = call.helper("reduced", op, axes.attrs(axes.keep), &[&number])?;
        return Ok(vec![call.result("cast", to(DType::Bool), &[&reduced])?]);
    }
    Ok(vec![call.result(op, axes.attrs(axes.keep), &[&x])?])
}

fn l1(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    if axes.axes.is_none() {
        return Ok(vec![call.result("abs", Attrs::new(), &[&x])?]);
    }
    let positive = call.helper("abs", "abs", Attrs::new(), &[&x])?;
    Ok(vec![call.result("reduce-sum", axes.attrs(axes.keep), &[&positive])?])
}

fn l2(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    let square = call.helper("square", "mul", Attrs::new(), &[&x, &x])?;
    let sum = axes.helper(call, "reduce-sum", &square)?;
    Ok(vec![call.result("sqrt", Attrs::new(), &[&sum])?])
}

fn log_sum(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    let sum = axes.helper(call, "reduce-sum", &x)?;
    Ok(vec![call.result("log", Attrs::new(), &[&sum])?])
}

/// Computes `log(sum(exp(x - m))) + m` with the greatest element `m`, so that nothing overflows.
fn log_sum_exp(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    if axes.axes.is_none() {
        return Ok(vec![x]);
    }
    let greatest = call.helper("greatest", "reduce-max", axes.attrs(true), &[&x])?;
    let greatest = if x.ty.dtype.is_float() { finite(call, greatest)? } else { greatest };
    let shifted = call.helper("shifted", "sub", Attrs::new(), &[&x, &greatest])?;
    let powers = call.helper("exp", "exp", Attrs::new(), &[&shifted])?;
    let sum = call.helper("reduced", "reduce-sum", axes.attrs(true), &[&powers])?;
    let log = call.helper("log", "log", Attrs::new(), &[&sum])?;
    if axes.keep {
        return Ok(vec![call.result("add", Attrs::new(), &[&log, &greatest])?]);
    }
    let kept = call.helper("kept", "add", Attrs::new(), &[&log, &greatest])?;
    let gone = axes.axes.unwrap_or_default();
    let dims: Vec<usize> =
        (0..kept.rank()).filter(|&at| !gone.contains(&signed(&[at])[0])).map(|at| kept.dims()[at]).collect();
    Ok(vec![call.reshape(None, &kept, &dims)?])
}

/// Returns the greatest elements, with zero in place of what is not finite: an infinity less itself is NaN.
fn finite(call: &mut Call<'_>, greatest: ImportedValue) -> Result<ImportedValue, Refusal> {
    let zero = call.scalar("zero", greatest.ty.dtype, 0.0);
    let difference = call.helper("difference", "sub", Attrs::new(), &[&greatest, &greatest])?;
    let usual = call.helper("usual", "equal", Attrs::new(), &[&difference, &zero])?;
    call.helper("shift", "where", Attrs::new(), &[&usual, &greatest, &zero])
}

fn sum_square(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = Axes::read(call, &x)?;
    if axes.axes.is_none() {
        return Ok(vec![call.result("mul", Attrs::new(), &[&x, &x])?]);
    }
    let square = call.helper("square", "mul", Attrs::new(), &[&x, &x])?;
    Ok(vec![call.result("reduce-sum", axes.attrs(axes.keep), &[&square])?])
}

fn arg(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    let at = axis(call.int("axis", 0)?, x.rank())?;
    let others = x.dims().iter().enumerate().filter(|(other, _)| *other != at);
    if x.dims()[at] == 0 && others.map(|(_, size)| size).product::<usize>() > 0 {
        return Err(Refusal::other(format!("dimension {at} has no elements, so none has a position")));
    }
    let last = call.opset >= 12 && call.flag("select_last_index", false)?;
    let attrs = Attrs::new()
        .int("axis", signed(&[at])[0])
        .int("keepdims", i64::from(call.flag("keepdims", true)?))
        .int("select-last", i64::from(last));
    Ok(vec![call.result(op, attrs, &[&x])?])
}
