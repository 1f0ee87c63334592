//! Recurrent layers.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::op::recurrent::{Activation, Cell, Kind};
use crate::tensor::{DType, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("LSTM", 3, 8, |call| layer(call, Cell::Lstm)),
    entry("GRU", 3, 6, |call| layer(call, Cell::Gru)),
    entry("RNN", 3, 6, |call| layer(call, Cell::Rnn)),
    entry("com.microsoft.DynamicQuantizeLSTM", 3, 12, quantised),
];

/// The weights of a layer: those of the inputs [D, G H, I], those of the state [D, G H, H]. Weights of 8-bit integers
/// lie the other way round, [D, I, G H] and [D, H, G H].
struct Weights {
    input: ImportedValue,
    state: ImportedValue,
    /// The scales of weights of 8-bit integers.
    levels: Option<[Levels; 2]>,
}

impl Weights {
    /// Returns the axes of columns and of rows.
    fn axes(&self) -> (usize, usize) {
        if self.levels.is_some() { (2, 1) } else { (1, 2) }
    }
}

/// The scales and zero points of weights: [D, 1, G H], or [D, 1, 1].
struct Levels {
    scale: ImportedValue,
    /// In 8 bits, and in f32.
    zero: [ImportedValue; 2],
}

fn layer(call: &mut Call<'_>, cell: Cell) -> Results {
    let (input, state) = (call.input(1)?, call.input(2)?);
    run(call, cell, &Weights { input, state, levels: None })
}

/// The weights are 8-bit integers with a scale and a zero point for each direction or each column. Inputs and states
/// are rounded to 256 levels, so that the products are those of the integers.
fn quantised(call: &mut Call<'_>) -> Results {
    let mut both = Vec::new();
    for (at, scale) in [(1, 8), (2, 10)] {
        let (weights, scale, zero) = (call.input(at)?, call.input(scale)?, call.input(scale + 1)?);
        if weights.rank() != 3 {
            return Err(Refusal::other(format!("its weights are {}, and need three dimensions", weights.ty)));
        }
        let directions = weights.dims()[0];
        let columns = |value: &ImportedValue| value.ty.shape.count() / directions.max(1);
        let shape = [directions, 1, columns(&scale)];
        let scale = call.reshape(Some("scale"), &scale, &shape)?;
        let shape = [directions, 1, columns(&zero)];
        let zero = call.reshape(Some("zero"), &zero, &shape)?;
        let float = Attrs::new().with("to", Attr::DType(DType::F32));
        let number = call.helper("zero-point", "cast", float, &[&zero])?;
        both.push((weights, Levels { scale, zero: [zero, number] }));
    }
    let (Some((state, second)), Some((input, first))) = (both.pop(), both.pop()) else {
        return Ok(Vec::new());
    };
    run(call, Cell::Lstm, &Weights { input, state, levels: Some([first, second]) })
}

/// The sizes of a layer.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    directions: usize,
    hidden: usize,
}

