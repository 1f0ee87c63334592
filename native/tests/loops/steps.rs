//! Tests of the steps of chains on every instruction set, against the formulas of their functions.

use crate::chain::{Action, Area, BINARY, OVERRIDES, apply_on};
use crate::check::Random;
use crate::formula::{Second, evaluate_on};
use crate::lanes::{Isa, Lanes};
use ovolo::attr::StepOp;
use ovolo::error::{Diagnostics, Source};
use ovolo::scalar;

/// The largest error, in units in the last place of `f32`: those of the value, or those of 1 if that is larger.
const ULPS: f64 = 25.0;

/// Returns values of all magnitudes, including those outside the usual range of a function.
fn values() -> Vec<f32> {
    let mut x: Vec<f32> = Random::new(13).f32([500]).elements::<f32>().iter().map(|v| v * 6.0).collect();
    x.extend([0.0, -0.0, 1e-6, -1e-6, 50.0, -50.0, 88.0, -87.0, 100.0, -120.0, 1e-30, 1e-40, 1e9, -1e9]);
    x.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 0.5, 1.5, 2.5, -0.5]);
    x.extend([0.625, 1.0, -1.0, 0.999_999, -0.999_999, 3.0, -3.0, 1e18, -1e18, 3e38, -3e38]);
    x
}

/// Returns the result of a step on one instruction set.
fn run<V: Lanes>(action: &Action, x: &[f32], extra: &f32) -> Vec<f32> {
    let mut result = vec![0.0; x.len()];
    if let Some(formula) = &action.formula {
        let second = Second { from: extra, step: 0 };
        // SAFETY: both have this length, and the caller checks the instruction set.
        unsafe { evaluate_on::<V>(formula, x.as_ptr(), second, result.as_mut_ptr(), x.len()) };
        return result;
    }
    let area = Area {
        source: x.as_ptr(),
        source_row: x.len(),
        target: result.as_mut_ptr(),
        target_row: x.len(),
        rows: 1,
        columns: x.len(),
        extra,
        extra_row: 0,
        extra_column: 0,
    };
    // SAFETY: the area covers the vectors, and the caller checks the instruction set.
    unsafe { apply_on::<V>(action, &area) };
    result
}

/// Returns whether a value agrees with that in double precision up to [`ULPS`]. A function may return NaN where
/// the `min` or `max` of its formula ignores it.
fn agrees(x: f32, got: f32, want: f64) -> bool {
    #[allow(clippy::cast_possible_truncation)]
    let want32 = want as f32;
    let same = got == want32 || got.is_nan() && (want.is_nan() || x.is_nan());
    let close = (f64::from(got) - want).abs() <= ULPS * f64::from(f32::EPSILON) * want.abs().max(1.0);
    // Near the largest number, rounding decides whether the result is infinite.
    let huge = want.abs() > 1e38 && got.abs() > 1e38 && want.is_sign_positive() == got.is_sign_positive();
    same || close || huge
}

/// Returns parameters that `f32` represents exactly, so that thresholds are the same as in double precision.
fn parameters(function: scalar::Function) -> Vec<f64> {
    [0.25, 0.75].into_iter().take(function.parameters().len()).collect()
}

/// Compares every function on one instruction set with the reference, by its formula and by its own loop, and
/// every binary step.
fn check<V: Lanes>(what: &str) {
    let x = values();
    for function in scalar::built_in() {
        let parameters = parameters(*function);
        let formula = Action::formula(*function, &parameters).unwrap();
        let own = Action::function(*function, &parameters).filter(|own| own.formula.is_none());
        let ways = own.map(|own| ("its own loop", own)).into_iter().chain([("its formula", formula)]);
        for (way, action) in ways {
            for (x, got) in x.iter().zip(run::<V>(&action, &x, &0.0)) {
                let want = function.evaluate(&parameters, &[f64::from(*x)]);
                // Formulas round after each primitive, and overflow beyond the range of `f32`.
                let beyond = way == "its formula" && f64::from(*x).abs() > 1e18;
                let right = agrees(*x, got, want) || beyond && !got.is_finite();
                assert!(right, "{what} {function}({x}) by {way} is {got}, not {want}");
            }
        }
    }
    for (name, _) in BINARY {
        let (function, reversed) = StepOp::from(*name).binary().unwrap();
        let parameters = parameters(function);
        let action = Action::binary(function, reversed, &parameters).unwrap();
        for (x, got) in x.iter().zip(run::<V>(&action, &x, &1.25)) {
            let operands = if reversed { [1.25, f64::from(*x)] } else { [f64::from(*x), 1.25] };
            let want = function.evaluate(&parameters, &operands);
            assert!(agrees(*x, got, want), "{what} {name}({x}) is {got}, not {want}");
        }
    }
}

