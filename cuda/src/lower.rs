//! The kernels for each lowered op: a call is described by its walk, its leaves and its expression.

use super::attention;
use super::chain::chain;
use super::channels;
use super::expr::{Expr, Leaf, Node, Picked};
use super::kernel::KernelJob;
use super::lines::{Kind, Lines};
use super::map::Map;
use super::place::Walk;
use super::product;
use super::reduce::{Combine, Reduce, combined};
use super::scalar::supported;
use super::space::{Access, Bound, Part};
use super::tile::Tile;
use super::window;
use ovolo::Plan;
use ovolo::op::{Call, OpError};
use ovolo::scalar::{Binary, Program};
use ovolo::tensor::{DType, TensorType};

/// Returns the job that computes a call.
///
/// # Errors
/// If no kernel supports the call; the error says why.
pub fn job(call: &Call<'_>) -> Result<KernelJob, OpError> {
    written(call).map_err(OpError::kernel)
}

/// Returns the jobs of a plan's generated kernels, and the number of its steps that are copies.
///
/// # Errors
/// As for [`job`].
pub fn generated(plan: &Plan) -> Result<(Vec<KernelJob>, usize), OpError> {
    let (mut jobs, mut copies) = (Vec::new(), 0);
    for step in plan.steps.iter().filter(|step| step.op.backend() == Some("cuda")) {
        let inputs: Vec<&TensorType> = step.input_types.iter().collect();
        let (op, attrs, output) = (step.op, &*step.attrs, &step.output_type);
        match step.implementation.as_str() {
            "copy" => copies += 1,
            _ => jobs.push(job(&Call { op, attrs, inputs: &inputs, output, threads: plan.threads })?),
        }
    }
    Ok((jobs, copies))
}

fn written(call: &Call<'_>) -> Result<KernelJob, String> {
    let mut types = call.inputs.iter().copied().chain([call.output]);
    if let Some(ty) = types.find(|ty| !supported(ty.dtype)) {
        return Err(format!("there is no kernel for elements of type {}", ty.dtype));
    }
    let name = call.op.own_name();
    let attrs = call.attrs;
    match name {
        "matmul" => product::matmul(call),
        "matmul-tensor" => product::tensor(call),
        "conv" => product::conv(call),
        "conv-depthwise" => channels::depthwise(call),
        "attention" => attention::attention(call),
        "map" | "tree" => map(call),
        "where" => pointwise(call, |x| Ok(Expr::select(x[0].clone(), x[1].clone(), x[2].clone()))),
        "cast" => pointwise(call, |x| Ok(x[0].clone().cast(attrs.expect_dtype("to")))),
        "batch-norm" => batch_norm(call),
        "softmax" => softmax(call, Kind::Softmax),
        "log-softmax" => softmax(call, Kind::LogSoftmax),
        "layer-norm" => inner_norm(call, Kind::Norm(attrs.expect_float("epsilon"))),
        "rms-norm" => inner_norm(call, Kind::Rms(attrs.expect_float("epsilon"))),
        "instance-norm" => instance_norm(call),
        "lrn" => window::response(call),
        "max-pool" | "avg-pool" if channels::innermost(call.inputs[0]) => {
            channels::pool(call, name == "max-pool")
        }
        "max-pool" => window::pool(call, true),
        "avg-pool" => window::pool(call, false),
        "reduce-sum" => reduce(call, Combine::Sum, false),
        "reduce-mean" => reduce(call, Combine::Sum, true),
        "reduce-max" => reduce(call, Combine::Most, false),
        "reduce-min" => reduce(call, Combine::Least, false),
        "reduce-prod" => reduce(call, Combine::Product, false),
        "arg-max" => window::argument(call, true),
        "arg-min" => window::argument(call, false),
        "transpose" | "expand" | "slice" | "pad" | "pack" | "unpack" | "reorder" | "reshape" => {
            move_elements(call, name)
        }
        "concat" => concat(call),
        "gather" => gather(call, false),
        "gather-elements" => gather(call, true),
        "grad" => gradient(call),
        _ => elementwise(call),
    }
}

