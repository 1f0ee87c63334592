//! Tests generated kernels without a device: their own text runs on the processor and is compared with the
//! reference evaluation, and NVRTC compiles it to machine code.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;

#[path = "cuda/case.rs"]
mod case;
#[path = "cuda/device.rs"]
mod device;
#[path = "cuda/fresh.rs"]
mod fresh;
#[path = "cuda/graph.rs"]
mod graph;
#[path = "cuda/host.rs"]
mod host;
#[path = "cuda/library.rs"]
mod library;
#[path = "cuda/machine.rs"]
mod machine;
#[path = "cuda/moves.rs"]
mod moves;
#[path = "cuda/need.rs"]
mod need;
#[path = "cuda/nvrtc.rs"]
mod nvrtc;
#[path = "cuda/plan.rs"]
mod plan;
#[path = "cuda/price.rs"]
mod price;
#[path = "cuda/resident.rs"]
mod resident;
#[path = "cuda/standin.rs"]
mod standin;
#[path = "cuda/text.rs"]
mod text;
#[path = "cuda/timing.rs"]
mod timing;

use case::{Case, FAMILIES, Random};
use host::Host;
use libtest_mimic::{Arguments, Failed, Trial};
use need::{Place, trial};
use ovolo::tensor::{DType, Tensor};
use ovolo_cuda::Module;
use std::process::Command;

