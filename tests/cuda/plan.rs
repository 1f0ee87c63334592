//! Plans for a device, made where there is none.

use super::{common, nvrtc};
use libtest_mimic::Failed;
use ovolo::backend::cuda::{Job, Module, job};
use ovolo::backend::{Call, cuda};
use ovolo::compile;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::{Device, TensorType};
use std::path::{Path, PathBuf};

/// The models, by name.
pub fn models() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    files.sort();
    files.into_iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

fn planned(graph: Graph) -> Result<compile::Compilation, String> {
    compile::compile(graph, &common::pipeline("cuda", 2)).map_err(|error| error.to_string())
}

/// The generated kernels of a plan, and how many steps are a library's or copies.
fn generated(plan: &Plan) -> Result<(Vec<Job>, usize, usize), String> {
    let (mut jobs, mut libraries, mut copies) = (Vec::new(), 0, 0);
    for step in &plan.steps {
        let inputs: Vec<&TensorType> = step.input_types.iter().collect();
        let call = Call {
            op: step.op,
            attrs: &step.attrs,
            inputs: &inputs,
            output: &step.output_type,
            threads: plan.threads,
        };
        match step.implementation.as_str() {
            "copy" => copies += 1,
            name if name.starts_with("cu") => libraries += 1,
            _ => jobs.push(job(&call)?),
        }
    }
    Ok((jobs, libraries, copies))
}

/// A model's plan has everything on the device, and NVRTC compiles what it takes.
pub fn model(name: &str, path: &Path) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph = onnx::load(path, &options).map_err(|error| error.to_string())?.graph;
    let (inputs, outputs) = (graph.inputs().count(), graph.outputs().count());
    let plan = planned(graph)?.plan;
    let (jobs, libraries, copies) = generated(&plan)?;
    if copies != inputs + outputs {
        return Err(format!("{copies} copies for {inputs} inputs and {outputs} outputs").into());
    }
    for step in plan.steps.iter().filter(|step| step.implementation != "copy") {
        if step.output_type.device != Device::Cuda(0) {
            return Err(format!("`{}` is {}", step.name, step.output_type).into());
        }
    }
    let module = Module::new(&jobs);
    let launches: usize = jobs.iter().map(|job| job.kernels.len()).sum();
    let report = format!(
        "{} generated kernels, {launches} launches, {libraries} calls of libraries, {copies} copies",
        module.kernels().len()
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/cuda/models"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
    let Some(compiler) = nvrtc::compiler() else { return Ok(()) };
    for architecture in nvrtc::ARCHITECTURES {
        let cubin = compiler.compile(&module.source(), architecture)?;
        for one in cuda::nvrtc::figures(&cubin.log) {
            if one.spills > 0 {
                return Err(format!("{architecture}: {} spills {} bytes", one.kernel, one.spills).into());
            }
        }
    }
    Ok(())
}

/// A chain stays on the device, and names do not show in its kernels.
pub fn chains_stay_on_the_device() -> Result<(), Failed> {
    let source = |x: &str, y: &str| {
        format!(
            "graph {{\n{x}: f32[4,64] = input\n{y} = softmax({x}) {{axis: 1}}\nz = transpose({y}) {{perm: [1,0]}}\nreturn z\n}}"
        )
    };
    let plan = |x: &str, y: &str| {
        let graph = text::parse(&source(x, y)).map_err(|error| error.to_string())?;
        planned(graph).map(|compilation| compilation.plan)
    };
    let plan_of_one = plan("x", "y")?;
    let steps: Vec<&str> = plan_of_one.steps.iter().map(|step| step.op).collect();
    if steps != ["cuda.upload", "cuda.softmax", "cuda.transpose", "cuda.download"] {
        return Err(format!("{steps:?}").into());
    }
    let text = |plan: &Plan| generated(plan).map(|(jobs, _, _)| Module::new(&jobs).source());
    if text(&plan_of_one)? != text(&plan("first", "second")?)? {
        return Err("names show in the kernels".into());
    }
    Ok(())
}

/// Where there is no device, running says so, and says what is missing.
pub fn running_without_a_device_says_so() -> Result<(), Failed> {
    let cuda = ovolo::backend::find("cuda").ok_or("there is no backend")?;
    if cuda.found().is_ok() {
        println!("skipped: there is a device");
        return Ok(());
    }
    let graph = text::parse("graph {\nx: f32[4] = input\ny = exp(x)\nreturn y\n}")
        .map_err(|error| error.to_string())?;
    let compilation = planned(graph)?;
    if !compilation.absent.iter().any(|(name, _)| name == "cuda") {
        return Err("the compilation does not say that the backend is absent".into());
    }
    match Session::new(&compilation.program, compilation.plan) {
        Ok(_) => Err("there is a session without a device".into()),
        Err(error) if error.to_string().contains("no device was found") => Ok(()),
        Err(error) => Err(error.to_string().into()),
    }
}
