//! Elementary functions on vectors, with errors of a few units in the last place.
//!
//! Each function reduces its argument to a short interval and evaluates a polynomial there. The coefficients are
//! Chebyshev fits of the functions that the comments name; they were computed for this file.

#![allow(clippy::excessive_precision)]

use super::lanes::Lanes;

/// Evaluates a polynomial by Horner's scheme, with the coefficient of the highest power first.
#[inline(always)]
unsafe fn polynomial<V: Lanes>(x: V, coefficients: &[f32]) -> V {
    // SAFETY: the processor has the instruction set of `V`, as the caller promises.
    unsafe {
        let mut sum = V::splat(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            sum = sum.mul_add(x, V::splat(coefficient));
        }
        sum
    }
}

/// Returns `e^x` as `2^n e^r` with `|r| <= ln 2 / 2`, with a fit of `(e^r - 1 - r) / r^2`.
///
/// # Safety
/// The processor must have the instruction set of `V`, for this and all other functions here.
#[inline(always)]
pub unsafe fn exp<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        // Beyond these bounds the result is infinite or zero. A NaN is the right operand of `min` and `max`, and so
        // is kept.
        let x = V::splat(-104.0).max(V::splat(89.0).min(x));
        let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round_even();
        let r = n.mul_add(V::splat(-0.693_359_375), x);
        let r = n.mul_add(V::splat(2.121_944_4e-4), r);
        let p = polynomial(r, &[1.392_620_3e-3, 8.363_195e-3, 4.166_655_5e-2, 0.166_665_77, 0.5]);
        let y = p.mul_add(r.mul(r), r).add(V::splat(1.0));
        y.scale(n)
    }
}

/// Returns `e^x` for the numbers of a softmax minus their greatest, and zero below -80. Their sum is at least 1, so such a share
/// is below 2e-35. Masks add numbers like -100, and many shares would be subnormal: an operation on one takes Intel's
/// processors more than a hundred cycles.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn share<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe { V::select(x.less(V::splat(-80.0)), V::splat(0.0), exp(x)) }
}

/// Returns `ln x` as `e ln 2 + ln m` with `m` between `1/sqrt 2` and `sqrt 2`, with a fit of
/// `(ln(1+f) - f + f^2/2) / f^3`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn log<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let tiny = x.less(V::splat(f32::MIN_POSITIVE));
        let normal = V::select(tiny, x.mul(V::splat(8_388_608.0)), x);
        let (exponent, mantissa) = normal.exponent();
        let exponent = V::select(tiny, exponent.sub(V::splat(23.0)), exponent);
        let large = V::splat(std::f32::consts::SQRT_2).less(mantissa);
        let exponent = V::select(large, exponent.add(one), exponent);
        let f = V::select(large, mantissa.mul(V::splat(0.5)), mantissa).sub(one);
        let p = polynomial(
            f,
            &[
                0.069_716_11,
                -0.114_797_34,
                0.116_854_2,
                -0.124_256_87,
                0.142_490_58,
                -0.166_678_02,
                0.200_007_16,
                -0.249_999_97,
                0.333_333_3,
            ],
        );
        let square = f.mul(f);
        let y = exponent.mul_add(V::splat(-2.121_944_4e-4), p.mul(f.mul(square)));
        let y = square.mul_add(V::splat(-0.5), y);
        let y = exponent.mul_add(V::splat(0.693_359_375), y.add(f));
        let y = V::select(x.equal(zero), V::splat(f32::NEG_INFINITY), y);
        let y = V::select(x.equal(V::splat(f32::INFINITY)), x, y);
        let y = V::select(x.less(zero), V::splat(f32::NAN), y);
        V::select(x.equal(x), y, x)
    }
}

