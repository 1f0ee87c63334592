//! What is said of a library that is absent, too new, or reports an error.

use super::super::case::{Case, Random};
use super::super::device::{self, Kept};
use super::super::{common, standin};
use super::{One, lowered};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::session::Session;
use ovolo::tensor::{DType, Layout, Tensor};
use std::process::Command;

/// Errors of a library name the step, and contain its own words and advice; nothing is left allocated.
pub(super) fn errors_say_what_to_do() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let r = &mut Random::new(3);
    let operands = vec![r.tensor(DType::F32, &[4, 8]), r.tensor(DType::F32, &[8, 4])];
    let one = |algorithm: i64| One {
        case: Case::new("matmul", Attrs::new(), operands.clone()).unwrap(),
        more: Attrs::new().int("algorithm", algorithm),
        layout: Layout::PLAIN,
        form: "",
    };
    let load = |algorithm: i64| -> Result<Session, String> {
        let graph = lowered("cublaslt", &[one(algorithm)])?;
        let plan = device::planned(&graph)?;
        Session::with(&graph, plan, common::registry().backends(), &Kept::default())
            .map_err(|error| error.to_string())
    };
    let inputs: Vec<&Tensor> = operands.iter().collect();
    let _turn = standin::turn();
    let says = |what: Result<String, String>, words: &[&str]| match what {
        Err(error) if words.iter().all(|word| error.contains(word)) => Ok(()),
        other => Err(format!("{other:?} does not say {words:?}")),
    };
    let made = |load: Result<Session, String>| load.map(|_| "a session".to_owned());
    says(made(load(7)), &["c0.result", "cuBLASLt has 3 algorithm(s)", "number 7", "ovolo tune"])?;
    // `fresh::handles_that_cannot_be_made` has the errors of `cublasLtCreate`, which a process calls once.
    let entry = "cublasLtMatmulAlgoGetHeuristic";
    standin.fail(entry, 0, 13);
    says(made(load(0)), &["cublaslt.matmul", entry, "CUBLAS_STATUS_EXECUTION_FAILED", "compute-sanitizer"])?;
    // An error code that no library documents, from a function and from a value that it writes.
    for entry in ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulHeuristicResult_t"] {
        standin.fail(entry, 0, 31999);
        says(made(load(0)), &["cublaslt.matmul", "code 31999, which is unknown to the library", "doctor"])?;
    }
    let mut session = load(0)?;
    standin.fail("cublasLtMatmul", 0, 13);
    let run = session.run(&inputs).map(|_| "values".to_owned()).map_err(|error| error.to_string());
    says(run, &["c0.result", "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED (13)"])?;
    session.run(&inputs).map_err(|error| error.to_string())?;
    drop(session);
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// A library for a newer major version of CUDA than the driver supports is passed over, and the reason is given.
pub(super) fn the_driver_must_support_a_library() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let folder = common::temporary().join("two_majors");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    standin.version_at("cublaslt", &["-DVERSION=130100"], &folder.join("libcublasLt.so.13"));
    standin.version_at("cublaslt", &[], &folder.join("libcublasLt.so.12"));
    standin.version_at("cudnn", &["-DCUDA=13000"], &folder.join("libcudnn.so.9"));
    let doctor = |cuda: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
            .args(["doctor", "--threads", "1"])
            .env("OVOLO_CUBLASLT", &folder)
            .env("OVOLO_CUDNN", &folder)
            .env("OVOLO_STANDIN_CUDA", cuda)
            .env("LD_PRELOAD", std::env::var_os("OVOLO_CUDA_DRIVER").unwrap_or_default())
            .output();
        output
            .map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
            .map_err(|error| error.to_string())
    };
    let old = "at most: install one for CUDA 11, or a newer driver";
    for (cuda, lines) in [
        (
            "13000",
            &[("cuda cuBLASLt: 13.1.0", ""), ("cuda cuDNN: 9.21.0", ""), ("cuda NVRTC: NVRTC 1", "")][..],
        ),
        (
            "12090",
            &[
                ("cuda cuBLASLt: 12.9.4", ""),
                (
                    "cuda cuDNN: not found",
                    "cuDNN 9.21.0 is for CUDA 13, but the driver supports CUDA 12.9 at most",
                ),
            ],
        ),
        ("11080", &[("cuda cuBLASLt: not found", old), ("cuda NVRTC: not found", old)]),
    ] {
        let said = doctor(cuda)?;
        for (begin, words) in lines {
            if !said.lines().any(|line| line.starts_with(begin) && line.contains(words)) {
                return Err(format!("CUDA {cuda}: no line has `{begin}` and `{words}`:\n{said}").into());
            }
        }
    }
    Ok(())
}

/// Without a library, generated kernels compute products, and the compilation reports what is absent.
pub(super) fn plans_without_a_library_say_so() -> Result<(), Failed> {
    let model = common::temporary().join("no_library.ovolo");
    let source = "graph {\nx: f32[64,64] = input\nw: f32[64,64] = const ~1\ny = matmul(x, w)\nreturn y\n}";
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let run = |arguments: &[&str]| {
        Command::new(super::super::need::program())
            .args(arguments)
            .env("OVOLO_CUBLASLT", "/nowhere/libcublasLt.so")
            .env("OVOLO_CUDNN", "/nowhere/libcudnn.so")
            .output()
            .map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
            .map_err(|error| error.to_string())
    };
    let path = model.to_string_lossy();
    let said = run(&["compile", "--no-cache", "--cost", "flops", "--pipeline", "cuda", &path])?;
    for words in [
        "backend cublaslt: not found (/nowhere/libcublasLt.so",
        "backend cudnn: not found (/nowhere/libcudnn.so",
        "set OVOLO_CUBLASLT",
        "set OVOLO_CUDNN",
    ] {
        if !said.contains(words) {
            return Err(format!("`{words}` is not in\n{said}").into());
        }
    }
    let plan = run(&["dump", "--cost", "flops", "--pipeline", "cuda", "--after", "plan", &path])?;
    if !plan.contains("cuda.matmul") || plan.contains("cublaslt.") || plan.contains("cudnn.") {
        return Err(plan.into());
    }
    let doctor = run(&["doctor", "--threads", "1"])?;
    let line =
        doctor.lines().find(|line| line.starts_with("cuda cuBLASLt: not found (/nowhere/libcublasLt.so"));
    match line {
        Some(line) if line.contains("set OVOLO_CUBLASLT") => Ok(()),
        _ => Err(doctor.into()),
    }
}
