//! Calls that the libraries do not take, and the reasons that their contracts give.

use super::super::common;
use super::{contract, post};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, TensorType};
use std::process::Command;

/// Refusals give the reason, and accepted calls have their scratch and their operands in place.
pub(super) fn products_that_are_refused() -> Result<(), Failed> {
    const F: DType = DType::F32;
    let (m, k): (&[usize], &[usize]) = (&[4, 8], &[8, 6]);
    let whole: &[usize] = &[4, 6];
    let types = |operands: &[(DType, &[usize])]| -> Vec<TensorType> {
        operands.iter().map(|(dtype, shape)| TensorType::plain(*dtype, *shape)).collect()
    };
    type Operands<'a> = &'a [(DType, &'a [usize])];
    let refused: &[(&[&'static str], Operands<'_>, &str)] = &[
        (&["gelu"], &[(F, m), (F, k)], "does not support step `gelu`"),
        (&["relu", "add"], &[(F, m), (F, k), (F, &[6])], "step `add` at this position"),
        (&["add"], &[(F, m), (F, k), (F, &[4, 1])], "f32[4,1]"),
        (&["add", "add", "add"], &[(F, m), (F, k), (F, &[6]), (F, whole), (F, whole)], "one value"),
        (&["mul"], &[(F, m), (F, k), (F, &[6])], "does not support step `mul`"),
        (&["relu"], &[(DType::F64, m), (DType::F64, k)], "for f64"),
        (&["add"], &[(DType::F64, m), (DType::F64, k), (DType::F64, &[6])], "for f64"),
        (&[], &[(DType::I32, m), (DType::I32, k)], "f32, f16, bf16 and f64 are supported"),
        (&[], &[(F, &[0, 8]), (F, k)], "a dimension is 0"),
        (&[], &[(F, &[2, 1, 4, 8]), (F, &[2, 3, 8, 6])], "broadcasts only some of its batch dimensions"),
    ];
    for (steps, operands, words) in refused {
        match contract("cublaslt.matmul", &post(steps), &types(operands)) {
            Err(why) if why.contains(words) => {}
            other => return Err(format!("{steps:?} of {operands:?}: {other:?}, not `{words}`").into()),
        }
    }
    let attrs = post(&["add", "add", "relu"]).int("algorithm", 2).int("workspace", 3);
    let taken = contract("cublaslt.matmul", &attrs, &types(&[(F, m), (F, k), (F, whole), (F, &[6])]))?;
    // Scratch is aligned to 256 bytes wherever a plan's buffer starts.
    if (taken.implementation.as_str(), taken.scratch, &taken.in_place[..])
        != ("f32-algorithm-2", (3 << 20) + 192, &[2])
    {
        return Err(format!("{taken:?}").into());
    }
    let bare = contract("cublaslt.matmul", &Attrs::new().int("workspace", 0), &types(&[(F, m), (F, k)]))?;
    if bare.scratch != 0 || !bare.in_place.is_empty() {
        return Err(format!("{bare:?}").into());
    }
    if contract("cublaslt.matmul", &Attrs::new().int("algorithm", -1), &types(&[(F, m), (F, k)])).is_ok() {
        return Err("a negative algorithm is accepted".into());
    }
    Ok(())
}

/// Refusals give the reason, and accepted calls have as much scratch as the algorithm may need.
pub(super) fn convolutions_that_are_refused() -> Result<(), Failed> {
    let of = |more: Attrs, dtype: DType, steps: &[&'static str], layouts: [&str; 2]| {
        let image = |shape: &[usize], layout: &str| {
            TensorType::plain(dtype, shape).with_layout(layout.parse().unwrap())
        };
        let mut types = vec![
            image(&[1, 4, 8, 8], layouts[0]),
            image(&[4, 4, 3, 3], layouts[1]),
            TensorType::plain(dtype, [4]),
        ];
        if steps.contains(&"add") {
            types.push(image(&[1, 4, 8, 8], layouts[0]));
        }
        let attrs = more.with("post", post(steps).get("post").cloned().unwrap());
        contract("cudnn.conv", &attrs, &types)
    };
    let same = || Attrs::new().ints("pads", &[1, 1, 1, 1]);
    let algorithm = |number: i64| same().int("algorithm", number);
    let (f, plain, nhwc) = (DType::F32, ["plain"; 2], ["nhwc"; 2]);
    let two = |attrs: Attrs, name: &'static str| attrs.ints(name, &[2, 2]);
    for (answer, words) in [
        (of(Attrs::new().ints("pads", &[0, 0, 1, 1]), f, &[], plain), "differs before and after"),
        (of(algorithm(3), f, &[], plain), "the library has 0, 1, 2, 4, 5, 6 and 7"),
        (of(same(), f, &["sigmoid"], plain), "step `sigmoid`"),
        (of(same(), f, &["relu", "add"], plain), "step `add` at this position"),
        (of(same(), f, &[], ["nhwc", "plain"]), "it takes plain, plain, plain; or nhwc, nhwc, plain"),
        (of(same(), DType::I32, &[], plain), "they must be of one floating-point type"),
        (of(algorithm(2), f, &[], nhwc), "gemm does not support nhwc"),
        (of(algorithm(0), f, &["add"], plain), "adds a value only if `relu` follows"),
        (of(algorithm(6), DType::BF16, &[], plain), "does not support bf16"),
        (of(algorithm(6), DType::F64, &[], plain), "does not support f64"),
        (of(two(Attrs::new(), "dilations").int("algorithm", 1), f, &[], plain), "does not support dilations"),
        (of(two(Attrs::new(), "strides").int("algorithm", 7), f, &[], plain), "does not support strides"),
    ] {
        match answer {
            Err(why) if why.contains(words) => {}
            other => return Err(format!("{other:?}, not `{words}`").into()),
        }
    }
    let names: Vec<String> = [0, 1, 2, 4, 5, 6, 7]
        .into_iter()
        .map(|number| of(algorithm(number), f, &["relu"], plain).map(|contract| contract.implementation))
        .collect::<Result<_, _>>()?;
    let wanted = [
        "implicit-gemm",
        "implicit-precomp-gemm",
        "gemm",
        "fft",
        "fft-tiling",
        "winograd",
        "winograd-nonfused",
    ];
    if names != wanted.map(|name| format!("f32-{name}")) {
        return Err(format!("{names:?}").into());
    }
    // With a device the library says how much scratch an algorithm needs. It is aligned to 256 bytes wherever a plan's
    // buffer starts.
    let scratch = |number: i64| of(algorithm(number), f, &["relu"], plain).map(|contract| contract.scratch);
    let moved = 4 * 2 * 4 * 8 * 8;
    for (number, wanted) in
        [(0, 0), (1, 1024 + 192), (2, 4 * 9 * 64 * 4 + 192), (4, moved + 192), (7, moved + 192)]
    {
        if scratch(number)? != wanted {
            return Err(format!(
                "algorithm {number} has {} bytes of scratch, not {wanted}",
                scratch(number)?
            )
            .into());
        }
    }
    // Without a device it is the most that an algorithm can need.
    let model = common::temporary().join("no_device.ovolo");
    let source = "graph {\nx: f32[1,16,14,14] = input\nw: f32[16,16,3,3] = const ~1\nb: f32[16] = const ~2\n\
        c = conv(x, w, b) {pads: [1,1,1,1]}\nd = relu(c)\nreturn d\n}";
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .args([
            "dump",
            "--cost",
            "roofline",
            "--pipeline",
            "cuda",
            "--after",
            "plan",
            &model.to_string_lossy(),
        ])
        .env("OVOLO_STANDIN_DEVICES", "0")
        .env("LD_PRELOAD", std::env::var_os("OVOLO_CUDA_DRIVER").unwrap_or_default())
        .output()
        .map_err(|error| error.to_string())?;
    let plan = String::from_utf8_lossy(&output.stdout);
    let bytes = (16 * 14 * 14 * 2 + 16 * 16 * 9) * 4 + (16 << 20);
    if !plan.contains("cudnn.conv") || !plan.contains(&format!("{}", bytes + 192)) {
        return Err(format!("{plan}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}
