//! Constants that a model gives by their elements that are not zero.

use super::element::checked_type;
use super::proto::SparseTensorProto;
use super::weight::Weights;
use super::{OnnxError, Refusal};
use crate::tensor::{DType, Given, Tensor};

/// Returns the value of a sparse constant, with its zeros. `what` is its name in messages.
///
/// # Errors
/// A part that is absent or cannot be read; elements that have no place in the shape, or are not in order.
pub(super) fn read(
    weights: &mut Weights,
    proto: &SparseTensorProto,
    what: &str,
) -> Result<Tensor, OnnxError> {
    let refusal = |why| OnnxError::Weight { tensor: what.to_owned(), why };
    let absent = |part: &str| refusal(Refusal::other(format!("it lacks its {part}")));
    let values = proto.values.as_ref().ok_or_else(|| absent("values"))?;
    let indices = proto.indices.as_ref().ok_or_else(|| absent("indices"))?;
    let values = weights.read(values, &format!("the values of {what}"))?;
    let indices = weights.read(indices, &format!("the indices of {what}"))?;
    given(&values, &indices, &proto.dims).map_err(refusal)
}

/// Returns a tensor of which some elements are given. An index is the number of an element, counted row by row, or has a
/// number for each dimension.
fn given(values: &Tensor, indices: &Tensor, dims: &[i64]) -> Result<Tensor, Refusal> {
    let sizes: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let sizes =
        sizes.ok_or_else(|| Refusal::other(format!("its shape {dims:?} has a negative dimension")))?;
    let ty = checked_type(values.ty().dtype, sizes.clone())?;
    let count = values.ty().shape.count();
    let of_elements = *indices.ty().shape == [count];
    if values.ty().shape.rank() != 1 || !of_elements && *indices.ty().shape != [count, sizes.len()] {
        return Err(Refusal::other(format!(
            "its values are {}, and its indices {}: there is one index for each value, of one number or of {}",
            values.ty(),
            indices.ty(),
            sizes.len()
        )));
    }
    if indices.ty().dtype != DType::I64 {
        return Err(Refusal::other(format!("its indices are {}, not i64", indices.ty())));
    }
    let (numbers, size) = (indices.elements::<i64>(), values.ty().dtype.size());
    let mut given = Given::new(size);
    for at in 0..count {
        let place = match of_elements {
            true => usize::try_from(numbers[at]).ok().filter(|place| *place < ty.shape.count()),
            false => numbers[at * sizes.len()..][..sizes.len()].iter().zip(&sizes).try_fold(
                0,
                |place, (index, size)| {
                    usize::try_from(*index)
                        .ok()
                        .filter(|index| index < size)
                        .map(|index| place * size + index)
                },
            ),
        };
        let place = place.ok_or_else(|| {
            Refusal::other(format!("the index of its value {at} is outside of its shape {dims:?}"))
        })?;
        if !given.push(place, &values.bytes()[at * size..][..size]) {
            return Err(Refusal::other(format!(
                "the index of its value {at} does not follow the one before: ONNX wants them in ascending order"
            )));
        }
    }
    Ok(Tensor::given(ty, given))
}
