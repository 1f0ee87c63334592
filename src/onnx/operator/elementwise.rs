//! Operators that work element by element.

use super::{ANY, Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::element::{element_named, element_type};
use crate::onnx::{Refusal, proto::AttributeType};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    entry("IsNaN", 1, 1, |call| unary(call, "isnan")),
    entry("Not", 1, 1, |call| unary(call, "not")),
    entry("PRelu", 2, 2, prelu),
    entry("IsInf", 1, 1, is_inf),
    entry("Clip", 1, 3, clip),
    entry("Cast", 1, 1, cast),
    entry("CastLike", 2, 2, cast_like),
    entry("BitCast", 1, 1, bit_cast),
    entry("Where", 3, 3, select),
    entry("BitwiseNot", 1, 1, |call| unary(call, "bit-not")),
    entry("Pow", 2, 2, pow),
    entry("Sum", 1, ANY, |call| chain(call, "add").map(|sum| vec![sum])),
    entry("Min", 1, ANY, |call| chain(call, "min").map(|least| vec![least])),
    entry("Max", 1, ANY, |call| chain(call, "max").map(|most| vec![most])),
    entry("Mean", 1, ANY, mean),
];

fn unary(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    Ok(vec![call.result(op, Attrs::new(), &[&x])?])
}

/// Before opset 7, the axes of the second operand were those of the first one from `axis` on, or the last ones.
pub(super) fn aligned(
    call: &mut Call<'_>,
    a: &ImportedValue,
    b: ImportedValue,
) -> Result<ImportedValue, Refusal> {
    if call.opset >= 7 {
        return Ok(b);
    }
    let broadcast = call.flag("broadcast", false)?;
    if !call.has("axis") || !broadcast {
        return Ok(b);
    }
    let at = crate::onnx::call::axis(call.int("axis", 0)?, a.rank())?;
    let mut dims = b.dims().to_vec();
    let after = a.rank().checked_sub(at + dims.len()).ok_or_else(|| {
        Refusal::attribute("axis", format!("is {at}, from where on {} has fewer axes than {}", a.ty, b.ty))
    })?;
    dims.extend(std::iter::repeat_n(1, after));
    call.reshape(Some("aligned"), &b, &dims)
}

