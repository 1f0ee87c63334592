//! The libraries of NVIDIA, found at run time: nothing is linked.
//!
//! Each is looked for where its variable says (a file or a folder), and nowhere else then; otherwise beside
//! the build folder that this program lies in, in the folder of a CUDA toolkit, and where the system looks.
//! The binding finds a library by its name alone, and panics where it finds none: so it is opened here
//! first, and then there under its name.

use cudarc::{cublaslt, cudnn, driver};
use libloading::Library;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library: how it is named, where it may be, and what to do where it is not.
pub(super) struct Wanted {
    /// What people call it.
    pub title: &'static str,
    /// The variable that names a file or a folder.
    pub variable: &'static str,
    /// Its files, the newest first.
    pub files: &'static [&'static str],
    /// A folder beside the build folder.
    pub beside: Option<&'static str>,
    /// What to do where it is not there.
    pub remedy: &'static str,
}

/// The driver.
const DRIVER: Wanted = Wanted {
    title: "driver",
    variable: "OVOLO_CUDA_DRIVER",
    files: &["libcuda.so.1", "libcuda.so"],
    beside: None,
    remedy: "install NVIDIA's driver, 525 or newer, on a machine with one of its devices",
};

/// The run-time compiler.
pub(super) const NVRTC: Wanted = Wanted {
    title: "NVRTC",
    variable: "OVOLO_NVRTC",
    files: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    beside: Some("nvrtc"),
    remedy: "run `cargo xtask nvrtc`, or install a CUDA toolkit and set OVOLO_NVRTC",
};

/// What is called of the driver: the binding panics where one is missing, so they are asked for first.
const ENTRIES: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

/// Convolutions.
const CUDNN: Wanted = Wanted {
    title: "cuDNN",
    variable: "OVOLO_CUDNN",
    files: &["libcudnn.so.9", "libcudnn.so"],
    beside: None,
    remedy: "install cuDNN 9, or the wheel `nvidia-cudnn`, and set OVOLO_CUDNN",
};

/// Matrix products.
const CUBLASLT: Wanted = Wanted {
    title: "cuBLASLt",
    variable: "OVOLO_CUBLASLT",
    files: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
    beside: None,
    remedy: "install a CUDA toolkit, or the wheel `nvidia-cublas`, and set OVOLO_CUBLASLT",
};

/// What is called of cuBLASLt, as of the driver.
const CUBLASLT_ENTRIES: &[&str] = &[
    "cublasLtGetVersion",
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmul",
];

/// What is called of cuDNN.
const CUDNN_ENTRIES: &[&str] = &[
    "cudnnGetVersion",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnSetStream",
    "cudnnCreateTensorDescriptor",
    "cudnnDestroyTensorDescriptor",
    "cudnnSetTensor4dDescriptor",
    "cudnnCreateFilterDescriptor",
    "cudnnDestroyFilterDescriptor",
    "cudnnSetFilter4dDescriptor",
    "cudnnCreateConvolutionDescriptor",
    "cudnnDestroyConvolutionDescriptor",
    "cudnnSetConvolution2dDescriptor",
    "cudnnSetConvolutionGroupCount",
    "cudnnSetConvolutionMathType",
    "cudnnCreateActivationDescriptor",
    "cudnnDestroyActivationDescriptor",
    "cudnnSetActivationDescriptor",
    "cudnnGetConvolutionForwardWorkspaceSize",
    "cudnnConvolutionForward",
    "cudnnConvolutionBiasActivationForward",
    "cudnnAddTensor",
];

/// A library that is open.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    /// Its version: `12.8.4`.
    pub version: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// What was found of one library, with its version; or why it is not there, and what to do.