/// Returns `tanh x`: near zero with a fit of `(tanh x / x - 1) / x^2`, otherwise as `1 - 2 / (e^2x + 1)`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn tanh<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let magnitude = x.abs();
        let z = x.mul(x);
        let p = polynomial(z, &[-6.045_165e-3, 2.096_133e-2, -5.384_326e-2, 0.133_327_19, -0.333_333_28]);
        // For -0, the sum is 0 - 0.
        let near = p.mul(z).mul_add(x, x).with_sign_of(x);
        let e = exp(magnitude.add(magnitude));
        let far = V::splat(1.0).sub(V::splat(2.0).div(e.add(V::splat(1.0)))).with_sign_of(x);
        V::select(magnitude.less(V::splat(0.625)), near, far)
    }
}

/// Returns `e^-x` for `x` between -104 and 105, without the range checks of [`exp`]. With fused multiply-add, one
/// operation instead of two computes the remainder, which adds an error of 2e-9 for each doubling of the result.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
unsafe fn exp_of_negative<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let n = x.mul(V::splat(-std::f32::consts::LOG2_E)).round_even();
        // This is the negated remainder of -x, so the terms of odd powers change their signs.
        let r = if V::FUSED {
            n.mul_add(V::splat(std::f32::consts::LN_2), x)
        } else {
            n.mul_add(V::splat(-2.121_944_4e-4), n.mul_add(V::splat(0.693_359_375), x))
        };
        let p = polynomial(r, &[1.392_620_3e-3, -8.363_195e-3, 4.166_655_5e-2, -0.166_665_77, 0.5]);
        p.mul_add(r.mul(r), V::splat(1.0).sub(r)).scale(n)
    }
}

/// Returns `1 + e^-x`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
unsafe fn one_and_exp_of_negative<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        // Beyond these bounds the power is infinite, or negligible compared with 1. A NaN is the right operand of
        // `min` and `max`, and so is kept.
        let x = V::splat(-104.0).max(V::splat(104.0).min(x));
        exp_of_negative(x).add(V::splat(1.0))
    }
}

/// Returns `1 / (1 + e^-x)`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn sigmoid<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe { V::splat(1.0).div(one_and_exp_of_negative(x)) }
}

/// Returns `x / (1 + e^-x)`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn silu<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe { x.div(one_and_exp_of_negative(x)) }
}

/// Returns `erf x`: below 1 with a fit of `erf x / x`, otherwise as `1 - e^(-x q(x))`, where `q` is a fit of
/// `-ln(erfc x) / x`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn erf<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let magnitude = x.abs();
        let z = x.mul(x);
        let p = polynomial(
            z,
            &[
                7.875_875e-5,
                -8.016_864e-4,
                5.189_087_4e-3,
                -2.685_421_2e-2,
                0.112_835_95,
                -0.376_126_27,
                0.128_379_17,
            ],
        );
        let near = p.mul_add(x, x);
        // Above 4 the result is 1. A NaN is the right operand of `min`, and so is kept.
        let t = V::splat(4.0).min(magnitude);
        let q = polynomial(
            t,
            &[
                -2.237_788_4e-7,
                3.386_316_5e-6,
                -2.921_146e-6,
                -3.250_198_4e-4,
                3.815_269_2e-3,
                -2.429_404_6e-2,
                0.106_978_65,
                0.634_645_1,
                1.128_785_4,
            ],
        );
        let far = V::splat(1.0).sub(exp(V::splat(0.0).sub(t.mul(q)))).with_sign_of(x);
        V::select(magnitude.less(V::splat(1.0)), near, far)
    }
}

/// Returns -1, 0 or 1; a NaN is kept.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn sign<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let zero = V::splat(0.0);
        let negative = V::select(x.less(zero), V::splat(-1.0), x);
        V::select(zero.less(x), V::splat(1.0), negative)
    }
}

/// Returns `ln(1 + x)` as `ln u` with the rounded `u = 1 + x`, times `x / (u - 1)`, which restores the low bits of
/// `x` (Kahan).
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn log1p<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let one = V::splat(1.0);
        let u = one.add(x);
        let rounded = u.sub(one);
        let none = rounded.equal(V::splat(0.0));
        let corrected = log(u).mul(x.div(V::select(none, one, rounded)));
        let y = V::select(none, x, corrected);
        V::select(x.equal(V::splat(f32::INFINITY)), x, y)
    }
}

