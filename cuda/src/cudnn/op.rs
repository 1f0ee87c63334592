//! The ops that the library has kernels for: a convolution, channels outermost or innermost, by a call of the
//! library's or by a graph of operations, and attention by such a graph.

use super::super::alone::Alone;
use super::super::backend::FAMILY;
use super::super::{command, library, tf32};
use super::graph;
use super::problem::Problem;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::backend::{Call, Contract, Kernel};
use ovolo::op::{AttrDef, Attributes, Form, Layouts, Lowering, OpError, Reference};
use ovolo::tensor::{DType, TensorType};

/// The ops.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        attributes: Attributes::Also(|| vec![algorithm(), tf32::attribute()]),
        check: Some(check_call),
        ..convolution("cudnn.conv", contract_of_call)
    },
    Lowering {
        attributes: Attributes::Also(|| vec![engine(), tf32::attribute()]),
        check: Some(check_graph),
        ..convolution("cudnn.conv-graph", contract_of_graph)
    },
    Lowering {
        attributes: Attributes::Also(|| vec![engine()]),
        check: Some(check_attention),
        device: Some(FAMILY),
        ..Lowering::new("cudnn.attention", "attention", contract_of_graph, kernel)
    },
];

/// Engines of graphs that an op may name.
const ENGINES: i64 = 1 << 16;
/// Element types that the library convolves.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
/// The library's forward algorithms, by its numbers: all but the third, which it has no kernel for.
const ALGORITHMS: &[i64] = &[0, 1, 2, 4, 5, 6, 7];

/// Images and weights lie in one layout.
const IMAGES: Layouts = Layouts::Forms(&[
    Form::new(&["plain", "plain", "plain"], "plain"),
    Form::new(&["nhwc", "nhwc", "plain"], "nhwc"),
]);

/// What both forms of a convolution have in common.
const fn convolution(name: &'static str, contract: fn(&Call<'_>) -> Result<Contract, OpError>) -> Lowering {
    Lowering {
        layouts: IMAGES,
        reference: Reference::Prepared(tf32::rounded),
        device: Some(FAMILY),
        ..Lowering::new(name, "conv", contract, kernel)
    }
}

fn algorithm() -> AttrDef {
    AttrDef::new(
        "algorithm",
        AttrKind::Int,
        Some(Attr::Int(1)),
        "which of the library's: 0 an implicit product, 1 the same with its indices computed before, 2 a product, 4 by \
         Fourier transforms, 5 of tiles, 6 Winograd's, 7 in steps",
    )
}

fn engine() -> AttrDef {
    AttrDef::new(
        "engine",
        AttrKind::Int,
        Some(Attr::Int(0)),
        "which of the engines that the library names for the graph, the best guess first",
    )
}

fn check_engine(attrs: &Attrs) -> Result<(), OpError> {
    let engine = attrs.expect_int("engine");
    if (0..ENGINES).contains(&engine) {
        return Ok(());
    }
    Err(OpError::attribute("engine", format!("is {engine}, not between 0 and {}", ENGINES - 1)))
}

fn check_attention(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    if !matches!(result.dtype, DType::F16 | DType::BF16) {
        return Err(OpError::operand(0, types[0], ": it takes f16 and bf16"));
    }
    check_engine(attrs)
}

fn check_graph(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    if types[0].dtype == DType::F64 {
        return Err(OpError::operand(0, types[0], ": a graph takes f32, f16 and bf16"));
    }
    check_engine(attrs)?;
    check_types(attrs, types)
}

fn check_call(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    let algorithm = attrs.expect_int("algorithm");
    if !ALGORITHMS.contains(&algorithm) {
        return Err(OpError::attribute(
            "algorithm",
            format!("is {algorithm}: the library has 0, 1, 2, 4, 5, 6 and 7"),
        ));
    }
    check_types(attrs, types)
}

fn check_types(attrs: &Attrs, types: &[&TensorType]) -> Result<(), OpError> {
    if !TYPES.contains(&types[0].dtype) {
        return Err(OpError::operand(0, types[0], ": it takes f32, f16, bf16 and f64"));
    }
    tf32::check(attrs, types[0].dtype)
}

fn found() -> Result<(), OpError> {
    library::cudnn().map(drop).map_err(|why| OpError::backend(format!("cuDNN is {why}")))
}

fn contract_of_call(call: &Call<'_>) -> Result<Contract, OpError> {
    found()?;
    let problem = Problem::new(call).map_err(OpError::kernel)?;
    let scratch = command::workspace(problem.workspace());
    Ok(Contract { implementation: problem.name(), scratch, ..Contract::default() })
}

fn contract_of_graph(call: &Call<'_>) -> Result<Contract, OpError> {
    found()?;
    graph::contract(call).map_err(OpError::kernel)
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Alone::new(call, &call.contract()?).map_err(OpError::backend)?))
}
