//! Checks that a plan from a file or from elsewhere is sound: that it keeps, step by step, what the kernels rely on.

use super::{ALIGN, Arena, Base, Place, Plan, Step};
use crate::graph::{Graph, INPUT, Node, NodeId};
use crate::tensor::{Device, TensorType};
use crate::verify;
use std::sync::Arc;

/// The reason why a plan must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    /// It is for zero threads, or for more than [`MOST_THREADS`].
    #[error("it is for {0} threads")]
    Threads(usize),
    /// An input or an output has a type that no value can have.
    #[error("`{name}`: {why}")]
    Type {
        /// The name of the input or output.
        name: String,
        /// What is wrong with its type.
        why: String,
    },
    /// Its arenas are not in the order of their devices.
    #[error("its arenas of {0} and {1} are not in the order of the devices")]
    Arenas(Device, Device),
    /// An arena is larger than all its buffers together.
    #[error("its arena of {0} bytes is larger than all its buffers together")]
    Arena(usize),
    /// A buffer does not lie within its arena and the steps.
    #[error("buffer {0} does not lie within the arena and the steps")]
    Buffer(usize),
    /// Buffers that are in use at the same time overlap.
    #[error("at `{step}`: {why}")]
    Overlap {
        /// The step at which the second buffer is first used.
        step: String,
        /// The two buffers.
        why: String,
    },
    /// A step has a wrong type, does not lie in its memory, or reads bytes that nothing has written.
    #[error("step `{step}`: {why}")]
    Step {
        /// The name of the value that the step computes.
        step: String,
        /// What is wrong.
        why: String,
    },
    /// An output does not lie in the plan's memory.
    #[error("output `{output}`: {why}")]
    Output {
        /// The name of the output.
        output: String,
        /// What is wrong.
        why: String,
    },
}

/// The most threads that a plan may be for, which is more than any machine has processors.
pub const MOST_THREADS: usize = 1024;

