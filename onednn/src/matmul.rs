//! Matrix products.

use super::step::{Chain, Ranges};
use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Arg, DataType, Desc, Library, PrimitiveDesc};
use ovolo::attr::{Attrs, Step};
use ovolo::op::{Form, Layouts, Lowered, Lowering, OpError};
use ovolo::tensor::TensorType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    op!("onednn.matmul", "matmul", work),
    Lowering {
        layouts: Layouts::Typed { infer: packed, samples: &[Form::new(&["plain", "BA16a64b"], "plain")] },
        ..op!("onednn.matmul-packed", "matmul", work)
    },
];

/// Returns the type of a product whose right operand has any layout.
fn packed(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    match types.iter().enumerate().find(|(operand, ty)| *operand != 1 && !ty.layout.is_plain()) {
        Some((operand, ty)) => Err(OpError::operand(operand, ty, ": it must be in the default layout")),
        None => op.logical_result(attrs, types),
    }
}

/// What products of floats and of integers do differently.
pub(super) struct Kind<'a> {
    /// The element types of both factors and of the result.
    pub data: [DataType; 3],
    /// The steps after the product.
    pub steps: &'a [Step],
    /// Selects one of the library's implementations.
    pub choose: &'a dyn Fn(PrimitiveDesc) -> Result<PrimitiveDesc, OpError>,
}

/// Divides a matrix product of floats between threads.
fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let [a, b] = [call.inputs[0], call.inputs[1]];
    if b.shape.rank() == 2 {
        let data = [desc::data_type(a.dtype)?; 3];
        flat(library, call, &Kind { data, steps: call.attrs.post(), choose: &|made| choose(made, 0) })
    } else {
        stacked(library, call, a, b)
    }
}

/// Splits off the bias at the start of a chain: an addition of one row, for which the library has an argument.
/// Returns the other steps, and whether there is a bias.
fn bias<'a>(steps: &'a [Step], inputs: &[&TensorType], columns: usize) -> (&'a [Step], bool) {
    match steps {
        [step, rest @ ..]
            if step.op == "add"
                && inputs[2].shape.count() == columns
                && inputs[2].shape.last() == Some(&columns) =>
        {
            (rest, true)
        }
        _ => (steps, false),
    }
}

