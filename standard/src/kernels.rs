//! `ovolo kernels`: the generated kernels of a plan for a device, and their machine code.

use clap::Args;
use ovolo::registry::Registry;
use ovolo_cli::{AddedCommand, Job, Refusal, Settings, print};
use ovolo_cuda::Module;
use ovolo_cuda::nvrtc::{self, Architecture, MachineCode};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

/// The command `kernels`, which compiles the generated kernels of a model's plan for a device.
#[derive(Args)]
pub struct Kernels {
    #[command(flatten)]
    settings: Settings,
    /// Compile without reading or changing the cache.
    #[arg(long)]
    no_cache: bool,
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

impl AddedCommand for Kernels {
    const NAME: &'static str = "kernels";
    const ABOUT: &'static str = "Compile the kernels of a model's plan for a device, and report the result";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        let architecture = architecture(&self.arch)?;
        let job = |settings: Settings| Job::new(Arc::clone(registry), settings, !self.no_cache);
        let named = job(self.settings.clone()).pipeline()?;
        // The default pipeline of the other commands has no kernels for a device.
        let none = !named.backends.iter().any(|backend| backend == "cuda");
        let settings = Settings {
            pipeline: if none { "cuda".to_owned() } else { self.settings.pipeline.clone() },
            cost: self.settings.cost.clone().or_else(|| Some("flops".to_owned())),
            ..self.settings.clone()
        };
        let job = job(settings);
        let (compilation, _) = job.compile()?;
        let (generated, copies) = ovolo_cuda::generated(&compilation.plan).map_err(|why| why.to_string())?;
        let module = Module::new(&generated);
        let source = module.source();
        if self.source {
            print(&source);
            return Ok(());
        }
        let launches: usize = generated.iter().map(|one| one.kernels.len()).sum();
        let start = Instant::now();
        let made = made(&job, &source, architecture)?;
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
}

/// Returns the machine code, from the cache unless it is not used.
fn made(job: &Job, source: &str, architecture: Architecture) -> Result<MachineCode, String> {
    let compiler = nvrtc::compiler().map_err(ToString::to_string)?;
    let made = job.with_artifacts(|artifacts| nvrtc::machine_code(artifacts, compiler, source, architecture));
    made.map_err(|why| why.to_string())
}

fn architecture(text: &str) -> Result<Architecture, String> {
    let digits = text.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
    match digits {
        Some(number) if number >= 50 => Ok(Architecture(number / 10, number % 10)),
        _ => Err(format!("`{text}` is not an architecture: give one such as `sm_90`")),
    }
}
