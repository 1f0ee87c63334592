//! The types of the inputs and outputs that a model declares, with symbolic dimensions bound.

use super::element::{checked_type, element_type};
use super::error::suggestion;
use super::proto::{DimensionProto, GraphProto, ValueInfoProto};
use super::{OnnxError, Refusal};
use crate::tensor::{DType, TensorType};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the types of the inputs that are not initializers, with their symbolic dimensions bound.
pub(super) fn input_types<'a>(
    graph: &'a GraphProto,
    bound: &BTreeMap<String, usize>,
) -> Result<Vec<(&'a str, TensorType)>, OnnxError> {
    let initializers: FxHashSet<&str> = graph.initializer.iter().map(|i| i.name.as_str()).collect();
    let mut types = Vec::new();
    let mut free: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for input in graph.input.iter().filter(|input| !initializers.contains(input.name.as_str())) {
        let refuse = |why: String| OnnxError::Graph(format!("input `{}`: {why}", input.name));
        let (dtype, dims) = declared_type(input).map_err(|why| refuse(why.to_string()))?;
        let dims = dims.ok_or_else(|| {
            refuse(
                "it has no shape, and ovolo fixes all shapes before the model runs; export it with one"
                    .to_owned(),
            )
        })?;
        let mut shape = Vec::with_capacity(dims.len());
        for (axis, dim) in dims.iter().enumerate() {
            match fixed(dim) {
                Some(size) => {
                    shape.push(usize::try_from(size).ok().filter(|&size| size > 0).ok_or_else(|| {
                        refuse(format!(
                            "its dimension {axis} is {size}, and must be at least 1; export it again"
                        ))
                    })?)
                }
                None => {
                    let name = symbol(input, axis, dim);
                    if !bound.contains_key(&name) {
                        free.entry(name.clone())
                            .or_default()
                            .push(format!("dimension {axis} of input `{}`", input.name));
                    }
                    shape.push(bound.get(&name).copied().unwrap_or(1));
                    known.insert(name);
                }
            }
        }
        let ty = checked_type(dtype, shape).map_err(|why| refuse(why.to_string()))?;
        types.push((input.name.as_str(), ty));
    }
    let strange: Vec<String> = bound
        .iter()
        .filter_map(|(name, size)| match known.contains(name) {
            true if *size == 0 => Some(format!("{name}=0: a dimension is at least 1")),
            true => None,
            false => {
                let hint = suggestion(name, known.iter().map(String::as_str));
                Some(format!("{name}={size}: {}{hint}", symbols(&known)))
            }
        })
        .collect();
    if !strange.is_empty() {
        return Err(OnnxError::UnknownDims { dims: strange });
    }
    if free.is_empty() {
        return Ok(types);
    }
    let dims = free.iter().map(|(name, places)| format!("`{name}`: {}", places.join(", "))).collect();
    Err(OnnxError::UnboundDims { dims })
}

/// Returns the names of the dimensions of a graph's inputs that have no size.
pub(super) fn symbols_of(graph: &GraphProto) -> BTreeSet<String> {
    let initializers: FxHashSet<&str> = graph.initializer.iter().map(|i| i.name.as_str()).collect();
    let inputs = graph.input.iter().filter(|input| !initializers.contains(input.name.as_str()));
    inputs
        .filter_map(|input| Some((input, declared_type(input).ok()?.1?)))
        .flat_map(|(input, dims)| {
            let free = dims.iter().enumerate().filter(|(_, dim)| fixed(dim).is_none());
            free.map(|(axis, dim)| symbol(input, axis, dim))
        })
        .collect()
}

fn symbols(known: &BTreeSet<String>) -> String {
    if known.is_empty() {
        return "every dimension of the model has a size".to_owned();
    }
    let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("the model's dimensions without a size are {}", list.join(", "))
}

/// Returns the number of a dimension; `None` for a dimension with a name, or with neither.
fn fixed(dim: &DimensionProto) -> Option<i64> {
    if dim.dim_param.as_ref().is_some_and(|name| !name.is_empty()) { None } else { dim.dim_value }
}

fn symbol(input: &ValueInfoProto, axis: usize, dim: &DimensionProto) -> String {
    let name = dim.dim_param.clone().filter(|name| !name.is_empty());
    name.unwrap_or_else(|| format!("{}.{axis}", input.name))
}

type Declared<'a> = (DType, Option<&'a [DimensionProto]>);

fn declared_type(info: &ValueInfoProto) -> Result<Declared<'_>, Refusal> {
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
        Some(size) => usize::try_from(size).ok().filter(|size| *size > 0),
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
    let refuse = |why: String| OnnxError::Graph(format!("output `{}`: {why}", output.name));
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
