//! Operators on sequences and optional values. They arrange values, and leave no nodes but slices and joins of
//! tensors.

use super::{Binding, Importer, demand, demand_int, emit};
use crate::attr::Attrs;
use crate::onnx::call::{axis, signed};
use crate::onnx::document::Operation;
use crate::onnx::{ImportedValue, Refusal};
use crate::tensor::{DType, Tensor};
use std::sync::Arc;

/// Returns the results of an operator for its operands.
type Operator = fn(&Operation, &[Option<Binding>], &mut Importer<'_>) -> Result<Vec<Binding>, Refusal>;

/// The operators by their names.
const OPERATORS: [(&str, Operator); 11] = [
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceInsert", insert),
    ("SequenceErase", erase),
    ("SequenceAt", at),
    ("SequenceLength", length),
    ("SplitToSequence", split),
    ("ConcatFromSequence", concat),
    ("Optional", optional),
    ("OptionalHasElement", has_element),
    ("OptionalGetElement", get_element),
];

/// Returns maps from the labels of classes to the scores of a row, one for each row.
pub(super) fn zip_map(operation: &Operation, inputs: &[Option<Binding>]) -> Result<Vec<Binding>, Refusal> {
    let rows = input(inputs, 0)?.tensor()?.clone();
    let find = |name: &str| operation.node.attribute.iter().find(|attribute| attribute.name == name);
    let ints = find("classlabels_int64s").map_or(&[][..], |attribute| &attribute.ints);
    let texts = find("classlabels_strings").map_or(&[][..], |attribute| &attribute.strings);
    let keys = if texts.is_empty() {
        Tensor::from_elements([ints.len()], ints)
    } else {
        let texts = texts.iter().map(|bytes| std::str::from_utf8(bytes)).collect::<Result<Vec<_>, _>>();
        let texts = texts.map_err(|_| Refusal::attribute("classlabels_strings", "is not UTF-8"))?;
        Tensor::from_texts([texts.len()], &texts)
    };
    match rows.dims() {
        [_, width] if *width == keys.ty().shape.count() => Ok(vec![Binding::Maps(keys, rows)]),
        _ => Err(Refusal::other(format!("its operand is {}, and it has labels {}", rows.ty, keys.ty()))),
    }
}

/// Returns the names of the operators.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// Returns the operator with this name.
pub(super) fn operator(name: &str) -> Option<Operator> {
    OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, operator)| *operator)
}

fn input(inputs: &[Option<Binding>], at: usize) -> Result<&Binding, Refusal> {
    inputs.get(at).and_then(Option::as_ref).ok_or(Refusal::Operand(at))
}

fn int(operation: &Operation, name: &str, default: i64) -> i64 {
    let found = operation.node.attribute.iter().find(|attribute| attribute.name == name);
    found.map_or(default, |attribute| attribute.i)
}

fn name(operation: &Operation, importer: &Importer<'_>, suffix: &str) -> String {
    let output = operation.node.output.first().map_or("", String::as_str);
    format!("{}{output}{suffix}", importer.builder.prefix)
}

fn scalar(
    operation: &Operation,
    importer: &Importer<'_>,
    dtype: DType,
    value: i64,
) -> Result<Vec<Binding>, Refusal> {
    #[allow(clippy::cast_precision_loss)] // It is a truth value or the length of a list.
    let tensor = Tensor::from_f64(dtype, [0_usize; 0], &[value as f64]);
    Ok(vec![Binding::Tensor(ImportedValue::constant(name(operation, importer, ""), tensor))])
}

/// Returns the position that an operand names in a list; negative ones count from the end.
fn position(importer: &Importer<'_>, value: &Binding, length: usize) -> Result<usize, Refusal> {
    let given = demand_int(importer, value, "position")?;
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let wrapped = if given < 0 { given + signed } else { given };
    usize::try_from(wrapped).ok().filter(|at| *at < length).ok_or_else(|| {
        Refusal::other(format!("its position is {given}, and the sequence has {length} elements"))
    })
}

fn construct(
    _: &Operation,
    inputs: &[Option<Binding>],
    _: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    Ok(vec![Binding::Sequence(Arc::new(inputs.iter().flatten().cloned().collect()))])
}

fn empty(_: &Operation, _: &[Option<Binding>], _: &mut Importer<'_>) -> Result<Vec<Binding>, Refusal> {
    Ok(vec![Binding::Sequence(Arc::default())])
}

fn insert(
    _: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let mut list = Vec::clone(input(inputs, 0)?.sequence()?);
    let length = list.len();
    let at = match inputs.get(2).and_then(Option::as_ref) {
        None => length,
        Some(value) => match demand_int(importer, value, "position")? {
            // A new element may also come after the last one.
            end if usize::try_from(end) == Ok(length) => length,
            _ => position(importer, value, length)?,
        },
    };
    list.insert(at, input(inputs, 1)?.clone());
    Ok(vec![Binding::Sequence(Arc::new(list))])
}

