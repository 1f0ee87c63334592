//! Machine code of generated kernels: it is made for two architectures, and nothing spills.

use super::case::{Case, FAMILIES, Random};
use libtest_mimic::Failed;
use ovolo::backend::cuda::nvrtc::{self, Architecture, Compiler};
use ovolo::backend::cuda::{Job, Module};

/// What kernels are compiled for here: A100, and H100 and H200.
pub const ARCHITECTURES: [Architecture; 2] = [Architecture(8, 0), Architecture(9, 0)];

/// The compiler, or nothing where there is none; `OVOLO_REQUIRE_NVRTC`, as in CI, makes that a failure.
pub fn compiler() -> Option<&'static Compiler> {
    match nvrtc::compiler() {
        Ok(compiler) => Some(compiler),
        Err(why) => {
            assert!(std::env::var_os("OVOLO_REQUIRE_NVRTC").is_none(), "{why}: run `cargo xtask nvrtc`");
            println!("skipped: what needs NVRTC, which is {why}; `cargo xtask nvrtc` fetches it");
            None
        }
    }
}

/// Compiles every kernel of a family; the assembler's figures must show no spill and no stack.
pub fn compiles(cases: &[Case]) -> Result<(), Failed> {
    let Some(compiler) = compiler() else { return Ok(()) };
    let jobs: Vec<Job> = cases.iter().map(Case::job).collect::<Result<_, _>>()?;
    let module = Module::new(&jobs);
    let source = module.source();
    for architecture in ARCHITECTURES {
        let cubin = compiler.compile(&source, architecture)?;
        let figures = nvrtc::figures(&cubin.log);
        if figures.len() != module.kernels().len() {
            return Err(format!("{} figures for {} kernels", figures.len(), module.kernels().len()).into());
        }
        if !cubin.code.starts_with(b"\x7fELF") {
            return Err("the machine code is no ELF file".into());
        }
        for one in figures {
            let kernel = module.kernels().find(|kernel| kernel.name == one.kernel);
            let text = kernel.map_or("", |kernel| kernel.text.as_str());
            let threads = kernel.map_or(0, |kernel| kernel.launch.block[0] * kernel.launch.block[1]);
            if one.spills > 0 {
                return Err(format!("{architecture}: {} bytes spill in\n{text}", one.spills).into());
            }
            // A multiprocessor has 65536 registers: two blocks at least fit.
            if one.registers * threads as usize > 32_768 {
                return Err(format!("{architecture}: {} registers in\n{text}", one.registers).into());
            }
        }
    }
    Ok(())
}

/// Every family has the same text twice, and kernels of one name have one text.
pub fn canonical() -> Result<(), Failed> {
    for (number, (name, cases)) in FAMILIES.iter().enumerate() {
        let source = || {
            let jobs: Vec<Job> = cases(&mut Random::new(number as u64 + 1))
                .into_iter()
                .flatten()
                .map(|case| case.job())
                .collect::<Result<_, _>>()?;
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
