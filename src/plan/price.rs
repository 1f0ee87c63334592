//! The price of a step by a cost model.

use super::{Base, Step};
use crate::cost::{CostModel, Query};
use crate::op::{Call, Contract, OpError};
use crate::tensor::TensorType;

impl Step {
    /// Returns the seconds of one run by a model, as memory planning would price the step: an operand that already
    /// lies in the result is not copied, and a copy that comes first is added. `None` if the model has no price.
    ///
    /// # Errors
    /// The reason why there is no kernel.
    #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
    pub(crate) fn price(
        &self,
        model: &dyn CostModel,
        threads: usize,
        contracts: &dyn Fn(&Call<'_>) -> Result<Contract, OpError>,
    ) -> Result<Option<f64>, OpError> {
        let ask = |query: &Query<'_>| (model.seconds(query), query.contract.parts.is_empty());
        let (seconds, whole) = self.query(threads, contracts, ask)?;
        let Some(seconds) = seconds else { return Ok(None) };
        let inputs = &self.input_types;
        let share = if whole {
            1.0
        } else {
            let copied = (0..inputs.len()).filter(|operand| !self.joined.contains(operand));
            let bytes: usize = copied.map(|operand| inputs[operand].bytes()).sum();
            bytes as f64 / self.output_type.bytes().max(1) as f64
        };
        let first = self.copied.map_or(0.0, |operand| model.copy(inputs[operand].bytes()));
        Ok(Some(seconds * share + first))
    }

    /// Returns how the price of the kernel comes about, without the copies that memory planning adds
    /// ([`CostModel::account`]).
    ///
    /// # Errors
    /// The reason why there is no kernel.
    pub(crate) fn account(
        &self,
        model: &dyn CostModel,
        threads: usize,
        contracts: &dyn Fn(&Call<'_>) -> Result<Contract, OpError>,
    ) -> Result<Vec<String>, OpError> {
        self.query(threads, contracts, |query| model.account(query))
    }

    /// Calls a function with what a cost model is asked about the step.
    fn query<T>(
        &self,
        threads: usize,
        contracts: &dyn Fn(&Call<'_>) -> Result<Contract, OpError>,
        ask: impl FnOnce(&Query<'_>) -> T,
    ) -> Result<T, OpError> {
        let inputs: Vec<&TensorType> = self.input_types.iter().collect();
        let constant: Vec<bool> =
            self.inputs.iter().map(|place| matches!(place.base, Base::Constant(_))).collect();
        let call =
            Call { op: self.op, attrs: &self.attrs, inputs: &inputs, output: &self.output_type, threads };
        let contract = contracts(&call)?;
        Ok(ask(&Query { call, constant: &constant, contract: &contract }))
    }
}
