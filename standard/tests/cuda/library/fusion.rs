//! Ops that follow a product or a convolution become part of its call.

use super::super::device;
use super::chosen;
use libtest_mimic::Failed;

/// Convolutions include a bias, a residual and `relu`, and layers stay in `nhwc` if that is cheaper.
pub(super) fn convolutions_are_fused_with_following_ops() -> Result<(), Failed> {
    let block = |dtype: &str| {
        format!(
            "x: {dtype}[1,16,14,14] = input\nw: {dtype}[16,16,3,3] = const ~1\nb: {dtype}[16] = const ~2\n\
            v: {dtype}[16,16,3,3] = const ~3\nc = conv(x, w, b) {{pads: [1,1,1,1]}}\nd = relu(c)\n\
            e = conv(d, v, b) {{pads: [1,1,1,1]}}\nf = add(e, x)\ng = relu(f)\nreturn g"
        )
    };
    device::graph("residual", "cuda", device::parsed(&block("f32"))?, 1)?;
    let convolutions = |source: &str| -> Result<Vec<String>, Failed> {
        let plan = chosen(source)?;
        Ok(plan.into_iter().filter(|step| step.contains("conv") || step.contains("pack")).collect())
    };
    let plan = convolutions(&block("f32"))?;
    if plan != ["cudnn.conv <relu>", "cudnn.conv <add,relu>"] {
        return Err(format!("{plan:?}").into());
    }
    let plan = convolutions(
        &block("bf16")
            .replace("[1,16,14,14]", "[8,256,28,28]")
            .replace("16,16", "256,256")
            .replace("[16]", "[256]"),
    )?;
    if plan != ["cuda.pack <>", "cudnn.conv <relu>", "cudnn.conv <add,relu>", "cuda.unpack <>"] {
        return Err(format!("{plan:?}").into());
    }
    Ok(())
}

/// A product includes an addition and its activation; a step without an epilogue in the library is a separate
/// kernel.
pub(super) fn products_are_fused_with_following_ops() -> Result<(), Failed> {
    let block = "x: f32[96,128] = input\nw: f32[128,128] = const ~1\nb: f32[128] = const ~2\nv: f32[128,128] = const ~3\n\
        h = matmul(x, w)\ni = add(h, b)\nj = relu(i)\nk = matmul(j, v)\nl = add(k, x0)\nx0: f32[96,128] = input\n\
        m = add(l, b)\nn = relu(m)\nreturn n";
    device::graph("block", "cuda", device::parsed(block)?, 1)?;
    let plan = chosen(block)?;
    let products: Vec<&String> = plan.iter().filter(|step| step.contains("matmul")).collect();
    if products != ["cublaslt.matmul <add,relu>", "cublaslt.matmul <add,add,relu>"] {
        return Err(format!("{plan:?}").into());
    }
    let other =
        "x: f32[512,1024] = input\nw: f32[1024,1024] = const ~1\nh = matmul(x, w)\ni = sigmoid(h)\nreturn i";
    let plan = chosen(other)?;
    if !plan.iter().any(|step| step == "cublaslt.matmul <>")
        || !plan.iter().any(|step| step == "cuda.map <sigmoid>")
    {
        return Err(format!("{plan:?}").into());
    }
    Ok(())
}
