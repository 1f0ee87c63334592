//! What the library itself says of graphs, where it is found: it makes plans for a device that is described to it, and
//! needs none for that. It is asked in a process of its own, as it wants a library named like the driver's.

use super::descriptor::{Descriptor, Library, Value};
use super::engine::{Engines, Target};
use crate::{library, nvrtc};
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::op;
use ovolo::op::Call;
use ovolo::tensor::{DType, Device, Layout, TensorType};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Says to the process that it is the one to ask the library.
const ASKING: &str = "OVOLO_TEST_ASKS_CUDNN";
/// The first version that a device can be described to.
const DESCRIBED: usize = 90_800;

/// A device's description, in the library's words: of an H100.
const DEVICE: &str = r#"{
    "deviceName": "a device", "deviceVer": 900, "driverVer": 12080, "cudaDeviceId": 0, "pciDeviceId": 0,
    "totalGlobalMem": 85000000000, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "l2CacheSize": 52428800
}"#;

/// A stand-in for the driver's library, whose functions do nothing: the library loads what it compiles by them.
const DRIVER: &str = r#"
static int one[64];
#define GIVES(name) extern "C" int name(void** to) { if (to) *to = one; return 0; }
#define DOES(name) extern "C" int name() { return 0; }
GIVES(cuLibraryLoadData) GIVES(cuLibraryLoadFromFile) GIVES(cuLibraryGetKernel) GIVES(cuKernelGetFunction)
GIVES(cuModuleLoadData) GIVES(cuModuleGetFunction)
DOES(cuLibraryUnload) DOES(cuModuleUnload) DOES(cuKernelSetAttribute) DOES(cuTensorMapEncodeIm2col)
DOES(cuTensorMapEncodeTiled) DOES(cuCtxGetCurrent) DOES(cuCtxGetLimit) DOES(cuCtxPopCurrent) DOES(cuCtxPushCurrent)
DOES(cuStreamGetCtx) DOES(cuLinkCreate) DOES(cuLinkAddData) DOES(cuLinkComplete) DOES(cuLinkDestroy)
DOES(cuLaunchKernel) DOES(cuLaunchCooperativeKernel) DOES(cuLaunchKernelEx) DOES(cuOccupancyMaxPotentialClusterSize)
extern "C" int cuKernelGetAttribute(int* to) { if (to) *to = 0; return 0; }
extern "C" int cuDriverGetVersion(int* to) { *to = 12080; return 0; }
extern "C" int cuDeviceGetCount(int* to) { *to = 0; return 0; }
extern "C" int cuDeviceGet(int* to) { *to = 0; return 100; }
extern "C" int cuGetErrorString(int, const char** to) { *to = "an error"; return 0; }
extern "C" int cuGetErrorName(int, const char** to) { *to = "AN_ERROR"; return 0; }
"#;

#[test]
fn the_library_makes_plans_of_graphs() {
    if std::env::var_os(ASKING).is_some() {
        return ask();
    }
    let test = "cudnn::graph::test::the_library_makes_plans_of_graphs";
    let program = std::env::current_exe().expect("a test has a path");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(ASKING, "1")
        .output()
        .expect("a test runs again");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test was not found: {test}");
}

/// Compiles and opens the stand-in for the driver's library.
fn driver() -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("ovolo-cudnn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let object = folder.join("libcuda.so.1");
    let compiled = ["c++", "g++", "clang++"].iter().find_map(|compiler| compiled(compiler, &object).ok());
    let opened = match compiled {
        // SAFETY: the library was compiled just now, and has no initialisers.
        Some(true) => unsafe { open(&object) },
        Some(false) => Err("the stand-in for the driver does not compile".to_owned()),
        None => Err("there is no C++ compiler".to_owned()),
    };
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    opened
}

/// Compiles it by a compiler, where that is there; whether it could.
fn compiled(compiler: &str, object: &Path) -> std::io::Result<bool> {
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-x", "c++", "-", "-o"]);
    let mut child = command.arg(object).stdin(Stdio::piped()).spawn()?;
    if let Some(mut source) = child.stdin.take() {
        source.write_all(DRIVER.as_bytes())?;
    }
    Ok(child.wait()?.success())
}

/// Opens a library for all others to find, for as long as the process lasts.
///
/// # Safety
/// Its initialisers may run.
unsafe fn open(path: &Path) -> Result<(), String> {
    // SAFETY: the caller's promise.
    let library = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    std::mem::forget(library.map_err(|error| error.to_string())?);
    Ok(())
}