fn elementwise(call: &Call<'_>) -> Result<KernelJob, String> {
    let name = call.op.own_name();
    pointwise(call, |x| match (call.op.flags.function, name) {
        (Some(function), _) => Ok(Expr::function(function, &call.attrs.parameters(function), x.to_vec())),
        (None, "not") => Ok(Expr::not(x[0].clone())),
        (None, "isnan") => Ok(Expr::is_nan(x[0].clone())),
        (None, _) => Err(format!("there is no kernel for `{name}`")),
    })
}

/// Returns one leaf for each operand, which broadcasts to the result.
fn leaves(call: &Call<'_>, walk: &Walk) -> Result<Vec<Leaf>, String> {
    let leaf = |(operand, ty): (usize, &&TensorType)| Ok(Leaf::new(operand, ty.dtype, walk.access(ty)?));
    call.inputs.iter().enumerate().map(leaf).collect()
}

/// Returns the job for an expression of the operands' elements. The padding of the result is set to zero.
fn pointwise(call: &Call<'_>, build: impl Fn(&[Expr]) -> Result<Expr, String>) -> Result<KernelJob, String> {
    let walk = Walk::new(call.output);
    let mut leaves = leaves(call, &walk)?;
    let operands: Vec<Expr> = (0..leaves.len()).map(|leaf| Expr::load(&leaves, leaf)).collect();
    let mut expr = build(&operands)?;
    let bounds = walk.bounds();
    if let (false, Some(first)) = (bounds.is_empty(), leaves.first_mut()) {
        first.bounds = bounds;
        let zero = Expr::number(expr.dtype, 0.0);
        expr = Expr::select(Expr::inside(0), expr, zero);
    }
    Map { sizes: walk.sizes, dtype: call.output.dtype, leaves, expr }.job()
}

fn map(call: &Call<'_>) -> Result<KernelJob, String> {
    pointwise(call, |x| chain(call.attrs.post(), x))
}

fn batch_norm(call: &Call<'_>) -> Result<KernelJob, String> {
    let walk = Walk::new(call.output);
    let channel = |operand: usize| Leaf::new(operand, call.inputs[operand].dtype, walk.coordinate(1));
    let mut leaves = vec![Leaf::new(0, call.inputs[0].dtype, walk.access(call.inputs[0])?)];
    leaves.extend((1..5).map(channel));
    let x: Vec<Expr> = (0..5).map(|leaf| Expr::load(&leaves, leaf).cast(wide(call.output.dtype))).collect();
    let epsilon = Expr::number(x[4].dtype, call.attrs.expect_float("epsilon"));
    let root = Expr::sqrt(Expr::binary(Binary::Add, x[4].clone(), epsilon));
    let factor = Expr::binary(Binary::Div, x[1].clone(), root);
    let centred = Expr::binary(Binary::Sub, x[0].clone(), x[3].clone());
    let expr = Expr::binary(Binary::Add, Expr::binary(Binary::Mul, centred, factor), x[2].clone());
    Map { sizes: walk.sizes, dtype: call.output.dtype, leaves, expr }.job()
}

/// Returns the type in which elements of a type are computed.
fn wide(dtype: DType) -> DType {
    super::scalar::Scalar::from_dtype(dtype).stored()
}

/// Returns the strides of dimensions in row-major order.
fn row_major(sizes: &[usize]) -> Vec<i64> {
    let mut strides = vec![1_i64; sizes.len()];
    for dim in (1..sizes.len()).rev() {
        strides[dim - 1] = strides[dim] * sizes[dim] as i64;
    }
    strides
}

/// Returns the value of the attribute `axis`.
fn axis(call: &Call<'_>) -> usize {
    usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0)
}

fn softmax(call: &Call<'_>, kind: Kind) -> Result<KernelJob, String> {
    let (sizes, dtype) = (call.output.shape.to_vec(), call.output.dtype);
    let leaves = vec![Leaf::new(0, dtype, Access::strided(0, row_major(&sizes)))];
    Lines { along: vec![axis(call)], sizes, leaves, kind, dtype }.job()
}

