//! Tests inputs and outputs that lie on the device.

use super::device::{Kept, parsed};
use super::standin::{self, ORDERS};
use super::{common, plan};
use libtest_mimic::Failed;
use ovolo::compile::{Compilation, compile};
use ovolo::graph::{Graph, Node};
use ovolo::pass::Resident;
use ovolo::session::{Session, SessionError};
use ovolo::tensor::{Device, Tensor};
use ovolo_cuda::{FAMILY, Module};
use std::sync::Arc;

/// A graph in which an output is also an operand, an input is an output, and a constant is an output.
const SOURCE: &str = "x: f32[12,64] = input\ny: f32[12,64] = input\nw: f32[2,2] = const ~3\na = softmax(x) {axis: 1}\n\
    b = mul(a, y)\nc = transpose(b) {perm: [1,0]}\nreturn b\nreturn c\nreturn x\nreturn w";

fn compiled(graph: &Graph, resident: bool) -> Result<Compilation, String> {
    let mut options = common::pipeline("cuda", 2);
    if resident {
        let pass = Resident::new(Device::Accelerator(FAMILY, 0));
        options.pipeline.passes.insert(0, Arc::new(pass));
    }
    compile(graph.clone(), &options).map_err(|error| error.to_string())
}

/// The values of inputs that stay on the device are those of the last write; results are the reference's; no step and no
/// run copies anything between the host and the device.
pub fn inputs_and_outputs_stay_on_the_device() -> Result<(), Failed> {
    let graph = parsed(SOURCE)?;
    let Compilation { program, plan, .. } = compiled(&graph, true)?;
    if let Some(copy) =
        plan.steps.iter().find(|step| ["cuda.upload", "cuda.download"].contains(&step.op.name))
    {
        return Err(format!("`{}` is a copy:\n{plan}", copy.name).into());
    }
    let _turn = standin::turn();
    let standin = standin::get();
    if let Some(standin) = standin {
        standin.register("resident", &Module::new(&plan::generated(&plan)?.0));
    }
    let kept = Kept::default();
    for &order in if standin.is_some() { &ORDERS[..] } else { &ORDERS[..1] } {
        standin.inspect(|standin| standin.order(order));
        runs(&graph, &program, &plan, &kept).map_err(|why| format!("order {order}: {why}\n{plan}"))?;
        if let Some(standin) = standin {
            standin.faults().and(standin.nothing_left())?;
        }
    }
    Ok(())
}

fn runs(graph: &Graph, program: &Graph, plan: &ovolo::Plan, kept: &Kept) -> Result<(), String> {
    let said = |error: SessionError| error.to_string();
    let mut session =
        Session::with(program, plan.clone(), common::registry().backends(), kept).map_err(said)?;
    let near = |outputs: &[Tensor], inputs: &[Tensor]| {
        let reference = common::reference(graph, inputs);
        let far = |at: &usize| common::relative_error(&outputs[*at], &reference[*at]) > 1e-5;
        match (0..reference.len()).find(far) {
            Some(at) => Err(format!("output {at} is wrong")),
            None => Ok(()),
        }
    };
    let copies = || {
        let count = |entry| standin::get().map_or(0, |standin| standin.calls(entry));
        ["cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"].map(count)
    };
    let mut addresses = Vec::new();
    for run in 0..4 {
        let value =
            |node: &Node| common::random(&format!("{}{run}", node.name), node.ty.dtype, &node.ty.shape);
        let inputs: Vec<Tensor> = graph.inputs().map(|(_, node)| value(node)).collect();
        for (at, input) in inputs.iter().enumerate() {
            let mut there = session.device_input(at).ok_or("an input is on the host")?;
            there.write(input).map_err(said)?;
            addresses.push(there.address());
        }
        let before = copies();
        session.run_on_device().map_err(said)?;
        if copies() != before {
            return Err("a run copies".to_owned());
        }
        let mut outputs = Vec::new();
        for at in 0..3 {
            let mut there = session.device_output(at).ok_or("an output is on the host")?;
            outputs.push(there.read().map_err(said)?);
        }
        if session.device_output(3).is_some() {
            return Err("a constant has an address on the device".to_owned());
        }
        outputs.push(common::reference(graph, &inputs).remove(3));
        near(&outputs, &inputs)?;
        // The same session also takes inputs from the host, and returns outputs there.
        let all: Vec<&Tensor> = inputs.iter().collect();
        near(session.run(&all).map_err(said)?, &inputs)?;
    }
    if addresses.chunks(2).any(|pair| pair != &addresses[..2]) {
        return Err(format!("addresses change: {addresses:?}"));
    }
    let wrong = Tensor::zeros(ovolo::TensorType::plain(ovolo::DType::I64, [12, 64]));
    match session.device_input(0).ok_or("an input is on the host")?.write(&wrong) {
        Err(SessionError::InputType { .. }) => Ok(()),
        other => Err(format!("an input of another type: {other:?}")),
    }
}

/// A plan with inputs on the host says how to move them.
pub fn a_run_on_the_device_alone_needs_inputs_there() -> Result<(), Failed> {
    let graph = parsed(SOURCE)?;
    let Compilation { program, plan, .. } = compiled(&graph, false)?;
    let _turn = standin::turn();
    if let Some(standin) = standin::get() {
        standin.register("on_host", &Module::new(&plan::generated(&plan)?.0));
    }
    let kept = Kept::default();
    let session = Session::with(&program, plan, common::registry().backends(), &kept);
    let mut session = session.map_err(|error| error.to_string())?;
    if session.device_input(0).is_some() || session.device_output(0).is_some() {
        return Err("a value of the host has an address on the device".into());
    }
    match session.run_on_device() {
        Err(error @ SessionError::OnHost { .. }) if error.to_string().contains("Resident(device: …)") => {
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}
