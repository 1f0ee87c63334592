//! Runs kernels on the processor: their own text is compiled by the system's C++ compiler with a shim.

use super::case::{self, Case, FAMILIES};
use libloading::{Library, Symbol};
use ovolo::tensor::{Tensor, TensorType};
use ovolo_cuda::{Argument, KernelJob, KernelSource, Module};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The byte of unwritten memory.
const POISON: u8 = 0xff;
/// Bytes of poison on both sides of a buffer.
const GUARD: usize = 256;

/// The variable with which kernels check the alignment of what they read and write, the indices of their arrays and the
/// range of their integers while they run. The first mistake ends the program, with a message.
pub const CHECKED: &str = "OVOLO_TEST_SANITIZE";
const CHECKS: [&str; 2] =
    ["-fsanitize=alignment,bounds,signed-integer-overflow", "-fno-sanitize-recover=all"];

/// A compiled module.
pub struct Host {
    library: Library,
}

/// The C++ compiler.
pub fn compiler() -> Result<PathBuf, String> {
    let named = std::env::var_os("CXX").filter(|name| !name.is_empty()).map(PathBuf::from);
    let names = named.into_iter().chain(["c++", "g++", "clang++"].map(PathBuf::from));
    let works =
        |name: &PathBuf| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    names.into_iter().find(works).ok_or("there is no C++ compiler: install g++".to_owned())
}

/// Runs the compiler, unless the object is there and an earlier process has made it from the same text with the same
/// words. Several parts of `cargo xtask cuda-checks` need the same objects.
///
/// # Errors
/// What the compiler says.
pub fn compile(compiler: &Path, words: &[&str], source: &Path, object: &Path) -> Result<(), String> {
    let made = format!("{} {}\n{}", compiler.display(), words.join(" "), whole(source)?);
    let note = object.with_extension("made");
    if object.exists() && std::fs::read_to_string(&note).is_ok_and(|there| there == made) {
        return Ok(());
    }
    // A compiler that is interrupted may leave a part of an object.
    let _ = std::fs::remove_file(&note);
    let output = Command::new(compiler).args(words).arg("-o").arg(object).arg(source).output();
    let output = output.map_err(|error| format!("{}: {error}", compiler.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\n{}", source.display(), said.chars().take(4000).collect::<String>()));
    }
    std::fs::write(&note, made).map_err(|error| format!("{}: {error}", note.display()))
}

/// Returns the text of a source and of the files beside it that it includes.
fn whole(source: &Path) -> Result<String, String> {
    let mut text =
        std::fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?;
    let included =
        |line: &str| Some(line.strip_prefix("#include \"")?.trim_end().trim_end_matches('"').to_owned());
    let names: Vec<String> = text.lines().filter_map(included).collect();
    for name in names {
        text += &whole(&source.with_file_name(name))?;
    }
    Ok(text)
}

/// Compiles a module for the processor, and returns the library's path.
pub fn translate(compiler: &Path, name: &str, module: &Module) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, object) = (folder.join(format!("{name}.cpp")), folder.join(format!("{name}.so")));
    let mut text = include_str!("shim.h").to_owned();
    text.push_str(&module.source());
    for kernel in module.kernels() {
        text.push_str(&trampoline(kernel));
    }
    std::fs::write(&source, text).unwrap();
    let checks = if std::env::var_os(CHECKED).is_some() { &CHECKS[..] } else { &[] };
    // Each kernel runs once on a few elements: optimising it would take longer than that saves. The shim jumps between
    // stacks, which the checks of hardened compilers take for a mistake.
    let words = ["-std=c++17", "-O0", "-fPIC", "-shared", "-fno-strict-aliasing", "-w", "-U_FORTIFY_SOURCE"];
    compile(compiler, &[&words, checks].concat(), &source, &object).unwrap();
    object
}

/// Returns the library with the kernels of all cases of a family. It is compiled once: two tests run it.
pub fn family(compiler: &Path, number: usize) -> &'static Path {
    static COMPILED: [OnceLock<PathBuf>; FAMILIES.len()] = [const { OnceLock::new() }; FAMILIES.len()];
    COMPILED[number].get_or_init(|| {
        let job = |case: &Case| case.job().unwrap_or_else(|why| panic!("{}: {why}", case.name()));
        let jobs: Vec<KernelJob> = case::family(number).iter().map(job).collect();
        translate(compiler, FAMILIES[number].0, &Module::new(&jobs))
    })
}

impl Host {
    /// Compiles a module.
    pub fn new(compiler: &Path, name: &str, module: &Module) -> Self {
        let object = translate(compiler, name, module);
        let host = Self::open(&object);
        std::fs::remove_file(&object).unwrap();
        host
    }