fn inner_norm(call: &Call<'_>, kind: Kind) -> Result<KernelJob, String> {
    let (sizes, dtype) = (call.output.shape.to_vec(), call.output.dtype);
    let along: Vec<usize> = (axis(call)..sizes.len()).collect();
    let strides = row_major(&sizes);
    let inner = || strides.iter().enumerate().map(|(dim, s)| if along.contains(&dim) { *s } else { 0 });
    let mut leaves = vec![Leaf::new(0, dtype, Access::strided(0, strides.iter().copied()))];
    let own = 1..call.inputs.len();
    leaves.extend(own.map(|operand| Leaf::new(operand, dtype, Access::strided(0, inner()))));
    Lines { sizes, leaves, kind, dtype, along: along.clone() }.job()
}

fn instance_norm(call: &Call<'_>) -> Result<KernelJob, String> {
    let (sizes, dtype) = (call.output.shape.to_vec(), call.output.dtype);
    let along: Vec<usize> = (2..sizes.len()).collect();
    let channel = || Access { offset: 0, parts: vec![Part::whole(1, 1)] };
    let mut leaves = vec![Leaf::new(0, dtype, Access::strided(0, row_major(&sizes)))];
    leaves.extend([1, 2].map(|operand| Leaf::new(operand, dtype, channel())));
    let kind = Kind::Norm(call.attrs.expect_float("epsilon"));
    Lines { along, sizes, leaves, kind, dtype }.job()
}

fn reduce(call: &Call<'_>, combine: Combine, mean: bool) -> Result<KernelJob, String> {
    let (x, dtype) = (call.inputs[0], call.output.dtype);
    if !x.layout.blocks().is_empty() {
        return Err(format!("the operand is {x}: it must be in a layout without blocks"));
    }
    let axes = call.attrs.expect_ints("axes");
    // The dimensions in the order of memory, which the result has as well.
    let order = x.layout.order(x.shape.rank());
    let sizes: Vec<usize> = order.iter().map(|dim| x.shape[*dim]).collect();
    let is_reduced = |dim: &usize| axes.iter().any(|axis| usize::try_from(*axis) == Ok(*dim));
    let reduced: Vec<bool> = order.iter().map(is_reduced).collect();
    let count: usize = sizes.iter().zip(&reduced).filter(|(_, r)| **r).map(|(n, _)| n).product();
    let leaves = vec![Leaf::new(0, x.dtype, Access::strided(0, row_major(&sizes)))];
    let before = Expr::load(&leaves, 0);
    let ty = combined(x.dtype);
    let mut after = Expr::given(ty);
    if mean {
        // If there are no elements, an integer sum is divided by one and a float sum by zero.
        let divisor = if x.dtype.is_float() { count } else { count.max(1) };
        after = Expr::binary(Binary::Div, after, Expr::number(ty, divisor as f64));
    }
    if !dtype.is_float() {
        after = after.cast(dtype);
    }
    Reduce { sizes, reduced, leaves, before, combine, after, dtype }.job()
}

/// Returns the job that moves the elements of one operand.
fn move_elements(call: &Call<'_>, name: &str) -> Result<KernelJob, String> {
    let (x, y) = (call.inputs[0], call.output);
    let ints = |name: &str| call.attrs.expect_ints(name).to_vec();
    let walk = if name == "unpack" { Walk::split(y, &x.layout) } else { Walk::new(y) };
    let strides = row_major(&x.shape);
    let mut fill = None;
    let mut bounds = walk.bounds();
    let access = match name {
        "reshape" => Access { offset: 0, parts: whole(&walk.sizes) },
        "transpose" => {
            let strides: Vec<i64> =
                ints("perm").iter().map(|axis| strides[usize::try_from(*axis).unwrap_or(0)]).collect();
            walk.strided(0, &strides)
        }
        "slice" => {
            let (starts, steps) = (ints("starts"), ints("steps"));
            let offset = starts.iter().zip(&strides).map(|(start, stride)| start * stride).sum();
            let along = steps.iter().zip(&strides).zip(y.shape.iter());
            // The stride of an axis with one element does not matter.
            let along: Vec<i64> =
                along.map(|((step, stride), size)| if *size > 1 { step * stride } else { 0 }).collect();
            if y.shape.contains(&0) { Access::default() } else { walk.strided(offset, &along) }
        }
        "pad" => {
            let pads = ints("pads");
            for (dim, &size) in x.shape.iter().enumerate() {
                let after = pads[x.shape.rank() + dim];
                if pads[dim] > 0 || after > 0 {
                    let mut at = walk.coordinate(dim);
                    at.offset = -pads[dim];
                    bounds.push(Bound { access: at, size });
                }
            }
            fill = Some(1);
            let offset: i64 = pads.iter().zip(&strides).map(|(pad, stride)| pad * stride).sum();
            walk.strided(-offset, &strides)
        }
        _ => walk.access(x)?,
    };
    let mut leaf = Leaf::new(0, x.dtype, access);
    leaf.bounds = bounds;
    if fill.is_none() {
        let tile = Tile { sizes: walk.sizes.clone(), leaf: leaf.clone(), dtype: y.dtype };
        if let Some(job) = tile.job()? {
            return Ok(job);
        }
    }
    let mut leaves = vec![leaf];
    let mut expr = Expr::load(&leaves, 0);
    if let Some(operand) = fill {
        leaves.push(Leaf::new(operand, x.dtype, Access::default()));
        expr = Expr::select(Expr::inside(0), expr, Expr::load(&leaves, 1));
    }
    Map { sizes: walk.sizes, dtype: y.dtype, leaves, expr }.job()
}

