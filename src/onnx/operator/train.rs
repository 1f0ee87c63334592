//! Steps of optimisers: `Adam`, `Adagrad` and `Momentum`, for any number of tensors at once.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;

pub(super) const TABLE: &[Operator] = &[
    entry("ai.onnx.preview.training.Adam", 6, super::ANY, adam),
    entry("ai.onnx.preview.training.Adagrad", 5, super::ANY, adagrad),
    entry("ai.onnx.preview.training.Momentum", 5, super::ANY, momentum),
];

type Value = Result<ImportedValue, Refusal>;

/// Applies a binary op.
fn two(call: &mut Call<'_>, name: &str, op: &str, a: &ImportedValue, b: &ImportedValue) -> Value {
    call.helper(name, op, Attrs::new(), &[a, b])
}

/// Applies a binary op with a number on the right.
fn by(call: &mut Call<'_>, name: &str, op: &str, a: &ImportedValue, number: f64) -> Value {
    let number = call.scalar(&format!("{name}-number"), a.ty.dtype, number);
    two(call, name, op, a, &number)
}

/// Returns a value in which a number of steps counts: R and T, and the groups of the other operands, of which there
/// are as many in each.
fn operands(call: &mut Call<'_>, groups: usize) -> Result<[ImportedValue; 2], Refusal> {
    let (rate, steps) = (call.input(0)?, call.input(1)?);
    if !(call.input_count() - 2).is_multiple_of(groups) {
        let count = call.input_count();
        return Err(Refusal::other(format!("its {count} operands are not {groups} lists of equal lengths")));
    }
    Ok([rate, steps])
}

/// Converts the number of steps to the type of the tensors.
fn number_of(call: &mut Call<'_>, steps: &ImportedValue, like: &ImportedValue) -> Value {
    super::learned::cast(call, "steps", steps, like.ty.dtype)
}

/// Adds to the gradient what the norm of the tensor costs.
fn regular(call: &mut Call<'_>, gradient: &ImportedValue, x: &ImportedValue, norm: f64) -> Value {
    if norm == 0.0 {
        return Ok(gradient.clone());
    }
    let share = by(call, "norm", "mul", x, norm)?;
    two(call, "regular-gradient", "add", gradient, &share)
}

fn adagrad(call: &mut Call<'_>) -> Results {
    let [rate, steps] = operands(call, 3)?;
    let count = (call.input_count() - 2) / 3;
    let decay = call.float("decay_factor", 0.0)?;
    let epsilon = call.float("epsilon", 0.0)?;
    let norm = call.float("norm_coefficient", 0.0)?;
    let (mut tensors, mut sums) = (Vec::new(), Vec::new());
    for at in 0..count {
        let [x, gradient, sum] = [2 + at, 2 + count + at, 2 + 2 * count + at].map(|at| call.input(at));
        let (x, gradient, sum) = (x?, gradient?, sum?);
        let steps = number_of(call, &steps, &x)?;
        let slowed = by(call, "slowed", "mul", &steps, decay)?;
        let slowed = by(call, "divisor", "add", &slowed, 1.0)?;
        let rate = two(call, "rate", "div", &rate, &slowed)?;
        let gradient = regular(call, &gradient, &x, norm)?;
        let square = two(call, "square", "mul", &gradient, &gradient)?;
        let sum = call.result_at(count + at, "add", Attrs::new(), &[&sum, &square])?;
        let root = call.helper("root", "sqrt", Attrs::new(), &[&sum])?;
        let root = by(call, "bounded-root", "add", &root, epsilon)?;
        let scaled = two(call, "scaled", "mul", &rate, &gradient)?;
        let step = two(call, "step", "div", &scaled, &root)?;
        tensors.push(call.result_at(at, "sub", Attrs::new(), &[&x, &step])?);
        sums.push(sum);
    }
    Ok([tensors, sums].concat())
}