fn erase(
    _: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let mut list = Vec::clone(input(inputs, 0)?.sequence()?);
    let at = match inputs.get(1).and_then(Option::as_ref) {
        None if list.is_empty() => return Err(Refusal::other("its sequence is empty")),
        None => list.len() - 1,
        Some(value) => position(importer, value, list.len())?,
    };
    list.remove(at);
    Ok(vec![Binding::Sequence(Arc::new(list))])
}

fn at(
    _: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let list = input(inputs, 0)?.sequence()?;
    Ok(vec![list[position(importer, input(inputs, 1)?, list.len())?].clone()])
}

fn length(
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let length = input(inputs, 0)?.sequence()?.len();
    scalar(operation, importer, DType::I64, i64::try_from(length).unwrap_or(i64::MAX))
}

fn split(
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let value = input(inputs, 0)?.tensor()?.clone();
    let axis = axis(int(operation, "axis", 0), value.rank())?;
    let length = value.dims()[axis];
    let keep = int(operation, "keepdims", 1) != 0 || inputs.get(1).is_some_and(Option::is_some);
    let sizes: Vec<usize> = match inputs.get(1).and_then(Option::as_ref) {
        None => vec![1; length],
        Some(split) => {
            let tensor = demand(importer, split, "split")?;
            let list = tensor.to_i64().unwrap_or_default();
            let list = list.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>();
            let list = list.ok_or_else(|| Refusal::other("its split holds a negative size"))?;
            match (tensor.ty().shape.rank(), list.as_slice()) {
                (0, [0]) => return Err(Refusal::other("its split is 0")),
                (0, [size]) => (0..length).step_by(*size).map(|at| (*size).min(length - at)).collect(),
                _ => list,
            }
        }
    };
    if sizes.iter().sum::<usize>() != length {
        let why = format!("its split {sizes:?} does not add up to {length}, the size of axis {axis}");
        return Err(Refusal::other(why));
    }
    let (mut parts, mut start) = (Vec::with_capacity(sizes.len()), 0);
    for (number, size) in sizes.into_iter().enumerate() {
        let mut starts = vec![0; value.rank()];
        starts[axis] = start;
        start += size;
        let mut dims = value.dims().to_vec();
        dims[axis] = size;
        let attrs = Attrs::new()
            .ints("starts", &signed(&starts))
            .ints("sizes", &signed(&dims))
            .ints("steps", &vec![1; value.rank()]);
        let label = name(operation, importer, &format!("/{number}"));
        let mut part = emit(importer, &label, "slice", attrs, &[&value])?;
        if !keep {
            dims.remove(axis);
            let attrs = Attrs::new().ints("shape", &signed(&dims));
            part = emit(importer, &format!("{label}/element"), "reshape", attrs, &[&part])?;
        }
        parts.push(Binding::Tensor(part));
    }
    Ok(vec![Binding::Sequence(Arc::new(parts))])
}

fn concat(
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let list = Arc::clone(input(inputs, 0)?.sequence()?);
    let first = list.first().ok_or_else(|| Refusal::other("its sequence is empty"))?.tensor()?;
    let new = int(operation, "new_axis", 0) != 0;
    let axis = axis(int(operation, "axis", 0), first.rank() + usize::from(new))?;
    let mut parts = Vec::with_capacity(list.len());
    for (number, part) in list.iter().enumerate() {
        let mut part = part.tensor()?.clone();
        if new {
            let mut dims = part.dims().to_vec();
            dims.insert(axis.min(dims.len()), 1);
            let attrs = Attrs::new().ints("shape", &signed(&dims));
            let label = name(operation, importer, &format!("/{number}"));
            part = emit(importer, &label, "reshape", attrs, &[&part])?;
        }
        parts.push(part);
    }
    let parts: Vec<&ImportedValue> = parts.iter().collect();
    let attrs = Attrs::new().int("axis", i64::try_from(axis).unwrap_or(0));
    let label = name(operation, importer, "");
    Ok(vec![Binding::Tensor(emit(importer, &label, "concat", attrs, &parts)?)])
}

fn optional(
    _: &Operation,
    inputs: &[Option<Binding>],
    _: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    Ok(vec![inputs.first().and_then(Clone::clone).unwrap_or(Binding::Absent)])
}

fn has_element(
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    let has = !matches!(inputs.first().and_then(Option::as_ref), None | Some(Binding::Absent));
    scalar(operation, importer, DType::Bool, i64::from(has))
}

fn get_element(
    _: &Operation,
    inputs: &[Option<Binding>],
    _: &mut Importer<'_>,
) -> Result<Vec<Binding>, Refusal> {
    match input(inputs, 0)? {
        Binding::Absent => Err(Refusal::other("its optional value is absent")),
        present => Ok(vec![present.clone()]),
    }
}
