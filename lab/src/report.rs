//! Reports about a model for programs and for people: a plan as JSON, and a page with pictures.
//!
//! The page is a single HTML file that needs no network. It shows the imported graph and the planned one, the
//! arena step by step, the cost of each step compared with its runner-up, and measured times if there are
//! any. Its data is one JSON object, and its own script (`report/*.js`) draws everything. The same data gives
//! the same bytes. The page of an experiment has plots of its tables.

use ovolo::cost::{FEATURES, FeatureValue};
use ovolo::egraph::RunnerUp;
use ovolo::graph::{Graph, json};
use ovolo::plan::{Arena, KeptConstants, Placed, Plan};
use ovolo::stage::PricedKernel;
use ovolo::tensor::Device;
use serde_json::{Value, json};

/// The contents of a page.
pub struct Page<'a> {
    /// The name of the model.
    pub title: &'a str,
    /// How it was compiled: names and values, in this order.
    pub settings: &'a [(&'a str, String)],
    /// The graph as it was imported.
    pub imported: Option<&'a Graph>,
    /// The graph that was chosen.
    pub program: &'a Graph,
    /// Its plan.
    pub plan: &'a Plan,
    /// The runner-up of each choice, if they were asked for.
    pub runner_ups: Option<&'a [RunnerUp]>,
    /// Measured times, if there are any.
    pub profile: Option<Profile>,
}

/// Measured times of a plan.
pub struct Profile {
    /// Seconds of one run of the whole plan.
    pub seconds: f64,
    /// The steps, in the plan's order.
    pub steps: Vec<Timing>,
}

/// The measured time of a step.
pub struct Timing {
    /// Seconds of one run.
    pub seconds: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// The share of the machine's peak that it reaches; 1 is the peak.
    pub peak: f64,
    /// What limits it at the peak: `arithmetic` or `memory`.
    pub bound: &'static str,
}

const TEMPLATE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = concat!(
    include_str!("report/base.js"),
    include_str!("report/model.js"),
    include_str!("report/svg.js"),
    include_str!("report/layers.js"),
    include_str!("report/graph.js"),
    include_str!("report/memory.js"),
    include_str!("report/table.js"),
    include_str!("report/page.js"),
);

impl Page<'_> {
    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        assemble(TEMPLATE, &self.data(), SCRIPT)
    }

    fn data(&self) -> Value {
        let mut data = plan(self.plan);
        if let (Some(steps), Some(runner_ups)) = (data["steps"].as_array_mut(), self.runner_ups) {
            for step in steps {
                step["runner_up"] = runner_up(step, runner_ups);
            }
        }
        let kept = |kept: &KeptConstants| json!({ "device": kept.device.to_string(), "bytes": kept.bytes, "computed": kept.computed });
        data["constants"] = self.plan.kept(self.program).iter().map(kept).collect();
        data["title"] = self.title.into();
        data["settings"] = self.settings.iter().map(|(name, value)| json!([name, value])).collect();
        data["imported"] = self.imported.map(json::to_json).into();
        data["program"] = json::to_json(self.program);
        data["compared"] = self.runner_ups.is_some().into();
        data["profile"] = self.profile.as_ref().map(profile).into();
        data
    }
}

/// Returns the page of an experiment as HTML: its tables, and plots of them.
pub fn experiment(data: &Value) -> String {
    const TEMPLATE: &str = include_str!("report/experiment.html");
    const SCRIPT: &str = concat!(
        include_str!("report/base.js"),
        include_str!("report/svg.js"),
        include_str!("report/plot.js"),
        include_str!("report/experiment.js"),
    );
    assemble(TEMPLATE, data, SCRIPT)
}

fn assemble(template: &str, data: &Value, script: &str) -> String {
    // In JSON a `<` only occurs in strings. It is escaped, so that it cannot end the element with the data.
    let data = data.to_string().replace('<', "\\u003c");
    let mut html = String::with_capacity(data.len() + template.len() + STYLE.len() + script.len());
    let mut rest = template;
    for (mark, text) in [("{style}", STYLE), ("{data}", &data), ("{script}", script)] {
        let (before, after) =
            rest.split_once(mark).expect("the template contains the three marks in this order");
        html.push_str(before);
        html.push_str(text);
        rest = after;
    }
    html.push_str(rest);
    html
}

