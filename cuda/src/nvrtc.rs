//! Compilation at run time with NVRTC, from CUDA C++ to the machine code of one architecture.
//!
//! Neither a device nor its driver is needed. The input is the text of a module. The output is a cubin and the report
//! of the assembler: registers, stack and spills of each kernel.

mod calls;

use super::calls::Status;
pub use super::device::Architecture;
use super::driver;
use super::wanted::NVRTC;
pub(super) use calls::Calls;
use cudarc::nvrtc::sys::nvrtcProgram;
use ovolo::backend::Artifacts;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

/// The compiler's options besides the architecture: products and sums are fused with one rounding, and everything
/// else follows IEEE 754.
pub const OPTIONS: &[&str] = &[
    "--std=c++17",
    "--fmad=true",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ptxas-options=-v",
];

/// The compiler.
pub struct Compiler {
    path: PathBuf,
    version: (i32, i32),
    calls: Calls,
}

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The machine code in the format of the driver.
    pub code: Vec<u8>,
    /// The messages of the compiler.
    pub log: String,
}

/// The resources of a multiprocessor that a kernel uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The name of the kernel.
    pub kernel: String,
    /// The registers of a thread.
    pub registers: usize,
    /// The bytes of a thread's stack.
    pub stack: usize,
    /// The bytes that a thread stores to and loads from its stack because of a lack of registers.
    pub spills: usize,
}

/// The reason why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The compiler cannot be used.
    #[error("NVRTC is {}", NVRTC.absence(tried))]
    Absent {
        /// The places where it was searched for, each with the reason why it was not used.
        tried: Vec<String>,
    },
    /// The compiler reports an error for a module.
    #[error("{why}{}{log}", if log.is_empty() { "" } else { ": " })]
    Refused {
        /// The call that failed, and the library's name for the status.
        why: String,
        /// The messages of the compiler; empty if another call than that of the compilation failed.
        log: String,
    },
}

/// Returns the compiler. The first call searches for it.
///
/// # Errors
/// If it cannot be used; the error lists the places and the reasons, and says what the user can do.
pub fn compiler() -> Result<&'static Compiler, &'static NvrtcError> {
    static FOUND: OnceLock<Result<Compiler, NvrtcError>> = OnceLock::new();
    FOUND.get_or_init(|| Compiler::open().map_err(|tried| NvrtcError::Absent { tried })).as_ref()
}

/// The machine code of a module, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCode {
    /// The machine code.
    pub cubin: Cubin,
    /// Whether it has just been compiled, and not read from the store.
    pub fresh: bool,
}

/// Returns the machine code of a module: from the store, or compiled and then stored. It depends on the text, the
/// options, the architecture and the compiler's version.
///
/// # Errors
/// If the compiler reports an error.
pub fn machine_code(
    artifacts: &dyn Artifacts,
    compiler: &Compiler,
    source: &str,
    architecture: Architecture,
) -> Result<MachineCode, NvrtcError> {
    let (version, target) = (compiler.version(), architecture.to_string());
    let key: Vec<&str> =
        [&*version, &*target].into_iter().chain(OPTIONS.iter().copied()).chain([source]).collect();
    if let Some(cubin) = artifacts.load(&key).and_then(|bytes| Cubin::decode(&bytes)) {
        return Ok(MachineCode { cubin, fresh: false });
    }
    let cubin = compiler.compile(source, architecture)?;
    artifacts.store(&key, &cubin.encode());
    Ok(MachineCode { cubin, fresh: true })
}

impl Cubin {
    /// Encodes the length of the log, the log and the code.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.log.len() as u64).to_le_bytes().to_vec();
        bytes.extend(self.log.as_bytes());
        bytes.extend(&self.code);
        bytes
    }

    /// Decodes the result of [`Cubin::encode`].
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_at_checked(8)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (log, code) = rest.split_at_checked(length)?;
        Some(Self { log: std::str::from_utf8(log).ok()?.to_owned(), code: code.to_vec() })
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {} ({})", self.version(), self.path.display())
    }
}

impl Compiler {
    fn open() -> Result<Self, Vec<String>> {
        let (path, calls, version) = NVRTC.open(|calls: &Calls| {
            let (mut major, mut minor) = (0, 0);
            // SAFETY: the function writes two numbers.
            calls.check(unsafe { (calls.nvrtcVersion)(&raw mut major, &raw mut minor) })?;
            if !matches!(major, 12 | 13) {
                return Err(format!("this is NVRTC {major}.{minor}, but only 12 and 13 are supported"));
            }
            driver::supports(&format!("NVRTC {major}.{minor}"), usize::try_from(major).unwrap_or(0))?;
            Ok((major, minor))
        })?;
        Ok(Self { path, version, calls })
    }

