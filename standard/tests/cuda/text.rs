//! Snapshots of the text of some kernels, one of each kind.

use super::case::Case;
use libtest_mimic::Failed;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::tensor::{DType, Tensor, TensorType};

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::zeros(TensorType::plain(dtype, shape))
}

fn chain(ops: &[&'static str]) -> Attr {
    Attr::Post(ops.iter().map(|op| Step { op: (*op).into(), parameters: Vec::new() }).collect())
}

/// The names of snapshots with their calls.
fn calls() -> Vec<(&'static str, Option<Case>)> {
    let f32 = |shape: &[usize]| zeros(DType::F32, shape);
    let none = Attrs::new;
    vec![
        ("relu_in_vectors", Case::new("relu", none(), vec![f32(&[64, 128])])),
        ("add_bias_of_channels", Case::new("add", none(), vec![f32(&[2, 64, 7, 7]), f32(&[64, 1, 1])])),
        (
            "half_chain_of_rows",
            Case::new("mul", none(), vec![zeros(DType::F16, &[128, 256]), zeros(DType::F16, &[256])]),
        ),
        (
            "fused_chain",
            Case::new(
                "map",
                none().with("post", chain(&["mul", "add", "gelu"])),
                vec![f32(&[8, 768]), f32(&[768]), f32(&[8, 1])],
            ),
        ),
        (
            "fused_tree",
            Case::new(
                "tree",
                none().with("post", chain(&["add", "push", "sub", "pop-mul"])),
                vec![f32(&[8, 768]), f32(&[768]), f32(&[8, 768]), f32(&[8, 1])],
            ),
        ),
        ("sum_of_rows", Case::new("reduce-sum", none().ints("axes", &[1]), vec![f32(&[64, 512])])),
        ("mean_of_columns", Case::new("reduce-mean", none().ints("axes", &[0]), vec![f32(&[512, 64])])),
        (
            "sum_of_all_in_two_stages",
            Case::new("reduce-sum", none().ints("axes", &[0]), vec![f32(&[1 << 20])]),
        ),
        ("softmax_of_rows", Case::new("softmax", none().int("axis", 1), vec![f32(&[96, 128])])),
        (
            "layer_norm",
            Case::new("layer-norm", none().int("axis", 1), vec![f32(&[128, 768]), f32(&[768]), f32(&[768])]),
        ),
        ("transpose", Case::new("transpose", none().ints("perm", &[1, 0]), vec![f32(&[100, 70])])),
        (
            "pack_17_channels",
            Case::new(
                "pack",
                none().with("layout", Attr::Layout("nChw16c".parse().unwrap())),
                vec![f32(&[1, 17, 14, 14])],
            ),
        ),
        ("concat", Case::new("concat", none().int("axis", 1), vec![f32(&[2, 3, 8]), f32(&[2, 5, 8])])),
        (
            "gather_rows",
            Case::new("gather", none().int("axis", 0), vec![f32(&[1000, 64]), zeros(DType::I64, &[16])]),
        ),
        (
            "pool",
            Case::new(
                "max-pool",
                none().ints("kernel", &[3, 3]).ints("strides", &[2, 2]).ints("pads", &[1, 1, 1, 1]),
                vec![f32(&[1, 64, 112, 112])],
            ),
        ),
        (
            "gradient_of_a_bias",
            Case::new(
                "grad",
                none().with("of", chain(&["mul"])).int("operand", 1),
                vec![f32(&[4, 8, 32]), f32(&[8, 1]), f32(&[4, 8, 32])],
            ),
        ),
    ]
}

/// Compares the texts with the snapshots.
pub fn snapshots() -> Result<(), Failed> {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/cuda"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (name, case) in calls() {
        let case = case.ok_or("the op refuses a call")?;
        let job = case.job()?;
        let mut text = format!("// {}\n", case.name());
        for kernel in &job.kernels {
            let [x, y] = kernel.launch.grid;
            let [threads, rows] = kernel.launch.block;
            text += &format!("// grid {x} x {y}, block {threads} x {rows}, {:?}\n", kernel.arguments);
            text += &kernel.text;
        }
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
    Ok(())
}

/// Shapes and names that do not change the work do not change the text.
pub fn the_same_work_has_one_text() -> Result<(), Failed> {
    let text = |op: &'static str, shape: &[usize]| -> Result<String, String> {
        let case = Case::new(op, Attrs::new(), vec![zeros(DType::F32, shape)]).ok_or("refused")?;
        Ok(case.job().map_err(|why| why.to_string())?.kernels[0].text.clone())
    };
    let wanted = text("exp", &[6, 20])?;
    for shape in [&[120_usize][..], &[2, 3, 20], &[1, 120, 1], &[5, 4, 3, 2, 1]] {
        if text("exp", shape)? != wanted {
            return Err(format!("{shape:?} has a different text").into());
        }
    }
    if text("sin", &[6, 20])? == wanted || text("exp", &[6, 21])? == wanted {
        return Err("different work has the same text".into());
    }
    Ok(())
}
