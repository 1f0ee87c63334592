//! What plans in half precision still move: steps that only store values in another order or type.

use super::common;
use libtest_mimic::Failed;
use ovolo::compile;
use ovolo::graph::text;
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::plan::Plan;
use ovolo::tensor::{DType, Tensor};
use std::path::Path;

/// The networks whose plans are held to few moves.
pub const NETWORKS: [&str; 4] = ["bert_base", "efficientnet_b0", "inception_v3", "vit_b_16"];

/// The ops that only move or convert values.
const MOVES: [&str; 4] = ["cuda.transpose", "cuda.cast", "cuda.pack", "cuda.unpack"];
/// The most of them that a plan may have: inputs become narrow and outputs wide, and images change their layout once.
const MOST: usize = 4;

/// Returns the names and ops of the steps that move values. A view moves nothing.
fn moves(plan: &Plan) -> Vec<String> {
    let moves =
        plan.steps.iter().filter(|step| MOVES.contains(&step.op.name) && step.implementation != "view");
    moves.map(|step| format!("`{}` ({})", step.name, step.op)).collect()
}

/// A plan of a network for `cuda-f16` with all libraries, on the device that the stand-in describes, moves few values.
pub fn network(path: &Path) -> Result<(), Failed> {
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph =
        onnx::load(common::registry().onnx(), path, &options).map_err(|error| error.to_string())?.graph;
    let plan =
        compile::compile(graph, &common::pipeline("cuda-f16", 2)).map_err(|error| error.to_string())?.plan;
    for library in ["cudnn.", "cublaslt."] {
        if !plan.steps.iter().any(|step| step.op.name.starts_with(library)) {
            return Err(format!("no step is one of `{library}`, so the plan says nothing:\n{plan}").into());
        }
    }
    let moves = moves(&plan);
    if moves.len() > MOST {
        return Err(
            format!("{} steps only move values, not {MOST}:\n{}", moves.len(), moves.join("\n")).into()
        );
    }
    Ok(())
}

/// Attention as newer versions of PyTorch export it, in which a row without any key has zeros.
const LAYER: &str = include_str!("moves/layer.ovolo");

/// Attention in which rows without any key have zeros is one kernel that reads its heads in place, and such rows are
/// zeros in the plan as well.
pub fn attention_without_keys() -> Result<(), Failed> {
    let graph = text::parse(common::ops(), LAYER).map_err(|error| error.to_string())?;
    // The first sequence has no key at all, and the second one some.
    let x = common::random("x", DType::F32, &[2, 128, 256]);
    let kept: Vec<f64> = (0..256).map(|token| f64::from(u8::from(token >= 128 && token % 3 > 0))).collect();
    let inputs = [x, Tensor::from_f64(DType::I64, [2, 128], &kept)];
    let reference = common::reference(&graph, &inputs);
    for (pipeline, most_error) in
        [("cuda", 1e-5), ("cuda-tf32", 3e-3), ("cuda-f16", 3e-3), ("cuda-bf16", 2e-2)]
    {
        let compilation = compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
            .map_err(|error| error.to_string())?;
        let plan = &compilation.plan;
        let has = |ops: &[&str]| plan.steps.iter().any(|step| ops.contains(&step.op.name));
        if !has(&["cuda.attention", "cudnn.attention"]) || has(&["cuda.softmax"]) {
            return Err(format!("{pipeline}: attention is not one kernel in\n{plan}").into());
        }
        let moves = moves(plan);
        if moves.len() > MOST {
            return Err(format!("{pipeline}: {} steps only move values:\n{plan}", moves.len()).into());
        }
        let outputs = common::reference(&compilation.program, &inputs);
        let error = common::relative_error(&outputs[0], &reference[0]);
        if error.is_nan() || error > most_error {
            return Err(format!("{pipeline}: relative error {error:e} of\n{plan}").into());
        }
    }
    Ok(())
}

/// Transposes and casts are counted where a plan needs them.
pub fn moves_are_counted() -> Result<(), Failed> {
    let graph = super::device::parsed(
        "x: f32[48,32] = input\ny: f16[48,32] = input\na = transpose(x) {perm: [1,0]}\nb = cast(y) {to: f32}\n\
         return a\nreturn b",
    )?;
    let plan = compile::compile(graph, &common::pipeline("cuda", 2)).map_err(|error| error.to_string())?.plan;
    match moves(&plan).len() {
        2 => Ok(()),
        count => Err(format!("{count} moves are counted, not 2, in\n{plan}").into()),
    }
}
