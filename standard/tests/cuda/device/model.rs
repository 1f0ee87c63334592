//! Stripped models, with seeded weights.

use super::super::common;
use super::super::standin::{self, ORDERS};
use super::{RUNS, ordered, parsed, played};
use libtest_mimic::Failed;
use ovolo::backend::Unkept;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::path::Path;

/// Runs a stripped model with seeded weights.
pub fn model(name: &str, path: &Path, pipeline: &str) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let loaded =
        onnx::load(common::registry().onnx(), path, &options).map_err(|error| error.to_string())?.graph;
    let inputs = common::inputs(&loaded);
    let native = common::compile(loaded.clone(), 2);
    let mut reference = Session::new(&native.program, native.plan, common::registry().backends())
        .map_err(|error| error.to_string())?;
    let reference =
        reference.run(&inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?.to_vec();
    let compilation =
        ovolo::compile::compile(loaded, &common::pipeline(pipeline, 2)).map_err(|error| error.to_string())?;
    let most = match pipeline {
        "cuda" => 1e-4,
        "cuda-bf16" => 2e-2,
        _ => 3e-3,
    };
    let near = |_: usize, outputs: &[Tensor]| {
        for (output, reference) in outputs.iter().zip(&reference) {
            let error = common::relative_error(output, reference);
            if error.is_nan() || error > most {
                return Err(format!("relative error {error:e}"));
            }
        }
        Ok(())
    };
    let runs = vec![inputs; if standin::on_device() { RUNS } else { 2 }];
    let orders = if standin::on_device() { &ORDERS[..] } else { &ORDERS[2..3] };
    ordered(&format!("{name}_{pipeline}"), &compilation.program, &compilation.plan, &runs, &near, orders)
}

/// The models that run on the stand-in.
const SMALL: &[&str] = &["nasrnn"];

/// Whether a model runs on the stand-in, which takes minutes for a large one.
pub fn is_small(name: &str) -> bool {
    SMALL.contains(&name)
}

/// A model in `f16` fuses like one in `f32`: the gate is one kernel on the device, and on the processor its
/// ops are steps of chains. The values equal the reference's within the rounding of the type.
pub fn models_in_f16_fuse() -> Result<(), Failed> {
    let graph = parsed(
        "x: f16[24,40] = input\nc: f16[24,32] = input\nw: f16[40,32] = const ~1\nb: f16[32] = const ~2\n\
         m = matmul(x, w)\na = add(m, b)\ns = sigmoid(a)\nt = tanh(c)\ny = mul(s, t)\nreturn y",
    )?;
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let near = |_: usize, outputs: &[Tensor]| {
        let error = common::relative_error(&outputs[0], &reference[0]);
        if error <= 2e-3 { Ok(()) } else { Err(format!("relative error {error:e}")) }
    };
    for (pipeline, kernels) in [
        ("cuda", &["cuda.matmul-tensor", "cublaslt.matmul", "cuda.tree", "cuda.map"][..]),
        ("native", &["native.matmul", "native.map"]),
    ] {
        let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
            .map_err(|error| error.to_string())?;
        let plan = &compilation.plan;
        let copies = ["cuda.upload", "cuda.download"];
        if let Some(step) =
            plan.steps.iter().find(|step| ![kernels, &copies[..]].concat().contains(&step.op.name))
        {
            return Err(format!("{pipeline}: `{}` is not fused\n{plan}", step.op).into());
        }
        let computed = plan.steps.iter().filter(|step| !copies.contains(&step.op.name)).count();
        if computed != 2 {
            return Err(
                format!("{pipeline}: {computed} kernels instead of a product and a chain\n{plan}").into()
            );
        }
        if pipeline != "cuda" {
            let mut session =
                Session::with(&compilation.program, plan.clone(), common::registry().backends(), &Unkept)
                    .map_err(|error| error.to_string())?;
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            near(0, session.run(&inputs).map_err(|error| error.to_string())?)?;
        } else {
            played("f16", &compilation.program, plan, &vec![inputs.clone(); RUNS], &near)?;
        }
    }
    Ok(())
}