pub type Found = (&'static str, Result<String, String>);

/// Every library that the backend uses, and what was found of it.
pub fn libraries() -> Vec<Found> {
    let found = |wanted: &Wanted, what: Result<String, String>| {
        (wanted.title, what.map_err(|why| format!("{why}; {}", wanted.remedy)))
    };
    let opened = |one: Opened| format!("{} ({})", one.version, one.path.display());
    vec![
        (DRIVER.title, driver()),
        found(&NVRTC, super::nvrtc::compiler().map(|compiler| format!("{compiler:?}")).map_err(Clone::clone)),
        (CUDNN.title, cudnn().map(opened)),
        (CUBLASLT.title, cublaslt().map(opened)),
    ]
}

/// The driver with its devices, looked for at the first call; or why there is none, and what to do.
pub(super) fn driver() -> Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    FOUND.get_or_init(|| driver_version().map_err(|why| format!("{why}; {}", DRIVER.remedy))).clone()
}

/// The driver's version and devices.
fn driver_version() -> Result<String, String> {
    let path = DRIVER.open(ENTRIES)?;
    let (mut version, mut count) = (0, 0);
    let said = |what: &str, code: driver::sys::CUresult| match code {
        driver::sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(format!("{}: {what} says {code:?}", path.display())),
    };
    // SAFETY: the library is open and the functions are in every version; the pointers are to locals.
    unsafe {
        said("cuInit", driver::sys::cuInit(0))?;
        said("cuDriverGetVersion", driver::sys::cuDriverGetVersion(&raw mut version))?;
        said("cuDeviceGetCount", driver::sys::cuDeviceGetCount(&raw mut count))?;
    }
    if count == 0 {
        return Err(format!("{}: there is no device", path.display()));
    }
    Ok(format!("CUDA {}.{}, {count} device(s) ({})", version / 1000, version % 1000 / 10, path.display()))
}

/// cuDNN, looked for at the first call; or why it is not there, and what to do.
pub(super) fn cudnn() -> Result<Opened, String> {
    static FOUND: OnceLock<Result<Opened, String>> = OnceLock::new();
    let open = || {
        let path = CUDNN.open(CUDNN_ENTRIES)?;
        // SAFETY: it only asks the system for libraries.
        if !unsafe { cudnn::sys::is_culib_present() } {
            return Err(format!("{}: the binding does not find it under its name", path.display()));
        }
        // SAFETY: the library is open, and the function takes nothing and gives a number.
        let version = unsafe { cudnn::sys::cudnnGetVersion() };
        if version / 10_000 != 9 {
            return Err(format!("{}: cuDNN of version {version}, and 9 is supported", path.display()));
        }
        let version = format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        Ok(Opened { version, path })
    };
    FOUND.get_or_init(|| open().map_err(|why| format!("{why}; {}", CUDNN.remedy))).clone()
}

/// What the device's times depend on: the driver's version, and the device; not where they lie.
pub(super) fn driver_identity() -> Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    let ask = || {
        driver()?;
        let mut version = 0;
        // SAFETY: the driver is open, and writes a number.
        unsafe { driver::sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(|error| super::driver::said("cuDriverGetVersion", error))?;
        Ok(format!("CUDA {}.{} on {}", version / 1000, version % 1000 / 10, device()?))
    };
    FOUND.get_or_init(ask).clone()
}

/// The device: what it is called, and its architecture.
pub(super) fn device() -> Result<String, String> {
    let context = super::driver::Context::new()?;
    Ok(format!("{} {}", context.name()?, context.architecture()?))
}

/// Whether an op is a copy to the device or from it.
pub(super) fn copies(op: &str) -> bool {
    matches!(op, "cuda.upload" | "cuda.download")
}

/// cuBLASLt, looked for at the first call; or why it is not there, and what to do.
pub(super) fn cublaslt() -> Result<Opened, String> {
    static FOUND: OnceLock<Result<Opened, String>> = OnceLock::new();
    let open = || {
        let path = CUBLASLT.open(CUBLASLT_ENTRIES)?;
        // SAFETY: it only asks the system for libraries.
        if !unsafe { cublaslt::sys::is_culib_present() } {
            return Err(format!("{}: the binding does not find it under its name", path.display()));
        }
        // SAFETY: the library is open, and the function takes nothing and gives a number.
        let version = unsafe { cublaslt::sys::cublasLtGetVersion() };
        if !matches!(version / 10_000, 12 | 13) {
            return Err(format!(
                "{}: cuBLASLt {}, and 12 and 13 are supported",
                path.display(),
                version / 10_000
            ));
        }
        let version = format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        Ok(Opened { version, path })
    };
    FOUND.get_or_init(|| open().map_err(|why| format!("{why}; {}", CUBLASLT.remedy))).clone()
}

