//! The types of the inputs and outputs that a model declares, with symbolic dimensions bound.

use super::element::{checked_type, element_type};
use super::error::{InputProblem, UnboundDim, UnknownDim, closest};
use super::initializer::Initializer;
use super::proto::{DimensionProto, GraphProto, ValueInfoProto};
use super::{Item, OnnxError, Refusal};
use crate::tensor::{DType, Tensor, TensorType};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the types of the inputs that are not initializers, with their symbolic dimensions bound.
pub(super) fn input_types<'a>(
    graph: &'a GraphProto,
    bound: &BTreeMap<String, usize>,
) -> Result<Vec<(&'a str, TensorType)>, OnnxError> {
    let initializers: FxHashSet<&str> = Initializer::all(graph).map(Initializer::name).collect();
    let mut types = Vec::new();
    let mut free: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for input in graph.input.iter().filter(|input| !initializers.contains(input.name.as_str())) {
        let refuse = |why: String| OnnxError::Port { port: "input", name: input.name.clone(), why };
        let by_run = |why| OnnxError::OnlyByRun { port: "input", name: input.name.clone(), why };
        if input.r#type.as_ref().is_some_and(|ty| ty.tensor_type.is_none()) {
            return Err(by_run("is no tensor"));
        }
        let (dtype, dims) = declared_type(input).map_err(|why| refuse(why.to_string()))?;
        let dims = dims.ok_or_else(|| by_run("is declared without a shape"))?;
        let mut shape = Vec::with_capacity(dims.len());
        for (axis, dim) in dims.iter().enumerate() {
            match fixed(dim) {
                Some(size) => shape.push(
                    usize::try_from(size).map_err(|_| refuse(format!("its dimension {axis} is {size}")))?,
                ),
                None => {
                    let name = symbol(input, axis, dim);
                    // Dimensions that are called `?` have sizes of their own, unless they get one together.
                    let together = dim.dim_param.as_deref() == Some(NAMELESS);
                    if together {
                        known.insert(NAMELESS.to_owned());
                    }
                    let size = bound.get(&name).or_else(|| bound.get(NAMELESS).filter(|_| together)).copied();
                    if size.is_none() {
                        free.entry(name.clone()).or_default().push((axis, input.name.clone()));
                    }
                    shape.push(size.unwrap_or(1));
                    known.insert(name);
                }
            }
        }
        let ty = checked_type(dtype, shape).map_err(|why| refuse(why.to_string()))?;
        types.push((input.name.as_str(), ty));
    }
    let strange: Vec<UnknownDim> = bound
        .iter()
        .filter(|(name, _)| !known.contains(*name))
        .map(|(name, size)| UnknownDim {
            name: name.clone(),
            size: *size,
            known: known.iter().cloned().collect(),
            close: closest(name, known.iter().map(String::as_str)),
        })
        .collect();
    if !strange.is_empty() {
        return Err(OnnxError::UnknownDims { dims: strange });
    }
    if free.is_empty() {
        return Ok(types);
    }
    let dims = free.into_iter().map(|(name, places)| UnboundDim { name, places }).collect();
    Err(OnnxError::UnboundDims { dims })
}

/// Returns the names of the dimensions of a graph's inputs that have no size.
pub(super) fn symbols_of(graph: &GraphProto) -> BTreeSet<String> {
    let initializers: FxHashSet<&str> = Initializer::all(graph).map(Initializer::name).collect();
    let inputs = graph.input.iter().filter(|input| !initializers.contains(input.name.as_str()));
    inputs
        .filter_map(|input| Some((input, declared_type(input).ok()?.1?)))
        .flat_map(|(input, dims)| {
            let free = dims.iter().enumerate().filter(|(_, dim)| fixed(dim).is_none());
            free.map(|(axis, dim)| symbol(input, axis, dim))
        })
        .collect()
}

/// Returns the axes of an input that have no size, with the names of their dimensions.
pub(super) fn free_axes(input: &ValueInfoProto) -> impl Iterator<Item = (String, usize)> {
    let dims = declared_type(input).ok().and_then(|(_, dims)| dims).unwrap_or_default();
    let free = dims.iter().enumerate().filter(|(_, dim)| fixed(dim).is_none());
    free.map(|(axis, dim)| (symbol(input, axis, dim), axis))
}

/// What some exporters call every dimension without a size.
const NAMELESS: &str = "?";

/// Returns the number of a dimension; `None` for a dimension with a name, or with neither. Some exporters write a
/// negative number for a dimension without a size.
pub(super) fn fixed(dim: &DimensionProto) -> Option<i64> {
    let named = dim.dim_param.as_ref().is_some_and(|name| !name.is_empty());
    dim.dim_value.filter(|size| !named && *size >= 0)
}

pub(super) fn symbol(input: &ValueInfoProto, axis: usize, dim: &DimensionProto) -> String {
    // Dimensions that are called `?` need not be equal.
    let name = dim.dim_param.clone().filter(|name| !name.is_empty() && name != NAMELESS);
    name.unwrap_or_else(|| format!("{}.{axis}", input.name))
}

type Declared<'a> = (DType, Option<&'a [DimensionProto]>);

