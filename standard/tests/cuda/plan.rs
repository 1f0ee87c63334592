//! Tests plans for a device, made without one.

use super::{common, nvrtc};
use libtest_mimic::Failed;
use ovolo::compile;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::plan::Plan;
use ovolo::tensor::Device;
use ovolo_cuda::{KernelJob, Module};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The models with their names.
pub fn models() -> Vec<(String, PathBuf)> {
    let folder = common::root().join("tests/models");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    files.sort();
    files.into_iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

/// Compiles with generated kernels only, or with those of libraries as well.
fn planned(graph: Graph, libraries: bool) -> Result<compile::Compilation, String> {
    let mut options = common::pipeline("cuda", 2);
    options.pipeline.backends.retain(|backend| libraries || backend == "cuda");
    compile::compile(graph, &options).map_err(|error| error.to_string())
}

/// Returns the generated kernels of a plan, and the number of steps that are copies.
pub fn generated(plan: &Plan) -> Result<(Vec<KernelJob>, usize), String> {
    ovolo_cuda::generated(plan).map_err(|why| why.to_string())
}

/// Checks that a model's plan runs everything on the device, and that NVRTC compiles its kernels.
pub fn model(name: &str, path: &Path) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph =
        onnx::load(common::registry().onnx(), path, &options).map_err(|error| error.to_string())?.graph;
    let (inputs, outputs) = (graph.inputs().count(), graph.outputs().count());
    let plan = planned(graph, false)?.plan;
    let (jobs, copies) = generated(&plan)?;
    if copies != inputs + outputs {
        return Err(format!("{copies} copies for {inputs} inputs and {outputs} outputs").into());
    }
    for step in plan.steps.iter().filter(|step| step.implementation != "copy") {
        if step.output_type.device != Device::Accelerator(ovolo_cuda::FAMILY, 0) {
            return Err(format!("`{}` is {}", step.name, step.output_type).into());
        }
    }
    let module = Module::new(&jobs);
    let launches: usize = jobs.iter().map(|job| job.kernels.len()).sum();
    let report =
        format!("{} generated kernels, {launches} launches, {copies} copies", module.kernels().len());
    snapshot("models", name, &report);
    let compiler = nvrtc::compiler()?;
    // The kernels of all families are compiled for the other architectures as well.
    for architecture in nvrtc::ARCHITECTURES.into_iter().take(2) {
        let cubin = compiler.compile(&module.source(), architecture)?;
        for one in ovolo_cuda::nvrtc::figures(&cubin.log) {
            let text = module.kernels().find(|kernel| kernel.name == one.kernel).map_or("", |one| &one.text);
            if let Some(what) = nvrtc::on_the_stack(&one, text) {
                return Err(format!("{architecture}: {}: {what}", one.kernel).into());
            }
        }
    }
    Ok(())
}

pub fn snapshot(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    let path = common::root().join("snapshots/cuda").join(folder);
    settings.set_snapshot_path(path);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Lists the kernels of libraries in a model's plan, by op, implementation and number of steps; all others
/// are generated.
pub fn libraries(name: &str, path: &Path) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph =
        onnx::load(common::registry().onnx(), path, &options).map_err(|error| error.to_string())?.graph;
    let plan = planned(graph, true)?.plan;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for step in &plan.steps {
        let name = match step.op.name.split_once('.') {
            Some(("cuda", op)) if !["matmul", "conv", "attention"].contains(&op) => {
                "others, views and copies".to_owned()
            }
            _ => {
                let steps: Vec<&str> = step.attrs.post().iter().map(|step| step.op.name()).collect();
                format!("{} {} <{}>", step.op, step.implementation, steps.join(","))
            }
        };
        *counts.entry(name).or_default() += 1;
    }
    let lines: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    snapshot("libraries", name, &lines.join("\n"));
    Ok(())
}

/// A chain stays on the device, and its kernels do not depend on names.
pub fn chains_stay_on_the_device() -> Result<(), Failed> {
    let source = |x: &str, y: &str| {
        format!(
            "graph {{\n{x}: f32[4,64] = input\n{y} = softmax({x}) {{axis: 1}}\nz = transpose({y}) {{perm: [1,0]}}\nreturn z\n}}"
        )
    };
    let plan = |x: &str, y: &str| {
        let graph = text::parse(common::ops(), &source(x, y)).map_err(|error| error.to_string())?;
        planned(graph, true).map(|compilation| compilation.plan)
    };
    let plan_of_one = plan("x", "y")?;
    let steps: Vec<&str> = plan_of_one.steps.iter().map(|step| step.op.name).collect();
    if steps != ["cuda.upload", "cuda.softmax", "cuda.transpose", "cuda.download"] {
        return Err(format!("{steps:?}").into());
    }
    let text = |plan: &Plan| generated(plan).map(|(jobs, _)| Module::new(&jobs).source());
    if text(&plan_of_one)? != text(&plan("first", "second")?)? {
        return Err("names show in the kernels".into());
    }
    Ok(())
}

/// Without a device, running reports what is missing.
pub fn running_without_a_device_says_so() -> Result<(), Failed> {
    let model = common::temporary().join("no_device.ovolo");
    std::fs::write(&model, "graph {\nx: f32[4] = input\ny = exp(x)\nreturn y\n}").unwrap();
    // `run` would ask for the input first; `bench` draws it.
    let output = Command::new(super::need::program())
        .args(["bench", "--no-cache", "--cost", "flops", "--pipeline", "cuda"])
        .arg(&model)
        .env("OVOLO_CUDA_DRIVER", "/nowhere/libcuda.so.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let words = ["none was found", "/nowhere/libcuda.so.1", "install NVIDIA's driver"];
    if output.status.code() != Some(1) || words.iter().any(|word| !said.contains(word)) {
        return Err(format!("{}: {said}", output.status).into());
    }
    Ok(())
}