/// Returns the row-major parts of all dimensions.
fn whole(sizes: &[usize]) -> Vec<Part> {
    row_major(sizes).into_iter().enumerate().map(|(dim, stride)| Part::whole(dim, stride)).collect()
}

fn concat(call: &Call<'_>) -> Result<KernelJob, String> {
    let (axis, y) = (axis(call), call.output);
    let walk = Walk::new(y);
    let mut leaves = Vec::new();
    let mut first = 0_usize;
    for (operand, ty) in call.inputs.iter().enumerate() {
        if ty.shape.count() > 0 {
            let mut at = walk.coordinate(axis);
            at.offset = -i64::try_from(first).unwrap_or(i64::MAX);
            let bound = Bound { access: at, size: ty.shape[axis] };
            leaves.push(Leaf {
                bounds: vec![bound],
                ..Leaf::new(operand, ty.dtype, side(&walk, ty, axis, first))
            });
        }
        first += ty.shape[axis];
    }
    let mut leaf = leaves.len().saturating_sub(1);
    if leaves.is_empty() {
        return Ok(KernelJob::default());
    }
    let mut expr = Expr::load(&leaves, leaf);
    while leaf > 0 {
        leaf -= 1;
        expr = Expr::select(Expr::inside(leaf), Expr::load(&leaves, leaf), expr);
    }
    Map { sizes: walk.sizes, dtype: y.dtype, leaves, expr }.job()
}

/// Returns the offsets of an operand of a concatenation whose first element is at `first` along the axis.
fn side(walk: &Walk, ty: &TensorType, axis: usize, first: usize) -> Access {
    // Along a blocked axis operands consist of whole blocks, so positions have the same stride within each operand.
    let order = ty.layout.order(ty.shape.rank());
    let block = |dim: usize| ty.layout.block(dim);
    let mut behind: usize = ty.layout.blocks().iter().map(|block| block.1).product();
    let mut outer = vec![0; ty.shape.rank()];
    for &dim in order.iter().rev() {
        outer[dim] = behind;
        behind *= ty.shape[dim].div_ceil(block(dim));
    }
    let mut access = Access::default();
    let mut position = order.len();
    for (dim, outer) in outer.iter().enumerate() {
        let at = order.iter().position(|one| *one == dim).unwrap_or(0);
        access.parts.push(Part::whole(at, *outer as i64));
    }
    let mut inner: usize = ty.layout.blocks().iter().map(|block| block.1).product();
    for (_, size) in ty.layout.blocks() {
        inner /= size;
        access.parts.push(Part::whole(position, inner as i64));
        position += 1;
    }
    access.offset = -((first / block(axis) * outer[axis]) as i64);
    debug_assert_eq!(walk.sizes.len(), position);
    access
}