fn main() {
    standin::place();
    let (driver, standin) = (need::needs(Place::Driver, &[]), need::needs(Place::Standin, &[]));
    let mut trials = Vec::new();
    for (number, (name, _)) in FAMILIES.iter().enumerate() {
        trials.push(need::cxx().trial(format!("values::{name}"), move || values(number)));
        let compiles = move || nvrtc::compiles(&case::family(number));
        trials.push(need::nvrtc().trial(format!("machine_code::{name}"), compiles));
        let title = format!("device::kernels::{name}");
        trials.push(trial(title, &driver, move || device::family(number)));
    }
    for (name, path) in plan::models() {
        let (of, at) = (name.clone(), path.clone());
        let (with, there) = (name.clone(), path.clone());
        trials.push(need::nvrtc().trial(format!("model::{name}"), move || plan::model(&name, &path)));
        let title = format!("library::model::{with}");
        trials.push(trial(title, &standin, move || plan::libraries(&with, &there)));
        if moves::NETWORKS.contains(&of.as_str()) {
            let at = at.clone();
            trials.push(trial(format!("library::moves::{of}"), &standin, move || moves::network(&at)));
        }
        let needs = if device::model::is_small(&of) { driver.clone() } else { vec![need::device()] };
        for pipeline in ["cuda", "cuda-tf32", "cuda-f16", "cuda-bf16"] {
            let title = format!("device::model::{of}::{pipeline}");
            let (of, at) = (of.clone(), at.clone());
            trials.push(trial(title, &needs, move || device::model::model(&of, &at, pipeline)));
        }
    }
    for (name, source, streams) in device::GRAPHS {
        let run = move || device::named(name, source, *streams);
        trials.push(trial(format!("device::graph::{name}"), &driver, run));
    }
    for (name, test, place, libraries) in library::TESTS.iter().chain(timing::TESTS).chain(graph::TESTS) {
        trials.push(trial(format!("library::{name}"), &need::needs(*place, libraries), *test));
    }
    for (name, test, place, libraries) in fresh::TESTS {
        trials.push(trial(format!("fresh::{name}"), &need::needs(*place, libraries), *test));
    }
    let during = device::order::other_threads_may_work_during_a_capture;
    trials.push(trial("device::other_threads_may_work_during_a_capture", &standin, during));
    trials.push(trial("harness::a_late_copy_shows", &standin, device::order::a_late_copy_shows));
    trials.push(trial("device::errors_say_what_to_do", &standin, device::message::errors_say_what_to_do));
    let kept = device::stored::machine_code_and_plans_are_kept;
    trials.push(trial("device::machine_code_and_plans_are_kept", &standin, kept));
    trials.push(trial("device::mixed", &driver, device::mixed::mixed));
    let (stays, needs) = (
        resident::inputs_and_outputs_stay_on_the_device,
        resident::a_run_on_the_device_alone_needs_inputs_there,
    );
    trials.push(trial("device::resident::inputs_and_outputs_stay_on_the_device", &driver, stays));
    trials.push(trial("device::resident::a_run_on_the_device_alone_needs_inputs_there", &driver, needs));
    trials.push(trial("device::the_pipeline_mixes", &driver, device::mixed::the_pipeline_mixes));
    trials.push(trial("device::models_in_f16_fuse", &driver, device::model::models_in_f16_fuse));
    trials.push(trial(
        "device::copies_run_beside_kernels",
        &standin,
        device::order::copies_run_beside_kernels,
    ));
    trials.push(trial("harness::a_missing_wait_shows", &standin, device::order::a_missing_wait_shows));
    let stack = nvrtc::a_stack_and_spills_show;
    trials.push(need::nvrtc().trial("harness::a_stack_and_spills_show", stack));
    for (name, test) in [
        (
            "products_multiply_more_than_they_read",
            machine::products_multiply_more_than_they_read as fn() -> _,
        ),
        ("tensor_cores_are_fed", machine::tensor_cores_are_fed),
        ("vectors_are_whole", machine::vectors_are_whole),
    ] {
        let needs = vec![need::nvrtc(), need::disassembler()];
        trials.push(trial(format!("machine_code::mix::{name}"), &needs, test));
    }
    trials.push(Trial::test(
        "price::devices_have_the_speeds_of_their_data_sheets",
        price::devices_have_the_speeds_of_their_data_sheets,
    ));
    trials.push(trial("library::moves_are_counted", &standin, moves::moves_are_counted));
    trials.push(trial("library::attention_without_keys", &standin, moves::attention_without_keys));
    let told = price::the_driver_tells_the_properties;
    trials.push(trial("price::the_driver_tells_the_properties", &standin, told));
    trials.push(Trial::test("plan::chains_stay_on_the_device", plan::chains_stay_on_the_device));
    trials
        .push(Trial::test("plan::running_without_a_device_says_so", plan::running_without_a_device_says_so));
    trials.push(need::cxx().trial("harness::a_missing_barrier_shows", a_missing_barrier_shows));
    trials.push(need::cxx().trial("harness::a_wrong_index_shows", a_wrong_index_shows));
    trials
        .push(need::cxx().trial("harness::an_index_outside_an_array_shows", an_index_outside_an_array_shows));
    trials.push(Trial::test("text::snapshots", text::snapshots));
    trials.push(Trial::test("text::the_same_work_has_one_text", text::the_same_work_has_one_text));
    trials.push(Trial::test("text::does_not_depend_on_order", nvrtc::canonical));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Compares the kernels of a family with the reference, running the threads in two orders.
fn values(number: usize) -> Result<(), Failed> {
    let host = Host::open(host::family(&host::compiler()?, number));
    let cases = case::family(number);
    let mut wrong = Vec::new();
    for case in &cases {
        let job = case.job().map_err(|why| format!("{}: {why}", case.name()))?;
        let reference = case.reference();
        let operands: Vec<&Tensor> = case.operands.iter().collect();
        for backwards in [false, true] {
            let result = host.run(&job, &operands, &case.ty, backwards);
            if let Err(why) = result.and_then(|result| agrees(case, &result, &reference)) {
                let text: Vec<&str> = job.kernels.iter().map(|kernel| kernel.text.as_str()).collect();
                wrong.push(format!("{}: {why}\n{}", case.name(), text.join("\n")));
                break;
            }
        }
    }
    match wrong.len() {
        0 => Ok(()),
        count => {
            let shown = wrong.iter().take(4).map(String::as_str).collect::<Vec<_>>().join("\n");
            Err(format!("{count} of {} cases are wrong:\n{shown}", cases.len()).into())
        }
    }
}

/// Runs the transpose of a matrix with incomplete tiles after replacing a part of its text, and compares the
/// result.
fn changed(from: &str, to: &str) -> Result<Result<(), String>, Failed> {
    let compiler = host::compiler()?;
    let x = Random::new(7).tensor(DType::F32, &[40, 70]);
    let attrs = ovolo::attr::Attrs::new().ints("perm", &[1, 0]);
    let case = Case::new("transpose", attrs, vec![x]).ok_or("the op refuses")?;
    let mut job = case.job()?;
    let kernel = job.kernels.first_mut().ok_or("the op has no kernel")?;
    let text = kernel.text.replace(from, to);
    if text == kernel.text {
        return Err(format!("the kernel has no `{from}`").into());
    }
    kernel.text = text;
    let host = Host::new(&compiler, &format!("changed_{}", to.len()), &Module::new([&job]));
    let reference = case.reference();
    let mut outcome = Ok(());
    for backwards in [false, true] {
        let result = host.run(&job, &[&case.operands[0]], &case.ty, backwards);
        outcome = outcome.and(result.and_then(|result| agrees(&case, &result, &reference)));
    }
    Ok(outcome)
}

/// A missing barrier must show: values that are read before other threads have written them are wrong in one
/// of the thread orders.
fn a_missing_barrier_shows() -> Result<(), Failed> {
    match changed("__syncthreads();", ";")? {
        Ok(()) => Err("the kernel is right without its barrier".into()),
        Err(_) => Ok(()),
    }
}

/// An index that is off by one must show, at the edge too.
fn a_wrong_index_shows() -> Result<(), Failed> {
    match changed("y < 40u", "y < 39u")? {
        Ok(()) => Err("an unwritten row is not detected".into()),
        Err(_) => Ok(()),
    }
}

/// With the checks of the compiler, an index outside an array in shared memory ends the program, even where the bytes there
/// belong to the kernel as well.
fn an_index_outside_an_array_shows() -> Result<(), Failed> {
    if standin::part().is_some() {
        changed("square[32][33]", "square[32][31]")?.map_err(Failed::from)?;
        return Ok(());
    }
    let output = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["--exact", "harness::an_index_outside_an_array_shows", "--test-threads", "1"])
        .env(standin::PART, "wrong")
        .env(host::CHECKED, "1")
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("runtime error: index") {
        return Err(format!("{}: {said}", output.status).into());
    }
    Ok(())
}

