//! Elementwise ops, casts, and chains and trees of steps.

use super::{Case, FLOATS, INTEGERS, Random, attributes, post, step, step_of};
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::scalar::{self, Function};
use ovolo::tensor::{DType, Tensor};

/// Whether a function of numbers that tests draw, or of the positive ones, has values that are not too large.
fn tame(function: Function, mut numbers: impl Iterator<Item = f64>, most: f64) -> bool {
    let parameters: Vec<f64> = step_of(function).parameters.iter().map(|one| one.0).collect();
    numbers.all(|x| function.evaluate(&parameters, &[x]).abs() <= most)
}

/// Elementwise ops with one operand.
pub fn unary(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let clip = ("clip", Attrs::new().float("max", 1.5));
    let all = scalar::built_in().iter().map(|one| (*one, attributes(*one)));
    for (function, attrs) in all {
        let positive = !tame(function, (-10..=10).map(|x| f64::from(x) / 4.0), 100.0);
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let rank = r.below(7);
            let shape = r.shape(rank, 2000);
            let x = if positive { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
            // Conversions out of an integer's range differ between machines, so they are not compared.
            if dtype.is_float() || tame(function, (-9..=9).map(f64::from), 100.0) {
                cases.push(Case::new(function.name(), attrs.clone(), vec![x]));
            }
        }
    }
    let x = r.tensor(DType::F32, &[5, 7]);
    cases.push(Case::new(clip.0, clip.1, vec![x]));
    for dtype in FLOATS {
        let x = r.tensor(dtype, &[5, 7]);
        cases.push(Case::new("isnan", Attrs::new(), vec![x]));
    }
    let shape = r.shape(3, 500);
    cases.push(Case::new("not", Attrs::new(), vec![r.tensor(DType::Bool, &shape)]));
    // Enough elements for several vectors in each thread, with a remainder.
    let x = r.tensor(DType::F32, &[1024 * 4 * 1024 + 3]);
    cases.push(Case::new("relu", Attrs::new(), vec![x]));
    let x = r.tensor(DType::F16, &[1024 * 8 * 1024, 1]);
    cases.push(Case::new("abs", Attrs::new(), vec![x]));
    cases
}

/// Elementwise ops with two and three operands, with broadcasting.
pub fn binary(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let numbers = ["add", "sub", "mul", "div", "pow", "min", "max", "mod"];
    let compare = ["equal", "greater", "less", "greater-equal", "less-equal"];
    for op in numbers.into_iter().chain(compare) {
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            for _ in 0..2 {
                let (a, b) = r.pair();
                let a =
                    if op == "pow" && dtype.is_float() { r.positive(dtype, &a) } else { r.tensor(dtype, &a) };
                let b = r.tensor(dtype, &b);
                cases.push(Case::new(op, Attrs::new(), vec![a, b]));
            }
        }
    }
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let (a, b) = r.pair();
        let operands = vec![r.tensor(dtype, &a), r.tensor(dtype, &b)];
        cases.push(Case::new("mod", Attrs::new().int("fmod", 1), operands));
    }
    for op in ["bit-and", "bit-or", "bit-xor", "shift-left", "shift-right"] {
        for dtype in INTEGERS {
            let (a, b) = r.pair();
            cases.push(Case::new(op, Attrs::new(), vec![r.tensor(dtype, &a), r.tensor(dtype, &b)]));
        }
    }
    for op in ["and", "or", "xor"] {
        let (a, b) = r.pair();
        cases.push(Case::new(op, Attrs::new(), vec![r.tensor(DType::Bool, &a), r.tensor(DType::Bool, &b)]));
    }
    for dtype in FLOATS.into_iter().chain(INTEGERS).chain([DType::Bool]) {
        let (a, b) = r.pair();
        let whole =
            ovolo::tensor::Shape::new(a.clone()).broadcast(&ovolo::tensor::Shape::new(b.clone())).unwrap();
        let c = r.narrower(&whole);
        let operands = vec![r.tensor(DType::Bool, &c), r.tensor(dtype, &a), r.tensor(dtype, &b)];
        cases.push(Case::new("where", Attrs::new(), operands));
    }
    let operands = vec![r.tensor(DType::F32, &[1024, 1030, 4]), r.tensor(DType::F32, &[1030, 4])];
    cases.push(Case::new("add", Attrs::new(), operands));
    cases
}

