//! The stand-ins for the driver and for NVIDIA's libraries, as used from Rust: compiles them, puts them in
//! place, and asks them what happened.

use super::host;
use libloading::Library;
use ovolo_cuda::Module;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A stand-in that is in place. It counts what happens, so one plan at a time runs on it.
pub struct Standin {
    library: Library,
    compiler: PathBuf,
    /// Those of the libraries: the variables and the files that they name.
    libraries: Vec<(&'static str, Library)>,
}

/// The libraries: the variable that names one, the source of the stand-in, and the file name that the binding
/// looks for.
const LIBRARIES: &[(&str, &str, &str)] =
    &[("OVOLO_CUBLASLT", "cublaslt", "libcublasLt.so"), ("OVOLO_CUDNN", "cudnn", "libcudnn.so")];

/// The variable that holds the part of a test which a process is to run.
pub const PART: &str = "OVOLO_TEST_PART";

/// Returns the part of a test that this process is to run; `None` if it runs the tests themselves.
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

static PLACED: OnceLock<Option<Standin>> = OnceLock::new();
static ONE: Mutex<()> = Mutex::new(());

/// Puts the stand-ins in place before the driver is looked for, unless `OVOLO_TEST_DEVICE` is set, as on a
/// machine with a device, or there is no C++ compiler.
pub fn place() {
    PLACED.get_or_init(|| {
        if on_device() {
            return None;
        }
        let compiler = host::compiler().ok()?;
        if part().is_none() {
            let sources = LIBRARIES.iter().map(|(_, source, _)| *source).chain(["standin"]);
            let compiler = &compiler;
            std::thread::scope(|scope| {
                for source in sources {
                    scope.spawn(move || compile(compiler, source, &[], &file(&format!("{source}.o"))));
                }
            });
        }
        let (driver, library) = made(&compiler, "standin", "libcuda.so", None);
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("OVOLO_CUDA_DRIVER", &driver) };
        let one = |(variable, source, name): &(&'static str, &str, &str)| {
            let (object, library) = made(&compiler, source, name, Some(&driver));
            // SAFETY: no other thread runs yet.
            unsafe { std::env::set_var(variable, &object) };
            (*variable, library)
        };
        let libraries = LIBRARIES.iter().map(one).collect();
        Some(Standin { library, compiler, libraries })
    });
}

