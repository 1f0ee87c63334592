//! The backend `cudnn`, with the ops for which NVIDIA's library cuDNN has kernels: convolution in `nchw` or `nhwc`,
//! by a library call or by a graph of operations, and attention by a graph.

use super::Cuda;
use crate::cudnn::{self, Problem};
use crate::device::FAMILY;
use crate::single_call::SingleCall;
use crate::wanted::CUDNN;
use crate::{command, driver, tf32};
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::backend::{Backend, BackendError, Call, Contract, Kernel, Loading, Runner};
use ovolo::op::{ALIGN, AttrDef, Attributes, Form, Layouts, Lowering, OpError, Reference};
use ovolo::tensor::{DType, TensorType};

/// The backend `cudnn`.
pub struct CuDnn;

// SAFETY: the contract and the kernel of a call are derived from the same analysis of it, and kernels access only
// their buffers.
unsafe impl Backend for CuDnn {
    fn name(&self) -> &'static str {
        "cudnn"
    }

    fn found(&self) -> Result<String, BackendError> {
        let found = cudnn::opened().map_err(|why| BackendError::absent(CUDNN.title, why))?;
        Ok(format!("cuDNN {}", found.calls.describe(found)))
    }

    fn identity(&self) -> Result<String, BackendError> {
        let version = &cudnn::opened().map_err(|why| BackendError::absent(CUDNN.title, why))?.version;
        let device = driver::identity().unwrap_or_else(|_| "no device".to_owned());
        Ok(format!("cuDNN {version}, {device}"))
    }

    fn runs_with(&self) -> &'static str {
        Cuda.name()
    }

    fn ops(&self) -> Vec<Lowering> {
        OPS.to_vec()
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        Cuda.runner(loading)
    }
}

/// The ops of this backend.
const OPS: &[Lowering] = &[
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

/// The number of engines that the attribute `engine` can name.
const ENGINES: i64 = 1 << 16;
/// The element types for which the library has convolutions.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
/// The library's forward algorithms by their numbers. Number 3 is not listed, because the library has no kernel for
/// it.
const ALGORITHMS: &[i64] = &[0, 1, 2, 4, 5, 6, 7];

/// Images and weights have the same layout.
const IMAGES: Layouts = Layouts::Forms(&[
    Form::new(&["plain", "plain", "plain"], "plain"),
    Form::new(&["nhwc", "nhwc", "plain"], "nhwc"),
]);

/// Declares the common parts of both kinds of convolution.
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
        "the library's algorithm: 0 implicit matrix product, 1 implicit product with precomputed indices, 2 matrix \
         product, 4 Fourier transform, 5 Fourier transform of tiles, 6 Winograd, 7 Winograd in separate steps",
    )
}

fn engine() -> AttrDef {
    AttrDef::new(
        "engine",
        AttrKind::Int,
        Some(Attr::Int(0)),
        "the number of the engine in the library's list for the graph, best guess first",
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
        return Err(OpError::operand(0, types[0], ": f16 and bf16 are supported"));
    }
    check_engine(attrs)
}

fn check_graph(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> Result<(), OpError> {
    if types[0].dtype == DType::F64 {
        return Err(OpError::operand(0, types[0], ": graphs support f32, f16 and bf16"));
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
        return Err(OpError::operand(0, types[0], ": f32, f16, bf16 and f64 are supported"));
    }
    tf32::check(attrs, types[0].dtype)
}

fn found() -> Result<(), OpError> {
    cudnn::opened().map(drop).map_err(|why| OpError::backend(format!("cuDNN is {why}")))
}

fn contract_of_call(call: &Call<'_>) -> Result<Contract, OpError> {
    found()?;
    let problem = Problem::new(call).map_err(OpError::kernel)?;
    let wanted = cudnn::workspace(&problem).map_err(OpError::kernel)?;
    let scratch = command::workspace(wanted.next_multiple_of(ALIGN));
    Ok(Contract { implementation: problem.name(), scratch, ..Contract::default() })
}

fn contract_of_graph(call: &Call<'_>) -> Result<Contract, OpError> {
    found()?;
    cudnn::contract(call).map_err(OpError::kernel)
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(SingleCall::new(call, &call.contract()?)?))
}