fn run(call: &mut Call<'_>, cell: Cell, weights: &Weights) -> Results {
    let mut x = call.input(0)?;
    let by_batch = call.flag("layout", false)?;
    if x.rank() != 3 || weights.input.rank() != 3 || weights.state.rank() != 3 {
        return Err(Refusal::other("its input and its weights need three dimensions each"));
    }
    if by_batch {
        x = call.helper("steps", "transpose", Attrs::new().ints("perm", &[1, 0, 2]), &[&x])?;
    }
    let sizes = Sizes {
        steps: x.dims()[0],
        batch: x.dims()[1],
        directions: weights.state.dims()[0],
        hidden: weights.state.dims()[weights.axes().1],
    };
    let reverse = match (call.text("direction", "forward")?, sizes.directions) {
        ("forward", 1) | ("bidirectional", 2) => 0,
        ("reverse", 1) => 1,
        (other, directions) => {
            let why = format!("is `{other}`, and its weights are for {directions} directions");
            return Err(Refusal::attribute("direction", why));
        }
    };
    let hidden = call.int("hidden_size", signed(&[sizes.hidden])[0])?;
    if signed(&[sizes.hidden]) != [hidden] {
        let why = format!("is {hidden}, and its weights are for {}", sizes.hidden);
        return Err(Refusal::attribute("hidden_size", why));
    }
    call.ignore(&["output_sequence"]); // Before opset 7, it said whether the first result is wanted.
    let mut attrs = Attrs::new()
        .with("activations", Attr::Str(activations(call, cell, sizes.directions)?.into()))
        .float("clip", call.float("clip", 0.0)?)
        .int("reverse", reverse);
    let mut linear = false;
    match cell {
        Cell::Lstm => attrs = attrs.int("coupled", i64::from(call.flag("input_forget", false)?)),
        Cell::Gru => {
            linear = call.flag("linear_before_reset", false)?;
            attrs = attrs.int("linear", i64::from(linear));
        }
        Cell::Rnn => {}
    }
    let bias = call.optional(3);
    let (outer, inner) = match &bias {
        Some(bias) => biases(call, cell, bias, sizes, linear)?,
        None => (None, None),
    };
    let x = products(call, x, weights, outer, sizes)?;
    let mut operands = vec![x, weights.state.clone()];
    if let Some([_, levels]) = &weights.levels {
        operands.extend([levels.zero[1].clone(), levels.scale.clone()]);
    }
    for at in 0..cell.finals() {
        operands.push(initial(call, 5 + at, by_batch, sizes)?);
    }
    operands.extend(inner);
    operands.extend(call.optional(7).filter(|_| cell == Cell::Lstm));
    operands.extend(call.optional(4).filter(|lengths| {
        let whole = signed(&[sizes.steps])[0];
        !lengths.known().and_then(Tensor::to_i64).is_some_and(|list| list.iter().all(|one| *one == whole))
    }));
    let op = match cell {
        Cell::Lstm if weights.levels.is_some() => "lstm-integer",
        Cell::Lstm => "lstm",
        Cell::Gru => "gru",
        Cell::Rnn => "rnn",
    };
    let states = call.helper("states", op, attrs, &operands.iter().collect::<Vec<_>>())?;
    results(call, cell, &states, by_batch, sizes)
}

/// Returns the results of the operator, which are parts of the states.
fn results(call: &mut Call<'_>, cell: Cell, states: &ImportedValue, by_batch: bool, sizes: Sizes) -> Results {
    let Sizes { steps, batch, directions, hidden } = sizes;
    let mut results = Vec::new();
    for at in 0..=cell.finals() {
        let (start, count) = if at == 0 { (0, steps) } else { (steps + at - 1, 1) };
        let part = Attrs::new()
            .ints("starts", &signed(&[start, 0, 0, 0]))
            .ints("sizes", &signed(&[count, directions, batch, hidden]))
            .ints("steps", &[1; 4]);
        let last = at == 0 && !by_batch;
        if last {
            results.push(call.result("slice", part, &[states])?);
            continue;
        }
        let mut value = call.helper("part", "slice", part, &[states])?;
        if at > 0 {
            value = call.reshape(Some("final"), &value, &[directions, batch, hidden])?;
        }
        if by_batch {
            let perm: &[i64] = if at == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
            value = call.result_at(at, "transpose", Attrs::new().ints("perm", perm), &[&value])?;
        }
        results.push(value);
    }
    Ok(results)
}

/// Returns the products of the inputs with their weights, plus a bias: [S, B, D, G H].
fn products(
    call: &mut Call<'_>,
    x: ImportedValue,
    weights: &Weights,
    bias: Option<ImportedValue>,
    sizes: Sizes,
) -> Result<ImportedValue, Refusal> {
    let Sizes { steps, batch, directions, .. } = sizes;
    let (columns, rows) = weights.axes();
    let (width, size) = (weights.input.dims()[columns], weights.input.dims()[rows]);
    if x.dims()[2] != size {
        return Err(Refusal::other(format!(
            "its input is {}, and its weights are for {size} features",
            x.ty
        )));
    }
    let rows = call.reshape(Some("inputs"), &x, &[steps * batch, size])?;
    let mut product = match &weights.levels {
        Some([levels, _]) => product_of_levels(call, &rows, &weights.input, levels)?,
        None => {
            let columns = call.reshape(Some("input-weights"), &weights.input, &[directions * width, size])?;
            let swap = Attrs::new().ints("perm", &[1, 0]);
            let columns = call.helper("input-columns", "transpose", swap, &[&columns])?;
            call.helper("products", "matmul", Attrs::new(), &[&rows, &columns])?
        }
    };
    if let Some(bias) = bias {
        product = call.helper("biased", "add", Attrs::new(), &[&product, &bias])?;
    }
    call.reshape(Some("gates"), &product, &[steps, batch, directions, width])
}

