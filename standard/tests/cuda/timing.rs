//! Tests how calls of NVIDIA's libraries are timed: alone, with cold constants, in little memory, and by tuning.

use super::case::{Case, Random};
use super::library::{Test, called, post};
use super::need::Place;
use super::{agrees, common, device, standin};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call};
use ovolo::cost::{Machine, State};
use ovolo::pass::pricing::pricings;
use ovolo::team::Team;
use ovolo::tensor::{DType, Device, Tensor, TensorType};
use ovolo_cuda::{KernelJob, Module, job};
use ovolo_tune::Tuner;

/// The tests.
pub const TESTS: &[Test] = &[
    ("a_call_alone", a_call_alone, Place::Standin, &["cublaslt"]),
    ("a_constant_that_is_timed_is_cold", a_constant_that_is_timed_is_cold, Place::Standin, &["cublaslt"]),
    ("tuning_without_memory_says_so", tuning_without_memory_says_so, Place::Standin, &["cublaslt"]),
    ("tuning_picks_the_fastest_algorithm", tuning_picks_the_fastest_algorithm, Place::Standin, &["cublaslt"]),
];

/// A single call on the device takes operands from the host, returns the result there, and reports its time.
fn a_call_alone() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let r = &mut Random::new(5);
    let operands = [r.tensor(DType::F32, &[6, 8]), r.tensor(DType::F32, &[8, 5]), r.tensor(DType::F32, &[5])];
    let case = Case::new("matmul", post(&["add", "relu"]), operands.to_vec()).unwrap();
    let _turn = standin::turn();
    let there =
        |ty: &TensorType| TensorType { device: Device::Accelerator(ovolo_cuda::FAMILY, 0), ..ty.clone() };
    let team = Team::new(1);
    let alone =
        |op: &'static str, attrs: &Attrs, types: &[TensorType], output: &TensorType, given: &[&Tensor]| {
            let types: Vec<&TensorType> = types.iter().collect();
            let op = common::ops().get(op).unwrap();
            let call = Call { op, attrs, inputs: &types, output, threads: 1 };
            if let Ok(job) = job(&call) {
                standin.register("alone", &Module::new([&job]));
            }
            let kernel = call.kernel().map_err(|why| why.to_string())?;
            let mut result = Tensor::zeros(TensorType { device: Device::Host, ..output.clone() });
            let inputs: Vec<*const u8> = given.iter().map(|one| one.bytes().as_ptr()).collect();
            let output = result.bytes_mut().as_mut_ptr();
            for _ in 0..2 {
                let args = Args { inputs: &inputs, output, scratch: std::ptr::null_mut(), team: &team };
                // SAFETY: the buffers are tensors of the call's types; a device allocates its own scratch.
                unsafe { kernel.run(&args) };
            }
            match kernel.seconds() {
                Some(seconds) if seconds > 0.0 => Ok(result),
                other => Err(format!("`{op}` tells {other:?}")),
            }
        };
    let types: Vec<TensorType> = operands.iter().map(|one| there(one.ty())).collect();
    let given: Vec<&Tensor> = operands.iter().collect();
    for op in ["cublaslt.matmul", "cuda.matmul"] {
        let def = common::ops().get(op).unwrap();
        let attrs = def.complete(case.attrs.clone());
        let result = alone(def.name, &attrs, &types, &there(&case.ty), &given)?;
        agrees(&case, &result, &case.reference()).map_err(|why| format!("{op}: {why}"))?;
    }
    let none = Attrs::new();
    for (op, from, to) in [
        ("cuda.upload", operands[0].ty().clone(), types[0].clone()),
        ("cuda.download", types[0].clone(), operands[0].ty().clone()),
    ] {
        let copied = alone(op, &none, &[from], &to, &given[..1])?;
        if copied.bytes() != operands[0].bytes() {
            return Err(format!("`{op}` changes what it copies").into());
        }
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// A constant is read from memory if the constants of the model do not fit into the device's cache, which has 1 MiB here,
/// and from the cache otherwise. The values are the same.
fn a_constant_that_is_timed_is_cold() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let r = &mut Random::new(6);
    let operands = [r.tensor(DType::F32, &[6, 64]), r.tensor(DType::F32, &[64, 512])];
    let case = Case::new("matmul", Attrs::new(), operands.to_vec()).unwrap();
    let types: Vec<TensorType> = operands.iter().map(|one| one.ty().clone()).collect();
    let _turn = standin::turn();
    let team = Team::new(1);
    // The second operand has 128 KiB: 16 copies of it are twice the cache, and the operand is one of them.
    for (constant, bytes, copies) in
        [([false, true], 64 << 20, 15), ([false, true], 1 << 20, 0), ([false, false], 64 << 20, 0)]
    {
        let before = ["cuMemcpyDtoDAsync_v2", "cuMemsetD8Async"].map(|entry| standin.calls(entry));
        let result = called("cublaslt.matmul", &Attrs::new(), &types, |call| {
            let kernel = call.kernel().map_err(|why| why.to_string())?;
            kernel.prepare_timing(&constant, bytes).map_err(|why| why.to_string())?;
            let mut result = Tensor::zeros(case.ty.clone());
            let inputs: Vec<*const u8> = operands.iter().map(|one| one.bytes().as_ptr()).collect();
            let output = result.bytes_mut().as_mut_ptr();
            for _ in 0..2 {
                let args = Args { inputs: &inputs, output, scratch: std::ptr::null_mut(), team: &team };
                // SAFETY: the buffers are tensors of the call's types; a device allocates its own scratch.
                unsafe { kernel.run(&args) };
            }
            kernel.seconds().ok_or("it has no time")?;
            Ok(result)
        })?;
        agrees(&case, &result, &case.reference())?;
        let after = ["cuMemcpyDtoDAsync_v2", "cuMemsetD8Async"].map(|entry| standin.calls(entry));
        let made = [after[0] - before[0], after[1] - before[1]];
        // Both runs copy the constant and write other memory.
        if made != [2 * copies, if copies > 0 { 2 } else { 0 }] {
            return Err(format!("{constant:?} of {bytes} bytes: {made:?} copies and writes").into());
        }
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// Kernels for which the device has not enough memory together are timed alone. One for which it has never enough keeps
/// its estimate: it is not recorded as wrong.
fn tuning_without_memory_says_so() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = device::parsed("x: f32[9,8] = input\nw: f32[8,8] = const ~1\ny = matmul(x, w)\nreturn y")?;
    let _turn = standin::turn();
    let there = |shape: [usize; 2]| TensorType {
        device: Device::Accelerator(ovolo_cuda::FAMILY, 0),
        ..TensorType::plain(DType::F32, shape)
    };
    let (x, w) = (there([9, 8]), there([8, 8]));
    let def = common::ops().get("cuda.matmul").unwrap();
    let attrs = def.complete(Attrs::new());
    let call = Call { op: def, attrs: &attrs, inputs: &[&x, &w], output: &x, threads: 1 };
    let generated: KernelJob = job(&call)?;
    standin.register("without_memory", &Module::new([&generated]));
    // Most candidates of the library take 4 MiB of scratch and one takes 32, so there is not enough for all together.
    for (mib, untimed) in [(36, false), (3, true)] {
        let mut options = common::pipeline("cuda", 1);
        options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
        let mut tuner = Tuner::open(None, 1, Machine::NOMINAL, common::registry().backends());
        standin.memory(mib << 20);
        let filled = tuner.fill(&graph, &options);
        let most = standin.memory(24 << 30);
        filled.map_err(|error| error.to_string())?;
        let states = |name: &str| -> Vec<State> {
            let entries = tuner.stored().table.entries.values();
            entries.filter(|entry| entry.implementation == name).map(|entry| entry.state).collect()
        };
        let wanted = if untimed { State::Untimed } else { State::Timed };
        for algorithm in [1, 2] {
            let found = states(&format!("f32-algorithm-{algorithm}"));
            if found.is_empty() || found.iter().any(|state| *state != wanted) {
                return Err(
                    format!("with {mib} MiB, algorithm {algorithm} is {found:?}, not {wanted:?}").into()
                );
            }
        }
        let notes = tuner.notes();
        let said =
            notes.iter().any(|note| note.contains("not enough memory") && note.contains("cublaslt.matmul"));
        if said != untimed || most > mib as i32 {
            return Err(format!("with {mib} MiB, {most} MiB are used, and the notes are {notes:?}").into());
        }
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// Candidates are timed on the device, together with the libraries' versions. The plan uses the fastest one,
/// and never one that the library does not have.
fn tuning_picks_the_fastest_algorithm() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = device::parsed("x: f32[8,8] = input\nw: f32[8,8] = const ~1\ny = matmul(x, w)\nreturn y")?;
    let mut options = common::pipeline("cuda", 1);
    options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
    let _turn = standin::turn();
    let ty = TensorType {
        device: Device::Accelerator(ovolo_cuda::FAMILY, 0),
        ..TensorType::plain(DType::F32, [8, 8])
    };
    let def = common::ops().get("cuda.matmul").unwrap();
    let attrs = def.complete(Attrs::new());
    let call = Call { op: def, attrs: &attrs, inputs: &[&ty, &ty], output: &ty, threads: 1 };
    let generated: KernelJob = job(&call)?;
    standin.register("tuned", &Module::new([&generated]));
    for (algorithm, microseconds) in [(0, 300), (1, 300), (2, 0)] {
        standin.delay("OVOLO_CUBLASLT", algorithm, microseconds);
    }
    let folder = common::temporary().join("tuned_device");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut tuner = Tuner::open(Some(&folder), 1, Machine::NOMINAL, common::registry().backends());
    let tuned = ovolo_tune::compile(&graph, options, &mut tuner);
    for algorithm in 0..3 {
        standin.delay("OVOLO_CUBLASLT", algorithm, 0);
    }
    let tuned = tuned.map_err(|error| error.to_string())?;
    let table = std::fs::read_to_string(folder.join("times-1.txt")).map_err(|error| error.to_string())?;
    let line = |words: &[&str]| table.lines().find(|line| words.iter().all(|word| line.contains(word)));
    for words in [
        &[
            "timed\t",
            "f32-algorithm-2\terror",
            "cuBLASLt 12.9.4, CUDA 12.9 on Stand-in sm_90",
            "cublaslt.matmul",
        ][..],
        &["wrong\t", "f32-algorithm-3", "cublaslt.matmul"],
        &["timed\t", "copy\terror 0.0e0", "driver CUDA 12.9 on Stand-in sm_90, NVRTC 1", "cuda.upload"],
        &["timed\t", "copy\terror 0.0e0", "cuda.download"],
    ] {
        line(words).ok_or_else(|| format!("no line has {words:?}:\n{table}"))?;
    }
    let entry = |algorithm: usize| {
        let named = format!("f32-algorithm-{algorithm}");
        let of = tuner.stored().table.entries.values().find(|entry| entry.implementation == named);
        of.map(|entry| (entry.state, entry.seconds)).ok_or_else(|| format!("{named} has no line"))
    };
    let (slow, fast) = (entry(0)?, entry(2)?);
    if slow.0 != State::Timed || slow.1 < 3e-4 || fast.1 >= slow.1 {
        return Err(format!("times are {slow:?} and {fast:?}").into());
    }
    let plan = tuned.compilation.plan.to_string();
    if plan.contains("f32-algorithm-0")
        || plan.contains("f32-algorithm-1")
        || plan.contains("f32-algorithm-3")
    {
        return Err(format!("a slow algorithm is chosen:\n{plan}\n{table}").into());
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}