/// Returns a plan as JSON: its steps, and the contents of the arena over time.
pub fn plan(plan: &Plan) -> Value {
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|step| {
            json!({
                "name": &*step.name,
                "op": step.op,
                "attributes": step.attrs.to_string(),
                "backend": step.op.backend(),
                "implementation": step.implementation,
                "layout": step.output_type.layout.to_string(),
                "type": step.output_type.to_string(),
                "bytes": step.output_type.bytes(),
                "operands": step.inputs.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "output": step.output.to_string(),
                "in_place": step.in_place,
                "copied": step.copied,
                "scratch": step.scratch,
                "scratch_offset": step.scratch_offset,
                "seconds": step.seconds,
                "rules": step.source.rules,
                "other_rules": step.source.others,
                "imported": step.source.imported,
            })
        })
        .collect();
    let buffers: Vec<_> = plan.buffers.iter().map(buffer).collect();
    let mut value = json!({
        "steps": steps, "seconds": plan.seconds(), "copying": plan.copying, "buffers": buffers, "arena": plan.arena,
        "lower_bound": plan.lower_bound, "lower_bound_any_order": plan.lower_bound_any_order, "proven": plan.proven,
        "threads": plan.threads,
    });
    add_devices(&mut value, &plan.devices);
    value
}

/// Returns a buffer as JSON. A buffer without a device is on the host.
fn buffer(buffer: &Placed) -> Value {
    let Placed { device, offset, size, lower, upper } = buffer;
    let mut value = json!({ "offset": offset, "size": size, "lower": lower, "upper": upper });
    if *device != Device::Host {
        value["device"] = device.to_string().into();
    }
    value
}

/// Adds the arenas of other devices, if there are any, to an object that has the host's arena.
pub fn add_devices(value: &mut Value, arenas: &[Arena]) {
    let one = |Arena { device, bytes, lower_bound, lower_bound_any_order, proven }: &Arena| {
        json!({
            "device": device.to_string(), "arena": bytes, "lower_bound": lower_bound,
            "lower_bound_any_order": lower_bound_any_order, "proven": proven,
        })
    };
    if !arenas.is_empty() {
        value["devices"] = arenas.iter().map(one).collect();
    }
}

/// Returns the features of kernels, with their prices: an array with an object for each kernel, whose keys are the names of
/// [`FEATURES`], `measured` and `seconds`.
pub fn kernels(kernels: &[PricedKernel]) -> Value {
    let row = |kernel: &PricedKernel| -> Value {
        let features = FEATURES.iter().zip(&kernel.features).map(|(feature, value)| {
            let value = match value {
                FeatureValue::Number(number) => (*number).into(),
                FeatureValue::Text(text) => text.to_string().into(),
            };
            (feature.name.to_owned(), value)
        });
        let mut row: serde_json::Map<String, Value> = features.collect();
        row.insert("measured".to_owned(), kernel.measured.into());
        row.insert("seconds".to_owned(), kernel.seconds.into());
        row.into()
    };
    kernels.iter().map(row).collect()
}

/// Returns a runner-up as JSON.
pub fn to_json(runner_up: &RunnerUp) -> Value {
    let changes = |changes: &[ovolo::egraph::Change]| -> Vec<Value> {
        let one = |change: &ovolo::egraph::Change| json!({"node": change.node, "type": change.ty.to_string(), "seconds": change.seconds});
        changes.iter().map(one).collect()
    };
    json!({
        "value": runner_up.value, "chosen": runner_up.chosen, "seconds": runner_up.seconds,
        "instead": runner_up.instead, "differs": runner_up.differs, "margin": runner_up.margin, "proven": runner_up.proven,
        "adds": changes(&runner_up.adds), "drops": changes(&runner_up.drops),
    })
}

/// Returns the runner-up of a step given as JSON. A plan that was chosen by timing whole plans may have
/// kernels other than those whose runner-ups these are; such kernels have none.
fn runner_up(step: &Value, runner_ups: &[RunnerUp]) -> Value {
    let words = [&step["op"], &step["attributes"]].map(|part| part.as_str().unwrap_or_default());
    let chosen = words.join(" ");
    let fits = |one: &&RunnerUp| step["name"] == one.value && one.chosen.trim_end() == chosen.trim_end();
    runner_ups.iter().find(fits).map(to_json).into()
}

fn profile(profile: &Profile) -> Value {
    let steps: Vec<_> = profile
        .steps
        .iter()
        .map(|timing| {
            json!({
                "seconds": timing.seconds, "flops": timing.flops, "peak": timing.peak, "bound": timing.bound,
            })
        })
        .collect();
    json!({"seconds": profile.seconds, "steps": steps})
}
