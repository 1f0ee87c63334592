//! `ovolo kernels`: the generated kernels of a plan for a device, and their machine code.

use super::caching::Caching;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::backend::Unkept;
use ovolo::cache::Kept;
use ovolo::op::Call;
use ovolo::registry::Registry;
use ovolo::tensor::TensorType;
use ovolo_cuda::nvrtc::{self, Architecture, Made};
use ovolo_cuda::{Job, Module, job};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

#[derive(Args)]
pub(super) struct Kernels {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    caching: Caching,
    /// The architecture to compile for.
    #[arg(long, default_value = "sm_90", value_name = "sm_XY")]
    arch: String,
    /// Print the source text of the module instead.
    #[arg(long)]
    source: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Kernels {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let architecture = architecture(&self.arch)?;
        let named = self.settings.options(registry, &self.settings.pipeline)?.pipeline;
        // The default pipeline of the other commands has no kernels for a device.
        let none = !named.backends.iter().any(|backend| backend == "cuda");
        let settings = Settings {
            pipeline: if none { "cuda".to_owned() } else { self.settings.pipeline.clone() },
            cost: self.settings.cost.clone().or_else(|| Some("flops".to_owned())),
            ..self.settings.clone()
        };
        let compilation = settings.compile(registry)?;
        let mut jobs: Vec<Job> = Vec::new();
        let mut copies = 0;
        for step in compilation.plan.steps.iter().filter(|step| step.op.name.starts_with("cuda.")) {
            let inputs: Vec<&TensorType> = step.input_types.iter().collect();
            let call = Call {
                op: step.op,
                attrs: &step.attrs,
                inputs: &inputs,
                output: &step.output_type,
                threads: compilation.plan.threads,
            };
            match step.implementation.as_str() {
                "copy" => copies += 1,
                _ => jobs.push(job(&call).map_err(|why| why.to_string())?),
            }
        }
        let module = Module::new(&jobs);
        let source = module.source();
        if self.source {
            print(&source);
            return Ok(());
        }
        let launches: usize = jobs.iter().map(|job| job.kernels.len()).sum();
        let start = Instant::now();
        let made = self.made(registry, &source, architecture)?;
        let seconds = start.elapsed().as_secs_f64();
        let figures = nvrtc::figures(&made.cubin.log);
        let registers = figures.iter().map(|one| one.registers).max().unwrap_or(0);
        let spills: usize = figures.iter().map(|one| one.spills).sum();
        let kernels = module.kernels().len();
        if self.json {
            let value = serde_json::json!({
                "kernels": kernels, "launches": launches, "copies": copies,
                "architecture": architecture.to_string(), "compiled": made.fresh, "seconds": seconds,
                "cubin_bytes": made.cubin.code.len(), "registers": registers, "spill_bytes": spills,
                "source_bytes": source.len(),
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let mut text = format!("{kernels} generated kernels for {launches} launches, {copies} copies\n");
        let how = if made.fresh { "compiled" } else { "from the cache" };
        let _ = writeln!(
            text,
            "{architecture}: {how} in {:.1} ms, {} bytes of machine code, at most {registers} registers, {spills} bytes of spills",
            seconds * 1e3,
            made.cubin.code.len()
        );
        print(&text);
        Ok(())
    }

    /// Returns the machine code, from the cache unless it is not used.
    fn made(
        &self,
        registry: &Arc<Registry>,
        source: &str,
        architecture: Architecture,
    ) -> Result<Made, String> {
        let compiler = nvrtc::compiler()
            .map_err(|why| format!("NVRTC is {why}; run `cargo xtask nvrtc` to fetch it"))?;
        let made = match self.caching.cache(registry) {
            Some(cache) => nvrtc::machine_code(&Kept::new(cache.folder()), compiler, source, architecture),
            None => nvrtc::machine_code(&Unkept, compiler, source, architecture),
        };
        made.map_err(|why| why.to_string())
    }
}

fn architecture(text: &str) -> Result<Architecture, String> {
    let digits = text.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
    match digits {
        Some(number) if number >= 50 => Ok(Architecture(number / 10, number % 10)),
        _ => Err(format!("`{text}` is not an architecture: give one such as `sm_90`")),
    }
}
