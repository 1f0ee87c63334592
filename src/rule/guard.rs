//! Guards: conditions over facts about operands. A guard that rejects a match says why.

use super::Kind::{self, Attribute, Guard, Integer, List, Number, Operand, Rest, Same, Size};
use super::expr::Arguments;
use super::expr::argument::{attr, float, int, ints, operand, rest};
use super::{Fact, No, Value, Word};
use crate::attr::Attr;
use crate::tensor::{DType, Tensor};

/// All guards. A new one needs only an entry here.
pub(super) const GUARDS: &[Word] = &[
    Word::guard("const", "the operand is computed from constants alone", &[Operand], |v| {
        say(operand(v, 0)?.constant, || format!("{} is not constant", v.show(0)))
    }),
    Word::guard("all-const", "every operand is computed from constants alone", &[Rest], |v| {
        let other = rest(v, 0)?.iter().find(|fact| !fact.constant);
        say(other.is_none(), || format!("of {}, {} is not constant", v.show(0), ty_of(other)))
    }),
    Word::guard(
        "not-root",
        "the operand is another value than the one that the rule replaces",
        &[Operand],
        |v| say(!operand(v, 0)?.root, || format!("{} is the value that the rule replaces", v.show(0))),
    ),
    Word::guard("scalar", "the operand has one element", &[Operand], |v| {
        say(operand(v, 0)?.ty.shape.count() == 1, || {
            format!(
                "{} has {} elements, not one",
                v.show(0),
                operand(v, 0).map_or(0, |fact| fact.ty.shape.count())
            )
        })
    }),
    Word::guard("is-f32", "the operand's elements are f32", &[Operand], |v| {
        say(operand(v, 0)?.ty.dtype == DType::F32, || format!("{} is not f32", v.show(0)))
    }),
    Word::guard("all-f32", "every operand's elements are f32", &[Rest], |v| {
        let other = rest(v, 0)?.iter().find(|fact| fact.ty.dtype != DType::F32);
        say(other.is_none(), || format!("of {}, {} is not f32", v.show(0), ty_of(other)))
    }),
    Word::guard("is-f32-or-bf16", "the operand's elements are f32 or bf16", &[Operand], |v| {
        say(wide_or_half(operand(v, 0)?), || format!("{} is neither f32 nor bf16", v.show(0)))
    }),
    Word::guard("is-f32-or-16-bit", "the operand's elements are f32, f16 or bf16", &[Operand], |v| {
        let fits = matches!(operand(v, 0)?.ty.dtype, DType::F32 | DType::F16 | DType::BF16);
        say(fits, || format!("{} is none of f32, f16 and bf16", v.show(0)))
    }),
    Word::guard("all-f32-or-bf16", "every operand's elements are f32 or bf16", &[Rest], |v| {
        let other = rest(v, 0)?.iter().find(|fact| !wide_or_half(fact));
        say(other.is_none(), || format!("of {}, {} is neither f32 nor bf16", v.show(0), ty_of(other)))
    }),
    Word::guard("is-dtype", "the operand's elements are of the type", &[Operand, Kind::DType], |v| {
        let ty = operand(v, 0)?.ty;
        say(*attr(v, 1)? == Attr::DType(ty.dtype), || format!("{} is not {}", v.show(0), v.show(1)))
    }),
    Word::guard("rank", "the operand has this number of dimensions", &[Operand, Size], |v| {
        say(rank_of(operand(v, 0)?) == int(v, 1)?, || {
            format!("{} is of rank {}, not {}", v.show(0), operand(v, 0).map_or(0, rank_of), v.show(1))
        })
    }),
    Word::guard("all-rank", "every operand has this number of dimensions", &[Rest, Size], |v| {
        let wanted = int(v, 1)?;
        let other = rest(v, 0)?.iter().find(|fact| rank_of(fact) != wanted);
        say(other.is_none(), || format!("of {}, {} is not of rank {wanted}", v.show(0), ty_of(other)))
    }),
    Word::guard("min-rank", "the operand has at least this number of dimensions", &[Operand, Size], |v| {
        say(rank_of(operand(v, 0)?) >= int(v, 1)?, || {
            format!("{} has fewer than {} dimensions", v.show(0), v.show(1))
        })
    }),
    Word::guard("plain", "the operand is in the default layout", &[Operand], |v| {
        say(operand(v, 0)?.ty.layout.is_plain(), || format!("{} is not in the default layout", v.show(0)))
    }),
    Word::guard("layout-is", "the operand is in the layout", &[Operand, Kind::Layout], |v| {
        let layout = operand(v, 0)?.ty.layout.clone();
        say(*attr(v, 1)? == Attr::Layout(layout), || format!("{} is not in layout {}", v.show(0), v.show(1)))
    }),
    Word::guard("same-shape", "both operands have the same shape", &[Operand, Operand], |v| {
        say(operand(v, 0)?.ty.shape == operand(v, 1)?.ty.shape, || {
            format!("{} and {} differ in shape", v.show(0), v.show(1))
        })
    }),
    Word::guard(
        "same-type",
        "both operands have the same type, including the layout",
        &[Operand, Operand],
        |v| say(operand(v, 0)?.ty == operand(v, 1)?.ty, || format!("{} and {} differ", v.show(0), v.show(1))),
    ),
    Word::guard("shape-is", "the operand has the shape", &[Operand, List], |v| {
        let shape: Vec<i64> = operand(v, 0)?.ty.shape.iter().filter_map(|d| i64::try_from(*d).ok()).collect();
        say(shape == ints(v, 1)?, || format!("{} has not the shape {}", v.show(0), v.show(1)))
    }),
    Word::guard(
        "broadcasts-to",
        "the first operand broadcasts to the second's shape",
        &[Operand, Operand],
        |v| {
            let (small, large) = (&operand(v, 0)?.ty.shape, &operand(v, 1)?.ty.shape);
            say(small.broadcast(large).as_ref() == Some(large), || {
                format!("{} does not broadcast to {}", v.show(0), v.show(1))
            })
        },
    ),
    Word::guard("value-is", "every element of the constant is the number", &[Operand, Number], |v| {
        let expected = float(v, 1)?;
        let value = operand(v, 0)?.value.ok_or_else(|| format!("the value of {} is not known", v.show(0)))?;
        let other = value.to_f64().into_iter().find(|one| *one != expected);
        say(other.is_none(), || {
            format!("{} has an element {}, not {expected}", v.show(0), other.unwrap_or_default())
        })
    }),
    Word::guard(
        "finite",
        "no element of the constant is infinite or NaN. The constant is one of the graph's, or has elements of such in another order",
        &[Operand],
        |v| {
            let sources = operand(v, 0)?.sources;
            say(!sources.is_empty(), || format!("the elements of {} are not known", v.show(0)))?;
            say(sources.iter().all(Tensor::is_finite), || {
                format!("{} has an element that is infinite or NaN", v.show(0))
            })
        },
    ),
    Word::guard(
        "product-holds",
        "the constants of one element have a product that their type holds: where it is of floats, neither infinite nor \
         rounded to few digits, unless a factor is zero",
        &[Operand, Operand],
        |v| {
            let factors = [number(v, 0)?, number(v, 1)?];
            let product = factors[0] * factors[1];
            let dtype = operand(v, 0)?.ty.dtype;
            say(factors.contains(&0.0) || holds(dtype, product), || {
                format!("{dtype} does not hold the product {product:e} of {} and {}", v.show(0), v.show(1))
            })
        },
    ),
    Word::guard(
        "reciprocal-holds",
        "the constant of one element has a reciprocal that its type holds, neither infinite nor rounded to few digits",
        &[Operand],
        |v| {
            let (value, dtype) = (number(v, 0)?, operand(v, 0)?.ty.dtype);
            say(holds(dtype, value) && holds(dtype, 1.0 / value), || {
                format!("{dtype} does not hold the reciprocal of {} ({value:e})", v.show(0))
            })
        },
    ),
    Word::guard(
        "is-level",
        "the number is (x - z) s for a level x, for a scale s and a zero point z of one element, which has the type of levels",
        &[Number, Operand, Operand],
        |v| {
            let (wanted, scale, zero) = (float(v, 0)?, number(v, 1)?, number(v, 2)?);
            let level = (wanted / scale).round() + zero;
            let bounded = Tensor::from_f64(operand(v, 2)?.ty.dtype, [0; 0], &[level]).to_f64();
            let near = ((level - zero) * scale - wanted).abs() <= 1e-6 * wanted.abs();
            say(bounded == [level] && near, || {
                format!(
                    "{} ({wanted}) has no level with the scale {scale} and the zero point {zero}",
                    v.show(0)
                )
            })
        },
    ),
    Word::guard("divisible", "the second integer divides the first", &[Integer, Integer], |v| {
        say(int(v, 0)?.checked_rem(int(v, 1)?) == Some(0), || {
            format!("{} is not divisible by {}", v.show(0), v.show(1))
        })
    }),
    Word::guard("equal", "the attributes are the same", &[Attribute, Same], |v| {
        say(attr(v, 0)? == attr(v, 1)?, || format!("{} is not {}", v.show(0), v.show(1)))
    }),
    Word::guard("not-equal", "the attributes differ", &[Attribute, Same], |v| {
        say(attr(v, 0)? != attr(v, 1)?, || format!("{} is {}", v.show(0), v.show(1)))
    }),
    Word::guard("less", "the first number is below the second", &[Number, Number], |v| {
        say(float(v, 0)? < float(v, 1)?, || format!("{} is not below {}", v.show(0), v.show(1)))
    }),
    Word::guard("at-most", "the first number is not above the second", &[Number, Number], |v| {
        say(float(v, 0)? <= float(v, 1)?, || format!("{} is above {}", v.show(0), v.show(1)))
    }),
    Word::guard("identity-perm", "the order leaves every axis where it is", &[List], |v| {
        say(ints(v, 0)?.iter().zip(0..).all(|(axis, at)| *axis == at), || format!("{} moves axes", v.show(0)))
    }),
    Word::guard(
        "moves-only-ones",
        "the order moves only axes of the operand that have size 1",
        &[Operand, List],
        |v| {
            let shape = &operand(v, 0)?.ty.shape;
            let moved: Vec<usize> =
                ints(v, 1)?.iter().filter_map(|axis| usize::try_from(*axis).ok()).collect();
            let large: Vec<usize> =
                moved.into_iter().filter(|axis| shape.get(*axis).is_some_and(|size| *size != 1)).collect();
            say(large.is_sorted(), || {
                format!("{} moves axes of {} that are not of size 1", v.show(1), v.show(0))
            })
        },
    ),
    Word::guard("all-zeros", "every entry of the list is 0", &[List], |v| {
        say(ints(v, 0)?.iter().all(|one| *one == 0), || format!("{} is not all 0", v.show(0)))
    }),
    Word::guard("all-ones", "every entry of the list is 1", &[List], |v| {
        say(ints(v, 0)?.iter().all(|one| *one == 1), || format!("{} is not all 1", v.show(0)))
    }),
    Word::guard("not", "the guard does not hold", &[Guard], |_| Ok(Value::yes())),
    Word {
        more: Some(Guard),
        ..Word::guard("any", "at least one of the guards holds", &[Guard], |_| Ok(Value::yes()))
    },
];

