//! The graph of a convolution with its bias and post chain, derived from the types of a call.

use super::operation::{Function, Graph, GraphValue, Operation, ValuePlace, strides};
use ovolo::attr::Step;
use ovolo::op::Call;
use ovolo::op::post;
use ovolo::tensor::DType;

/// Returns the graph of a convolution call.
///
/// # Errors
/// If the library has no engine for it.
pub(super) fn graph(call: &Call<'_>) -> Result<Graph, String> {
    let (output, nhwc) = (call.output, !call.output.layout.is_plain());
    for ty in call.inputs.iter().chain([&output]) {
        if ty.shape.contains(&0) {
            return Err("a dimension is 0".to_owned());
        }
        // The library counts elements in 32 bits.
        i32::try_from(ty.shape.count())
            .map_err(|_| format!("{ty} has more elements than the library supports"))?;
    }
    let ints = |name: &str| -> Vec<usize> {
        call.attrs.expect_ints(name).iter().map(|value| usize::try_from(*value).unwrap_or(0)).collect()
    };
    let two = |values: &[usize]| match values {
        [rows, columns] => Ok([*rows, *columns]),
        _ => Err("the shape is not that of an image".to_owned()),
    };
    let pads = ints("pads");
    let (before, after) = pads.split_at(pads.len() / 2);
    let mut graph = Graph::new(output.dtype, call.attrs.expect_int("tf32") == 1);
    let x = graph.add(GraphValue::operand(0, call.inputs[0])?);
    let w = graph.add(GraphValue::operand(1, call.inputs[1])?);
    let mut bias = GraphValue::operand(2, call.inputs[2])?;
    bias.sizes = [1, output.shape[1], 1, 1];
    bias.strides = strides(bias.sizes, nhwc);
    let bias = graph.add(bias);
    let sizes = <[usize; 4]>::try_from(&output.shape[..])
        .map_err(|_| "the shape is not that of an image".to_owned())?;
    let like =
        GraphValue { sizes, strides: strides(sizes, nhwc), dtype: DType::F32, place: ValuePlace::Between };
    let y = graph.add(like);
    graph.operations.push(Operation::Convolution {
        x,
        w,
        y,
        pads: [two(before)?, two(after)?],
        strides: two(&ints("strides"))?,
        dilations: two(&ints("dilations"))?,
    });
    let steps = call.attrs.post();
    // The precompiled engines add a residual before the bias.
    let residual = steps.first().is_some_and(|step| step.op == "add") && call.inputs[3].shape == output.shape;
    let mut value = y;
    if residual {
        let added = graph.add(GraphValue::operand(3, call.inputs[3])?);
        value = graph.pointwise(Function::Add, value, Some(added));
    }
    value = graph.pointwise(Function::Add, value, Some(bias));
    let rest = if residual { &steps[1..] } else { steps };
    if let (false, Some(step)) = (nhwc, rest.iter().find(|step| step.op != "relu")) {
        return Err(format!(
            "in nchw the library's engines support only an `add` of the result's shape and then `relu`, not `{}`; some \
             engines for nhwc do",
            step.op
        ));
    }
    let mut operand = 3 + usize::from(residual);
    for step in rest {
        let extra = if post::is_binary(step) {
            operand += 1;
            Some(graph.add(GraphValue::operand(operand - 1, call.inputs[operand - 1])?))
        } else {
            None
        };
        value = add_step(&mut graph, step, value, extra)?;
    }
    graph.store(value, output.dtype);
    Ok(graph)
}

/// Adds a step of the post chain to the graph. Returns the number of its result.
fn add_step(graph: &mut Graph, step: &Step, x: usize, extra: Option<usize>) -> Result<usize, String> {
    use Function as F;
    let parameter = |at: usize| step.parameters.get(at).map_or(0.0, |parameter| parameter.0);
    let with = |graph: &mut Graph, function: Function, x: usize, number: f64| {
        let number = graph.number(number);
        graph.pointwise(function, x, Some(number))
    };
    let clamp = |graph: &mut Graph, mut x: usize, least: f64, most: f64| {
        if least.is_finite() {
            x = with(graph, F::Max, x, least);
        }
        if most.is_finite() {
            x = with(graph, F::Min, x, most);
        }
        x
    };
    let function = match step.op.name() {
        "add" => F::Add,
        "sub" => F::Sub,
        "mul" => F::Mul,
        "div" => F::Div,
        "min" => F::Min,
        "max" => F::Max,
        "relu" => F::Relu(0.0),
        "leaky-relu" => F::Relu(parameter(0)),
        "elu" => F::Elu(parameter(0)),
        "sigmoid" => F::Sigmoid,
        "tanh" => F::Tanh,
        "silu" => F::Silu,
        "gelu" => F::Gelu,
        "gelu-tanh" => F::GeluTanh,
        "softplus" => F::Softplus,
        "exp" => F::Exp,
        "erf" => F::Erf,
        "abs" => F::Abs,
        "sqrt" => F::Sqrt,
        "neg" => F::Neg,
        "clip" if parameter(0).is_finite() || parameter(1).is_finite() => {
            return Ok(clamp(graph, x, parameter(0), parameter(1)));
        }
        "hard-sigmoid" | "hard-swish" => {
            let swish = step.op == "hard-swish";
            let (slope, shift) = if swish { (1.0 / 6.0, 0.5) } else { (parameter(0), parameter(1)) };
            let line = with(graph, F::Mul, x, slope);
            let line = with(graph, F::Add, line, shift);
            let gate = clamp(graph, line, 0.0, 1.0);
            return Ok(if swish { graph.pointwise(F::Mul, x, Some(gate)) } else { gate });
        }
        "mish" => {
            let line = graph.pointwise(F::Softplus, x, None);
            let gate = graph.pointwise(F::Tanh, line, None);
            return Ok(graph.pointwise(F::Mul, x, Some(gate)));
        }
        other => return Err(format!("the library's graphs do not support step `{other}` at this position")),
    };
    Ok(graph.pointwise(function, x, extra))
}