/// Divides a product `[.., m, k]` by one matrix, in which the rows of all stacks are treated alike.
pub(super) fn flat(library: &'static Library, call: &Call<'_>, kind: &Kind<'_>) -> Result<Work, OpError> {
    let (a, b, y) = (call.inputs[0], call.inputs[1], call.output);
    let (depth, columns) = (b.shape[0], b.shape[1]);
    let rows = y.shape.count() / columns.max(1);
    if y.shape.count() == 0 || depth == 0 {
        return Err(OpError::kernel("a dimension is 0"));
    }
    // The operands of the steps, as matrices that broadcast.
    let flattened: Vec<TensorType> = call
        .inputs
        .iter()
        .enumerate()
        .map(|(at, ty)| if at < 2 { Ok((*ty).clone()) } else { as_matrix(ty, y, rows, columns) })
        .collect::<Result<_, _>>()?;
    let inputs: Vec<&TensorType> = flattened.iter().collect();
    let (steps, biased) = bias(kind.steps, &inputs, columns);
    let chain = Chain { steps, inputs: &inputs, first: 2 + usize::from(biased), sum: 0 };
    let threads = threads(call, y.shape.count().saturating_mul(depth));
    // The larger operand is divided, so that only one thread reads each of its bytes.
    let block = b.layout.block(1).max(16);
    let by_columns = columns >= rows && columns >= 2 * block && b.layout.order(2)[0] == 1
        || rows < threads && b.layout.order(2)[0] == 1;
    let mut work = Work::new(threads);
    let mut known: Vec<([usize; 2], usize)> = Vec::new();
    for thread in 0..threads {
        let mut ranges: Ranges = vec![0..rows, 0..columns];
        let dim = usize::from(by_columns);
        ranges[dim] = part([rows, columns][dim], threads, thread, if by_columns { block } else { 1 });
        if ranges[dim].is_empty() {
            continue;
        }
        let [m, n] = [ranges[0].len(), ranges[1].len()];
        let at = ranges[0].start * columns + ranges[1].start;
        let mut args = vec![Arg::SRC, Arg::WEIGHTS, Arg::DST, Arg::SCRATCH];
        let mut places = vec![
            ArgPlace::Input(0, ranges[0].start * depth * a.dtype.size()),
            ArgPlace::Input(1, b.layout.offset(&b.shape, &[0, ranges[1].start]) * b.dtype.size()),
            ArgPlace::Output(at * y.dtype.size()),
            ArgPlace::Scratch,
        ];
        if biased {
            args.push(Arg::BIAS);
            places.push(ArgPlace::Input(2, ranges[1].start * y.dtype.size()));
        }
        let attr = chain.attr(library, &ranges, &mut args, &mut places)?;
        let variant = match known.iter().find(|(sizes, _)| *sizes == [m, n]) {
            Some((_, variant)) => *variant,
            None => {
                let [left, right, result] = kind.data;
                let src = desc::shaped(library, &[m, depth], &Default::default(), left)?;
                let dst = strided(library, columns, [m, n], result)?;
                let weights = desc::shaped(library, &[depth, n], &b.layout, right)?;
                let row = match biased {
                    true => Some(desc::shaped(library, &[1, n], &Default::default(), result)?),
                    false => None,
                };
                let made = PrimitiveDesc::matmul(library, [&src, &weights, &dst], row.as_ref(), &attr)
                    .map_err(OpError::backend)?;
                let variant = work.variant((kind.choose)(made)?, args);
                known.push(([m, n], variant));
                variant
            }
        };
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// Returns the descriptor of a part of a plain matrix with so many columns.
fn strided(
    library: &'static Library,
    columns: usize,
    [m, n]: [usize; 2],
    data: DataType,
) -> Result<Desc, OpError> {
    if n == columns {
        return desc::shaped(library, &[m, n], &Default::default(), data);
    }
    Desc::strided(library, &[m, n], data, &[columns, 1]).map_err(OpError::backend)
}

/// Returns the operand of a step as a matrix: all rows, one row, one column, or one element.
fn as_matrix(
    ty: &TensorType,
    result: &TensorType,
    rows: usize,
    columns: usize,
) -> Result<TensorType, OpError> {
    let count = ty.shape.count();
    let width = ty.shape.last().copied().unwrap_or(1);
    let shape = if count == rows * columns && width == columns {
        [rows, columns]
    } else if count == columns && width == columns {
        [1, columns]
    } else if count == rows && width == 1 && ty.shape.rank() == result.shape.rank() {
        [rows, 1]
    } else if count == 1 {
        [1, 1]
    } else {
        return Err(OpError::kernel(format!(
            "the operand {ty} of a step does not broadcast to {result} by rows or columns"
        )));
    };
    Ok(TensorType { shape: (&shape[..]).into(), ..ty.clone() })
}

/// Divides a stack of products: each thread computes some of the matrices.
fn stacked(
    library: &'static Library,
    call: &Call<'_>,
    a: &TensorType,
    b: &TensorType,
) -> Result<Work, OpError> {
    let y = call.output;
    let rank = y.shape.rank();
    let data = desc::data_type(a.dtype)?;
    if a.shape.rank() != rank || b.shape.rank() != rank || y.shape.count() == 0 {
        return Err(OpError::kernel(format!(
            "the operands are {a} and {b}: both must have the same number of dimensions"
        )));
    }
    let stack = y.shape[..rank - 2].iter().product::<usize>();
    let [m, n, k] = [y.shape[rank - 2], y.shape[rank - 1], a.shape[rank - 1]];
    for ty in [a, b] {
        if ty.shape[..rank - 2] != y.shape[..rank - 2] {
            return Err(OpError::kernel(format!(
                "the operands are {a} and {b}: their batch dimensions must be equal"
            )));
        }
    }
    let flat = |ty: &TensorType| -> Result<TensorType, OpError> {
        let shape = if ty.shape == y.shape {
            [stack, m, n]
        } else if ty.shape.count() == 1 {
            [1, 1, 1]
        } else if ty.shape.count() == n && ty.shape.last() == Some(&n) {
            [1, 1, n]
        } else {
            return Err(OpError::kernel(format!(
                "the operand {ty} of a step broadcasts to {y} in an unsupported way"
            )));
        };
        Ok(TensorType { shape: (&shape[..]).into(), ..ty.clone() })
    };
    let flattened: Vec<TensorType> = call
        .inputs
        .iter()
        .enumerate()
        .map(|(at, ty)| if at < 2 { Ok((*ty).clone()) } else { flat(ty) })
        .collect::<Result<_, _>>()?;
    let inputs: Vec<&TensorType> = flattened.iter().collect();
    let chain = Chain { steps: call.attrs.post(), inputs: &inputs, first: 2, sum: 0 };
    let threads = threads(call, y.shape.count().saturating_mul(k));
    let mut work = Work::new(threads);
    let mut known: Vec<(usize, usize)> = Vec::new();
    for thread in 0..threads {
        let some = part(stack, threads, thread, 1);
        if some.is_empty() {
            continue;
        }
        let count = some.len();
        let ranges: Ranges = vec![some.clone(), 0..m, 0..n];
        let mut args = vec![Arg::SRC, Arg::WEIGHTS, Arg::DST, Arg::SCRATCH];
        let size = a.dtype.size();
        let mut places = vec![
            ArgPlace::Input(0, some.start * m * k * size),
            ArgPlace::Input(1, some.start * k * n * size),
            ArgPlace::Output(some.start * m * n * size),
            ArgPlace::Scratch,
        ];
        let attr = chain.attr(library, &ranges, &mut args, &mut places)?;
        let variant = match known.iter().find(|(other, _)| *other == count) {
            Some((_, variant)) => *variant,
            None => {
                let plain = |shape: &[usize]| desc::shaped(library, shape, &Default::default(), data);
                let (src, weights) = (plain(&[count, m, k])?, plain(&[count, k, n])?);
                let dst = plain(&[count, m, n])?;
                let made = PrimitiveDesc::matmul(library, [&src, &weights, &dst], None, &attr)
                    .map_err(OpError::backend)?;
                let variant = work.variant(choose(made, 0)?, args);
                known.push((count, variant));
                variant
            }
        };
        work.run(thread, variant, places);
    }
    Ok(work)
}
