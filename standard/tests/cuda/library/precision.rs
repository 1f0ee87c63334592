//! The precision of results: that of the pipeline, and TF32 only for factors.

use super::super::case::{Case, Random};
use super::super::standin::ORDERS;
use super::super::{common, device};
use super::{One, lowered, post};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, Device, Layout, Tensor};

/// Rounds a tensor to TF32: ten bits of mantissa, halves to even.
fn tf32(tensor: &Tensor) -> Tensor {
    let round = |value: f64| {
        let bits = (value as f32).to_bits();
        f64::from(f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff))
    };
    let values: Vec<f64> = tensor.to_f64().into_iter().map(round).collect();
    Tensor::from_f64(DType::F32, tensor.ty().shape.clone(), &values)
}

/// If a call says so, the factors are rounded to TF32, but not the bias, the residual and the result.
pub(super) fn tf32_rounds_only_the_factors() -> Result<(), Failed> {
    let r = &mut Random::new(13);
    let f32 = |r: &mut Random, shape: &[usize]| r.tensor(DType::F32, shape);
    let product = vec![f32(r, &[24, 40]), f32(r, &[40, 16]), f32(r, &[16]), f32(r, &[24, 16])];
    let image = vec![f32(r, &[1, 8, 9, 9]), f32(r, &[8, 8, 3, 3]), f32(r, &[8]), f32(r, &[1, 8, 9, 9])];
    let convolution = || Case::new("conv", post(&["add", "relu"]).ints("pads", &[1; 4]), image.clone());
    let cases = [
        ("cublaslt", Case::new("matmul", post(&["add", "add", "relu"]), product), Layout::PLAIN, ""),
        ("cudnn", convolution(), Layout::PLAIN, ""),
        ("cudnn", convolution(), "nhwc".parse()?, ""),
        ("cudnn", convolution(), Layout::PLAIN, "-graph"),
        ("cudnn", convolution(), "nhwc".parse()?, "-graph"),
    ];
    for (prefix, case, layout, form) in cases {
        let case = case.ok_or("refused")?;
        let mut rounded = case.operands.clone();
        rounded[..2].iter_mut().for_each(|one| *one = tf32(one));
        let rounded = Case { operands: rounded, op: case.op, attrs: case.attrs.clone(), ty: case.ty.clone() };
        let (expected, exact) = (rounded.reference(), case.reference());
        let one = One { case, more: Attrs::new().int("tf32", 1), layout, form };
        let graph = lowered(prefix, std::slice::from_ref(&one))?;
        let plan = device::planned(&graph)?;
        let step = plan.steps.iter().find(|step| step.op.name.starts_with(prefix)).ok_or("no call")?;
        if !step.implementation.starts_with("tf32-") {
            return Err(format!("it is called {}", step.implementation).into());
        }
        let near = |_: usize, outputs: &[Tensor]| {
            let output = outputs[0].on(Device::Host).to_layout(&Layout::PLAIN);
            let (near, far) =
                (common::relative_error(&output, &expected), common::relative_error(&output, &exact));
            // The reference of the lowered op gives the same.
            if near < 1e-6 && (1e-5..1e-2).contains(&far) {
                Ok(())
            } else {
                Err(format!("{near:e} from the rounded product, {far:e} from the exact one"))
            }
        };
        let inputs = one.operands();
        let evaluated = common::reference(&graph, &inputs);
        near(0, &evaluated)?;
        device::ordered(&format!("tf32_{prefix}"), &graph, &plan, &[inputs], &near, &ORDERS[..1])?;
    }
    Ok(())
}

/// For each precision of a pipeline, its calls have that precision, and its values are as close to the
/// reference's as it says, and no closer.
pub(super) fn results_have_the_precision_of_the_pipeline() -> Result<(), Failed> {
    let layers = "x: f32[256,1024] = input\nw: f32[1024,512] = const ~1\nb: f32[512] = const ~2\nh = matmul(x, w)\n\
        i = add(h, b)\nj = relu(i)\nreturn j";
    let block = "x: f32[4,64,28,28] = input\nw: f32[64,64,3,3] = const ~1\nb: f32[64] = const ~2\n\
        v: f32[64,64,3,3] = const ~3\nc = conv(x, w, b) {pads: [1,1,1,1]}\nd = relu(c)\n\
        e = conv(d, v, b) {pads: [1,1,1,1]}\nf = add(e, x)\ng = relu(f)\nreturn g";
    for (name, source) in [("layers", layers), ("block", block)] {
        let graph = device::parsed(source)?;
        let inputs = common::inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        for (pipeline, precision, range) in [
            ("cuda", "f32-", 0.0..1e-6),
            ("cuda-tf32", "tf32-", 1e-5..1e-3),
            ("cuda-f16", "f16-", 1e-5..3e-3),
            ("cuda-bf16", "bf16-", 1e-4..2e-2),
        ] {
            let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
                .map_err(|error| error.to_string())?;
            let plan = &compilation.plan;
            let library = |step: &&ovolo::plan::Step| {
                step.op.name.starts_with("cu") && !step.op.name.starts_with("cuda.")
            };
            let calls: Vec<&str> =
                plan.steps.iter().filter(library).map(|step| step.implementation.as_str()).collect();
            if calls.is_empty() || calls.iter().any(|call| !call.starts_with(precision)) {
                return Err(format!("{name} by `{pipeline}` has {calls:?}:\n{plan}").into());
            }
            let near = |_: usize, outputs: &[Tensor]| {
                let error = common::relative_error(&outputs[0], &reference[0]);
                if range.contains(&error) {
                    Ok(())
                } else {
                    Err(format!("{name} by `{pipeline}`: error {error:e}"))
                }
            };
            let runs = [inputs.clone(), inputs.clone()];
            let title = format!("{name}_{}", precision.trim_end_matches('-'));
            device::ordered(&title, &compilation.program, plan, &runs, &near, &ORDERS[2..3])?;
        }
    }
    Ok(())
}