fn chain(steps: &[(&'static str, &[f64])]) -> Attr {
    let one = |(op, parameters): &(&'static str, &[f64])| Step {
        op,
        parameters: parameters.iter().map(|parameter| Float(*parameter)).collect(),
    };
    Attr::Post(steps.iter().map(one).collect())
}

/// What is asked of the library: the op, its attributes, and its operands.
struct Asked(&'static str, Attrs, Vec<TensorType>);

fn convolution(
    dtype: DType,
    layout: &str,
    groups: usize,
    tf32: bool,
    steps: &[(&'static str, &[f64])],
) -> Asked {
    let layout: Layout = layout.parse().expect("a layout");
    let image = |shape: [usize; 4]| TensorType::plain(dtype, shape).with_layout(layout.clone());
    let mut operands =
        vec![image([8, 64, 28, 28]), image([64, 64 / groups, 3, 3]), TensorType::plain(dtype, [64])];
    let binary = steps.iter().filter(|step| ["add", "mul"].contains(&step.0));
    operands.extend(binary.map(|_| image([8, 64, 28, 28])));
    let attrs = Attrs::new()
        .ints("pads", &[1; 4])
        .int("groups", groups as i64)
        .int("tf32", i64::from(tf32))
        .with("post", chain(steps));
    Asked("cudnn.conv-graph", attrs, operands)
}

fn attention(dtype: DType, [length, depth, width]: [usize; 3], mask: Option<&[usize]>) -> Asked {
    let mut operands: Vec<TensorType> = [[2, 12, 77, depth], [2, 12, length, depth], [2, 12, length, width]]
        .map(|shape| TensorType::plain(dtype, shape))
        .to_vec();
    operands.extend(mask.map(|mask| TensorType::plain(dtype, mask)));
    Asked("cudnn.attention", Attrs::new().float("scale", 0.125), operands)
}

/// Asks for the engines of graphs, and has the first of each made ready.
fn ask() {
    // It looks for these by their names when it needs them.
    let others = (library::driver().is_ok(), nvrtc::compiler().is_ok(), library::cublaslt().is_ok());
    let ready = if others.0 { Ok(()) } else { driver() };
    let found = match (library::cudnn(), ready) {
        (Ok(found), Ok(())) if others.1 && others.2 && found.calls.version() >= DESCRIBED => found,
        (Ok(found), ready) => {
            println!(
                "skipped: {found} needs NVRTC, cuBLASLt and a C++ compiler, and to be 9.8: {ready:?}, {others:?}"
            );
            return;
        }
        (Err(why), _) => {
            println!("skipped: what cuDNN says of graphs, which is {why}");
            return;
        }
    };
    let with = Library::new(&found.calls).expect("the library has graphs");
    let device = described(with).map_err(|failure| failure.text).expect("a device is described");
    let target = Target::Described(&device);
    let (h, b, f) = (DType::F16, DType::BF16, DType::F32);
    let mut asked = Vec::new();
    for dtype in [h, b, f] {
        for layout in ["plain", "nhwc"] {
            for groups in [1, 4, 64] {
                asked.push(convolution(dtype, layout, groups, false, &[]));
                asked.push(convolution(dtype, layout, groups, false, &[("add", &[]), ("relu", &[])]));
            }
        }
        asked.push(convolution(dtype, "nhwc", 1, dtype == f, &[("silu", &[])]));
    }
    asked.push(convolution(f, "nhwc", 1, false, &[("silu", &[])]));
    asked.push(convolution(f, "plain", 1, true, &[("relu", &[])]));
    for steps in [
        &[("clip", &[0.0, 6.0][..])][..],
        &[("hard-swish", &[])],
        &[("mish", &[])],
        &[("sigmoid", &[]), ("mul", &[])],
        &[("leaky-relu", &[0.1]), ("hard-sigmoid", &[0.2, 0.4])],
        &[("gelu", &[])],
        &[("gelu-tanh", &[])],
        &[("tanh", &[])],
        &[("elu", &[1.0])],
        &[("softplus", &[])],
        &[("add", &[]), ("relu", &[]), ("add", &[])],
    ] {
        asked.push(convolution(h, "nhwc", 1, false, steps));
    }
    asked.push(convolution(h, "nhwc", 64, false, &[("silu", &[])]));
    if found.calls.version() >= super::SOFTMAX {
        for dtype in [h, b] {
            asked.push(attention(dtype, [77, 64, 64], None));
        }
        for mask in [&[77, 50][..], &[2, 1, 1, 50], &[2, 12, 77, 50], &[]] {
            asked.push(attention(h, [50, 64, 64], Some(mask)));
        }
        for sizes in [[50, 8, 8], [33, 128, 128], [64, 256, 256], [64, 64, 32]] {
            asked.push(attention(h, sizes, None));
        }
    }
    let mut wrong = Vec::new();
    for one in &asked {
        match answered(with, target, one) {
            Ok(said) => println!("{said}"),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), asked.len(), wrong.join("\n"));
}

/// The device of the description.
fn described(with: Library) -> Result<Descriptor, super::descriptor::Failure> {
    let device = with.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
    with.set(&device, Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Value::Text(DEVICE))?;
    with.finish(&device, "a device")?;
    Ok(device)
}

/// How many engines there are, and that the first can be made ready with the scratch that it says.
fn answered(
    with: Library,
    target: Target<'_>,
    Asked(name, attrs, operands): &Asked,
) -> Result<String, String> {
    let def = crate::fixture::ops().get(name).ok_or("there is no such op")?;
    let attrs = op::complete(def, attrs.clone());
    let there = |ty: &TensorType| TensorType { device: Device::Accelerator(crate::FAMILY, 0), ..ty.clone() };
    let types: Vec<TensorType> = operands.iter().map(there).collect();
    let types: Vec<&TensorType> = types.iter().collect();
    let output = def.result(&attrs, &types).map_err(|why| why.to_string())?;
    let call = Call { op: def, attrs: &attrs, inputs: &types, output: &output, threads: 1 };
    let title = format!("{name}{attrs} of {}", operands[0]);
    let said = |why: String| format!("{title}: {why}");
    let graph = super::graph(&call).map_err(said)?;
    let engines = Engines::new(target, with, &graph).map_err(|failure| said(failure.text))?;
    if engines.list.is_empty() {
        return Err(said("there is no engine".to_owned()));
    }
    let (_plan, wanted) = engines.plan(target, with, 0).map_err(|failure| said(failure.text))?;
    let named = engines.list[0].workspace;
    if named.is_some_and(|named| named < wanted) || wanted > super::most(&call) {
        return Err(said(format!(
            "it wants {wanted} bytes, said {named:?}, and has at most {}",
            super::most(&call)
        )));
    }
    Ok(format!("{title}: {} engine(s), {wanted} bytes", engines.list.len()))
}
