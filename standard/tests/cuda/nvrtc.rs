//! Tests the machine code of generated kernels: it is compiled for two architectures, or for four if `OVOLO_TEST_ARCHITECTURES`
//! is `all`, and uses no stack.

use super::case::{self, Case, FAMILIES};
use libtest_mimic::Failed;
use ovolo_cuda::nvrtc::{self, Architecture, Compiler, Figures};
use ovolo_cuda::{KernelJob, Module};

/// The architectures that kernels are compiled for: A100; H100 and H200; RTX 4090; RTX 5090.
pub const ARCHITECTURES: [Architecture; 4] =
    [Architecture(8, 0), Architecture(9, 0), Architecture(8, 9), Architecture(12, 0)];

/// The compiler.
pub fn compiler() -> Result<&'static Compiler, String> {
    nvrtc::compiler().map_err(ToString::to_string)
}

/// The architectures that families of kernels are compiled for. For the first two alone, that takes half the time.
fn wanted() -> &'static [Architecture] {
    match std::env::var_os("OVOLO_TEST_ARCHITECTURES") {
        Some(which) if which == "all" => &ARCHITECTURES,
        _ => &ARCHITECTURES[..2],
    }
}

/// Compiles every kernel of a family. The assembler's figures must show no spills and no stack.
pub fn compiles(cases: &[Case]) -> Result<(), Failed> {
    let compiler = compiler()?;
    let jobs: Vec<KernelJob> = cases.iter().map(Case::job).collect::<Result<_, _>>()?;
    let module = Module::new(&jobs);
    let source = module.source();
    for architecture in wanted().iter().copied() {
        let cubin = compiler.compile(&source, architecture)?;
        let figures = nvrtc::figures(&cubin.log);
        if figures.len() != module.kernels().len() {
            return Err(format!("{} figures for {} kernels", figures.len(), module.kernels().len()).into());
        }
        if !cubin.code.starts_with(b"\x7fELF") {
            return Err("the machine code is not an ELF file".into());
        }
        for one in figures {
            let kernel = module.kernels().find(|kernel| kernel.name == one.kernel);
            let text = kernel.map_or("", |kernel| kernel.text.as_str());
            let threads = kernel.map_or(0, |kernel| kernel.launch.block[0] * kernel.launch.block[1]);
            if let Some(what) = on_the_stack(&one, text) {
                return Err(format!("{architecture}: {what} in\n{text}").into());
            }
            // A multiprocessor has 65536 registers, so at least two blocks fit.
            if one.registers * threads as usize > 32_768 {
                return Err(format!("{architecture}: {} registers in\n{text}", one.registers).into());
            }
        }
    }
    Ok(())
}

/// Functions of CUDA's mathematical library that use a few words of stack for large arguments.
const WITH_A_TABLE: [&str; 3] = ["sin", "cos", "tan"];

/// Describes wrong use of the stack by a kernel: it must spill nothing, and have no stack except that of the
/// functions above.
pub fn on_the_stack(figures: &Figures, text: &str) -> Option<String> {
    let calls = |name: &&str| {
        let mut words = text.split(|one: char| !one.is_alphanumeric() && one != '_');
        words.any(|word| word == *name || word.strip_suffix('f') == Some(name))
    };
    let Figures { stack, spills, .. } = figures;
    let right = *spills == 0 && (*stack == 0 || WITH_A_TABLE.iter().any(calls));
    (!right).then(|| format!("a stack of {stack} bytes, {spills} bytes spilled"))
}

/// A kernel whose array needs a stack: its index is known only at run time.
const WITH_STACK: &str = r#"extern "C" __global__ void with_stack(const int* index, float* out) {
    float local[64];
    for (int i = 0; i < 64; ++i) local[i] = out[i] * i;
    for (int i = 0; i < 64; ++i) local[index[i] & 63] += local[index[i + 64] & 63];
    for (int i = 0; i < 64; ++i) out[index[i]] = local[index[i + 128] & 63];
}
"#;

/// A kernel that needs more registers than a thread of such a large block may have.
const WITH_SPILLS: &str = r#"extern "C" __global__ void __launch_bounds__(1024, 2)
with_spills(const float* in, float* out) {
    float local[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) local[i] = in[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = local[i] * local[63 - i] + local[(i * 7) & 63];
}
"#;

/// The check for stacks and spills can fail: the compiler reports those of kernels that have them.
pub fn a_stack_and_spills_show() -> Result<(), Failed> {
    let compiler = compiler()?;
    for architecture in ARCHITECTURES {
        let read = |source: &str| -> Result<Figures, Failed> {
            let figures = nvrtc::figures(&compiler.compile(source, architecture)?.log);
            Ok(figures.into_iter().next().ok_or("the assembler reports no figures")?)
        };
        let (stack, spills) = (read(WITH_STACK)?, read(WITH_SPILLS)?);
        if stack.stack == 0 || spills.spills == 0 {
            return Err(format!("{architecture}: nothing is reported: {stack:?}, {spills:?}").into());
        }
    }
    Ok(())
}

/// Generating a family twice gives the same text, and kernels with one name have one text.
pub fn canonical() -> Result<(), Failed> {
    for (number, (name, _)) in FAMILIES.iter().enumerate() {
        let source = || {
            let jobs: Vec<KernelJob> = case::family(number)
                .iter()
                .map(|case| case.job())
                .collect::<Result<_, _>>()
                .map_err(|why| why.to_string())?;
            let mut backwards = jobs.clone();
            backwards.reverse();
            let (one, other) = (Module::new(&jobs).source(), Module::new(&backwards).source());
            if one == other { Ok(one) } else { Err("the order of jobs shows in the text".to_owned()) }
        };
        if source()? != source()? {
            return Err(format!("{name}: two runs have two texts").into());
        }
    }
    Ok(())
}
