//! Values of products and convolutions by the libraries, against the reference.

use super::super::case::{Case, Random};
use super::super::standin;
use super::{One, contract, post, values};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, Layout, NoLayout, TensorType};

/// Products in every type, with batches, steps and algorithms.
fn product_cases() -> Vec<One> {
    let r = &mut Random::new(11);
    let shapes: &[(&[usize], &[usize])] = &[
        (&[5, 7], &[7, 3]),
        (&[1, 33], &[33, 17]),
        (&[64, 48], &[48, 40]),
        (&[16, 1], &[1, 1]),
        (&[2, 3, 5, 8], &[8, 6]),
        (&[4, 9, 5], &[4, 5, 7]),
        (&[9, 5], &[4, 5, 7]),
        (&[3, 4, 9, 5], &[1, 1, 5, 7]),
        (&[2, 3, 4, 5], &[2, 3, 5, 6]),
        (&[1, 4, 5], &[6, 5, 4]),
    ];
    let chains: &[&[&str]] = &[
        &[],
        &["relu"],
        &["gelu-tanh"],
        &["row"],
        &["row", "relu"],
        &["row", "gelu-tanh"],
        &["whole"],
        &["whole", "relu"],
        &["row", "whole", "relu"],
        &["whole", "row"],
    ];
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (number, (a, b)) in shapes.iter().enumerate() {
            for (at, chain) in chains.iter().enumerate() {
                let epilogue = chain.iter().any(|step| *step != "whole");
                if dtype == DType::F64 && epilogue || (at + number) % 2 == 1 && dtype != DType::F32 {
                    continue;
                }
                let mut operands = vec![r.tensor(dtype, a), r.tensor(dtype, b)];
                let Some(plain) = Case::new("matmul", Attrs::new(), operands.clone()) else { unreachable!() };
                let columns = *b.last().unwrap();
                let steps: Vec<&'static str> = chain
                    .iter()
                    .map(|step| match *step {
                        "row" => {
                            operands.push(r.tensor(dtype, &[columns]));
                            "add"
                        }
                        "whole" => {
                            operands.push(r.tensor(dtype, &plain.ty.shape));
                            "add"
                        }
                        step => step,
                    })
                    .collect();
                let case = Case::new("matmul", post(&steps), operands).unwrap();
                let more = Attrs::new()
                    .int("algorithm", if standin::on_device() { 0 } else { ((at + number) % 2) as i64 })
                    .int("workspace", if at % 3 == 0 { 4 } else { 1 });
                list.push(One { case, more, layout: Layout::PLAIN, form: "" });
            }
        }
    }
    list
}

/// Convolutions in every type and layout, by every algorithm that supports them.
fn convolution_cases() -> Result<Vec<One>, String> {
    let r = &mut Random::new(12);
    // Input, weights, pads, strides, dilations, groups.
    type Shape = (&'static [usize], &'static [usize], i64, i64, i64, i64);
    let shapes: &[Shape] = &[
        (&[1, 3, 9, 8], &[4, 3, 3, 3], 1, 1, 1, 1),
        (&[2, 5, 7, 7], &[6, 5, 1, 1], 0, 1, 1, 1),
        (&[1, 4, 11, 10], &[3, 4, 5, 5], 2, 1, 1, 1),
        (&[1, 3, 12, 12], &[4, 3, 7, 7], 3, 2, 1, 1),
        (&[1, 2, 9, 9], &[4, 2, 3, 3], 2, 1, 2, 1),
        (&[1, 6, 8, 8], &[6, 1, 3, 3], 1, 1, 1, 6),
        (&[2, 4, 8, 8], &[8, 2, 3, 3], 1, 2, 1, 2),
    ];
    let chains: &[&[&'static str]] = &[&[], &["relu"], &["add"], &["add", "relu"]];
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (x, w, pad, stride, dilation, groups) in shapes {
            for chain in chains {
                let bare = Attrs::new()
                    .ints("pads", &[*pad; 4])
                    .ints("strides", &[*stride; 2])
                    .ints("dilations", &[*dilation; 2])
                    .int("groups", *groups);
                let mut operands = vec![r.tensor(dtype, x), r.tensor(dtype, w), r.tensor(dtype, &w[..1])];
                let plain = Case::new("conv", bare.clone(), operands.clone()).ok_or("refused")?;
                if chain.contains(&"add") {
                    operands.push(r.tensor(dtype, &plain.ty.shape));
                }
                let steps = post(chain).get("post").cloned().ok_or("no steps")?;
                for layout in ["plain", "nhwc"] {
                    for algorithm in [0, 1, 2, 4, 5, 6, 7] {
                        let case =
                            Case::new("conv", bare.clone().with("post", steps.clone()), operands.clone());
                        let one = One {
                            case: case.ok_or("refused")?,
                            more: Attrs::new().int("algorithm", algorithm),
                            layout: layout.parse().map_err(|why: NoLayout| why.to_string())?,
                            form: "",
                        };
                        let types: Vec<TensorType> =
                            one.operands().iter().map(|one| one.ty().clone()).collect();
                        if contract("cudnn.conv", &one.attrs(), &types).is_ok() {
                            list.push(one);
                        }
                    }
                }
            }
        }
    }
    Ok(list)
}

/// Convolutions have the reference's values, in every type and layout, by every algorithm.
pub(super) fn convolutions() -> Result<(), Failed> {
    let cases = convolution_cases()?;
    let count = |algorithm: i64, dtype: DType, layout: &str| {
        let is = |one: &&One| {
            one.more.expect_int("algorithm") == algorithm
                && one.case.ty.dtype == dtype
                && one.layout.to_string() == layout
        };
        cases.iter().filter(is).count()
    };
    for (algorithm, plain, nhwc) in
        [(0, 21, 21), (1, 24, 24), (2, 12, 0), (4, 9, 0), (5, 6, 0), (6, 3, 0), (7, 6, 0)]
    {
        let counted = (count(algorithm, DType::F32, "plain"), count(algorithm, DType::F32, "nhwc"));
        // A library for a device may lack an algorithm for some cases, but not the two that plans rely on.
        let enough = counted.0 > 0 || algorithm > 1;
        if if standin::on_device() { !enough } else { counted != (plain, nhwc) } {
            return Err(format!("algorithm {algorithm} has {counted:?} cases in f32").into());
        }
    }
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let counted = (count(1, dtype, "plain"), count(1, dtype, "nhwc"));
        let enough = counted.0 + counted.1 > 0;
        if if standin::on_device() { !enough } else { counted != (24, 24) } {
            return Err(format!("{dtype} has {counted:?} cases").into());
        }
    }
    if !standin::on_device() {
        return values("cudnn", &cases);
    }
    // The library may refuse an algorithm in its first run only. Each case runs alone, so that all of them are told.
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for one in &cases {
        let relied_on = one.more.expect_int("algorithm") <= 1 && one.case.ty.dtype != DType::F64;
        match values("cudnn", std::slice::from_ref(one)) {
            Ok(()) => {}
            Err(why) => {
                let why = why.message().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
                let why = format!("{}{} in {}: {why}", one.case.name(), one.more, one.layout);
                let list =
                    if !relied_on && why.contains("NOT_SUPPORTED") { &mut refused } else { &mut wrong };
                list.push(why);
            }
        }
    }
    println!(
        "{} of {} cases are refused in their first run:\n{}",
        refused.len(),
        cases.len(),
        refused.join("\n")
    );
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} are wrong:\n{}", wrong.len(), wrong.join("\n")).into())
    }
}

pub(super) fn products() -> Result<(), Failed> {
    values("cublaslt", &product_cases())
}
