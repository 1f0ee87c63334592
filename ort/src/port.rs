//! The inputs and outputs of a model.

use crate::dtype::element;
use crate::status::Failure;
use crate::tensor::dims;
use crate::type_info::{TensorInfo, TypeInfo};
use ovolo::onnx::Interface;
use ovolo::plan::Plan;
use ovolo::{TensorType, ValueType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An input or an output of a model.
pub struct Port {
    /// Its name.
    pub name: String,
    /// The type that the model declares; for a plan, that of its tensor.
    pub ty: ValueType,
    /// The description for callers.
    pub info: TypeInfo,
}

/// The inputs that must be given, and the outputs.
pub struct Ports {
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
}

impl Ports {
    /// Reads the ports off what a model declares. `sizes` has sizes of dimensions that were set by their names.
    pub fn declared(interface: &Interface, sizes: &BTreeMap<String, usize>) -> Self {
        let port = |(name, ty): &(String, ValueType)| {
            let shape = interface.shapes.get(name).map_or(&[][..], Vec::as_slice);
            let info = TypeInfo::of(ty, &|dtype| TensorInfo::declared(dtype, shape, sizes));
            Port { name: name.clone(), ty: ty.clone(), info }
        };
        let needed = interface.inputs.iter().filter(|(name, _)| !interface.defaults.contains(name));
        Self { inputs: needed.map(port).collect(), outputs: interface.outputs.iter().map(port).collect() }
    }

    /// Reads the outputs off a plan where the model does not declare a shape, and the inputs in the order of the plan.
    #[must_use]
    pub fn planned(mut self, plan: &Plan, interface: &Interface) -> Self {
        let fixed = |name: &Arc<str>, ty: &TensorType| Port {
            name: name.to_string(),
            ty: ValueType::Tensor(ty.dtype),
            info: TypeInfo::Tensor(TensorInfo::new(element(ty.dtype), dims(&ty.shape))),
        };
        let declared = |name: &str| interface.shapes.contains_key(name);
        let outputs = plan.outputs.iter().map(|(name, ty, _)| {
            let own = self.outputs.iter().position(|port| port.name == **name);
            match own {
                Some(at) if declared(name) => self.outputs.swap_remove(at),
                _ => fixed(name, ty),
            }
        });
        self.outputs = outputs.collect();
        self
    }
}

/// Returns the place of a port with a name.
pub fn position(ports: &[Port], what: &str, name: &str) -> Result<usize, Failure> {
    ports.iter().position(|port| port.name == name).ok_or_else(|| {
        let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        Failure::invalid(format!(
            "the model has no {what} `{name}`: its {what}s are `{}`",
            known.join("`, `")
        ))
    })
}

/// Returns a port by its number.
pub fn numbered<'p>(ports: &'p [Port], what: &str, index: usize) -> Result<&'p Port, Failure> {
    ports.get(index).ok_or_else(|| {
        let count = ports.len();
        Failure::invalid(format!(
            "the model has {count} {what}s, and the {what} with the number {index} was asked for"
        ))
    })
}
