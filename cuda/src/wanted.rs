//! How the libraries of NVIDIA are found at run time: nothing is linked.
//!
//! Each is looked for where its variable says (a file or a folder), and nowhere else then; otherwise beside
//! the build folder that this program lies in, in the folder of a CUDA toolkit, and where the system looks.
//! What is called of it is looked up then, so that a library which lacks something is refused here.

use super::calls::Calls;
use libloading::Library;
use std::ffi::OsStr;
use std::fmt;
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
pub(super) const DRIVER: Wanted = Wanted {
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

/// Convolutions.
pub(super) const CUDNN: Wanted = Wanted {
    title: "cuDNN",
    variable: "OVOLO_CUDNN",
    files: &["libcudnn.so.9", "libcudnn.so"],
    beside: Some("cudnn"),
    remedy: "run `cargo xtask cuda-libraries`, or install cuDNN 9 and set OVOLO_CUDNN",
};

/// Matrix products.
pub(super) const CUBLASLT: Wanted = Wanted {
    title: "cuBLASLt",
    variable: "OVOLO_CUBLASLT",
    files: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
    beside: Some("cublas"),
    remedy: "run `cargo xtask cuda-libraries`, or install a CUDA toolkit and set OVOLO_CUBLASLT",
};

/// A library that is open, for as long as the process lasts.
pub(super) struct Opened<T> {
    /// Its version: `12.8.4`.
    pub version: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its functions.
    pub calls: T,
}

impl<T> fmt::Display for Opened<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path.display())
    }
}

/// What came of looking for a library, once.
pub(super) type Once<T> = OnceLock<Result<Opened<T>, String>>;

impl Wanted {
    /// Opens the library at the first of its places that has one, for as long as the process lasts.
    ///
    /// # Errors
    /// Where it was looked for, and what was wrong with what was there.
    pub(super) fn open<T: Calls>(&self) -> Result<(PathBuf, T), String> {
        let named = std::env::var_os(self.variable).filter(|value| !value.is_empty());
        let program = std::env::current_exe().unwrap_or_default();
        let toolkit = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(std::env::var_os).map(PathBuf::from);
        let mut tried = Vec::new();
        for place in self.places(named.as_deref(), &program, toolkit.as_deref()) {
            match load(&place) {
                Ok(calls) => return Ok((place, calls)),
                Err(error) => tried.push(error),
            }
        }
        Err(format!("not found ({})", tried.join("; ")))
    }

    /// The same, at the first call, where it answers a version that will do; otherwise why it does not, and what to
    /// do.
    pub(super) fn once<T: Calls>(
        &self,
        found: &'static Once<T>,
        version: impl FnOnce(&Path, &T) -> Result<String, String>,
    ) -> Result<&'static Opened<T>, String> {
        let open = || {
            let (path, calls) = self.open::<T>()?;
            let version = version(&path, &calls)?;
            Ok(Opened { version, path, calls })
        };
        let found = found.get_or_init(|| open().map_err(|why: String| format!("{why}; {}", self.remedy)));
        found.as_ref().map_err(Clone::clone)
    }

    /// The same of a library that tells its version as one number, and has one of these major ones.
    pub(super) fn numbered<T: Calls>(
        &self,
        found: &'static Once<T>,
        supported: &[usize],
        version: impl FnOnce(&T) -> usize,
    ) -> Result<&'static Opened<T>, String> {
        self.once(found, |path, calls| {
            let version = version(calls);
            let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
            if supported.contains(&major) {
                return Ok(format!("{major}.{minor}.{patch}"));
            }
            let supported: Vec<String> = supported.iter().map(ToString::to_string).collect();
            Err(format!(
                "{}: {} of version {major}.{minor}.{patch} (it answers {version}), and {} is supported",
                path.display(),
                self.title,
                supported.join(" or ")
            ))
        })
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

/// Opens a library, finds its functions, and leaves it open.
fn load<T: Calls>(place: &Path) -> Result<T, String> {
    // SAFETY: loading a library runs its initialisers; the user chose this one, or the system has it.
    let library = unsafe { Library::new(place) }.map_err(|error| error.to_string())?;
    let calls = T::find(&library).map_err(|error| format!("{}: {error}", place.display()))?;
    std::mem::forget(library);
    Ok(calls)
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
        let error = nowhere.open::<crate::driver::Calls>().err().unwrap_or_default();
        assert!(error.starts_with("not found (") && error.contains("libnowhere.so"), "{error}");
    }

    #[test]
    fn otherwise_the_system_is_asked_last() {
        let places = NVRTC.places(None, Path::new("/b/release/x"), None);
        assert!(places.ends_with(&NVRTC.files.iter().map(PathBuf::from).collect::<Vec<_>>()), "{places:?}");
    }
}
