//! What the runtime says of errors of the driver.

use super::super::{common, standin};
use super::{GRAPHS, Kept, module, parsed, small};
use libtest_mimic::Failed;
use ovolo::session::Session;
use ovolo::tensor::Tensor;

/// Errors of the driver name the step, and contain the driver's own words and advice.
pub fn errors_say_what_to_do() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[0].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("errors", &module(&compilation.plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let reference = common::reference(&graph, &common::inputs(&graph));
    let load = || {
        Session::with(&compilation.program, compilation.plan.clone(), common::registry().backends(), &kept)
    };
    let says = |error: String, words: &[&str]| match words.iter().find(|word| !error.contains(**word)) {
        Some(word) => Err(format!("`{error}` does not say `{word}`")),
        None => Ok(()),
    };
    for (entry, after, code, words) in [
        (
            "cuMemAlloc_v2",
            0,
            2,
            &["bytes for the plan", "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", "smaller"][..],
        ),
        ("cuMemHostAlloc", 0, 2, &["pinned", "CUDA_ERROR_OUT_OF_MEMORY"]),
        ("cuModuleLoadData", 0, 200, &["CUDA_ERROR_INVALID_IMAGE", "ovolo cache clear"]),
        ("cuModuleGetFunction", 1, 500, &["CUDA_ERROR_NOT_FOUND (500): named symbol not found", "transpose"]),
        ("cuStreamCreate", 0, 2, &["cuStreamCreate", "CUDA_ERROR_OUT_OF_MEMORY"]),
        // An error code that no driver documents.
        (
            "cuEventCreate",
            0,
            31999,
            &["cuEventCreate: code 31999, which is unknown to the library", "doctor"],
        ),
    ] {
        standin.fail(entry, after, code);
        match load() {
            Ok(_) => return Err(format!("`{entry}` fails, and there is a session").into()),
            Err(error) => says(error.to_string(), words)?,
        }
        if standin.live() != 0 {
            return Err(format!("handles are left where `{entry}` fails").into());
        }
    }
    let upload = compilation.plan.steps.first().map(|step| step.name.to_string()).unwrap_or_default();
    for (entry, runs, words) in [
        (
            "cuLaunchKernel",
            0,
            &["softmax`", "cuda.softmax", "CUDA_ERROR_ILLEGAL_ADDRESS", "compute-sanitizer"][..],
        ),
        ("cuMemcpyHtoDAsync_v2", 0, &[upload.as_str(), "cuda.upload", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuLaunchKernel", 1, &["softmax", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuGraphInstantiateWithFlags", 1, &["cuGraphInstantiate", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuGraphLaunch", 1, &["cuGraphLaunch", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (
            "cuEventSynchronize",
            0,
            &["one of the", "cuda.upload", "cuda.download", "CUDA_ERROR_ILLEGAL_ADDRESS"],
        ),
    ] {
        let mut session = load().map_err(|error| error.to_string())?;
        for _ in 0..runs {
            session.run(&inputs).map_err(|error| error.to_string())?;
        }
        standin.fail(entry, 0, 700);
        match session.run(&inputs) {
            Ok(_) => return Err(format!("`{entry}` fails, and the run does not").into()),
            Err(error) => says(error.to_string(), words)?,
        }
        // After a single failure, the session runs again.
        let outputs = session.run(&inputs).map_err(|error| format!("after `{entry}`: {error}"))?;
        if !small(common::relative_error(&outputs[0], &reference[0])) {
            return Err(format!("after `{entry}` the values are wrong").into());
        }
    }
    standin.faults()?;
    Ok(())
}
