//! Families of operators: each draws a node with operands and attributes that ONNX allows.

mod arrange;
mod control;
mod elementwise;
mod image;
mod index;
mod linear;
mod quantised;
mod reduce;

use crate::draft::Draft;

/// Adds a node to a draft; `None` if it found no operands for one.
pub(crate) type Family = fn(&mut Draft<'_>) -> Option<()>;

/// The families, some more than once so that they are drawn more often.
pub(crate) const FAMILIES: &[Family] = &[
    elementwise::unary,
    elementwise::unary,
    elementwise::unary,
    elementwise::binary,
    elementwise::binary,
    elementwise::binary,
    elementwise::several,
    elementwise::compare,
    elementwise::select,
    elementwise::cast,
    elementwise::clip,
    elementwise::modulo,
    arrange::reshape,
    arrange::transpose,
    arrange::squeeze,
    arrange::unsqueeze,
    arrange::concat,
    arrange::slice,
    arrange::split,
    arrange::pad,
    arrange::expand,
    arrange::tile,
    arrange::flatten,
    arrange::depth,
    arrange::triangle,
    reduce::reduce,
    reduce::reduce,
    reduce::position,
    reduce::softmax,
    reduce::cumulate,
    reduce::top,
    linear::matmul,
    linear::matmul,
    linear::gemm,
    linear::einsum,
    linear::layer_norm,
    linear::recurrent,
    image::convolution,
    image::convolution,
    image::transposed,
    image::pool,
    image::pool,
    image::global_pool,
    image::batch_norm,
    image::instance_norm,
    image::response_norm,
    image::resize,
    index::gather,
    index::gather_elements,
    index::gather_nd,
    index::scatter_elements,
    index::scatter_nd,
    index::one_hot,
    index::nonzero,
    quantised::round_trip,
    quantised::dynamic,
    quantised::product,
    control::branch,
    control::repeat,
];