    /// Returns the version of the compiler.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Compiles a module for an architecture.
    ///
    /// # Errors
    /// If the compiler reports an error.
    pub fn compile(&self, source: &str, architecture: Architecture) -> Result<Cubin, NvrtcError> {
        let failed = |why: String| NvrtcError::Refused { why, log: String::new() };
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        let options: Vec<CString> = std::iter::once(format!("--gpu-architecture={architecture}"))
            .chain(options)
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|error| failed(error.to_string()))?;
        let source = CString::new(source).map_err(|error| failed(error.to_string()))?;
        let calls = &self.calls;
        let program = Program::new(calls, &source).map_err(failed)?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = i32::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: the program is valid, and the array has this number of strings.
        let status = unsafe { (calls.nvrtcCompileProgram)(program.handle, count, pointers.as_ptr()) };
        let log = program.bytes(calls.nvrtcGetProgramLogSize, calls.nvrtcGetProgramLog).map_err(failed)?;
        let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned());
        let log = log.unwrap_or_default();
        if let Err(why) = calls.check(status) {
            return Err(NvrtcError::Refused { why, log });
        }
        let code = program.bytes(calls.nvrtcGetCUBINSize, calls.nvrtcGetCUBIN).map_err(failed)?;
        Ok(Cubin { code, log })
    }
}

impl Calls {
    /// Returns an error with the library's name for the status unless it is success.
    fn check(&self, status: Status) -> Result<(), String> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        // SAFETY: for every number the library returns a string with static lifetime.
        Err(unsafe { status.named((self.nvrtcGetErrorString)(status)) })
    }
}

/// A program of NVRTC, which is released with this value.
struct Program<'a> {
    handle: nvrtcProgram,
    calls: &'a Calls,
}

type Size = unsafe extern "C" fn(nvrtcProgram, *mut usize) -> Status;
type Bytes = unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> Status;

impl<'a> Program<'a> {
    fn new(calls: &'a Calls, source: &CStr) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        let (name, none) = (c"module.cu".as_ptr(), ptr::null());
        // SAFETY: the source is copied, and there are no headers.
        let status =
            unsafe { (calls.nvrtcCreateProgram)(&raw mut handle, source.as_ptr(), name, 0, none, none) };
        calls.check(status)?;
        Ok(Self { handle, calls })
    }

    fn bytes(&self, size: Size, bytes: Bytes) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the program is valid.
        self.calls.check(unsafe { size(self.handle, &raw mut length) })?;
        let mut buffer = vec![0_u8; length];
        // SAFETY: as above, and the buffer has the requested size.
        self.calls.check(unsafe { bytes(self.handle, buffer.as_mut_ptr().cast()) })?;
        Ok(buffer)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: this library created the program, and it is released once.
        let _ = unsafe { (self.calls.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}

/// Reads the assembler's figures for each kernel, including the functions that it calls.
pub fn figures(log: &str) -> Vec<Figures> {
    let mut list: Vec<Figures> = Vec::new();
    let number = |line: &str, unit: &str| -> usize {
        let before = line.split(unit).next().unwrap_or_default();
        before.split_whitespace().next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            list.push(Figures { kernel, ..Figures::default() });
        }
        let Some(last) = list.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            last.stack += number(line, " bytes stack frame");
            last.spills += number(line, " bytes spill stores") + number(line, " bytes spill loads");
        }
        if line.contains(" registers") {
            last.registers = number(line, " registers");
        }
    }
    list.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_report_of_the_assembler() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'b' for 'sm_90'\n\
            ptxas info    : Function properties for b\n\
            ptxas         .     16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
            ptxas info    : Used 30 registers, used 0 barriers\n\
            ptxas info    : Function properties for __internal_accurate_pow\n\
            ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Compiling entry function 'a' for 'sm_90'\n\
            ptxas info    : Used 14 registers, used 0 barriers\n";
        let figures = figures(log);
        assert_eq!(figures[0], Figures { kernel: "a".into(), registers: 14, ..Figures::default() });
        assert_eq!(figures[1], Figures { kernel: "b".into(), registers: 30, stack: 24, spills: 12 });
    }

    #[test]
    fn a_cubin_is_decoded_as_it_was_encoded() {
        let cubin = Cubin { code: vec![1, 2, 3], log: "said".into() };
        let bytes = cubin.encode();
        assert_eq!(Cubin::decode(&bytes), Some(cubin));
        assert_eq!(Cubin::decode(&bytes[..10]), None);
    }
}