    /// Opens the library of a module.
    pub fn open(object: &Path) -> Self {
        // SAFETY: `translate` made the library, which has no initialisers.
        Self { library: unsafe { Library::new(object) }.unwrap() }
    }

    /// Runs a job on operands, with the threads in one order, and returns the result.
    pub fn run(
        &self,
        job: &KernelJob,
        operands: &[&Tensor],
        ty: &TensorType,
        backwards: bool,
    ) -> Result<Tensor, String> {
        let mut inputs: Vec<Guarded> =
            operands.iter().map(|operand| Guarded::holding(operand.bytes())).collect();
        let mut output = Guarded::poisoned(ty.bytes());
        let mut scratch = Guarded::poisoned(job.scratch);
        for kernel in &job.kernels {
            let mut arguments: Vec<*mut u8> = kernel
                .arguments
                .iter()
                .map(|argument| match argument {
                    Argument::Input(operand) => inputs[*operand].pointer(),
                    Argument::Output => output.pointer(),
                    Argument::Scratch => scratch.pointer(),
                })
                .collect();
            let launch = [
                kernel.launch.grid[0],
                kernel.launch.grid[1],
                kernel.launch.block[0],
                kernel.launch.block[1],
            ];
            let waits = waits(kernel);
            type Run = unsafe extern "C" fn(*const (), *mut *mut u8, *const u32, i32, i32) -> i32;
            let name = format!("run_{}", kernel.name);
            // SAFETY: the shim's function has this signature, the kernel's trampoline takes the arguments that
            // its description names, and each buffer has the bytes of its type.
            let code = unsafe {
                let run: Symbol<'_, Run> = self.library.get(b"ovolo_run").unwrap();
                let kernel: Symbol<'_, unsafe extern "C" fn()> = self.library.get(name.as_bytes()).unwrap();
                run(
                    *kernel as *const (),
                    arguments.as_mut_ptr(),
                    launch.as_ptr(),
                    i32::from(waits),
                    i32::from(backwards),
                )
            };
            if code != 0 {
                return Err(format!("not all threads reach a barrier of\n{}", kernel.text));
            }
        }
        for (guarded, operand) in inputs.iter().zip(operands) {
            if guarded.bytes() != operand.bytes() || !guarded.is_intact() {
                return Err("an operand was overwritten".into());
            }
        }
        if !output.is_intact() || !scratch.is_intact() {
            return Err("memory around the result was written".into());
        }
        let mut result = Tensor::zeros(ty.clone());
        result.bytes_mut().copy_from_slice(output.bytes());
        Ok(result)
    }
}

/// Whether the threads of a kernel wait for each other.
fn waits(kernel: &KernelSource) -> bool {
    ["__syncthreads", "__shfl", "across_"].iter().any(|word| kernel.text.contains(word))
}

/// Returns a function that calls a kernel with pointers from a list, with their number and whether the
/// threads wait.
fn trampoline(kernel: &KernelSource) -> String {
    let start = kernel.text.find(&format!("{}(", kernel.name)).unwrap() + kernel.name.len() + 1;
    let list = &kernel.text[start..start + kernel.text[start..].find(") {").unwrap()];
    let arguments: Vec<String> = list
        .split(", ")
        .enumerate()
        .map(|(at, parameter)| {
            let ty = &parameter[..=parameter.find('*').unwrap()];
            format!("({ty})a[{at}]")
        })
        .collect();
    let (name, count, waits) = (&kernel.name, arguments.len(), i32::from(waits(kernel)));
    format!(
        "extern \"C\" void run_{name}(void** a) {{ {name}({}); }}\n\
        extern \"C\" {{ unsigned count_{name} = {count}; int waits_{name} = {waits}; }}\n",
        arguments.join(", ")
    )
}

/// A buffer surrounded by poison, aligned like a device's buffers.
struct Guarded {
    bytes: Tensor,
    length: usize,
}

impl Guarded {
    fn poisoned(length: usize) -> Self {
        let ty = TensorType::plain(ovolo::tensor::DType::U8, [length + 2 * GUARD]);
        let mut bytes = Tensor::zeros(ty);
        bytes.bytes_mut().fill(POISON);
        Self { bytes, length }
    }

    fn holding(bytes: &[u8]) -> Self {
        let mut guarded = Self::poisoned(bytes.len());
        guarded.bytes.bytes_mut()[GUARD..][..bytes.len()].copy_from_slice(bytes);
        guarded
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes.bytes()[GUARD..][..self.length]
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes.bytes_mut()[GUARD..].as_mut_ptr()
    }

    fn is_intact(&self) -> bool {
        let all = self.bytes.bytes();
        all[..GUARD].iter().chain(&all[GUARD + self.length..]).all(|byte| *byte == POISON)
    }
}
