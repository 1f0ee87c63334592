//! Search for the library.

use crate::api::{Api, Object, RawVersion};
use std::env;
use std::ffi::{OsStr, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file name of the library.
const NAME: &str = if cfg!(target_os = "macos") {
    "libdnnl.3.dylib"
} else if cfg!(windows) {
    "dnnl.dll"
} else {
    "libdnnl.so.3"
};

/// A version of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version, always 3.
    pub major: c_int,
    /// The minor version, for new features.
    pub minor: c_int,
    /// The patch version, for fixes.
    pub patch: c_int,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The library and its one engine. It stays loaded until the process ends.
pub struct Library {
    /// The code, which is never unloaded: functions are used until the process ends.
    pub(crate) code: libloading::Library,
    pub(crate) api: Api,
    pub(crate) engine: Object,
    pub(crate) threads: Option<crate::openmp::OpenMp>,
    path: String,
    file: PathBuf,
    version: Version,
    revision: String,
    runtime: &'static str,
}

// SAFETY: the engine never changes after its creation, and the library allows its use from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Returns the version of the library.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the source revision that its build recorded; may be empty.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Returns the path of the file, or the name under which the system found it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the file that its code is mapped from, as far as the system tells.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the runtime with which it creates threads, which this crate prevents: `sequential` or `OpenMP`.
    pub fn runtime(&self) -> &'static str {
        self.runtime
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oneDNN {} ({}) at {}", self.version, self.runtime, self.path)
    }
}

/// The library was not found or cannot be used: the places that were searched, and the reason for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Pairs of a place and the reason why it was not used.
    pub tried: Vec<(String, String)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not found")?;
        for (at, (place, why)) in self.tried.iter().enumerate() {
            write!(f, "{}{place}: {why}", if at == 0 { " (" } else { "; " })?;
        }
        f.write_str(if self.tried.is_empty() { "" } else { ")" })?;
        f.write_str("; install oneDNN 3, or name its library in OVOLO_ONEDNN")
    }
}

impl std::error::Error for Missing {}

/// Returns the library. The first call searches for it.
///
/// If `OVOLO_ONEDNN` names a file or a directory, only that is tried. Otherwise the search starts in `onednn` beside
/// the build directory that contains this program (where `cargo xtask onednn` puts it), and ends where the system
/// searches for libraries.
///
/// # Errors
/// If no usable library was found; the error lists the places and the reasons.
pub fn library() -> Result<&'static Library, &'static Missing> {
    static FOUND: OnceLock<Result<Library, Missing>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let named = env::var_os("OVOLO_ONEDNN").filter(|value| !value.is_empty());
            let program = env::current_exe().unwrap_or_default();
            search(&places(named.as_deref(), &program))
        })
        .as_ref()
}

/// Returns the places to search, in order: files, and a bare name for the system to find.
fn places(named: Option<&OsStr>, program: &Path) -> Vec<PathBuf> {
    if let Some(named) = named {
        let path = Path::new(named);
        return if path.is_dir() {
            vec![path.join(NAME), path.join("lib").join(NAME)]
        } else {
            vec![path.to_owned()]
        };
    }
    // A program of the build lies up to three directories below it: `release/ovolo`, `release/deps/test`, and both of
    // these in a directory for the target platform.
    let mut places: Vec<PathBuf> = program
        .ancestors()
        .skip(2)
        .take(3)
        .map(|folder| folder.join("onednn").join(NAME))
        .filter(|path| path.exists())
        .collect();
    places.push(PathBuf::from(NAME));
    places
}

fn search(places: &[PathBuf]) -> Result<Library, Missing> {
    let mut tried = Vec::new();
    for place in places {
        match open(place) {
            Ok(library) => return Ok(library),
            Err(why) => tried.push((place.display().to_string(), why)),
        }
    }
    Err(Missing { tried })
}