pub(super) fn declared_type(info: &ValueInfoProto) -> Result<Declared<'_>, Refusal> {
    let ty = info.r#type.as_ref().ok_or_else(|| Refusal::other("it has no type; export the model again"))?;
    let other = [
        (ty.sequence_type.is_some(), "sequence"),
        (ty.map_type.is_some(), "map"),
        (ty.sparse_tensor_type.is_some(), "sparse tensor"),
        (ty.optional_type.is_some(), "optional value"),
    ];
    if let Some((_, kind)) = other.iter().find(|(is, _)| *is) {
        return Err(Refusal::other(format!("it is a {kind}; ovolo has tensors only")));
    }
    let tensor =
        ty.tensor_type.as_ref().ok_or_else(|| Refusal::other("it has no type; export the model again"))?;
    Ok((element_type(tensor.elem_type)?, tensor.shape.as_ref().map(|shape| shape.dim.as_slice())))
}

/// Returns the type that a model declares for a value, if it is complete after symbolic dimensions are bound.
pub(super) fn whole_type(info: &ValueInfoProto, bound: &BTreeMap<String, usize>) -> Option<TensorType> {
    let (dtype, dims) = declared_type(info).ok()?;
    let size = |dim: &DimensionProto| match fixed(dim) {
        Some(size) => usize::try_from(size).ok(),
        None => bound.get(dim.dim_param.as_ref()?).copied(),
    };
    checked_type(dtype, dims?.iter().map(size).collect::<Option<Vec<usize>>>()?).ok()
}

/// Compares an output with its declaration. Another element type is an error; another shape is only a warning.
pub(super) fn declared(
    output: &ValueInfoProto,
    ty: &TensorType,
    notes: &mut Vec<String>,
) -> Result<(), OnnxError> {
    if output.r#type.as_ref().is_none_or(|ty| ty.tensor_type.as_ref().is_some_and(|ty| ty.elem_type == 0)) {
        return Ok(()); // A model need not declare the type of an output.
    }
    let refuse = |why: String| OnnxError::Port { port: "output", name: output.name.clone(), why };
    let (dtype, dims) = declared_type(output).map_err(|why| refuse(why.to_string()))?;
    if dtype != ty.dtype {
        return Err(refuse(format!(
            "the model declares it as {dtype}, but computes {ty}; the model is damaged, export it again"
        )));
    }
    let Some(dims) = dims else { return Ok(()) };
    let fits =
        |(dim, &size): (&DimensionProto, &usize)| fixed(dim).is_none_or(|n| usize::try_from(n) == Ok(size));
    if dims.len() != ty.shape.rank() || !dims.iter().zip(ty.shape.iter()).all(fits) {
        let list: Vec<String> = dims
            .iter()
            .enumerate()
            .map(|(axis, dim)| fixed(dim).map_or_else(|| symbol(output, axis, dim), |size| size.to_string()))
            .collect();
        notes.push(format!(
            "output `{}` is declared as {dtype}[{}], but is {ty}",
            output.name,
            list.join(",")
        ));
    }
    Ok(())
}

/// Checks the inputs of a run against those that a model declares. Sizes of dimensions that have a name or a number
/// below zero are free.
///
/// # Errors
/// [`OnnxError::Inputs`] with every problem.
pub(super) fn check_given(
    declared: &[ValueInfoProto],
    defaults: &FxHashSet<String>,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Result<(), OnnxError> {
    let mut problems = Vec::new();
    for input in declared {
        match given.get(&input.name) {
            Some(Item::Tensor(tensor)) => problems.extend(misfit(input, tensor)),
            None if !defaults.contains(&input.name) => {
                problems.push(InputProblem::Missing { name: input.name.clone(), ty: None })
            }
            Some(Item::Sequence(_) | Item::Maps(..) | Item::Absent) | None => {}
        }
    }
    for name in given.keys().filter(|name| declared.iter().all(|input| input.name != **name)) {
        let close = closest(name, declared.iter().map(|input| input.name.as_str()));
        problems.push(InputProblem::Unknown { name: name.clone(), close });
    }
    if problems.is_empty() { Ok(()) } else { Err(OnnxError::Inputs { problems }) }
}

/// Returns how a tensor does not fit the declaration of an input.
fn misfit(input: &ValueInfoProto, tensor: &Tensor) -> Option<InputProblem> {
    let (dtype, dims) = declared_type(input).ok()?;
    let (name, given) = (input.name.clone(), tensor.ty().clone());
    if dtype != given.dtype {
        return Some(InputProblem::Elements { name, dtype, ty: None, given });
    }
    let dims = dims?;
    if dims.len() != given.shape.rank() {
        return Some(InputProblem::Rank { name, rank: dims.len(), given });
    }
    let size = |axis: usize| fixed(&dims[axis]).and_then(|size| usize::try_from(size).ok());
    let wrong = |axis: usize| size(axis).filter(|size| *size != given.shape[axis]);
    let (axis, size) = (0..dims.len()).find_map(|axis| Some((axis, wrong(axis)?)))?;
    Some(InputProblem::Dimension { name, axis, size, given })
}

/// Returns the sizes that inputs give to the dimensions of a model that have no size; `None` if one dimension would
/// get two sizes, or if an input is no tensor.
pub(super) fn sizes(
    graph: &GraphProto,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Option<BTreeMap<String, usize>> {
    let mut sizes = BTreeMap::new();
    for input in &graph.input {
        let Some(item) = given.get(&input.name) else { continue };
        let Item::Tensor(tensor) = item else { return None };
        let dims = declared_type(input).ok()?.1?;
        if dims.len() != tensor.ty().shape.rank() {
            continue; // The import reports it.
        }
        for (axis, dim) in dims.iter().enumerate().filter(|(_, dim)| fixed(dim).is_none()) {
            let size = tensor.ty().shape[axis];
            if *sizes.entry(symbol(input, axis, dim)).or_insert(size) != size {
                return None;
            }
        }
    }
    Some(sizes)
}