/// Compares with both infinities, or with only one of them if the other is switched off.
fn is_inf(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let (negative, positive) = (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    let limit = match (negative, positive) {
        (_, true) => f64::INFINITY,
        (true, false) => f64::NEG_INFINITY,
        (false, false) => f64::NAN, // Nothing equals it.
    };
    let limit = call.scalar("infinity", x.ty.dtype, limit);
    let size = if negative && positive { call.helper("abs", "abs", Attrs::new(), &[&x])? } else { x };
    Ok(vec![call.result("equal", Attrs::new(), &[&size, &limit])?])
}

/// `x` where it is not negative, else `slope * x`.
fn prelu(call: &mut Call<'_>) -> Results {
    let (x, mut slope) = (call.input(0)?, call.input(1)?);
    // Before opset 7, a line of slopes was one for each channel.
    if call.opset < 7 && slope.rank() == 1 && x.rank() > 2 && slope.dims() == [x.dims()[1]] {
        let mut dims = vec![1; x.rank() - 1];
        dims[0] = slope.dims()[0];
        slope = call.reshape(Some("slopes"), &slope, &dims)?;
    }
    if x.ty.shape.broadcast(&slope.ty.shape).as_ref() != Some(&x.ty.shape) {
        return Err(Refusal::other("its slope does not broadcast to the shape of its first operand"));
    }
    let zero = call.scalar("zero", x.ty.dtype, 0.0);
    let finite = slope.known().is_some_and(|tensor| tensor.to_f64().iter().all(|slope| slope.is_finite()));
    if !finite {
        // Zero times a slope that may be infinite or NaN is no zero.
        let sloped = call.helper("sloped", "mul", Attrs::new(), &[&x, &slope])?;
        let negative = call.helper("negative", "less", Attrs::new(), &[&x, &zero])?;
        return Ok(vec![call.result("where", Attrs::new(), &[&negative, &sloped, &x])?]);
    }
    let positive = call.helper("positive", "max", Attrs::new(), &[&x, &zero])?;
    let negative = call.helper("negative", "min", Attrs::new(), &[&x, &zero])?;
    let sloped = call.helper("sloped", "mul", Attrs::new(), &[&negative, &slope])?;
    Ok(vec![call.result("add", Attrs::new(), &[&positive, &sloped])?])
}

/// The limits are attributes before opset 11, and operands since then.
fn clip(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let attribute_form = call.opset < 11;
    if attribute_form && call.input_count() > 1 {
        return Err(Refusal::other("its limits are operands, which they are from opset 11 on"));
    }
    let limit = |value: Option<ImportedValue>, default: f64| match value {
        None => Some(default),
        Some(value) if value.ty.shape.count() == 1 && value.ty.dtype == x.ty.dtype => {
            value.known().map(|tensor| tensor.to_f64()[0])
        }
        Some(_) => None,
    };
    let (low, high) = if attribute_form {
        let low = call.float_if("min")?.filter(|&low| low > f64::from(f32::MIN));
        let high = call.float_if("max")?.filter(|&high| high < f64::from(f32::MAX));
        (low.or(Some(f64::NEG_INFINITY)), high.or(Some(f64::INFINITY)))
    } else {
        (limit(call.optional(1), f64::NEG_INFINITY), limit(call.optional(2), f64::INFINITY))
    };
    match (low, high) {
        (Some(f64::NEG_INFINITY), Some(f64::INFINITY)) => return Ok(vec![x]),
        (Some(low), Some(high)) if x.ty.dtype.is_float() => {
            let attrs = Attrs::new().float("min", low).float("max", high);
            return Ok(vec![call.result("clip", attrs, &[&x])?]);
        }
        _ => {}
    }
    // Integers, and limits that are computed while the model runs.
    let float = x.ty.dtype.is_float();
    match (call.optional(1), call.optional(2)) {
        // By ONNX's definition a limit bounds what compares beyond it, so a limit that is NaN bounds nothing.
        (Some(low), None) if float => bounded(call, None, "greater", &low, &x).map(|value| vec![value]),
        (None, Some(high)) if float => bounded(call, None, "less", &high, &x).map(|value| vec![value]),
        (Some(low), Some(high)) if float => {
            let raised = bounded(call, Some("raised"), "greater", &low, &x)?;
            bounded(call, None, "less", &high, &raised).map(|value| vec![value])
        }
        (None, None) => Err(Refusal::other(format!("its limits are floats, but it clips {}", x.ty))),
        (Some(low), None) => Ok(vec![call.result("max", Attrs::new(), &[&x, &low])?]),
        (None, Some(high)) => Ok(vec![call.result("min", Attrs::new(), &[&x, &high])?]),
        (Some(low), Some(high)) => {
            let raised = call.helper("raised", "max", Attrs::new(), &[&x, &low])?;
            Ok(vec![call.result("min", Attrs::new(), &[&raised, &high])?])
        }
    }
}

/// The limit where it compares so with `x`, else `x`. The result has no suffix.
fn bounded(
    call: &mut Call<'_>,
    suffix: Option<&str>,
    compare: &str,
    limit: &ImportedValue,
    x: &ImportedValue,
) -> Result<ImportedValue, Refusal> {
    let beyond = call.helper(suffix.map_or("beyond", |_| "below"), compare, Attrs::new(), &[limit, x])?;
    match suffix {
        Some(suffix) => call.helper(suffix, "where", Attrs::new(), &[&beyond, limit, x]),
        None => call.result("where", Attrs::new(), &[&beyond, limit, x]),
    }
}

fn cast(call: &mut Call<'_>) -> Results {
    let (x, to) = (call.input(0)?, target(call)?);
    convert(call, x, to)
}

fn cast_like(call: &mut Call<'_>) -> Results {
    let (x, like) = (call.input(0)?, call.input(1)?);
    convert(call, x, like.ty.dtype)
}

fn bit_cast(call: &mut Call<'_>) -> Results {
    let (x, to) = (call.input(0)?, target(call)?);
    if x.ty.dtype == to {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("bitcast", Attrs::new().with("to", Attr::DType(to)), &[&x])?])
}