fn momentum(call: &mut Call<'_>) -> Results {
    let [rate, steps] = operands(call, 3)?;
    let count = (call.input_count() - 2) / 3;
    let [alpha, beta, norm] =
        [call.float("alpha", 0.0)?, call.float("beta", 0.0)?, call.float("norm_coefficient", 0.0)?];
    let nesterov = match call.text("mode", "standard")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(Refusal::attribute("mode", format!("is `{other}`, not standard or nesterov"))),
    };
    let (mut tensors, mut momenta) = (Vec::new(), Vec::new());
    for at in 0..count {
        let [x, gradient, momentum] = [2 + at, 2 + count + at, 2 + 2 * count + at].map(|at| call.input(at));
        let (x, gradient, momentum) = (x?, gradient?, momentum?);
        let gradient = regular(call, &gradient, &x, norm)?;
        // The first step takes the whole gradient.
        let steps = number_of(call, &steps, &x)?;
        let later = by(call, "later", "greater", &steps, 0.0)?;
        let [beta, one] = [("beta", beta), ("one", 1.0)].map(|(name, n)| call.scalar(name, x.ty.dtype, n));
        let share = call.helper("share", "where", Attrs::new(), &[&later, &beta, &one])?;
        let kept = by(call, "kept", "mul", &momentum, alpha)?;
        let added = two(call, "added", "mul", &share, &gradient)?;
        let momentum = call.result_at(count + at, "add", Attrs::new(), &[&kept, &added])?;
        let direction = if nesterov {
            let ahead = by(call, "ahead", "mul", &momentum, alpha)?;
            two(call, "direction", "add", &gradient, &ahead)?
        } else {
            momentum.clone()
        };
        let step = two(call, "step", "mul", &rate, &direction)?;
        tensors.push(call.result_at(at, "sub", Attrs::new(), &[&x, &step])?);
        momenta.push(momentum);
    }
    Ok([tensors, momenta].concat())
}

fn adam(call: &mut Call<'_>) -> Results {
    let [rate, steps] = operands(call, 4)?;
    let count = (call.input_count() - 2) / 4;
    let [alpha, beta, epsilon] =
        [call.float("alpha", 0.9)?, call.float("beta", 0.999)?, call.float("epsilon", 0.0)?];
    let norm = call.float("norm_coefficient", 0.0)?;
    let after = call.float("norm_coefficient_post", 0.0)?;
    let (mut tensors, mut means, mut squares) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..count {
        let [x, gradient, mean, square] =
            [2 + at, 2 + count + at, 2 + 2 * count + at, 2 + 3 * count + at].map(|at| call.input(at));
        let (x, gradient, mean, square) = (x?, gradient?, mean?, square?);
        let gradient = regular(call, &gradient, &x, norm)?;
        let kept = by(call, "kept-mean", "mul", &mean, alpha)?;
        let added = by(call, "new-mean", "mul", &gradient, 1.0 - alpha)?;
        let mean = call.result_at(count + at, "add", Attrs::new(), &[&kept, &added])?;
        let power = two(call, "gradient-square", "mul", &gradient, &gradient)?;
        let kept = by(call, "kept-square", "mul", &square, beta)?;
        let added = by(call, "new-square", "mul", &power, 1.0 - beta)?;
        let square = call.result_at(2 * count + at, "add", Attrs::new(), &[&kept, &added])?;
        // The rate is corrected for the zeros with which the means began, which the first step does without.
        let steps = number_of(call, &steps, &x)?;
        let mut left = Vec::new();
        for factor in [alpha, beta] {
            let factor = call.scalar("factor", x.ty.dtype, factor);
            let power = two(call, "power", "pow", &factor, &steps)?;
            let one = call.scalar("one", x.ty.dtype, 1.0);
            left.push(two(call, "left", "sub", &one, &power)?);
        }
        let root = call.helper("left-root", "sqrt", Attrs::new(), &[&left[1]])?;
        let ratio = two(call, "ratio", "div", &root, &left[0])?;
        let corrected = two(call, "corrected", "mul", &rate, &ratio)?;
        let later = by(call, "later", "greater", &steps, 0.0)?;
        let rate = call.helper("rate", "where", Attrs::new(), &[&later, &corrected, &rate])?;
        let root = call.helper("root", "sqrt", Attrs::new(), &[&square])?;
        let root = by(call, "bounded-root", "add", &root, epsilon)?;
        let scaled = two(call, "scaled", "mul", &rate, &mean)?;
        let step = two(call, "step", "div", &scaled, &root)?;
        let moved = two(call, "moved", "sub", &x, &step)?;
        tensors.push(if after == 0.0 { moved } else { by(call, "shrunk", "mul", &moved, 1.0 - after)? });
        means.push(mean);
        squares.push(square);
    }
    Ok([tensors, means, squares].concat())
}
