//! Finding the library.

use crate::api::{Api, Object, RawVersion};
use std::env;
use std::ffi::{OsStr, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file's name.
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
    /// 3.
    pub major: c_int,
    /// Features.
    pub minor: c_int,
    /// Fixes.
    pub patch: c_int,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The library, open for the rest of the process, and its one engine.
pub struct Library {
    pub(crate) api: Api,
    pub(crate) engine: Object,
    pub(crate) threads: Option<crate::openmp::OpenMp>,
    path: String,
    file: PathBuf,
    version: Version,
    revision: String,
    runtime: &'static str,
}

// SAFETY: the engine is not changed once it is made, and the library allows its use from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The revision of its sources, as its build recorded it; may be empty.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The file, or the name by which the system found it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file that its code is mapped from, as far as the system tells.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it makes threads with, which it is kept from: `sequential` or `OpenMP`.
    pub fn runtime(&self) -> &'static str {
        self.runtime
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oneDNN {} ({}) at {}", self.version, self.runtime, self.path)
    }
}

/// The library was not found, or not fit to be used: where it was looked for, and what was wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Places and reasons.
    pub tried: Vec<(String, String)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not found")?;
        for (at, (place, why)) in self.tried.iter().enumerate() {
            write!(f, "{}{place}: {why}", if at == 0 { " (" } else { "; " })?;
        }
        f.write_str(if self.tried.is_empty() { "" } else { ")" })
    }
}

impl std::error::Error for Missing {}

/// The library, looked for at the first call.
///
/// `OVOLO_ONEDNN` names a file or a folder, and nothing else is tried then. Otherwise it is looked for
/// in `onednn` beside the build folder that this program lies in (where `cargo xtask onednn` puts it),
/// and then where the system looks for libraries.
///
/// # Errors
/// Where it was looked for, and what was wrong with what was there.
pub fn library() -> Result<&'static Library, &'static Missing> {
    static FOUND: OnceLock<Result<Library, Missing>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let named = env::var_os("OVOLO_ONEDNN").filter(|value| !value.is_empty());
            let program = env::current_exe().unwrap_or_default();
            look(&places(named.as_deref(), &program))
        })
        .as_ref()
}

/// Where to look, in order: files, and a bare name for the system to find.
fn places(named: Option<&OsStr>, program: &Path) -> Vec<PathBuf> {
    if let Some(named) = named {
        let path = Path::new(named);
        return if path.is_dir() {
            vec![path.join(NAME), path.join("lib").join(NAME)]
        } else {
            vec![path.to_owned()]
        };
    }
    // A program of the build lies up to three folders below it: `release/ovolo`, `release/deps/test`,
    // and both for a target of their own.
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

fn look(places: &[PathBuf]) -> Result<Library, Missing> {
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
    // SAFETY: loading a library runs its initialisers; the user chose this one, or the system has it.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
        let text = error.to_string();
        let hint = if text.contains("libgomp") {
            " (oneDNN needs GNU OpenMP: the package is `libgomp1` or `libgomp`)"
        } else {
            ""
        };
        format!("{text}{hint}")
    })?;
    // SAFETY: the function takes nothing and gives a pointer to what lives as long as the library,
    // in every version since 1.0.
    let (raw, code) = unsafe {
        let version: libloading::Symbol<'_, unsafe extern "C" fn() -> *const RawVersion> =
            library.get(b"dnnl_version\0").map_err(|error| format!("not oneDNN: {error}"))?;
        (version().as_ref().ok_or("it does not say its version")?, *version as usize)
    };
    let file = mapped(code).unwrap_or_else(|| path.to_owned());
    let version = Version { major: raw.major, minor: raw.minor, patch: raw.patch };
    if version.major != 3 {
        return Err(format!("oneDNN {version}: versions 3.0 and later 3.x are supported"));
    }
    let revision = if raw.hash.is_null() {
        String::new()
    } else {
        // SAFETY: a text that lives as long as the library, as the C API says.
        unsafe { std::ffi::CStr::from_ptr(raw.hash) }.to_string_lossy().into_owned()
    };
    let openmp = crate::openmp::OpenMp::new(&library);
    let runtime = match (raw.cpu_runtime, &openmp) {
        (1, _) => "sequential",
        (2, Some(_)) => "OpenMP",
        (2, None) => return Err("its OpenMP does not say how to set the number of threads".to_owned()),
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
    // Its functions are used until the process ends.
    std::mem::forget(library);
    Ok(Library { api, engine, threads, path: path.display().to_string(), file, version, revision, runtime })
}

/// The file that an address is mapped from, where the system tells (Linux).
fn mapped(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| file_of(line, address))
}

/// The file of a line such as `7f00-7f10 r-xp 00000000 08:01 1234   /usr/lib/libdnnl.so.3`.
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
    fn an_address_is_of_the_file_that_is_mapped_there() {
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
    fn a_named_place_is_the_only_one() {
        let program = Path::new("/build/release/deps/test");
        assert_eq!(places(Some(OsStr::new("/no/such")), program), [PathBuf::from("/no/such")]);
        assert_eq!(places(None, program).last(), Some(&PathBuf::from(NAME)));
    }

    #[test]
    fn what_is_no_library_is_said_with_its_reason() {
        let missing = look(&[PathBuf::from("/no/such/file"), env::temp_dir()]).err();
        let text = missing.map(|missing| missing.to_string()).unwrap_or_default();
        assert!(text.starts_with("not found (/no/such/file: there is no such file; "), "{text}");
    }
}