/// Returns the element type that the attribute `to` names. Before opset 6 it is the name itself.
fn target(call: &mut Call<'_>) -> Result<DType, Refusal> {
    if !call.has("to") {
        return Err(Refusal::attribute("to", format!("({:?}) is missing", AttributeType::Int)));
    }
    if call.opset < 6 {
        return element_named(call.text("to", "")?);
    }
    let number =
        i32::try_from(call.int("to", 0)?).map_err(|_| Refusal::attribute("to", "is no element type"))?;
    element_type(number).map_err(|why| {
        Refusal::other(why.to_string().replace("its element type", "the element type that it casts to"))
    })
}

/// Converts elements. The attributes for numbers out of range have an effect only on floats of 8 bits.
fn convert(call: &mut Call<'_>, x: ImportedValue, to: DType) -> Results {
    let saturate = call.flag("saturate", true)?;
    let round = call.text("round_mode", "up")?.to_owned();
    if x.ty.dtype == to {
        return Ok(vec![x]);
    }
    let attrs = Attrs::new().with("to", Attr::DType(to));
    if to.is_narrow_float() && (!saturate || to == DType::F8E8M0 && round != "up") {
        let attrs = attrs.int("saturate", i64::from(saturate)).with("round", Attr::Str(round.into()));
        return Ok(vec![call.result("cast-narrow", attrs, &[&x])?]);
    }
    Ok(vec![call.result("cast", attrs, &[&x])?])
}

fn select(call: &mut Call<'_>) -> Results {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(vec![call.result("where", Attrs::new(), &[&condition, &a, &b])?])
}

/// Since opset 12 the exponent may have another type. The result has the type of the base.
fn pow(call: &mut Call<'_>) -> Results {
    let (mut base, exponent) = (call.input(0)?, call.input(1)?);
    let mut exponent = aligned(call, &base, exponent)?;
    let dtype = base.ty.dtype;
    let cast = |to: DType| Attrs::new().with("to", Attr::DType(to));
    if !dtype.is_float() && exponent.ty.dtype.is_float() {
        // The power is computed with real numbers, and the result is converted to the base's integer type.
        base = call.helper("base", "cast", cast(DType::F64), &[&base])?;
        exponent = call.helper("exponent", "cast", cast(DType::F64), &[&exponent])?;
        let power = call.helper("power", "pow", Attrs::new(), &[&base, &exponent])?;
        return Ok(vec![call.result("cast", cast(dtype), &[&power])?]);
    }
    if dtype != exponent.ty.dtype {
        let to = Attrs::new().with("to", Attr::DType(base.ty.dtype));
        exponent = call.helper("exponent", "cast", to, &[&exponent])?;
    }
    Ok(vec![call.result("pow", Attrs::new(), &[&base, &exponent])?])
}

/// Joins the operands by an op, from left to right.
fn chain(call: &mut Call<'_>, op: &str) -> Result<ImportedValue, Refusal> {
    let mut value = call.input(0)?;
    let last = call.input_count() - 1;
    for at in 1..=last {
        let operand = call.input(at)?;
        value = if at == last {
            call.result(op, Attrs::new(), &[&value, &operand])?
        } else {
            call.helper(&format!("operands-0-to-{at}"), op, Attrs::new(), &[&value, &operand])?
        };
    }
    Ok(value)
}

fn mean(call: &mut Call<'_>) -> Results {
    let mut sum = call.input(0)?;
    let count = call.input_count();
    for at in 1..count {
        let operand = call.input(at)?;
        sum = call.helper(&format!("operands-0-to-{at}"), "add", Attrs::new(), &[&sum, &operand])?;
    }
    if count == 1 {
        return Ok(vec![sum]);
    }
    #[allow(clippy::cast_precision_loss)]
    let count = call.scalar("count", sum.ty.dtype, count as f64);
    Ok(vec![call.result("div", Attrs::new(), &[&sum, &count])?])
}