/// Checks that every element equals the reference's within the rounding of its type, including padding.
fn agrees(case: &Case, result: &Tensor, reference: &Tensor) -> Result<(), String> {
    let (relative, absolute) = match case.ty.dtype {
        DType::F32 => (1e-4, 1e-5),
        DType::F16 => (4e-3, 2e-3),
        DType::BF16 => (2e-2, 1e-2),
        DType::F64 => (1e-10, 1e-11),
        _ => (0.0, 0.0),
    };
    // Results that are sums or products of many elements are rounded as often.
    let most = case.operands.iter().map(|operand| operand.ty().shape.count()).max().unwrap_or(1);
    let share = most as f64 / case.ty.shape.count().max(1) as f64;
    let def = case::ops().get(case.op).ok_or("the op is gone")?;
    let products = match def.meaning() {
        "matmul" | "conv" | "attention" => {
            let types: Vec<_> = case.operands.iter().map(Tensor::ty).collect();
            (def.flops)(&case.attrs, &types, &case.ty) / (2 * case.ty.shape.count().max(1)) as f64
        }
        _ => 1.0,
    };
    let absolute = absolute * share.max(products).max(1.0).sqrt();
    if result.bytes() == reference.bytes() {
        return Ok(());
    }
    let padding = result.to_layout(&ovolo::tensor::Layout::PLAIN).to_layout(&case.ty.layout);
    if padding.bytes() != result.bytes() {
        return Err("padding is not zero".into());
    }
    let pairs = result.to_f64().into_iter().zip(reference.to_f64());
    for (at, (a, b)) in pairs.enumerate() {
        let near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= absolute + relative * b.abs();
        if !near {
            return Err(format!("element {at} is {a} instead of {b}"));
        }
    }
    Ok(())
}