/// Returns `e^x - 1`. Near zero this is `(u - 1) x / ln u` with the rounded `u = e^x`, in which the errors of `u`
/// cancel (Kahan).
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn expm1<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let one = V::splat(1.0);
        let u = exp(x);
        let less = u.sub(one);
        let none = less.equal(V::splat(0.0));
        let near = less.mul(x.div(V::select(none, one, log(u))));
        let y = V::select(x.abs().less(one), near, less);
        V::select(none, x, y)
    }
}

/// Returns `ln(1 + e^x)` as `max(x, 0) + ln(1 + e^-|x|)`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn softplus<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let zero = V::splat(0.0);
        let e = exp(zero.sub(x.abs()));
        // `ln(1 + e)` loses the low bits of `e`; the factor `e / ((1 + e) - 1)` restores them, as in Kahan's log1p.
        let one = V::splat(1.0);
        let u = one.add(e);
        let rounded = u.sub(one);
        let corrected = log(u).mul(e.div(V::select(rounded.equal(zero), one, rounded)));
        zero.max(x).add(V::select(rounded.equal(zero), e, corrected))
    }
}

/// Returns `x / 2 (1 + erf(x / sqrt 2))` as `max(x, 0) - |x| / 2 erfc(|x| / sqrt 2)`, which has no cancellation.
/// `erfc t` is `e^(-t q(t))`, where `q` is a fit of `-ln(erfc t) / t` below 4, and constant above.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn gelu<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        // At 34 the power is zero. A NaN is the right operand of `min`, and so is kept.
        let half = V::splat(17.0).min(x.mul(V::splat(0.5))).abs();
        let t = V::splat(23.2).min(half.mul(V::splat(std::f32::consts::SQRT_2)));
        let q = polynomial(
            V::splat(4.0).min(t),
            &[
                5.387_771_6e-7,
                -1.151_684_8e-5,
                1.058_859_8e-4,
                -5.310_572e-4,
                1.375_952_3e-3,
                2.659_151_8e-4,
                -1.949_573_1e-2,
                0.102_924_056,
                0.636_590_36,
                1.128_381,
            ],
        );
        let erfc = exp_of_negative(t.mul(q));
        V::splat(0.0).max(x).sub(half.mul(erfc))
    }
}

/// Returns `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn gelu_tanh<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let half = x.mul(V::splat(0.5));
        let inner = x.mul(x).mul(x).mul_add(V::splat(0.044_715), x).mul(V::splat(0.797_884_6));
        tanh(inner).mul_add(half, half)
    }
}

/// Returns `x tanh(ln(1 + e^x))` as `x n / (n + 2)` with `n = e^x (e^x + 2)`.
///
/// # Safety
/// As for [`exp`].
#[inline(always)]
pub unsafe fn mish<V: Lanes>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        // Above 20 the factor is 1, and `e^2x` would overflow.
        let e = exp(V::splat(20.0).min(x));
        let n = e.mul(e.add(V::splat(2.0)));
        x.mul(n.div(n.add(V::splat(2.0))))
    }
}

/// Applies a scalar function of two numbers to each lane.
///
/// # Safety
/// The processor must have the instruction set of `V`.
#[inline(always)]
pub unsafe fn pairs<V: Lanes>(left: V, right: V, function: impl Fn(f32, f32) -> f32) -> V {
    let (mut lefts, mut rights) = ([0.0; 16], [0.0; 16]);
    // SAFETY: no instruction set has more than 16 lanes.
    unsafe {
        left.store(lefts.as_mut_ptr());
        right.store(rights.as_mut_ptr());
        lefts.iter_mut().zip(rights).take(V::COUNT).for_each(|(left, right)| *left = function(*left, right));
        V::load(lefts.as_ptr())
    }
}

/// Returns `base ^ exponent` for each lane.
///
/// # Safety
/// As for [`pairs`].
#[inline(always)]
pub unsafe fn power<V: Lanes>(base: V, exponent: V) -> V {
    // SAFETY: as the caller promises.
    unsafe { pairs(base, exponent, f32::powf) }
}
