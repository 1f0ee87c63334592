//! Descriptions of devices that the library accepts instead of a device, and a stand-in for the driver's library.

use super::super::descriptor::{AttributeValue, Descriptor, Failure, Library};
use crate::{cublaslt, cudnn, driver, nvrtc};
use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first version that accepts the description of a device.
const MIN_VERSION: usize = 90_800;

/// A device, by the numbers of its architecture's tables in the CUDA C++ Programming Guide and of its data sheet.
pub struct Description {
    /// The name.
    pub name: &'static str,
    /// 100 times the major version of the compute capability, and 10 times the minor version.
    version: u32,
    memory: u64,
    multiprocessors: u32,
    /// The most bytes of shared memory that a block may ask for.
    shared: u32,
    /// The most blocks and threads of a multiprocessor.
    blocks: u32,
    threads: u32,
    /// In kHz: the clocks of the multiprocessors and of the memory.
    clocks: [u32; 2],
    /// The width of the memory's bus, in bits.
    bus: u32,
    /// The bytes of the cache that all multiprocessors share.
    cache: u32,
}

pub const H100: Description = Description {
    name: "H100",
    version: 900,
    memory: 85_000_000_000,
    multiprocessors: 132,
    shared: 232_448,
    blocks: 32,
    threads: 2048,
    clocks: [1_980_000, 2_619_000],
    bus: 5120,
    cache: 52_428_800,
};

pub const A100: Description = Description {
    name: "A100",
    version: 800,
    memory: 85_000_000_000,
    multiprocessors: 108,
    shared: 166_912,
    blocks: 32,
    threads: 2048,
    clocks: [1_410_000, 1_593_000],
    bus: 5120,
    cache: 41_943_040,
};

pub const RTX_4090: Description = Description {
    name: "RTX 4090",
    version: 890,
    memory: 25_300_000_000,
    multiprocessors: 128,
    shared: 101_376,
    blocks: 24,
    threads: 1536,
    clocks: [2_520_000, 10_501_000],
    bus: 384,
    cache: 75_497_472,
};

impl Description {
    /// Returns the descriptor of the device.
    ///
    /// # Errors
    /// If the library does not accept the description.
    pub fn descriptor(&self, with: Library) -> Result<Descriptor, Failure> {
        let device = with.create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        let text = self.text();
        let value = AttributeValue::Text(text.as_bytes());
        with.set(&device, Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, value)?;
        with.finish(&device, "a device")?;
        Ok(device)
    }

    /// Returns the description in the library's format.
    fn text(&self) -> String {
        let Self { version, memory, multiprocessors, shared, blocks, threads, clocks, bus, cache, .. } = self;
        let [clock, memory_clock] = clocks;
        format!(
            r#"{{
    "deviceName": "a device", "deviceVer": {version}, "driverVer": 12080, "cudaDeviceId": 0, "pciDeviceId": 0,
    "totalGlobalMem": {memory}, "multiProcessorCount": {multiprocessors}, "smCountOrigin": 0, "warpSize": 32,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {shared}, "oversizedSharedMemoryPerBlock": 0,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": {blocks},
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": {threads}, "isTccDriver": 0, "supportCoopLaunch": 1,
    "smClockRateKHz": {clock}, "memClockRateKHz": {memory_clock}, "memoryBusWidth": {bus}, "l2CacheSize": {cache}
}}"#
        )
    }
}

/// Opens the library, with the stand-in for the driver if there is no driver. Panics if something is absent.
pub fn library() -> Library {
    // cuDNN opens these libraries by name when it needs them.
    let others = (driver::opened().is_ok(), nvrtc::compiler().is_ok(), cublaslt::opened().is_ok());
    let ready = if others.0 { Ok(()) } else { stand_in() };
    let found = cudnn::opened().unwrap_or_else(|why| panic!("cuDNN is {why}"));
    assert!(found.calls.version() >= MIN_VERSION, "cuDNN 9.8 is needed, but found {found}");
    assert!(ready.is_ok() && others.1 && others.2, "driver, NVRTC, cuBLASLt: {ready:?}, {others:?}");
    Library::new(&found.calls).expect("the library has graphs")
}

/// A stand-in for the driver's library, whose functions do nothing. The library calls them to load the kernels that
/// it compiles.
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

/// Compiles and opens the stand-in for the driver's library.
fn stand_in() -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("ovolo-cudnn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let object = folder.join("libcuda.so.1");
    let compiled = ["c++", "g++", "clang++"].iter().find_map(|compiler| compiled(compiler, &object).ok());
    let opened = match compiled {
        // SAFETY: the library has just been compiled from the text above and has no initialisers.
        Some(true) => unsafe { open(&object) },
        Some(false) => Err("the stand-in for the driver does not compile".to_owned()),
        None => Err("no C++ compiler was found".to_owned()),
    };
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    opened
}

/// Compiles the stand-in. Returns whether the compiler succeeded, or an error if it cannot be started.
fn compiled(compiler: &str, object: &Path) -> std::io::Result<bool> {
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-x", "c++", "-", "-o"]);
    let mut child = command.arg(object).stdin(Stdio::piped()).spawn()?;
    if let Some(mut source) = child.stdin.take() {
        source.write_all(DRIVER.as_bytes())?;
    }
    Ok(child.wait()?.success())
}

/// Opens a library such that other libraries find its symbols, until the process ends.
///
/// # Safety
/// The library's initialisers must be safe to run.
unsafe fn open(path: &Path) -> Result<(), String> {
    // SAFETY: as the caller promises.
    let library = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    std::mem::forget(library.map_err(|error| error.to_string())?);
    Ok(())
}
