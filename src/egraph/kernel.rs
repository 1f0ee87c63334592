//! The kernels among which an extraction chooses, for tuners.

use super::Pick;
use crate::attr::Attrs;
use crate::cost::Query;
use crate::op::Op;
use crate::op::{Call, Contract};
use crate::tensor::TensorType;
use std::sync::Arc;

/// A candidate that is a kernel, with all data of its call.
#[derive(Clone, Debug)]
pub struct KernelCall {
    /// The index of its class in the problem.
    pub class: usize,
    /// The indices of the classes that it reads.
    pub children: Vec<usize>,
    /// The op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Arc<Attrs>,
    /// The types of its operands.
    pub inputs: Vec<TensorType>,
    /// For each operand, whether it is a constant.
    pub constant: Vec<bool>,
    /// The type of its result.
    pub output: TensorType,
    /// Its price in the problem, in seconds.
    pub seconds: f64,
}

impl KernelCall {
    /// Builds the call and passes it to `ask`.
    pub fn call<R>(&self, threads: usize, ask: impl FnOnce(&Call<'_>) -> R) -> R {
        let inputs: Vec<&TensorType> = self.inputs.iter().collect();
        ask(&Call { op: self.op, attrs: &self.attrs, inputs: &inputs, output: &self.output, threads })
    }

    /// Builds the query for a cost model and passes it to `ask`.
    pub fn query<R>(&self, threads: usize, contract: &Contract, ask: impl FnOnce(&Query<'_>) -> R) -> R {
        self.call(threads, |call| ask(&Query { call: *call, constant: &self.constant, contract }))
    }

    /// Returns whether it only changes the layout or the device of its operand.
    pub fn converts(&self) -> bool {
        self.op.flags.transfer.is_some() || matches!(self.op.meaning(), "pack" | "unpack" | "reorder")
    }
}

impl Pick<'_> {
    /// Returns every candidate that is a kernel, class by class.
    pub fn kernels(&self) -> Vec<KernelCall> {
        let mut kernels = Vec::new();
        for (class, (terms, candidates)) in self.terms.iter().zip(&self.problem.classes).enumerate() {
            if self.egraph.egg[self.classes[class]].data.constant {
                continue;
            }
            for (term, candidate) in terms.iter().zip(&candidates.nodes) {
                if term.is_leaf() || !term.op.is_lowered() {
                    continue;
                }
                let data = |child: &egg::Id| &self.egraph.egg[*child].data;
                kernels.push(KernelCall {
                    class,
                    children: candidate.children.iter().map(|child| child.index()).collect(),
                    op: term.op,
                    attrs: Arc::clone(term.attrs.arc()),
                    inputs: term.children.iter().map(|child| data(child).ty.clone()).collect(),
                    constant: term.children.iter().map(|child| data(child).constant).collect(),
                    output: self.egraph.ty(self.classes[class]).clone(),
                    seconds: candidate.cost,
                });
            }
        }
        kernels
    }
}
