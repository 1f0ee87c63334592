//! Whether results agree.

use ovolo::tensor::{DType, Tensor};

/// Returns how far elements of a type may be off, relative to themselves and to the mean size of finite elements.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 2e-3,
    }
}

/// Returns the first difference of two values. `near` are values that the same model has for inputs and steps that are
/// off by rounding: an element that differs among them may differ as much.
pub(crate) fn difference(got: &Tensor, want: &Tensor, near: &[Tensor]) -> Option<String> {
    if got.ty() != want.ty() {
        return Some(format!("it is {} instead of {}", got.ty(), want.ty()));
    }
    let dtype = want.ty().dtype;
    if let (Some(texts), Some(wanted)) = (got.to_texts(), want.to_texts()) {
        let at = (0..wanted.len()).find(|&at| texts[at] != wanted[at])?;
        return Some(format!("element {at} is {:?} instead of {:?}", texts[at], wanted[at]));
    }
    let (values, wanted) = (got.to_f64(), want.to_f64());
    let near: Vec<Vec<f64>> = near.iter().map(Tensor::to_f64).collect();
    let finite = wanted.iter().filter(|value| value.is_finite());
    #[allow(clippy::cast_precision_loss)]
    let mean = finite.clone().map(|value| value.abs()).sum::<f64>() / finite.count().max(1) as f64;
    let wrong = (0..wanted.len()).find(|&at| {
        let (a, b) = (values[at], wanted[at]);
        if a == b || a.is_nan() && b.is_nan() {
            return false;
        }
        let mut allowed = if dtype.is_float() { tolerance(dtype) * b.abs().max(mean).max(1e-4) } else { 0.0 };
        for other in &near {
            let Some(c) = other.get(at) else { continue };
            if c.is_nan() != b.is_nan()
                || c.is_infinite() != b.is_infinite()
                || !c.is_finite() && *c != b && !c.is_nan()
            {
                return false; // Rounding decides whether there is a number.
            }
            allowed += 50.0 * (b - c).abs();
        }
        // An infinity equals no number, and its distance from one is above all that is allowed.
        let distance = (a - b).abs();
        distance.is_nan() || distance > allowed
    })?;
    let count = wanted.len();
    Some(format!("element {wrong} of {count} is {:e} instead of {:e}", values[wrong], wanted[wrong]))
}
