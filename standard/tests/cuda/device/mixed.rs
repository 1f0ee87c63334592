//! Plans that use the host and the device.

use super::super::common;
use super::{RUNS, parsed, planned, played, small};
use libtest_mimic::Failed;
use ovolo::graph::Node;
use ovolo::pass::pricing::pricings;
use ovolo::plan::schedule::Schedule;
use ovolo::tensor::Tensor;

/// Steps on the host between steps on the device, in this order: the host reads results of the device and
/// sends new values back, and memory on the host is reused.
const MIXED: &str = "x: f32[24,40] = input\ny: f32[24,40] = input\na = cuda.upload(x)\n\
    b = cuda.softmax(a) {axis: 1}\nc = cuda.download(b)\nd = native.exp(y)\ne = native.add(c, d)\nf = cuda.upload(e)\n\
    g = cuda.transpose(f) {perm: [1,0]}\nh = cuda.download(g)\ni = native.transpose(d) {perm: [1,0]}\n\
    j = native.mul(h, i)\nk = cuda.upload(j)\nl = cuda.softmax(k) {axis: 0}\nm = cuda.download(l)\n\
    n = native.add(m, h)\nreturn n\nreturn c";

/// A plan that uses both the host and the device.
pub fn mixed() -> Result<(), Failed> {
    let graph = parsed(MIXED)?;
    let plan = planned(&graph)?;
    let schedule = Schedule::new(&plan);
    if schedule.segments.len() < 3 {
        return Err(format!("{} segments:\n{plan}", schedule.segments.len()).into());
    }
    let inputs = |run: usize| -> Vec<Tensor> {
        let one = |node: &Node| common::random(&format!("{}{run}", node.name), node.ty.dtype, &node.ty.shape);
        graph.inputs().map(|(_, node)| one(node)).collect()
    };
    let runs: Vec<Vec<Tensor>> = (0..RUNS).map(inputs).collect();
    let references: Vec<Vec<Tensor>> = runs.iter().map(|inputs| common::reference(&graph, inputs)).collect();
    let near = |run: usize, outputs: &[Tensor]| {
        let far = |(output, reference)| !small(common::relative_error(output, reference));
        match outputs.iter().zip(&references[run]).position(far) {
            Some(at) => Err(format!("run {run}: output {at} is wrong")),
            None => Ok(()),
        }
    };
    played("mixed", &graph, &plan, &runs, &near)
}

/// The pipeline `mixed` runs work on the device if it is worth a copy, and other work on the host.
pub fn the_pipeline_mixes() -> Result<(), Failed> {
    let chosen = |source: &str| -> Result<Vec<&'static str>, String> {
        let mut options = common::pipeline("mixed", 2);
        options.pipeline.extract_mut().unwrap().price_by("roofline", pricings()).unwrap();
        let compilation =
            ovolo::compile::compile(parsed(source)?, &options).map_err(|error| error.to_string())?;
        Ok(compilation.plan.steps.iter().map(|step| step.op.name).collect())
    };
    let source = |size: usize| {
        format!("x: f32[{size},{size}] = input\nw: f32[{size},{size}] = const ~1\ny = matmul(x, w)\nreturn y")
    };
    let (large, small) = (chosen(&source(1024))?, chosen(&source(16))?);
    let library =
        common::registry().backends().get("cublaslt").is_some_and(|library| library.found().is_ok());
    let product = if library { "cublaslt.matmul" } else { "cuda.matmul" };
    if large != ["cuda.upload", product, "cuda.download"] {
        return Err(format!("a large product is {large:?}").into());
    }
    if small.iter().any(|op| !op.starts_with("native.") && !op.starts_with("onednn.")) {
        return Err(format!("a small product is {small:?}").into());
    }
    Ok(())
}
