//! Tests the machine code of kernels, as NVIDIA's disassembler shows it: in products, how often the instructions stand there
//! that multiply, and those that read shared memory; in elementwise kernels, how wide reads and writes are.

use super::case::Case;
use super::nvrtc::{self, ARCHITECTURES};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::tensor::{DType, Tensor, TensorType};
use ovolo_cuda::Module;
use ovolo_cuda::nvrtc::Architecture;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The disassembler that `cargo xtask nvrtc` fetches, or the one that `OVOLO_NVDISASM` names.
pub fn disassembler() -> Result<PathBuf, String> {
    let fetched = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("../nvdisasm/nvdisasm");
    let path = std::env::var_os("OVOLO_NVDISASM").map_or_else(fetched, PathBuf::from);
    if path.exists() { Ok(path) } else { Err(format!("{} is absent", path.display())) }
}

/// How often each instruction stands in the machine code, by its name with all suffixes.
struct Mix(BTreeMap<String, usize>);

impl Mix {
    /// Compiles and disassembles the kernels of a call.
    fn of(case: Option<Case>, architecture: Architecture) -> Result<Self, Failed> {
        let module =
            Module::new(&[case.ok_or("the op refuses the call")?.job().map_err(|why| why.to_string())?]);
        let cubin = nvrtc::compiler()?.compile(&module.source(), architecture)?;
        // Tests run side by side: each call has a file of its own.
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("mix_{}.cubin", CALLS.fetch_add(1, Ordering::Relaxed));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, &cubin.code)?;
        let output = Command::new(disassembler()?).arg("--print-code").arg(&file).output()?;
        std::fs::remove_file(&file)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let mut found = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // A line is `/*0010*/ @P0 LDS.128 R4, [R2] ;`.
            let Some((_, code)) = line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/"))
            else {
                continue;
            };
            let name = code.split_whitespace().find(|word| !word.starts_with('@'));
            if let Some(name) = name.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())) {
                *found.entry(name.trim_end_matches(';').to_owned()).or_default() += 1;
            }
        }
        Ok(Self(found))
    }

    /// Returns how many instructions have a name that begins so.
    fn count(&self, name: &str) -> usize {
        let begins =
            |found: &str| found == name || found.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.0.iter().filter(|(found, _)| begins(found)).map(|(_, count)| count).sum()
    }

    /// Returns how many of them access 128 bits.
    fn wide(&self, name: &str) -> usize {
        let wide = self.0.iter().filter(|(found, _)| {
            found.split('.').next() == Some(name) && found.split('.').any(|part| part == "128")
        });
        wide.map(|(_, count)| count).sum()
    }

    /// Returns an error with all counts unless a condition holds.
    fn demand(&self, what: &str, holds: bool) -> Result<(), Failed> {
        if holds { Ok(()) } else { Err(format!("{what}: {:?}", self.0).into()) }
    }
}

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::zeros(TensorType::plain(dtype, shape))
}

/// Products by the usual arithmetic multiply at least eight times for each read of shared memory, which takes 128 bits,
/// read vectors of operands whose rows are whole vectors, and keep nothing on the stack.
pub fn products_multiply_more_than_they_read() -> Result<(), Failed> {
    let square = || zeros(DType::F32, &[2048, 2048]);
    let image = || {
        vec![
            zeros(DType::F32, &[8, 64, 56, 56]),
            zeros(DType::F32, &[128, 64, 3, 3]),
            zeros(DType::F32, &[128]),
        ]
    };
    for architecture in ARCHITECTURES {
        // All reads of a product of matrices are of vectors, and those of a convolution's weights are.
        for (case, all) in [
            (Case::new("matmul", Attrs::new(), vec![square(), square()]), true),
            (Case::new("conv", Attrs::new().ints("pads", &[1; 4]), image()), false),
        ] {
            let mix = Mix::of(case, architecture)?;
            let (multiply, read) = (mix.count("FFMA"), mix.count("LDS"));
            let title = format!("{architecture}: {multiply} multiplications, {read} reads");
            mix.demand(&title, multiply >= 256 && read > 0 && multiply >= 8 * read)?;
            mix.demand(&title, mix.count("LDS.128") == read)?;
            let (wide, reads) = (mix.wide("LDG"), mix.count("LDG"));
            mix.demand(&format!("{title}, {wide} of {reads} reads"), wide > 0 && (wide == reads || !all))?;
            mix.demand(&title, mix.count("LDL") + mix.count("STL") == 0)?;
        }
    }
    Ok(())
}

/// Elementwise kernels read and write vectors of 16 bytes where the elements of all operands are adjacent and fill
/// vectors, and keep nothing on the stack.
pub fn vectors_are_whole() -> Result<(), Failed> {
    for architecture in ARCHITECTURES {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let image = || zeros(dtype, &[64, 4096]);
            let row = || zeros(dtype, &[4096]);
            for (op, operands) in
                [("relu", vec![image()]), ("add", vec![image(), image()]), ("mul", vec![image(), row()])]
            {
                let reads = operands.len();
                let mix = Mix::of(Case::new(op, Attrs::new(), operands), architecture)?;
                for (access, least) in [("LDG", reads), ("STG", 1)] {
                    let (wide, all) = (mix.wide(access), mix.count(access));
                    let title =
                        format!("{architecture}, {op} of {dtype}: {wide} of {all} {access} are of 16 bytes");
                    mix.demand(&title, wide >= least && wide == all)?;
                }
                mix.demand(&format!("{architecture}, {op}"), mix.count("LDL") + mix.count("STL") == 0)?;
            }
        }
    }
    Ok(())
}

/// Products on tensor cores copy vectors of 16 bytes in the background, multiply at least five times for two reads of
/// fragments of 16 bits, and keep nothing on the stack.
pub fn tensor_cores_are_fed() -> Result<(), Failed> {
    for architecture in ARCHITECTURES {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let square = || zeros(dtype, &[2048, 2048]);
            let attrs = Attrs::new().int("tf32", i64::from(dtype == DType::F32));
            let mix =
                Mix::of(Case::new("cuda.matmul-tensor", attrs, vec![square(), square()]), architecture)?;
            let (multiply, copies) = (mix.count("HMMA"), mix.count("LDGSTS"));
            let title = format!("{architecture}, {dtype}: {multiply} multiplications, {copies} copies");
            mix.demand(&title, multiply == 32 && copies >= 4)?;
            mix.demand(&title, mix.wide("LDGSTS") == copies)?;
            let fragments = mix.count("LDSM");
            mix.demand(
                &title,
                if dtype == DType::F32 { fragments == 0 } else { 2 * multiply >= 5 * fragments },
            )?;
            mix.demand(&title, mix.count("LDL") + mix.count("STL") == 0)?;
        }
    }
    Ok(())
}