impl Wanted {
    /// Opens the library at the first of its places that has one, for as long as the process lasts.
    ///
    /// # Errors
    /// Where it was looked for, and what was wrong with what was there.
    pub(super) fn open(&self, functions: &[&str]) -> Result<PathBuf, String> {
        let named = std::env::var_os(self.variable).filter(|value| !value.is_empty());
        let program = std::env::current_exe().unwrap_or_default();
        let toolkit = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(std::env::var_os).map(PathBuf::from);
        let mut tried = Vec::new();
        for place in self.places(named.as_deref(), &program, toolkit.as_deref()) {
            match load(&place, functions) {
                Ok(()) => return Ok(place),
                Err(error) => tried.push(error),
            }
        }
        Err(format!("not found ({})", tried.join("; ")))
    }

    /// Where to look, in order.
    fn places(&self, named: Option<&OsStr>, program: &Path, toolkit: Option<&Path>) -> Vec<PathBuf> {
        if let Some(named) = named {
            let path = Path::new(named);
            if !path.is_dir() {
                return vec![path.to_owned()];
            }
            let inside = [path.to_owned(), path.join("lib"), path.join("lib64")];
            let files = inside.iter().flat_map(|folder| self.files.iter().map(|file| folder.join(file)));
            let there: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
            return if there.is_empty() { vec![path.join(self.files[0])] } else { there };
        }
        // A program of the build lies up to three folders below it.
        let beside = self.beside.into_iter().flat_map(|name| {
            program.ancestors().skip(2).take(3).map(move |folder| folder.join(name)).collect::<Vec<_>>()
        });
        let toolkit = toolkit.map(|folder| folder.join("lib64")).into_iter();
        let usual = std::iter::once(PathBuf::from("/usr/local/cuda/lib64"));
        let folders: Vec<PathBuf> = beside.chain(toolkit).chain(usual).collect();
        let files = folders.iter().flat_map(|folder| self.files.iter().map(|file| folder.join(file)));
        files.filter(|file| file.exists()).chain(self.files.iter().map(PathBuf::from)).collect()
    }
}

/// Opens a library that has these functions, and leaves it open.
fn load(place: &Path, functions: &[&str]) -> Result<(), String> {
    // SAFETY: loading a library runs its initialisers; the user chose this one, or the system has it.
    let library = unsafe { Library::new(place) }.map_err(|error| error.to_string())?;
    for function in functions {
        // SAFETY: the function is only looked for.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(function.as_bytes()) };
        found.map_err(|error| format!("{}: {error}", place.display()))?;
    }
    std::mem::forget(library);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_place_is_the_only_one() {
        let places = |named: &str| NVRTC.places(Some(OsStr::new(named)), Path::new("/b/release/x"), None);
        assert_eq!(places("/no/such/libnvrtc.so"), [PathBuf::from("/no/such/libnvrtc.so")]);
        let folder = std::env::temp_dir();
        assert_eq!(places(&folder.to_string_lossy()), [folder.join("libnvrtc.so.13")]);
        let nowhere = Wanted { files: &["libnowhere.so"], beside: None, ..NVRTC };
        let error = nowhere.open(&["nothing"]).err().unwrap_or_default();
        assert!(error.starts_with("not found (") && error.contains("libnowhere.so"), "{error}");
    }

    #[test]
    fn otherwise_the_system_is_asked_last() {
        let places = NVRTC.places(None, Path::new("/b/release/x"), None);
        assert!(places.ends_with(&NVRTC.files.iter().map(PathBuf::from).collect::<Vec<_>>()), "{places:?}");
    }
}