/// Makes the library of a stand-in under the file name that the binding looks for first, and opens it.
fn made(compiler: &Path, source: &str, name: &str, driver: Option<&Path>) -> (PathBuf, Library) {
    let library = file(&format!("lib{source}.so"));
    // A process that a test started finds the files that are in use.
    if part().is_none() {
        link(compiler, &file(&format!("{source}.o")), name, driver, &library);
    }
    // SAFETY: the library was made just now.
    let opened = unsafe { Library::new(&library) }.unwrap();
    (library, opened)
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Compiles the source of a stand-in.
fn compile(compiler: &Path, source: &str, definitions: &[&str], object: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cuda/{source}.cpp"));
    let words = ["-std=c++17", "-O2", "-ftree-vectorize", "-fPIC", "-c"];
    host::compile(compiler, &[&words, definitions].concat(), &source, object).unwrap();
}

/// Makes a library of a compiled stand-in. Those of libraries call the driver.
fn link(compiler: &Path, object: &Path, name: &str, driver: Option<&Path>, library: &Path) {
    run(Command::new(compiler)
        .args(["-shared", &format!("-Wl,-soname,{name}"), "-o"])
        .arg(library)
        .arg(object)
        .args(driver));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether tests run on a device.
pub fn on_device() -> bool {
    std::env::var_os("OVOLO_TEST_DEVICE").is_some()
}

/// Waits until no other plan is using the stand-in.
pub fn turn() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stand-in, if it is in place.
pub fn get() -> Option<&'static Standin> {
    PLACED.get().and_then(Option::as_ref)
}

/// The orders of work that may be reordered: other work as late as possible, as early as possible, or two
/// random ones.
pub const ORDERS: [c_int; 4] = [0, 1, 2, 3];

impl Standin {
    fn call(&self, name: &str, text: &str) -> c_int {
        let text = CString::new(text).unwrap();
        // SAFETY: functions of this form take a text and return a number.
        unsafe {
            let entry = self.library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(name.as_bytes());
            entry.unwrap()(text.as_ptr())
        }
    }

    /// Compiles the kernels of a module; `None` if it has none.
    pub fn translate(&self, name: &str, module: &Module) -> Option<PathBuf> {
        let some = module.kernels().len() > 0;
        some.then(|| host::translate(&self.compiler, &format!("device_{name}"), module))
    }

    /// Compiles the kernels of a family.
    pub fn translate_family(&self, number: usize) -> &'static Path {
        host::family(&self.compiler, number)
    }

    /// Registers compiled kernels.
    pub fn open(&self, library: &Path) {
        assert_eq!(self.call("standin_register", library.to_str().unwrap()), 0);
    }

    /// Compiles and registers the kernels of a module.
    pub fn register(&self, name: &str, module: &Module) {
        if let Some(library) = self.translate(name, module) {
            self.open(&library);
        }
    }

    /// The number of calls of an entry.
    pub fn calls(&self, entry: &str) -> c_int {
        self.call("standin_calls", entry)
    }

    /// The number of times a copy and a kernel ran in another order than they were queued in, since the last
    /// question.
    pub fn beside(&self) -> c_int {
        self.call("standin_beside", "")
    }

    /// The number of handles of all kinds.
    pub fn live(&self) -> c_int {
        // SAFETY: a null text asks for all kinds.
        unsafe {
            let entry = self.library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"standin_live");
            entry.unwrap()(std::ptr::null())
        }
    }

    /// An error if handles of any kind are left.
    pub fn nothing_left(&self) -> Result<(), String> {
        match self.live() {
            0 => Ok(()),
            live => Err(format!("{live} handles are left")),
        }
    }

    /// Asks something of the stand-in of the library that a variable names: a function of one number.
    fn ask(&self, variable: &str, name: &str, number: c_int) -> c_int {
        let (_, library) = self.libraries.iter().find(|(known, _)| *known == variable).unwrap();
        // SAFETY: the function takes a number and returns one.
        unsafe { library.get::<unsafe extern "C" fn(c_int) -> c_int>(name.as_bytes()).unwrap()(number) }
    }

    /// The number of plans that cuDNN has finalised from engines, and from texts.
    pub fn finalised(&self) -> [c_int; 2] {
        [0, 1].map(|texts| self.ask("OVOLO_CUDNN", "standin_finalised", texts))
    }

    /// Sets the engine of cuDNN that no device has, by the library's number: -1 is none, and -2 is all of them.
    pub fn unfit(&self, engine: c_int) {
        self.ask("OVOLO_CUDNN", "standin_unfit", engine);
    }

    /// Sets the engine of cuDNN whose plans need a MiB of scratch more than it reports, in the same way.
    pub fn greedy(&self, engine: c_int) {
        self.ask("OVOLO_CUDNN", "standin_greedy", engine);
    }

    /// Sets the bytes of the device, and returns the most MiB that were in use since the last call.
    pub fn memory(&self, bytes: usize) -> c_int {
        // SAFETY: the function takes a number and returns one.
        unsafe {
            let entry = self.library.get::<unsafe extern "C" fn(usize) -> c_int>(b"standin_memory");
            entry.unwrap()(bytes)
        }
    }

    /// Makes this thread wait when it next calls an entry, until another thread calls [`Standin::leave`].
    pub fn meet(&self, entry: &str) {
        self.call("standin_meet", entry);
    }

    /// Waits until another thread waits at its entry.
    pub fn met(&self) -> Result<(), String> {
        if self.call("standin_met", "") == 1 { Ok(()) } else { Err("the other thread did not come".into()) }
    }

    /// Lets the thread that waits go on.
    pub fn leave(&self) {
        self.call("standin_leave", "");
    }

    /// Makes an algorithm of the library that a variable names slower by some microseconds.
    pub fn delay(&self, variable: &str, algorithm: c_int, microseconds: c_int) {
        let (_, library) = self.libraries.iter().find(|(known, _)| *known == variable).unwrap();
        // SAFETY: the function takes two numbers.
        unsafe {
            type Delay = unsafe extern "C" fn(c_int, c_int) -> c_int;
            library.get::<Delay>(b"standin_delay").unwrap()(algorithm, microseconds);
        }
    }

    /// The last operation graph that cuDNN received from this thread.
    pub fn told(&self) -> String {
        let (_, library) = self.libraries.iter().find(|(known, _)| *known == "OVOLO_CUDNN").unwrap();
        let mut text = vec![0_u8; 1 << 14];
        // SAFETY: the function writes a text of at most the given number of bytes.
        unsafe {
            type Told = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
            library.get::<Told>(b"standin_told").unwrap()(text.as_mut_ptr().cast(), text.len());
        }
        CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy().into_owned()
    }

    /// Compiles another version of cuDNN, with definitions for its source, and returns its path.
    pub fn version(&self, name: &str, definitions: &[&str]) -> PathBuf {
        let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
        self.version_at("cudnn", definitions, &object);
        object
    }

    /// Compiles another version of a library to a file.
    pub fn version_at(&self, source: &str, definitions: &[&str], object: &Path) {
        let driver = std::env::var_os("OVOLO_CUDA_DRIVER").map(PathBuf::from);
        let (_, _, name) = LIBRARIES.iter().find(|(_, known, _)| *known == source).unwrap();
        let compiled = object.with_extension("o");
        compile(&self.compiler, source, definitions, &compiled);
        link(&self.compiler, &compiled, name, driver.as_deref(), object);
    }

    /// Sets the order of work from now on.
    pub fn order(&self, how: c_int) {
        // SAFETY: the function takes two numbers.
        unsafe {
            let entry = self.library.get::<unsafe extern "C" fn(c_int, u64) -> c_int>(b"standin_order");
            entry.unwrap()(how, 0x9E37_79B9 * (how.unsigned_abs() as u64 + 1));
        }
    }

    /// Makes an entry fail once, after some calls.
    pub fn fail(&self, entry: &str, after: c_int, code: c_int) {
        let text = CString::new(entry).unwrap();
        // SAFETY: the function takes a text and two numbers.
        unsafe {
            type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;
            self.library.get::<Fail>(b"standin_fail").unwrap()(text.as_ptr(), after, code);
        }
    }

    /// Makes an entry do nothing.
    pub fn ignore(&self, entry: &str) {
        self.call("standin_ignore", entry);
    }

    /// An error that describes misuse since the last question.
    pub fn faults(&self) -> Result<(), String> {
        let mut text = [0_u8; 512];
        // SAFETY: the function writes a text of at most the given number of bytes.
        let count = unsafe {
            type Faults = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
            let entry = self.library.get::<Faults>(b"standin_faults").unwrap();
            entry(text.as_mut_ptr().cast(), text.len())
        };
        let first = CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy();
        if count == 0 { Ok(()) } else { Err(format!("{count} fault(s), the first: {first}")) }
    }
}