/// Returns the value of a constant of one element.
fn number(v: &Arguments<'_, '_>, at: usize) -> Result<f64, No> {
    let value = operand(v, at)?.value.and_then(|value| value.to_f64().first().copied());
    value.ok_or_else(|| format!("the value of {} is not known", v.show(at)).into())
}

/// Returns whether a type holds a number with all its digits. Integers wrap, which loses nothing that rules ask for.
fn holds(dtype: DType, value: f64) -> bool {
    // The smallest number with all digits, and the largest one.
    let (least, most) = match dtype {
        DType::F16 => (f64::from(half::f16::MIN_POSITIVE), f64::from(half::f16::MAX)),
        DType::BF16 => (f64::from(half::bf16::MIN_POSITIVE), f64::from(half::bf16::MAX)),
        DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
        DType::F64 => (f64::MIN_POSITIVE, f64::MAX),
        _ => return dtype.is_integer(),
    };
    (least..=most).contains(&value.abs())
}

fn say(holds: bool, why_not: impl FnOnce() -> String) -> Result<Value<'static>, No> {
    if holds { Ok(Value::yes()) } else { Err(why_not().into()) }
}

fn ty_of(fact: Option<&Fact<'_>>) -> String {
    fact.map(|fact| fact.ty.to_string()).unwrap_or_default()
}

fn wide_or_half(fact: &Fact<'_>) -> bool {
    matches!(fact.ty.dtype, DType::F32 | DType::BF16)
}

fn rank_of(fact: &Fact<'_>) -> i64 {
    i64::try_from(fact.ty.shape.rank()).unwrap_or(i64::MAX)
}