/// Returns the products of rows, rounded to 256 levels, with weights of 8-bit integers [D, I, G H].
fn product_of_levels(
    call: &mut Call<'_>,
    rows: &ImportedValue,
    weights: &ImportedValue,
    levels: &Levels,
) -> Result<ImportedValue, Refusal> {
    let (directions, size, width) = (weights.dims()[0], weights.dims()[1], weights.dims()[2]);
    let [rounded, scale, zero] = dynamic_levels(call, rows)?;
    // A column for each gate of each direction.
    let order = Attrs::new().ints("perm", &[1, 0, 2]);
    let columns = call.helper("input-weights", "transpose", order, &[weights])?;
    let columns = call.reshape(Some("input-columns"), &columns, &[size, directions * width])?;
    let mut spread = |name: &str, value: &ImportedValue| {
        if value.ty.shape.count() == 1 {
            return call.reshape(Some(name), value, &[]);
        }
        let shape = Attrs::new().ints("shape", &signed(&[directions, 1, width]));
        let value = call.helper(name, "expand", shape, &[value])?;
        call.reshape(Some(&format!("{name}-row")), &value, &[directions * width])
    };
    let (own, points) = (spread("input-scale", &levels.scale)?, spread("input-zero", &levels.zero[0])?);
    let sum = call.helper("sums", "matmul-integer", Attrs::new(), &[&rounded, &columns, &zero, &points])?;
    let float = Attrs::new().with("to", Attr::DType(DType::F32));
    let sum = call.helper("whole", "cast", float, &[&sum])?;
    let scale = call.helper("scales", "mul", Attrs::new(), &[&scale, &own])?;
    call.helper("products", "mul", Attrs::new(), &[&sum, &scale])
}

/// Returns 256 levels of numbers between the least and the greatest of them and zero, as `DynamicQuantizeLinear` has
/// them, with their scale and their zero point.
fn dynamic_levels(call: &mut Call<'_>, x: &ImportedValue) -> Result<[ImportedValue; 3], Refusal> {
    let none = Attrs::new;
    let axes: Vec<usize> = (0..x.rank()).collect();
    let all = || Attrs::new().ints("axes", &signed(&axes)).int("keepdims", 0);
    let (zero, one, steps) = (
        call.scalar("none", DType::F32, 0.0),
        call.scalar("one", DType::F32, 1.0),
        call.scalar("steps", DType::F32, 255.0),
    );
    let least = call.helper("least-element", "reduce-min", all(), &[x])?;
    let least = call.helper("least", "min", none(), &[&least, &zero])?;
    let most = call.helper("greatest-element", "reduce-max", all(), &[x])?;
    let most = call.helper("greatest", "max", none(), &[&most, &zero])?;
    let range = call.helper("range", "sub", none(), &[&most, &least])?;
    let flat = call.helper("flat", "equal", none(), &[&range, &zero])?;
    let scale = call.helper("step", "div", none(), &[&range, &steps])?;
    let scale = call.helper("scale-of-inputs", "where", none(), &[&flat, &one, &scale])?;
    let point = call.helper("least-steps", "div", none(), &[&least, &scale])?;
    let point = call.helper("steps-below", "neg", none(), &[&point])?;
    let bounds = Attrs::new().float("min", 0.0).float("max", 255.0);
    let point = call.helper("steps-within", "clip", bounds, &[&point])?;
    let point = call.helper("whole-steps", "round", none(), &[&point])?;
    let byte = Attrs::new().with("to", Attr::DType(DType::U8));
    let point = call.helper("zero-of-inputs", "cast", byte, &[&point])?;
    let levels = call.helper("levels", "quantize", none(), &[x, &scale, &point])?;
    Ok([levels, scale, point])
}

