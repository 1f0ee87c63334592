//! Machine code and plans that are kept from one session to the next.

use super::super::{common, nvrtc, standin};
use super::{GRAPHS, module, parsed};
use libtest_mimic::Failed;
use ovolo::cache::{self, Cache};
use ovolo::plan::Base;
use ovolo::session::Session;
use ovolo::tensor::{Device, Tensor};
use ovolo_cuda::nvrtc::{Architecture, machine_code};

/// Machine code is compiled once for all sessions that keep it. A stored plan runs as before, and one whose
/// values are in the wrong memory is refused.
pub fn machine_code_and_plans_are_kept() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let folder = common::temporary().join("device_cache");
    let _ = std::fs::remove_dir_all(&folder);
    let cache = Cache::new(&folder, Cache::LIMIT, common::registry());
    let cubins = cache::KeptArtifacts::new(cache.folder());
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let plan = compilation.plan;
    let module = module(&plan)?;
    let _turn = standin::turn();
    standin.register("kept", &module);
    let inputs = common::inputs(&graph);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut first = Session::with(&compilation.program, plan.clone(), common::registry().backends(), &cubins)
        .map_err(|error| error.to_string())?;
    let outputs = first.run(&inputs).map_err(|error| error.to_string())?.to_vec();
    let compiler = nvrtc::compiler()?;
    if machine_code(&cubins, compiler, &module.source(), Architecture(9, 0))?.fresh {
        return Err("the machine code was not kept".into());
    }
    let constants = || first.constants().into_iter().map(|(node, value)| (node, value.clone())).collect();
    let mut again = Session::stored(plan.clone(), constants(), common::registry().backends(), &cubins)
        .map_err(|error| error.to_string())?;
    let repeated = again.run(&inputs).map_err(|error| error.to_string())?;
    if outputs.iter().zip(repeated).any(|(a, b)| a.bytes() != b.bytes()) {
        return Err("the stored plan gives other values".into());
    }
    for bytes in [0, plan.devices[0].bytes - 64, usize::MAX] {
        let mut wrong = plan.clone();
        wrong.devices[0].bytes = bytes;
        if Session::stored(wrong, constants(), common::registry().backends(), &cubins).is_ok() {
            return Err(format!("a plan with {bytes} bytes on the device is taken").into());
        }
    }
    for (at, step) in plan.steps.iter().enumerate() {
        let mut wrong = plan.clone();
        wrong.steps[at].output.base = match step.output.base {
            Base::Arena(Device::Host) => Base::Arena(Device::Accelerator(ovolo_cuda::FAMILY, 0)),
            _ => Base::Arena(Device::Host),
        };
        if Session::stored(wrong, constants(), common::registry().backends(), &cubins).is_ok() {
            return Err(format!("a plan whose step {at} writes to the other memory is taken").into());
        }
    }
    Ok(())
}