/// Functions of two numbers that only their formulas define: with buffers and without, and with every primitive.
const TABLE: &str = r#"[
    Function(name: "hypot", doc: "", formula: "sqrt(x * x + y * y)"),
    Function(name: "second", doc: "", formula: "y"),
    Function(name: "huber", doc: "", formula: "if(abs(x - y) < 1, 0.5 * (x - y) * (x - y), abs(x - y) - 0.5)"),
    Function(name: "powers", doc: "", formula: "pow(abs(x), y) + min(x, y) + max(x, 2 * y)"),
    Function(name: "rests", doc: "", formula: "if(x == y, 0, remainder(x, y) - modulo(x, 2))"),
    Function(name: "truths", doc: "", formula: "equal(x, y) + 2 * less(x, y) + 4 * greater(x, y) + 8 * less-equal(x, y)
        + 16 * greater-equal(x, y) + 32 * and(x, y) + 64 * or(x, 0) + 128 * xor(x, y)"),
    Function(name: "bits", doc: "", formula: "bit-and(x, y) + bit-or(x, y) - bit-xor(x, y) + shift-left(x, 2)
        - shift-right(x, y)"),
]"#;

/// Compares formulas of two numbers on one instruction set with the reference, for each distance between the elements
/// of the second operand, and in the other order.
fn check_pairs<V: Lanes>(what: &str) {
    let mut found = Diagnostics::new();
    let functions = scalar::read(&Source::new("ops/test.ron", TABLE), scalar::built_in(), &mut found);
    assert!(found.is_empty(), "{found}");
    let x: Vec<f32> =
        Random::new(14).f32([1500]).elements::<f32>().iter().map(|v| (v * 24.0).round() / 4.0).collect();
    let extra: Vec<f32> = Random::new(15)
        .f32([4500])
        .elements::<f32>()
        .iter()
        .map(|v| (v * 12.0).round() / 4.0 + 0.125)
        .collect();
    for (function, reversed) in functions.iter().flat_map(|function| [(function, false), (function, true)]) {
        let action = Action::binary(*function, reversed, &[]).unwrap();
        for step in [0, 1, 3] {
            let mut result = vec![0.0; x.len()];
            let area = Area {
                source: x.as_ptr(),
                target: result.as_mut_ptr(),
                rows: 1,
                columns: x.len(),
                extra: extra.as_ptr(),
                extra_column: step,
                ..Area::NONE
            };
            // SAFETY: the area covers the vectors, and the caller checks the instruction set.
            unsafe { apply_on::<V>(&action, &area) };
            for (at, (x, got)) in x.iter().zip(result).enumerate() {
                let (x, y) = (f64::from(*x), f64::from(extra[at * step]));
                let want = function.evaluate(&[], &if reversed { [y, x] } else { [x, y] });
                let close = (f64::from(got) - want).abs() <= 1e-5 * want.abs().max(1.0);
                let same = got.is_nan() && want.is_nan() || f64::from(got) == want;
                assert!(close || same, "{what} {function}({x}, {y}), {reversed}, is {got}, not {want}");
            }
        }
    }
}

/// Compares every function and every binary step on one instruction set with the reference.
pub fn agree_on(isa: Isa) {
    match isa {
        Isa::Portable => {
            check::<[f32; 8]>("portable");
            check_pairs::<[f32; 8]>("portable");
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            check::<std::arch::x86_64::__m256>("avx2");
            check_pairs::<std::arch::x86_64::__m256>("avx2");
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            check::<std::arch::x86_64::__m512>("avx512");
            check_pairs::<std::arch::x86_64::__m512>("avx512");
        }
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("this architecture never runs {isa}"),
    }
}

/// The rows and columns of [`check_rows`]: pixels of a block of channels.
const ROWS: usize = 12;
const COLUMNS: usize = 16;

/// Checks that a step walks short rows that follow one another as one row, unless it reads an extra operand, and that
/// their values are those of one row.
fn check_rows<V: Lanes>(what: &str) {
    let x = Random::new(16).f32([ROWS * COLUMNS]);
    let x = x.elements::<f32>();
    let area = |target: *mut f32, rows: usize| Area {
        source: x.as_ptr(),
        source_row: x.len() / rows,
        target,
        target_row: x.len() / rows,
        rows,
        columns: x.len() / rows,
        ..Area::NONE
    };
    for function in scalar::built_in() {
        let parameters = parameters(*function);
        let formula = Action::formula(*function, &parameters).unwrap();
        for action in [formula, Action::function(*function, &parameters).unwrap(), Action::COPY] {
            let walked = area(std::ptr::null_mut(), ROWS).walked(&action);
            assert_eq!((walked.rows, walked.columns), (1, x.len()), "{what} {function}");
            // Rows with a gap between them stay rows.
            let apart = Area { target_row: 2 * COLUMNS, ..area(std::ptr::null_mut(), ROWS) };
            assert_eq!(apart.walked(&action).rows, ROWS, "{what} {function}");
            let results = [ROWS, 1].map(|rows| {
                let mut result = vec![0.0_f32; x.len()];
                let area = area(result.as_mut_ptr(), rows);
                // SAFETY: the area covers the vectors, and the caller checks the instruction set.
                unsafe { apply_on::<V>(&action, &area) };
                result.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            });
            assert_eq!(results[0], results[1], "{what} {function}");
        }
    }
    for (name, _) in BINARY {
        let (function, reversed) = StepOp::from(*name).binary().unwrap();
        let action = Action::binary(function, reversed, &[]).unwrap();
        assert_eq!(area(std::ptr::null_mut(), ROWS).walked(&action).rows, ROWS, "{what} {name}");
    }
}

/// Checks the rows of every step on one instruction set.
pub fn rows_on(isa: Isa) {
    match isa {
        Isa::Portable => check_rows::<[f32; 8]>("portable"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => check_rows::<std::arch::x86_64::__m256>("avx2"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => check_rows::<std::arch::x86_64::__m512>("avx512"),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("this architecture never runs {isa}"),
    }
}

/// Checks that every override is of a function that exists.
pub fn overrides_are_functions() {
    for (name, _) in OVERRIDES {
        assert!(scalar::built_in().iter().any(|function| function.name() == *name), "{name}");
    }
    for (name, _) in BINARY {
        assert!(StepOp::from(*name).binary().is_some(), "{name}");
    }
}
