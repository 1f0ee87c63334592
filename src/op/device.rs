//! Copies between the host and a device, and ops of a device's kernels: the same values in another memory.

use super::{Arity, Flags, Infer, OpDef};
use crate::attr::Attrs;
use crate::tensor::{Device, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let def = |name, doc, infer: Infer| OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags { injective: true, ..Flags::default() },
        infer,
        eval: |_, operands, ty| operands[0].on(ty.device),
        flops: |_, _, _| 0.0,
        logical: None,
    };
    vec![
        def("upload", "from the host to the first device", infer_upload),
        def("download", "from a device to the host", infer_download),
    ]
}

fn infer_upload(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    match types[0].device {
        Device::Host => Ok(TensorType { device: Device::Cuda(0), ..types[0].clone() }),
        Device::Cuda(_) => Err(format!("operand 0 is {}, on a device already", types[0])),
    }
}

fn infer_download(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    match types[0].device {
        Device::Cuda(_) => Ok(TensorType { device: Device::Host, ..types[0].clone() }),
        Device::Host => Err(format!("operand 0 is {}, on the host already", types[0])),
    }
}

/// The result of an op on a device: all operands are there.
fn infer(logical: &str, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let device = types.first().map_or(Device::Host, |ty| ty.device);
    if let Some(operand) = types.iter().position(|ty| ty.device == Device::Host || ty.device != device) {
        return Err(format!("operand {operand} is {}, not on the device of operand 0", types[operand]));
    }
    let host: Vec<TensorType> =
        types.iter().map(|ty| TensorType { device: Device::Host, ..(*ty).clone() }).collect();
    let def = super::find(logical).ok_or("the logical op is not known")?;
    let result = (def.infer)(attrs, &host.iter().collect::<Vec<_>>())?;
    Ok(TensorType { device, ..result })
}

/// Evaluates the logical op on the host.
fn eval(logical: &str, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let def = super::find(logical).expect("the logical op is in the registry");
    let host: Vec<Tensor> = operands.iter().map(|operand| operand.on(Device::Host)).collect();
    let plain = TensorType { device: Device::Host, ..ty.clone() };
    (def.eval)(attrs, &host.iter().collect::<Vec<_>>(), &plain).on(ty.device)
}

type Eval = fn(&Attrs, &[&Tensor], &TensorType) -> Tensor;

macro_rules! lowered {
    ($($name:literal),* $(,)?) => {
        /// Logical ops that the backend `cuda` has as they are, with all operands on the device.
        pub(super) const CUDA: &[(&str, &str, Infer, Eval)] = &[$((
            concat!("cuda.", $name),
            $name,
            |attrs, types| infer($name, attrs, types),
            |attrs, operands, ty| eval($name, attrs, operands, ty),
        )),*];
    };
}
lowered!(
    "relu",
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "log",
    "sqrt",
    "neg",
    "abs",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "sign",
    "softplus",
    "softsign",
    "sin",
    "cos",
    "silu",
    "gelu",
    "gelu-tanh",
    "hard-swish",
    "mish",
    "leaky-relu",
    "elu",
    "hard-sigmoid",
    "clip",
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "min",
    "max",
    "mod",
    "equal",
    "greater",
    "less",
    "greater-equal",
    "less-equal",
    "and",
    "or",
    "xor",
    "not",
    "isnan",
    "where",
    "cast",
    "map",
    "matmul",
    "conv",
    "attention",
    "softmax",
    "log-softmax",
    "layer-norm",
    "batch-norm",
    "instance-norm",
    "lrn",
    "max-pool",
    "avg-pool",
    "reduce-sum",
    "reduce-mean",
    "reduce-max",
    "reduce-min",
    "reduce-prod",
    "arg-max",
    "arg-min",
    "reshape",
    "transpose",
    "slice",
    "concat",
    "gather",
    "gather-elements",
    "expand",
    "pad",
    "pack",
    "unpack",
    "grad",
);
