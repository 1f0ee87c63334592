//! The reference evaluation of an op as a kernel, for calls that no other kernel supports.
//!
//! It allocates memory and runs on one thread. Contracts name it `reference`, so plans show it.

use super::plain_contract;
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Op, OpError};
use ovolo::tensor::{Tensor, TensorType};

/// The implementation's name.
pub const NAME: &str = ovolo::op::REFERENCE;

/// Returns the contract of the reference kernel, for any op.
#[allow(clippy::unnecessary_wraps)] // The signature is that of contracts that may refuse.
pub fn contract(_: &Call<'_>) -> Result<Contract, OpError> {
    Ok(plain_contract(NAME))
}

/// Creates the reference kernel.
#[allow(clippy::unnecessary_wraps)] // The signature is that of kernels that may refuse.
pub fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Reference {
        op: call.op,
        attrs: call.attrs.clone(),
        inputs: call.inputs.iter().map(|&ty| ty.clone()).collect(),
        output: call.output.clone(),
    }))
}

struct Reference {
    op: Op,
    attrs: Attrs,
    inputs: Vec<TensorType>,
    output: TensorType,
}

impl Kernel for Reference {
    unsafe fn run(&self, args: &Args<'_>) {
        let inputs: Vec<Tensor> = self
            .inputs
            .iter()
            .zip(args.inputs)
            .map(|(ty, &bytes)| {
                let mut tensor = Tensor::zeros(ty.clone());
                // SAFETY: an operand has the number of bytes of its type.
                let bytes = unsafe { std::slice::from_raw_parts(bytes, ty.bytes()) };
                tensor.bytes_mut().copy_from_slice(bytes);
                tensor
            })
            .collect();
        let operands: Vec<&Tensor> = inputs.iter().collect();
        let result = self.op.evaluate(&self.attrs, &operands, &self.output);
        // SAFETY: the result's buffer has the number of bytes of its type and overlaps no operand.
        unsafe { std::ptr::copy_nonoverlapping(result.bytes().as_ptr(), args.output, self.output.bytes()) };
    }
}
