//! The pass that puts the inputs and outputs of a model into the memory of a device.

use super::{Context, Pass, PassReport, Scope, State};
use crate::attr::Attrs;
use crate::error::Error;
use crate::graph::{Graph, INPUT, Node, NodeId};
use crate::op::Op;
use crate::ron::{Reader, Spanned};
use crate::stage::Imported;
use crate::tensor::{Device, NoDevice, TensorType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The pass `resident`: inputs and outputs lie in the memory of a device, so that a run copies nothing to it or from
/// it.
///
/// The pass changes the types of inputs, and adds a copy to the host after each input and a copy to the device before
/// each output. It chooses nothing: rules remove a copy where the value is used on the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Resident")]
pub struct Resident {
    /// The device, such as `cuda:0`.
    pub device: Spanned<String>,
}

impl Resident {
    /// Returns the pass for a device.
    pub fn new(device: Device) -> Self {
        Self { device: device.to_string().into() }
    }
}

impl Pass for Resident {
    fn name(&self) -> &str {
        "resident"
    }

    fn check(&self, _: &Scope<'_>, reader: &mut Reader<'_>) {
        if let Err(error) = self.device.parse::<Device>() {
            reader.mistake(error.to_string(), self.device.span, "");
        }
    }

    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error> {
        let State::Imported(imported) = state else {
            return Err(Error::Misplaced {
                pass: self.name().to_owned(),
                why: "stands after a pass that rewrites or chooses: put it first",
            });
        };
        let device: Device = self.device.parse().map_err(|error: NoDevice| Error::other(error))?;
        let (graph, report) = resident(imported.graph(), device, context)?;
        Ok((State::Imported(Imported::new(graph)?), PassReport::Custom(report)))
    }
}

/// Returns the graph with its inputs and outputs on a device, and a line that says what was moved.
fn resident(graph: &Graph, device: Device, context: &Context<'_>) -> Result<(Graph, String), Error> {
    let host = graph.inputs().map(|(_, node)| &node.ty).chain(graph.outputs().map(|(_, id)| &graph[id].ty));
    let copies = Copies::new(device, host.cloned().collect(), context)?;
    let mut moved = Graph::new();
    moved.set_name(graph.name());
    let mut ids: Vec<NodeId> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let at = if node.op == INPUT {
            let input = moved.add_input(&node.name, TensorType { device, ..node.ty.clone() });
            moved.add_node(copy(copies.download, &node.name, input, node.ty.clone()))
        } else if let Some(value) = graph.constant(id) {
            moved.add_constant(&node.name, value.clone())
        } else {
            let inputs = node.inputs.iter().map(|input| ids[input.index()]).collect();
            moved.add_node(Node { inputs, ..Node::clone(node) })
        };
        ids.push(at);
    }
    for (name, id) in graph.outputs() {
        let ty = TensorType { device, ..graph[id].ty.clone() };
        let at = moved.add_node(copy(copies.upload, name, ids[id.index()], ty));
        moved.add_output(name, at);
    }
    let (inputs, outputs) = (graph.inputs().count(), graph.outputs().len());
    Ok((moved, format!("{inputs} input(s) and {outputs} output(s) lie on {device}")))
}

fn copy(op: Op, name: &str, from: NodeId, ty: TensorType) -> Node {
    Node { op, attrs: Arc::default(), inputs: vec![from], name: name.into(), ty }
}

/// The ops that copy to a device and from it.
struct Copies {
    upload: Op,
    download: Op,
}

impl Copies {
    /// Finds the ops that copy values of these types between the host and a device.
    fn new(device: Device, types: Vec<TensorType>, context: &Context<'_>) -> Result<Self, Error> {
        let attrs = Attrs::default();
        let copies = |from: Device, to: Device| {
            let takes = |op: &Op| {
                op.flags.transfer.is_some()
                    && op.lowered.is_none()
                    && types.iter().all(|ty| {
                        let operand = TensorType { device: from, ..ty.clone() };
                        (op.infer)(&attrs, &[&operand]).is_ok_and(|result| result.device == to)
                    })
            };
            context.ops.all().into_iter().find(takes)
        };
        match (copies(Device::Host, device), copies(device, Device::Host)) {
            (Some(upload), Some(download)) if device != Device::Host => Ok(Self { upload, download }),
            _ => Err(Error::NoCopy { device }),
        }
    }
}