impl Plan {
    /// Checks that each step's op accepts its operands and gives its result, that every value lies within its input,
    /// constant or arena, and that values that are live at the same time do not overlap. `constant` returns the bytes
    /// of a constant.
    ///
    /// # Errors
    /// The first unsound step, and the reason.
    pub fn check(&self, constant: &dyn Fn(NodeId) -> Option<usize>) -> Result<(), Unsound> {
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return Err(Unsound::Threads(self.threads));
        }
        for (name, ty) in self
            .inputs
            .iter()
            .map(|(name, ty)| (name, ty))
            .chain(self.outputs.iter().map(|(name, ty, _)| (name, ty)))
        {
            if let Some(why) = crate::tensor::type_error(ty) {
                return Err(Unsound::Type { name: name.to_string(), why });
            }
        }
        if let Some(pair) = self.arenas().zip(&self.devices).find(|(a, b)| a.device >= b.device) {
            return Err(Unsound::Arenas(pair.0.device, pair.1.device));
        }
        for step in &self.steps {
            self.check_step(step, constant)
                .map_err(|why| Unsound::Step { step: step.name.to_string(), why })?;
        }
        for Arena { device, bytes, .. } in self.arenas() {
            let mut steps = self.steps.iter().filter(|step| step.output_type.device == device);
            let all = steps.try_fold(1_usize, |all, step| {
                let bytes = step.output_type.bytes().checked_add(step.scratch)?;
                all.checked_add(bytes)?.checked_add(2 * ALIGN)
            });
            if all.is_none_or(|all| bytes > all) {
                return Err(Unsound::Arena(bytes));
            }
        }
        for (name, ty, place) in &self.outputs {
            self.check_place(*place, ty, constant)
                .map_err(|why| Unsound::Output { output: name.to_string(), why })?;
        }
        self.check_overlap()
    }

    fn check_step(&self, step: &Step, constant: &dyn Fn(NodeId) -> Option<usize>) -> Result<(), String> {
        check_op(step)?;
        if step.inputs.len() != step.input_types.len() {
            return Err("its operands have no places".to_owned());
        }
        for (place, ty) in step.inputs.iter().zip(&step.input_types) {
            self.check_place(*place, ty, constant)?;
        }
        match step.output.base {
            Base::Arena(_) => {}
            Base::Input(_) if self.is_next_value(step) => {}
            Base::Input(_) | Base::Constant(_) => {
                return Err(
                    "its result neither goes to the arena nor is the next value of an input".to_owned()
                );
            }
        }
        self.check_place(step.output, &step.output_type, constant)?;
        if !step.output.offset.is_multiple_of(ALIGN) {
            return Err("its result is not aligned".to_owned());
        }
        within(step.scratch_offset, step.scratch, self.arena_of(step.output_type.device))
            .map_err(|why| format!("its scratch {why}"))?;
        if !step.scratch_offset.is_multiple_of(ALIGN) {
            return Err("its scratch is not aligned".to_owned());
        }
        for operand in step.in_place.iter().chain(&step.copied) {
            let ty =
                step.input_types.get(*operand).ok_or("it takes an operand's buffer that is not there")?;
            if ty.bytes() != step.output_type.bytes() {
                return Err(format!("{ty} and {} do not share a buffer", step.output_type));
            }
        }
        Ok(())
    }

    /// Returns whether a step writes the next value of an input in its place: the whole input, on the host, without devices,
    /// and as the output with its name.
    fn is_next_value(&self, step: &Step) -> bool {
        let Place { base: Base::Input(at), offset: 0 } = step.output else { return false };
        let Some((name, ty)) = self.inputs.get(at) else { return false };
        let of_input = |(output, output_type, place): &(Arc<str>, TensorType, Place)| {
            output == name && output_type == ty && *place == step.output
        };
        self.devices.is_empty()
            && ty.device == Device::Host
            && step.output_type == *ty
            && self.outputs.iter().any(of_input)
    }

    fn check_place(
        &self,
        place: Place,
        ty: &TensorType,
        constant: &dyn Fn(NodeId) -> Option<usize>,
    ) -> Result<(), String> {
        let held = match place.base {
            Base::Arena(device) if device != ty.device => {
                return Err(format!("{ty} at {place} is in the memory of {device}"));
            }
            Base::Arena(device) => self.arena_of(device),
            Base::Input(input) => {
                let (_, input) = self.inputs.get(input).ok_or("it reads an input that is not there")?;
                if input.device != ty.device {
                    return Err(format!("{ty} at {place} is in the memory of {}", input.device));
                }
                input.bytes()
            }
            Base::Constant(node) => constant(node).ok_or("it reads a constant that is not there")?,
        };
        if !place.offset.is_multiple_of(ty.dtype.size()) {
            return Err(format!("{ty} at {place} is not aligned"));
        }
        within(place.offset, ty.bytes(), held).map_err(|why| format!("{ty} at {place} {why}"))
    }
}

fn within(offset: usize, bytes: usize, held: usize) -> Result<(), String> {
    match offset.checked_add(bytes) {
        Some(end) if end <= held => Ok(()),
        _ => Err(format!("does not lie within {held} bytes")),
    }
}

/// Verifies the op on a graph of its own.
fn check_op(step: &Step) -> Result<(), String> {
    let mut graph = Graph::new();
    let mut node = |op, attrs: &Arc<crate::attr::Attrs>, inputs, name: &str, ty: &TensorType| {
        graph.add_node(Node { op, attrs: Arc::clone(attrs), inputs, name: name.into(), ty: ty.clone() })
    };
    let leaves = Arc::default();
    let operands =
        step.input_types.iter().map(|ty| node(INPUT, &leaves, Vec::new(), "operand", ty)).collect();
    let result = node(step.op, &step.attrs, operands, "result", &step.output_type);
    graph.add_output("result", result);
    verify::verify(graph).map_err(|errors| match errors.0.first() {
        Some(error) => error.message.clone(),
        None => "it does not verify".to_owned(),
    })?;
    Ok(())
}
