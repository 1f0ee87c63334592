//! Search for NVIDIA's libraries at run time. Nothing is linked.
//!
//! If the environment variable of a library names a file or a directory, only that is tried. Otherwise the search
//! covers a directory beside the build directory of this program, the directory of a CUDA toolkit, the places where the
//! system searches for libraries, and the directories of Python packages. All functions are loaded at once, so a library that lacks one is refused
//! here.

mod python;

use super::calls::Calls;
use libloading::Library;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library: its names, where it may be, and what the user can do if it is absent.
pub(super) struct Wanted {
    /// The usual name of the library.
    pub title: &'static str,
    /// The environment variable that names a file or a directory.
    pub variable: &'static str,
    /// The file names, newest first.
    pub files: &'static [&'static str],
    /// A directory beside the build directory.
    pub beside: Option<&'static str>,
    /// What the user can do if the library is absent.
    pub remedy: &'static str,
}

/// The driver.
pub(super) const DRIVER: Wanted = Wanted {
    title: "driver",
    variable: "OVOLO_CUDA_DRIVER",
    files: &["libcuda.so.1", "libcuda.so"],
    beside: None,
    remedy: "install NVIDIA's driver, 525 or newer, on a machine with an NVIDIA device",
};

/// The run-time compiler.
pub(super) const NVRTC: Wanted = Wanted {
    title: "NVRTC",
    variable: "OVOLO_NVRTC",
    files: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    beside: Some("nvrtc"),
    remedy: "run `cargo xtask nvrtc`, install the Python package `nvidia-cuda-nvrtc`, or install a CUDA toolkit and set OVOLO_NVRTC",
};

/// The library for convolutions and attention.
pub(super) const CUDNN: Wanted = Wanted {
    title: "cuDNN",
    variable: "OVOLO_CUDNN",
    files: &["libcudnn.so.9", "libcudnn.so"],
    beside: Some("cudnn"),
    remedy: "run `cargo xtask cuda-libraries`, install the Python package `nvidia-cudnn-cu13`, or install cuDNN 9 and set OVOLO_CUDNN",
};

/// The library for matrix products.
pub(super) const CUBLASLT: Wanted = Wanted {
    title: "cuBLASLt",
    variable: "OVOLO_CUBLASLT",
    files: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
    beside: Some("cublas"),
    remedy: "run `cargo xtask cuda-libraries`, install the Python package `nvidia-cublas`, or install a CUDA toolkit and set OVOLO_CUBLASLT",
};

/// A library that stays open until the process ends.
pub(super) struct Opened<T> {
    /// The version, such as `12.8.4`.
    pub version: String,
    /// The path of the library.
    pub path: PathBuf,
    /// The functions of the library.
    pub calls: T,
}

impl<T> fmt::Display for Opened<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path.display())
    }
}

/// The result of a search that runs once.
pub(super) type Once<T> = OnceLock<Result<Opened<T>, String>>;

impl Wanted {
    /// Opens the library at the first place where it can be opened and is accepted, until the process ends. Returns
    /// what `accept` returned as well.
    ///
    /// # Errors
    /// The places and the reasons why the library was opened at none of them.
    pub(super) fn open<T: Calls, V>(
        &self,
        accept: impl Fn(&T) -> Result<V, String>,
    ) -> Result<(PathBuf, T, V), Vec<String>> {
        let named = std::env::var_os(self.variable).filter(|value| !value.is_empty());
        let program = std::env::current_exe().unwrap_or_default();
        let toolkit = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(std::env::var_os).map(PathBuf::from);
        let mut tried = Vec::new();
        let usual = self.places(named.as_deref(), &program, toolkit.as_deref());
        let packages = || if named.is_none() { self.packages() } else { Vec::new() };
        for place in usual.into_iter().chain(std::iter::once_with(packages).flatten()) {
            let opened = load::<T>(&place).and_then(|(library, calls)| {
                let version = accept(&calls).map_err(|why| format!("{}: {why}", place.display()))?;
                std::mem::forget(library);
                Ok((calls, version))
            });
            match opened {
                Ok((calls, version)) => return Ok((place, calls, version)),
                Err(error) => tried.push(error),
            }
        }
        Err(tried)
    }

