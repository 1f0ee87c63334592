//! How far two values are apart, and how much of that rounding explains.

use crate::verify;
use ovolo::attr::Attrs;
use ovolo::op::Op;
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

/// How far a value is from the one that it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// The L2 norm of the difference, relative to that of the value that it should be. Infinite if only one of the two
    /// has a NaN or an infinity at some place, or if their types differ.
    pub relative: f64,
    /// The element that is furthest off.
    pub worst: Option<Element>,
}

/// One element of two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Its position.
    pub position: Vec<usize>,
    /// What it is.
    pub is: f64,
    /// What it should be.
    pub should: f64,
}

impl Distance {
    /// Compares a value with the one that it should be. Both are brought into the default layout.
    pub fn between(is: &Tensor, should: &Tensor) -> Self {
        let (is, should) = (plain(is), plain(should));
        let relative = verify::distance(&is, &should);
        if relative == 0.0 || is.ty() != should.ty() {
            return Self { relative, worst: None };
        }
        let off = |(is, should): (&f64, &f64)| match (is - should).abs() {
            _ if is == should || (is.is_nan() && should.is_nan()) => 0.0,
            gap if gap.is_nan() => f64::INFINITY,
            gap => gap,
        };
        let (left, right) = (is.to_f64(), should.to_f64());
        let gaps = left.iter().zip(&right).map(off).enumerate();
        let worst = gaps.fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best });
        let element = (worst.1 > 0.0).then(|| Element {
            position: position(worst.0, &is.ty().shape),
            is: left[worst.0],
            should: right[worst.0],
        });
        Self { relative, worst: element }
    }
}

/// Returns the position of an element from its number in the default layout.
fn position(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut position: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let at = number % size.max(&1);
            number /= size.max(&1);
            at
        })
        .collect();
    position.reverse();
    position
}

/// Returns a value in the default layout.
pub(super) fn plain(value: &Tensor) -> Tensor {
    if value.ty().layout.is_plain() { value.clone() } else { value.to_layout(&Layout::PLAIN) }
}

/// Returns whether the padding of a value in a blocked layout is zero, as it must be in every value.
pub(super) fn padding_is_zero(value: &Tensor) -> bool {
    let layout = &value.ty().layout;
    layout.is_plain() || value.to_layout(&Layout::PLAIN).to_layout(layout).bytes() == value.bytes()
}

/// The relative error up to which a result of one kernel is as good as rounding allows: some hundred times what one
/// operation rounds, since sums and fast algorithms add up such errors.
pub(super) fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        other if other.is_float() => 0.15,
        _ => 0.0,
    }
}

/// The relative error of one rounding to a type.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => 2.0_f64.powi(-23),
        DType::F16 => 2.0_f64.powi(-10),
        DType::BF16 => 2.0_f64.powi(-7),
        other if other.is_float() => 0.125,
        _ => 0.0,
    }
}

/// How many times the effect of rounding its operands a kernel's error may be.
pub(super) const TIMES: f64 = 8.0;

/// Returns how far an op's result moves if each floating-point operand is rounded once more. A difference of nearly
/// equal numbers, or a sum that cancels, moves far: then no kernel can be exact.
pub(super) fn noise(op: Op, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType, result: &Tensor) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut up = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 63 == 0
    };
    let mut moved = Vec::with_capacity(operands.len());
    for operand in operands {
        let unit = unit(operand.ty().dtype);
        if unit == 0.0 {
            moved.push((*operand).clone());
            continue;
        }
        let value = |x: f64| if up() { x * (1.0 + unit) } else { x * (1.0 - unit) };
        let values: Vec<f64> = plain(operand).to_f64().into_iter().map(value).collect();
        let tensor = Tensor::from_f64(operand.ty().dtype, operand.ty().shape.clone(), &values);
        moved.push(tensor.to_layout(&operand.ty().layout));
    }
    let moved = op.evaluate(attrs, &moved.iter().collect::<Vec<_>>(), ty);
    verify::distance(&plain(&moved), &plain(result))
}