/// Returns the bias that is added to the products of the inputs, and the one inside of the reset gate of a GRU.
fn biases(
    call: &mut Call<'_>,
    cell: Cell,
    bias: &ImportedValue,
    sizes: Sizes,
    linear: bool,
) -> Result<(Option<ImportedValue>, Option<ImportedValue>), Refusal> {
    let Sizes { directions, hidden, .. } = sizes;
    let width = cell.gates() * hidden;
    if bias.dims() != [directions, 2 * width] {
        return Err(Refusal::other(format!(
            "its bias is {}, and must be [{directions},{}]",
            bias.ty,
            2 * width
        )));
    }
    let part = |call: &mut Call<'_>, name: &str, start: usize, size: usize| {
        let attrs = Attrs::new()
            .ints("starts", &signed(&[0, start]))
            .ints("sizes", &signed(&[directions, size]))
            .ints("steps", &[1, 1]);
        call.helper(name, "slice", attrs, &[bias])
    };
    let input = part(call, "input-bias", 0, width)?;
    let mut state = part(call, "state-bias", width, width)?;
    let mut inner = None;
    if linear {
        inner = Some(part(call, "reset-bias", 2 * width - hidden, hidden)?);
        let gates = part(call, "gate-bias", width, width - hidden)?;
        let zeros = Tensor::zeros(TensorType::plain(bias.ty.dtype, [directions, hidden]));
        let zeros = call.constant("no-bias", zeros);
        state = call.helper("outer-bias", "concat", Attrs::new().int("axis", 1), &[&gates, &zeros])?;
    }
    let sum = call.helper("bias", "add", Attrs::new(), &[&input, &state])?;
    Ok((Some(call.reshape(Some("bias-row"), &sum, &[directions * width])?), inner))
}

/// Returns an initial state, which is zero if it is left out.
fn initial(call: &mut Call<'_>, at: usize, by_batch: bool, sizes: Sizes) -> Result<ImportedValue, Refusal> {
    let dtype = call.input(0)?.ty.dtype;
    Ok(match call.optional(at) {
        Some(state) if by_batch => {
            call.helper("initial", "transpose", Attrs::new().ints("perm", &[1, 0, 2]), &[&state])?
        }
        Some(state) => state,
        None => {
            let zeros = TensorType::plain(dtype, [sizes.directions, sizes.batch, sizes.hidden]);
            call.constant("initial", Tensor::zeros(zeros))
        }
    })
}

/// Returns the activations of all directions. Parameters are given to the functions that have such parameters, in
/// order.
fn activations(call: &Call<'_>, cell: Cell, directions: usize) -> Result<String, Refusal> {
    let usual: &[&str] = match cell {
        Cell::Lstm => &["sigmoid", "tanh", "tanh"],
        Cell::Gru => &["sigmoid", "tanh"],
        Cell::Rnn => &["tanh"],
    };
    let mut names: Vec<String> = call.texts("activations")?.unwrap_or_default();
    if names.is_empty() {
        names = usual.repeat(directions).into_iter().map(ToOwned::to_owned).collect();
    }
    if names.len() != directions * usual.len() {
        let why = format!("has {} functions, and needs {}", names.len(), directions * usual.len());
        return Err(Refusal::attribute("activations", why));
    }
    let mut alphas = call.floats("activation_alpha")?.unwrap_or_default().iter();
    let mut betas = call.floats("activation_beta")?.unwrap_or_default().iter();
    let mut list = Vec::new();
    for name in &names {
        let mut one = Activation::named(name).ok_or_else(|| {
            Refusal::attribute("activations", format!("names `{name}`, which is not known"))
        })?;
        let scaled = matches!(one.kind, Kind::Affine | Kind::ScaledTanh | Kind::HardSigmoid);
        if scaled || matches!(one.kind, Kind::LeakyRelu | Kind::ThresholdedRelu | Kind::Elu) {
            one.alpha = alphas.next().map_or(one.alpha, |alpha| f64::from(*alpha));
        }
        if scaled {
            one.beta = betas.next().map_or(one.beta, |beta| f64::from(*beta));
        }
        list.push(one.to_string());
    }
    Ok(list.join(","))
}