fn open(path: &Path) -> Result<Library, String> {
    if path.components().count() > 1 && !path.exists() {
        return Err("there is no such file".to_owned());
    }
    // SAFETY: loading a library runs its initialisers; the user chose this library, or the system provides it.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
        let text = error.to_string();
        let hint = if text.contains("libgomp") {
            " (oneDNN needs GNU OpenMP: the package is `libgomp1` or `libgomp`)"
        } else {
            ""
        };
        // The loader's message begins with the name, which the caller puts before it as well.
        let text = text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text);
        format!("{text}{hint}")
    })?;
    // SAFETY: in every version since 1.0 the function has no arguments, and its result points to data that lives as
    // long as the library.
    let (raw, code) = unsafe {
        let version: libloading::Symbol<'_, unsafe extern "C" fn() -> *const RawVersion> =
            library.get(b"dnnl_version\0").map_err(|error| format!("not oneDNN: {error}"))?;
        (version().as_ref().ok_or("it does not report its version")?, *version as usize)
    };
    let file = mapped(code).unwrap_or_else(|| path.to_owned());
    let version = Version { major: raw.major, minor: raw.minor, patch: raw.patch };
    if version.major != 3 {
        return Err(format!("this is oneDNN {version}, but only versions 3.x are supported"));
    }
    let revision = if raw.hash.is_null() {
        String::new()
    } else {
        // SAFETY: the C API guarantees a string that lives as long as the library.
        unsafe { std::ffi::CStr::from_ptr(raw.hash) }.to_string_lossy().into_owned()
    };
    let openmp = crate::openmp::OpenMp::new(&library);
    let runtime = match (raw.cpu_runtime, &openmp) {
        (1, _) => "sequential",
        (2, Some(_)) => "OpenMP",
        (2, None) => {
            return Err("its OpenMP runtime has no function that sets the number of threads".to_owned());
        }
        (other, _) => {
            return Err(format!(
                "it is built for another kind of threads (runtime {other}), which cannot be kept to one: \
                 take a sequential build or one for OpenMP"
            ));
        }
    };
    let threads = openmp.filter(|_| raw.cpu_runtime == 2);
    let api = Api::new(&library)?;
    let mut engine: Object = std::ptr::null_mut();
    const CPU: c_int = 1;
    // SAFETY: `engine` is written on success.
    let status = unsafe { (api.engine_create)(&raw mut engine, CPU, 0) };
    crate::check(status, "an engine on the processor").map_err(|error| error.to_string())?;
    Ok(Library {
        code: library,
        api,
        engine,
        threads,
        path: path.display().to_string(),
        file,
        version,
        revision,
        runtime,
    })
}

/// Returns the file that an address is mapped from, where the system tells (Linux).
fn mapped(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| file_of(line, address))
}

/// Returns the file in a line such as `7f00-7f10 r-xp 00000000 08:01 1234   /usr/lib/libdnnl.so.3`, if the line
/// covers the address.
fn file_of(line: &str, address: usize) -> Option<PathBuf> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let path = &rest[rest.find('/')?..];
    (number(from)?..number(to)?).contains(&address).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_file_that_is_mapped_there() {
        let line = "7f00-7f10 r-xp 00000000 08:01 1234      /usr/lib/a library.so.3";
        assert_eq!(file_of(line, 0x7f00), Some(PathBuf::from("/usr/lib/a library.so.3")));
        assert_eq!(file_of(line, 0x7f10), None);
        assert_eq!(file_of("7f00-7f10 rw-p 00000000 00:00 0", 0x7f00), None);
        if cfg!(target_os = "linux") {
            let here = file_of as fn(&str, usize) -> Option<PathBuf> as usize;
            assert_eq!(mapped(here), env::current_exe().ok());
        }
    }

    #[test]
    fn a_path_in_the_variable_is_the_only_place_searched() {
        let program = Path::new("/build/release/deps/test");
        assert_eq!(places(Some(OsStr::new("/no/such")), program), [PathBuf::from("/no/such")]);
        assert_eq!(places(None, program).last(), Some(&PathBuf::from(NAME)));
    }

    #[test]
    fn the_error_lists_each_place_with_its_reason() {
        let missing = search(&[PathBuf::from("/no/such/file"), env::temp_dir()]).err();
        let text = missing.map(|missing| missing.to_string()).unwrap_or_default();
        assert!(text.starts_with("not found (/no/such/file: there is no such file; "), "{text}");
    }
}