/// Returns whether the device computes with a type.
fn supported(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64)
}

/// Casts between all types.
pub fn cast(r: &mut Random) -> Vec<Option<Case>> {
    let types = DType::ALL.into_iter().filter(|&dtype| supported(dtype));
    let mut cases = Vec::new();
    for from in types.clone() {
        for to in types.clone() {
            let shape = r.shape(2, 300);
            let x = r.tensor(from, &shape);
            cases.push(Case::new("cast", Attrs::new().with("to", Attr::DType(to)), vec![x]));
        }
    }
    cases
}

/// Chains of elementwise steps.
pub fn chain(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for _ in 0..40 {
        let rank = r.below(6);
        let shape = r.shape(rank, 3000);
        let mut operands = vec![r.positive(DType::F32, &shape)];
        let mut steps = Vec::new();
        for _ in 0..1 + r.below(6) {
            if r.below(2) == 0 {
                steps.push(step(r.pick(&["add", "sub", "rsub", "mul", "div", "rdiv", "min", "max"]), &[]));
                let narrower = r.narrower(&shape);
                operands.push(r.positive(DType::F32, &narrower));
            } else {
                let unary =
                    r.pick(&["relu", "sigmoid", "tanh", "silu", "gelu", "abs", "softplus", "hard-swish"]);
                steps.push(step(unary, &[]));
            }
        }
        steps.push(step("clip", &[-3.0, 6.0]));
        cases.push(Case::new("map", post(steps), operands));
    }
    cases
}

/// Trees of elementwise steps: chains that meet, at any depth.
pub fn tree(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F32, DType::F16, DType::BF16] {
        for _ in 0..12 {
            let rank = r.below(5);
            let shape = r.shape(rank, 3000);
            let (mut operands, mut steps) = (vec![r.positive(dtype, &shape)], Vec::new());
            grow(r, dtype, &shape, 2, &mut operands, &mut steps);
            steps.push(step("clip", &[-3.0, 6.0]));
            cases.push(Case::new("tree", post(steps), operands));
        }
    }
    // A gate with enough elements for several vectors in each thread, and a remainder.
    let wide = [1024 * 4 * 1024 + 3];
    let operands = vec![r.tensor(DType::F32, &wide), r.tensor(DType::F32, &wide)];
    let gate = ["sigmoid", "push", "tanh", "pop-mul"].map(|op| step(op, &[])).to_vec();
    cases.push(Case::new("tree", post(gate), operands));
    cases
}

/// Adds steps to a value; some of their operands are values with steps of their own.
fn grow(
    r: &mut Random,
    dtype: DType,
    shape: &[usize],
    depth: usize,
    operands: &mut Vec<Tensor>,
    steps: &mut Vec<Step>,
) {
    for _ in 0..1 + r.below(3) {
        let narrower = r.narrower(shape);
        match r.below(3) {
            0 => steps.push(step(r.pick(&["sigmoid", "tanh", "abs", "softplus"]), &[])),
            1 => {
                steps.push(step(r.pick(&["add", "sub", "rsub", "mul", "div", "min", "max"]), &[]));
                operands.push(r.positive(dtype, &narrower));
            }
            _ if depth > 0 => {
                steps.push(step("push", &[]));
                operands.push(r.positive(dtype, &narrower));
                grow(r, dtype, shape, depth - 1, operands, steps);
                steps.push(step(r.pick(&["pop-add", "pop-sub", "pop-mul", "pop-min", "pop-max"]), &[]));
            }
            _ => {}
        }
    }
}