fn gather(call: &Call<'_>, elements: bool) -> Result<KernelJob, String> {
    let (x, at, y) = (call.inputs[0], call.inputs[1], call.output);
    let axis = axis(call);
    let walk = Walk::new(y);
    let strides = row_major(&x.shape);
    let stride = strides[axis];
    let (table, positions) = if elements {
        let mut along = strides;
        along[axis] = 0;
        (along, row_major(&at.shape))
    } else {
        let more = at.shape.rank();
        let mut table: Vec<i64> = strides[..axis].to_vec();
        table.extend(std::iter::repeat_n(0, more));
        table.extend(&strides[axis + 1..]);
        let mut positions = vec![0; axis];
        positions.extend(row_major(&at.shape));
        positions.resize(y.shape.rank(), 0);
        (table, positions)
    };
    let picked = Picked { leaf: 1, size: x.shape[axis], stride: usize::try_from(stride).unwrap_or(0) };
    let leaves = vec![
        Leaf { picked: Some(picked), ..Leaf::new(0, x.dtype, walk.strided(0, &table)) },
        Leaf::new(1, at.dtype, walk.strided(0, &positions)),
    ];
    let expr = Expr::load(&leaves, 0);
    Map { sizes: walk.sizes, dtype: y.dtype, leaves, expr }.job()
}

/// Returns the job for the gradient of an elementwise op for one operand, summed over the dimensions along which that
/// operand was broadcast.
fn gradient(call: &Call<'_>) -> Result<KernelJob, String> {
    let (dy, y) = (call.inputs[call.inputs.len() - 1], call.output);
    let [step] = call.attrs.steps("of") else { return Err("`of` is not one step".into()) };
    let operand = usize::try_from(call.attrs.expect_int("operand")).unwrap_or(0);
    let walk = Walk::new(dy);
    let leaves = leaves(call, &walk)?;
    let x: Vec<Expr> = (0..leaves.len()).map(|leaf| Expr::load(&leaves, leaf).cast(wide(y.dtype))).collect();
    let (above, operands) = x.split_last().ok_or("there is no operand")?;
    let parameters: Vec<f64> = step.parameters.iter().map(|p| p.0).collect();
    let binary = || step.op.binary().map(|(function, _)| function);
    let function =
        step.op.function().or_else(binary).ok_or_else(|| format!("`{}` has no gradient", step.op))?;
    let slope = Expr::formula(Program::new(function.derivative(operand), &parameters), operands.to_vec());
    let expr = match slope.node {
        Node::Number(1.0) => above.clone(),
        _ => Expr::binary(Binary::Mul, slope, above.clone()),
    };
    // Operands that the derivative does not need are not read.
    let skip = dy.shape.rank() - y.shape.rank();
    let repeated = |dim: usize| dim < skip || y.shape[dim - skip] != dy.shape[dim];
    let reduced: Vec<bool> = (0..dy.shape.rank()).map(repeated).collect();
    let (leaves, expr) = only_read(leaves, expr);
    if !reduced.contains(&true) {
        return Map { sizes: walk.sizes, dtype: y.dtype, leaves, expr }.job();
    }
    let after = Expr::given(combined(y.dtype));
    Reduce { sizes: walk.sizes, reduced, leaves, before: expr, combine: Combine::Sum, after, dtype: y.dtype }
        .job()
}

/// Removes the leaves that an expression does not read.
fn only_read(leaves: Vec<Leaf>, mut expr: Expr) -> (Vec<Leaf>, Expr) {
    let read: Vec<usize> = (0..leaves.len()).filter(|leaf| super::map::reads(&expr, *leaf)).collect();
    fn renumber(expr: &mut Expr, read: &[usize]) {
        match &mut expr.node {
            Node::Load(leaf) | Node::Inside(leaf) => {
                *leaf = read.iter().position(|one| one == leaf).unwrap_or(0);
            }
            Node::Given | Node::Number(_) => {}
            Node::Not(x) | Node::IsNan(x) | Node::Cast(x) => renumber(x, read),
            Node::Own(_, _, operands) | Node::Formula(_, operands) => {
                operands.iter_mut().for_each(|x| renumber(x, read));
            }
            Node::Binary(_, a, b) => {
                renumber(a, read);
                renumber(b, read);
            }
            Node::Select(a, b, c) => {
                renumber(a, read);
                renumber(b, read);
                renumber(c, read);
            }
        }
    }
    renumber(&mut expr, &read);
    (read.into_iter().map(|leaf| leaves[leaf].clone()).collect(), expr)
}