    /// Says that the library is absent: the places where it was searched for, and what the user can do.
    pub(super) fn absence(&self, tried: &[String]) -> String {
        format!("not found ({}); {}", tried.join("; "), self.remedy)
    }

    /// Opens the library at the first call. `version` accepts one by returning its version. The error also says what the
    /// user can do.
    pub(super) fn once<T: Calls>(
        &self,
        found: &'static Once<T>,
        version: impl Fn(&T) -> Result<String, String>,
    ) -> Result<&'static Opened<T>, String> {
        let open = || {
            let (path, calls, version) =
                self.open::<T, String>(version).map_err(|tried| self.absence(&tried))?;
            Ok(Opened { version, path, calls })
        };
        found.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// As [`Wanted::once`], for a library that reports its version as one number. Its major version must be one of
    /// `supported`, and `fits`, which is also given its title and version, must accept it.
    pub(super) fn numbered<T: Calls>(
        &self,
        found: &'static Once<T>,
        supported: &[usize],
        version: impl Fn(&T) -> usize,
        fits: impl Fn(&T, &str) -> Result<(), String>,
    ) -> Result<&'static Opened<T>, String> {
        self.once(found, |calls| {
            let version = version(calls);
            let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
            let text = format!("{major}.{minor}.{patch}");
            if !supported.contains(&major) {
                let supported: Vec<String> = supported.iter().map(ToString::to_string).collect();
                return Err(format!(
                    "{} has version {text} (it reports {version}), but only {} is supported",
                    self.title,
                    supported.join(" or ")
                ));
            }
            fits(calls, &format!("{} {text}", self.title))?;
            Ok(text)
        })
    }

    /// Returns the files of the library in the directories of Python packages.
    fn packages(&self) -> Vec<PathBuf> {
        let home = std::env::home_dir();
        let folders = python::folders(std::env::var_os("PATH").as_deref(), home.as_deref());
        let files = folders.iter().flat_map(|folder| self.files.iter().map(|file| folder.join(file)));
        files.filter(|file| file.exists()).collect()
    }

    /// Returns the places to search before the directories of Python packages, in order.
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
        // A program of the build lies up to three directories below the build directory.
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

/// Opens a library and loads its functions, which exist as long as the library is open.
fn load<T: Calls>(place: &Path) -> Result<(Library, T), String> {
    // SAFETY: loading a library runs its initialisers; the user chose this library, or the system provides it.
    let library = unsafe { Library::new(place) }.map_err(|error| error.to_string())?;
    let calls = T::find(&library).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok((library, calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_variable_is_the_only_place_searched() {
        let places = |named: &str| NVRTC.places(Some(OsStr::new(named)), Path::new("/b/release/x"), None);
        assert_eq!(places("/no/such/libnvrtc.so"), [PathBuf::from("/no/such/libnvrtc.so")]);
        let folder = std::env::temp_dir();
        assert_eq!(places(&folder.to_string_lossy()), [folder.join("libnvrtc.so.13")]);
        let nowhere = Wanted { files: &["libnowhere.so"], beside: None, ..NVRTC };
        let tried = nowhere.open::<crate::driver::Calls, ()>(|_| Ok(())).err().unwrap_or_default();
        let error = nowhere.absence(&tried);
        assert!(error.starts_with("not found (") && error.contains("libnowhere.so"), "{error}");
    }

    #[test]
    fn the_system_is_searched_last() {
        let places = NVRTC.places(None, Path::new("/b/release/x"), None);
        assert!(places.ends_with(&NVRTC.files.iter().map(PathBuf::from).collect::<Vec<_>>()), "{places:?}");
    }
}
