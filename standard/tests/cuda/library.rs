//! Tests NVIDIA's libraries, on a device or on the stand-ins for them: values, refusals and their reasons,
//! and choices.

#[path = "library/fusion.rs"]
mod fusion;
#[path = "library/message.rs"]
mod message;
#[path = "library/precision.rs"]
mod precision;
#[path = "library/refusal.rs"]
mod refusal;
#[path = "library/value.rs"]
mod value;

use super::case::Case;
use super::need::Place;
use super::standin::{self, ORDERS};
use super::{agrees, common, device};
use fusion::{convolutions_are_fused_with_following_ops, products_are_fused_with_following_ops};
use libtest_mimic::Failed;
use message::{errors_say_what_to_do, plans_without_a_library_say_so, the_driver_must_support_a_library};
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::backend::Call;
use ovolo::graph::{Graph, Node};
use ovolo::op;
use ovolo::tensor::{DType, Device, Layout, Tensor, TensorType};
use precision::{results_have_the_precision_of_the_pipeline, tf32_rounds_only_the_factors};
use refusal::{convolutions_that_are_refused, products_that_are_refused};
use std::sync::Arc;
use value::{convolutions, products};

/// A test: its name, its function, where it runs, and the libraries that it uses.
pub type Test = (&'static str, fn() -> Result<(), Failed>, Place, &'static [&'static str]);

/// The tests.
pub const TESTS: &[Test] = &[
    ("products", products, Place::Driver, &["cublaslt"]),
    ("products_that_are_refused", products_that_are_refused, Place::Nowhere, &["cublaslt"]),
    ("convolutions", convolutions, Place::Driver, &["cudnn"]),
    ("convolutions_that_are_refused", convolutions_that_are_refused, Place::Nowhere, &["cudnn"]),
    ("the_driver_must_support_a_library", the_driver_must_support_a_library, Place::Standin, &["cublaslt"]),
    (
        "convolutions_are_fused_with_following_ops",
        convolutions_are_fused_with_following_ops,
        Place::Driver,
        &["cudnn"],
    ),
    (
        "products_are_fused_with_following_ops",
        products_are_fused_with_following_ops,
        Place::Driver,
        &["cublaslt"],
    ),
    ("errors_say_what_to_do", errors_say_what_to_do, Place::Standin, &["cublaslt"]),
    ("tf32_rounds_only_the_factors", tf32_rounds_only_the_factors, Place::Standin, &["cublaslt", "cudnn"]),
    (
        "results_have_the_precision_of_the_pipeline",
        results_have_the_precision_of_the_pipeline,
        Place::Standin,
        &["cublaslt", "cudnn"],
    ),
    ("plans_without_a_library_say_so", plans_without_a_library_say_so, Place::Nowhere, &[]),
];

/// Post chains by their steps.
pub fn post(steps: &[&'static str]) -> Attrs {
    let step = |op: &&'static str| Step { op: (*op).into(), parameters: Vec::new() };
    Attrs::new().with("post", Attr::Post(steps.iter().map(step).collect()))
}

/// A call of a library: the logical op with its operands, and further attributes of the lowered op.
pub struct One {
    pub case: Case,
    pub more: Attrs,
    /// The layout of images and weights.
    pub layout: Layout,
    /// The suffix of the lowered op's name after the logical one's.
    pub form: &'static str,
}

impl One {
    /// The operands in their layouts.
    pub fn operands(&self) -> Vec<Tensor> {
        let image = |one: &&Tensor| one.ty().shape.rank() == 4 && !self.layout.is_plain();
        let lay = |one: &Tensor| if image(&one) { one.to_layout(&self.layout) } else { one.clone() };
        self.case.operands.iter().map(lay).collect()
    }

    /// Checks a result as [`agrees`] does. On a device the libraries may be less exact: algorithms that transform tiles
    /// mix elements, and `gelu-tanh` is approximate. Then the relative error (L2) of the result is bounded.
    fn agrees(&self, result: &Tensor) -> Result<(), String> {
        let reference = self.case.reference();
        let exact = agrees(&self.case, result, &reference);
        let transforms =
            matches!(self.more.get("algorithm"), Some(Attr::Int(4..=7))) && self.case.op == "conv";
        let approximate = transforms || self.attrs().post().iter().any(|step| step.op.name() == "gelu-tanh");
        if exact.is_ok() || !approximate || !standin::on_device() {
            return exact;
        }
        let most = match self.case.ty.dtype {
            DType::F16 | DType::BF16 => 2e-2,
            DType::F64 => 1e-9,
            _ => 1e-3,
        };
        let error = common::relative_error(result, &reference);
        if error <= most { Ok(()) } else { Err(format!("relative error {error:e}, not {most:e}")) }
    }

    /// All attributes.
    pub fn attrs(&self) -> Attrs {
        self.more.iter().fold(self.case.attrs.clone(), |attrs, (name, value)| attrs.with(name, value.clone()))
    }
}

/// Returns the cases as one graph: each operand is copied to the device, and the result back.
pub fn lowered(prefix: &str, cases: &[One]) -> Result<Graph, String> {
    let mut graph = Graph::new();
    let add = |graph: &mut Graph, op: &str, attrs: &Attrs, inputs: Vec<ovolo::graph::NodeId>, name: &str| {
        let def = common::ops().get(op).ok_or_else(|| format!("there is no op `{op}`"))?;
        let attrs = def.complete(attrs.clone());
        let types: Vec<TensorType> = inputs.iter().map(|input| graph[*input].ty.clone()).collect();
        let ty = def.result(&attrs, &types.iter().collect::<Vec<_>>()).map_err(|why| why.to_string())?;
        Ok::<_, String>(graph.add_node(Node {
            op: def,
            attrs: Arc::new(attrs),
            inputs,
            name: name.into(),
            ty,
        }))
    };
    let none = Attrs::new();
    for (number, one) in cases.iter().enumerate() {
        let mut operands = Vec::new();
        for (at, operand) in one.operands().iter().enumerate() {
            let name = format!("c{number}.x{at}");
            let input = graph.add_input(&name, operand.ty().clone());
            operands.push(add(&mut graph, "cuda.upload", &none, vec![input], &format!("{name}.upload"))?);
        }
        let result = add(
            &mut graph,
            &format!("{prefix}.{}{}", one.case.op, one.form),
            &one.attrs(),
            operands,
            &format!("c{number}.result"),
        )?;
        let output = add(&mut graph, "cuda.download", &none, vec![result], &format!("c{number}"))?;
        graph.add_output(&format!("c{number}"), output);
    }
    Ok(graph)
}

/// Checks that calls of a library have the reference's values.
pub fn values(prefix: &str, cases: &[One]) -> Result<(), Failed> {
    let graph = lowered(prefix, cases)?;
    let plan = device::planned(&graph)?;
    let inputs: Vec<Tensor> = cases.iter().flat_map(One::operands).collect();
    let near = |_: usize, outputs: &[Tensor]| {
        for (one, output) in cases.iter().zip(outputs) {
            let One { case, more, layout, .. } = one;
            if output.ty().layout != *layout {
                return Err(format!("{}{more}: the result is {}", case.name(), output.ty()));
            }
            one.agrees(&output.on(Device::Host).to_layout(&Layout::PLAIN))
                .map_err(|why| format!("{}{more} in {layout}: {why}", case.name()))?;
        }
        Ok(())
    };
    let runs = [inputs.clone(), inputs.clone(), inputs];
    device::ordered(prefix, &graph, &plan, &runs, &near, &ORDERS[..3])
}

/// Asks something of the call of a lowered op on the device.
pub fn called<T>(
    name: &str,
    attrs: &Attrs,
    operands: &[TensorType],
    ask: impl FnOnce(&Call<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let def = common::ops().get(name).ok_or("there is no such op")?;
    let attrs = def.complete(attrs.clone());
    let there =
        |ty: &TensorType| TensorType { device: Device::Accelerator(ovolo_cuda::FAMILY, 0), ..ty.clone() };
    let types: Vec<TensorType> = operands.iter().map(there).collect();
    let types: Vec<&TensorType> = types.iter().collect();
    let output = def.result(&attrs, &types).map_err(|why| why.to_string())?;
    ask(&Call { op: def, attrs: &attrs, inputs: &types, output: &output, threads: 1 })
}

/// The contract of a lowered op on the device.
pub fn contract(name: &str, attrs: &Attrs, operands: &[TensorType]) -> Result<op::Contract, String> {
    called(name, attrs, operands, |call| call.contract().map_err(|why| why.to_string()))
}

/// The ops of a plan with their post chains.
pub fn chosen(source: &str) -> Result<Vec<String>, Failed> {
    let compilation = ovolo::compile::compile(device::parsed(source)?, &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let step = |step: &ovolo::plan::Step| {
        let steps: Vec<&str> = step.attrs.post().iter().map(|step| step.op.name()).collect();
        format!("{} <{}>", step.op, steps.join(","))
    };
    Ok(compilation.plan.steps.iter().map(step).collect())
}
