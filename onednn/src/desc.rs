//! Conversion of ovolo's types to oneDNN's memory descriptors.

use onednn_sys::{DataType, Desc, Library};
use ovolo::op::OpError;
use ovolo::tensor::{DType, Layout, TensorType};
use std::fmt::Write;

/// Returns the element type, if the library computes with it.
pub(super) fn data_type(dtype: DType) -> Result<DataType, OpError> {
    match dtype {
        DType::F32 => Ok(DataType::F32),
        DType::BF16 => Ok(DataType::Bf16),
        other => Err(OpError::kernel(format!("the element type is {other}: oneDNN supports f32 and bf16"))),
    }
}

/// Returns the element type of integers that the library multiplies or sums.
pub(super) fn integer_type(dtype: DType) -> Result<DataType, OpError> {
    match dtype {
        DType::I8 => Ok(DataType::I8),
        DType::U8 => Ok(DataType::U8),
        DType::I32 => Ok(DataType::I32),
        other => Err(OpError::kernel(format!("the element type is {other}: it must be i8, u8 or i32"))),
    }
}

/// Returns the letter of a dimension in the library's names.
fn letter(dim: usize, upper: bool) -> char {
    let first = if upper { b'A' } else { b'a' };
    char::from(first + u8::try_from(dim).unwrap_or(25).min(25))
}

/// Returns the library's name of a layout.
fn name(layout: &Layout, rank: usize) -> String {
    let mut name: String =
        layout.order(rank).into_iter().map(|dim| letter(dim, layout.block(dim) > 1)).collect();
    for (dim, size) in layout.blocks() {
        let _ = write!(name, "{size}{}", letter(*dim, false));
    }
    name
}

/// Returns the descriptor of a shape in a format of this name.
pub(super) fn tagged(
    library: &'static Library,
    name: &str,
    shape: &[usize],
    data: DataType,
) -> Result<Desc, OpError> {
    let tag = onednn_sys::tag(name).ok_or_else(|| OpError::kernel(format!("oneDNN has no format {name}")))?;
    Desc::new(library, shape, data, tag).map_err(OpError::backend)
}

/// Returns the descriptor of a shape in a layout.
pub(super) fn shaped(
    library: &'static Library,
    shape: &[usize],
    layout: &Layout,
    data: DataType,
) -> Result<Desc, OpError> {
    if shape.contains(&0) {
        return Err(OpError::kernel("a dimension is 0"));
    }
    let desc = tagged(library, &name(layout, shape.len()), shape, data)?;
    let ty = TensorType::plain(DType::F32, shape).with_layout(layout.clone());
    let size = match data {
        DataType::F32 | DataType::I32 => 4,
        DataType::Bf16 => 2,
        DataType::I8 | DataType::U8 => 1,
    };
    let bytes = layout.padded_count(&ty.shape) * size;
    if desc.bytes() == bytes {
        Ok(desc)
    } else {
        Err(OpError::kernel(format!("{ty} has {} bytes in oneDNN, but {bytes} bytes here", desc.bytes())))
    }
}

/// Returns the descriptor of a tensor type.
pub(super) fn describe(library: &'static Library, ty: &TensorType) -> Result<Desc, OpError> {
    shaped(library, &ty.shape, &ty.layout, data_type(ty.dtype)?)
}

/// Returns the descriptor of the weights `[I, O, h, w]` of a transposed convolution, which the library takes as `[O,
/// I, h, w]`.
pub(super) fn transposed(library: &'static Library, ty: &TensorType) -> Result<Desc, OpError> {
    let [inputs, outputs, rows, columns] = <[usize; 4]>::try_from(&ty.shape[..])
        .map_err(|_| OpError::kernel("the weights must have 4 dimensions"))?;
    let swapped = |dim: usize| if dim < 2 { 1 - dim } else { dim };
    let layout = &ty.layout;
    let mut name: String =
        layout.order(4).into_iter().map(|dim| letter(swapped(dim), layout.block(dim) > 1)).collect();
    for (dim, size) in layout.blocks() {
        let _ = write!(name, "{size}{}", letter(swapped(*dim), false));
    }
    let desc = tagged(library, &name, &[outputs, inputs, rows, columns], data_type(ty.dtype)?)?;
    if desc.bytes() == ty.bytes() {
        Ok(desc)
    } else {
        Err(OpError::kernel(format!(
            "{ty} has {} bytes in oneDNN, but {} bytes here",
            desc.bytes(),
            ty.bytes()
        )))
    }
}

/// Returns the descriptor of weights `[O, I / groups, h, w]`. oneDNN has an additional dimension for the groups.
pub(super) fn weights(
    library: &'static Library,
    ty: &TensorType,
    groups: usize,
    data: DataType,
) -> Result<Desc, OpError> {
    if groups == 1 {
        return shaped(library, &ty.shape, &ty.layout, data);
    }
    let [outputs, inputs] = [ty.shape[0] / groups, ty.shape[1]];
    let layout = &ty.layout;
    let shape = [groups, outputs, inputs, ty.shape[2], ty.shape[3]];
    let torn =
        || Err(OpError::kernel(format!("weights in {layout} do not store {groups} groups contiguously")));
    if layout.order(4).first() != Some(&0) {
        return torn();
    }
    let mut name = String::new();
    if outputs.is_multiple_of(layout.block(0)) {
        // Each group has whole blocks, so the groups become the outermost dimension.
        name.push('a');
        name.extend(layout.order(4).into_iter().map(|dim| letter(dim + 1, layout.block(dim) > 1)));
        for (dim, size) in layout.blocks() {
            let _ = write!(name, "{size}{}", letter(dim + 1, false));
        }
    } else if outputs == 1 && inputs == 1 {
        // The blocks of outputs become blocks of groups.
        name.push(letter(0, layout.block(0) > 1));
        name.push('b');
        name.extend(layout.order(4)[1..].iter().map(|dim| letter(dim + 1, layout.block(*dim) > 1)));
        for (dim, size) in layout.blocks() {
            let _ = write!(name, "{size}{}", letter(if *dim == 0 { 0 } else { dim + 1 }, false));
        }
    } else {
        return torn();
    }
    tagged(library, &name, &shape, data)
}
