//! `ovolo cache show`.

use super::super::amount::{positive, size};
use super::super::{Outcome, print};
use super::list::{ago, key, region, weight_bytes};
use super::{open, short, shown};
use clap::Args;
use ovolo::cache::{ConstantBytes, Entry, Item};
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo_lab::report;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct Show {
    /// The entry: the first digits of its name.
    entry: String,
    /// Also show the steps of the plan.
    #[arg(long)]
    plan: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let items = cache.items();
        let found: Vec<&Item> = items.iter().filter(|item| item.name.starts_with(&self.entry)).collect();
        let item = match found[..] {
            [] => {
                return Err(format!("no entry begins with `{}`: `ovolo cache list` lists them", self.entry));
            }
            [item] => item,
            [first, second, ..] => {
                return Err(format!(
                    "`{}` is ambiguous: it may be {} or {}",
                    self.entry,
                    short(first),
                    short(second)
                ));
            }
        };
        let entry = item.entry.as_ref().map_err(|miss| format!("entry {}: {miss}", short(item)))?;
        let plan = cache.plan(entry).map_err(|miss| format!("entry {}: {miss}", short(item)))?;
        if self.json {
            let mut value = serde_json::json!({
                "entry": item.name, "model": entry.model, "plan": plan.to_string(),
                "seconds": plan.seconds(), "arena": plan.arena,
                "key": key(entry), "region": region(entry),
            });
            report::add_devices(&mut value, &plan.devices);
            print(&format!("{value}\n"));
            return Ok(());
        }
        print(&self.text(item, entry, &plan, &items));
        Ok(())
    }

    fn text(&self, item: &Item, entry: &Entry, plan: &Plan, items: &[Item]) -> String {
        let mut text =
            format!("entry {}\nmodel {}, used {}\n", item.name, shown(&entry.model), ago(item.used));
        if let Some(region) = &entry.region {
            let _ = writeln!(text, "region: inputs {}", shown(&region.inputs.join(", ")));
            for asked in &region.asked {
                let _ = writeln!(text, "  made for {}", shown(asked));
            }
        }
        let devices = plan.devices.iter();
        let devices = devices.map(|arena| format!(" and {} of {}", arena.bytes, arena.device));
        let _ = writeln!(
            text,
            "plan: {} steps, arena {} bytes{}, estimate {:.3} ms",
            plan.steps.len(),
            plan.arena,
            devices.collect::<String>(),
            positive(plan.seconds() * 1e3)
        );
        let weights = entry.weights();
        let here = entry
            .constants
            .iter()
            .filter(|constant| matches!(constant.value, ConstantBytes::Here(_)))
            .count();
        let shared = weights.iter().filter(|(digest, _)| {
            let holds = |entry: &Entry| entry.weights().iter().any(|(other, _)| other == digest);
            items.iter().any(|other| other.name != item.name && other.entry.as_ref().is_ok_and(holds))
        });
        let _ = writeln!(
            text,
            "constants: {here} in the entry, {} in files ({}), {} of these shared with other entries",
            weights.len(),
            size(weight_bytes(entry)),
            shared.count()
        );
        if let Some(basis) = &entry.basis {
            let _ = writeln!(text, "chosen with {} lines of the table of times", basis.lines.len());
        }
        let _ = writeln!(text, "key:");
        for (name, value) in entry.key.fields() {
            let _ = writeln!(text, "  {}: {}", shown(name), shown(value));
        }
        if self.plan {
            let _ = write!(text, "{plan}");
        }
        text
    }
}
