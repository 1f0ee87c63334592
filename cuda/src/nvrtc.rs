//! Compiling at run time: CUDA C++ to the machine code of one architecture, by NVRTC.
//!
//! It needs neither a device nor its driver. Takes the text of a module, gives a cubin and what the
//! assembler said of it: registers, stack and spills of each kernel.

mod calls;

use super::calls::Status;
use super::library::NVRTC;
pub(super) use calls::Calls;
use cudarc::nvrtc::sys::nvrtcProgram;
use ovolo::backend::Artifacts;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

/// A compute capability, such as 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture(pub u32, pub u32);

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.0, self.1)
    }
}

/// What the compiler is told beside the architecture: products and sums as one rounding, all else as IEEE 754
/// has it.
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
    /// The machine code, as the driver loads it.
    pub code: Vec<u8>,
    /// What the compiler said.
    pub log: String,
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of a thread's stack.
    pub stack: usize,
    /// Bytes that a thread writes to and reads from its stack for want of registers.
    pub spills: usize,
}

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The compiler is not there: where it was looked for, and what was wrong with what was there.
    #[error("{0}")]
    Absent(String),
    /// The compiler refuses a module: what it says.
    #[error("{0}")]
    Refused(String),
}

/// The compiler, looked for at the first call.
///
/// # Errors
/// Where it was looked for, and what was wrong with what was there.
pub fn compiler() -> Result<&'static Compiler, &'static NvrtcError> {
    static FOUND: OnceLock<Result<Compiler, NvrtcError>> = OnceLock::new();
    FOUND.get_or_init(|| Compiler::open().map_err(NvrtcError::Absent)).as_ref()
}

/// The compiler; or what is missing, and what to do.
///
/// # Errors
/// That it is not there.
pub fn found() -> Result<&'static Compiler, NvrtcError> {
    compiler().map_err(|why| NvrtcError::Absent(format!("NVRTC is {why}; {}", NVRTC.remedy)))
}

/// The machine code of a module, and whether it was compiled just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The machine code.
    pub cubin: Cubin,
    /// Whether it was compiled just now.
    pub fresh: bool,
}

/// The machine code of a module: from where it is kept, or compiled and kept there. It depends on the text, the
/// options, the architecture and the compiler's version.
///
/// # Errors
/// What the compiler says.
pub fn machine_code(
    artifacts: &dyn Artifacts,
    compiler: &Compiler,
    source: &str,
    architecture: Architecture,
) -> Result<Made, NvrtcError> {
    let (version, target) = (compiler.version(), architecture.to_string());
    let key: Vec<&str> =
        [&*version, &*target].into_iter().chain(OPTIONS.iter().copied()).chain([source]).collect();
    if let Some(cubin) = artifacts.load(&key).and_then(|bytes| Cubin::decode(&bytes)) {
        return Ok(Made { cubin, fresh: false });
    }
    let cubin = compiler.compile(source, architecture)?;
    artifacts.store(&key, &cubin.encode());
    Ok(Made { cubin, fresh: true })
}

impl Cubin {
    /// The length of the log, the log and the code.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.log.len() as u64).to_le_bytes().to_vec();
        bytes.extend(self.log.as_bytes());
        bytes.extend(&self.code);
        bytes
    }

    /// What [`Cubin::encode`] made of a cubin.
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
    fn open() -> Result<Self, String> {
        let (path, calls) = NVRTC.open::<Calls>()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function writes two numbers.
        let status = unsafe { (calls.nvrtcVersion)(&raw mut major, &raw mut minor) };
        calls.of(status).map_err(|why| format!("{}: {why}", path.display()))?;
        if matches!(major, 12 | 13) {
            return Ok(Self { path, version: (major, minor), calls });
        }
        Err(format!("{}: NVRTC {major}.{minor}, and 12 and 13 are supported", path.display()))
    }

    /// Its version.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Compiles a module for an architecture.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(&self, source: &str, architecture: Architecture) -> Result<Cubin, NvrtcError> {
        self.cubin(source, architecture).map_err(NvrtcError::Refused)
    }

    fn cubin(&self, source: &str, architecture: Architecture) -> Result<Cubin, String> {
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        let options: Vec<CString> = std::iter::once(format!("--gpu-architecture={architecture}"))
            .chain(options)
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let calls = &self.calls;
        let program = Program::new(calls, &source)?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = i32::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: the program is there, and so are as many strings as said.
        let status = unsafe { (calls.nvrtcCompileProgram)(program.handle, count, pointers.as_ptr()) };
        let log = program.bytes(calls.nvrtcGetProgramLogSize, calls.nvrtcGetProgramLog)?;
        let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned());
        let log = log.unwrap_or_default();
        calls.of(status).map_err(|why| format!("{why}: {log}"))?;
        let code = program.bytes(calls.nvrtcGetCUBINSize, calls.nvrtcGetCUBIN)?;
        Ok(Cubin { code, log })
    }
}

impl Calls {
    /// What a call came to: success, or what the library calls the number.
    fn of(&self, status: Status) -> Result<(), String> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        // SAFETY: the library has a text that lasts for any number.
        Err(unsafe { status.named((self.nvrtcGetErrorString)(status)) })
    }
}

/// A program of NVRTC, which goes with this value.
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
        calls.of(status)?;
        Ok(Self { handle, calls })
    }

    fn bytes(&self, size: Size, bytes: Bytes) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the program is there.
        self.calls.of(unsafe { size(self.handle, &raw mut length) })?;
        let mut buffer = vec![0_u8; length];
        // SAFETY: as above, and the buffer has the size that it says.
        self.calls.of(unsafe { bytes(self.handle, buffer.as_mut_ptr().cast()) })?;
        Ok(buffer)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was made by this library, and nobody else has it.
        let _ = unsafe { (self.calls.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}

/// What the assembler said of each kernel, functions that it calls included.
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
    fn figures_are_read_from_what_the_assembler_says() {
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
