//! `ovolo check`.

use super::{Outcome, print};
use clap::Args;
use ovolo::onnx::{self, MissingWeights, Remark, Survey};
use ovolo::registry::Registry;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Check {
    /// The model: an ONNX file.
    model: PathBuf,
    /// Bind a symbolic dimension.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// The size of symbolic dimensions that --dim does not bind. The work of the model is computed for these sizes. Default: the
    /// smallest of 1, 32, 64, 128, 256, 512, 1024 and 16384 with which the fewest nodes are refused.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    size: Option<u32>,
    /// Accept initializers that have no data but a note `normal MEAN STD`.
    #[arg(long)]
    seeded_weights: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        if ovolo::graph::text::is_named(&self.model) {
            return Err(format!(
                "{}: it is a graph in text form, whose ops are ovolo's own; `check` takes ONNX models",
                self.model.display()
            ));
        }
        let dims = super::load::dims(&self.dims)?;
        let policy = if self.seeded_weights { MissingWeights::Seeded } else { MissingWeights::Refuse };
        let model = self.model.display().to_string();
        let named = |why: String| if why.contains(&model) { why } else { format!("{model}: {why}") };
        let found = self.survey(registry, &dims, policy).map_err(named);
        if let (Err(why), true) = (&found, self.json) {
            print(&format!("{}\n", json!({ "model": self.model, "complete": false, "error": why })));
        }
        let found = found?;
        print(&if self.json { self.to_json(&found) } else { self.text(&found) });
        if found.is_complete() {
            return Ok(());
        }
        let mut operators: Vec<&str> = found.absent.iter().map(|place| place.op.as_str()).collect();
        operators.sort_unstable();
        operators.dedup();
        let what = if operators.is_empty() { "parts".to_owned() } else { operators.join(", ") };
        Err(format!("{}: ovolo cannot run {what} of this model, for the reasons above", self.model.display()))
    }

    /// Surveys the model. Where sizes are free, a window that does not fit is no lack of ovolo's, so sizes are tried.
    fn survey(
        &self,
        registry: &Arc<Registry>,
        dims: &BTreeMap<String, usize>,
        policy: MissingWeights,
    ) -> Result<Survey, String> {
        let at = |size: usize| {
            onnx::survey(registry.onnx(), &self.model, dims, size, policy).map_err(|error| error.to_string())
        };
        if let Some(size) = self.size {
            return at(size as usize);
        }
        let mut best = at(SIZES[0])?;
        for size in &SIZES[1..] {
            let sized = best.dims.values().any(|(_, given)| !given) && refused(&best) > 0;
            if !sized {
                break;
            }
            let found = at(*size)?;
            let lacks = |one: &Survey| (refused(one) + one.others.len(), one.unread);
            if lacks(&found) < lacks(&best) {
                best = found;
            }
        }
        Ok(best)
    }

    fn text(&self, found: &Survey) -> String {
        let mut text = format!("{}\n", self.model.display());
        if !found.producer.is_empty() {
            let _ = writeln!(text, "written by {}", found.producer);
        }
        let _ = writeln!(text, "{} nodes, opset {}", found.nodes, found.opset);
        let _ = writeln!(text, "inputs:");
        for (name, ty) in &found.inputs {
            let _ = writeln!(text, "  `{name}` {ty}");
        }
        if !found.dims.is_empty() {
            let dim = |(name, (size, given)): (&String, &(usize, bool))| {
                format!(
                    "`{name}` (here {size}{})",
                    if *given { "" } else { ", which --dim or --size changes" }
                )
            };
            let list: Vec<String> = found.dims.iter().map(dim).collect();
            let _ = writeln!(text, "dimensions without a size: {}", list.join(", "));
        }
        let list: Vec<String> = found.types.iter().map(|(ty, count)| format!("{ty} ({count})")).collect();
        let _ = writeln!(text, "element types, with numbers of values: {}", list.join(", "));
        let _ = writeln!(text, "operators:");
        for one in &found.operators {
            let opset = one.opset.map_or_else(|| "no opset imported".to_owned(), |opset| opset.to_string());
            let absent = if one.known { "" } else { "  ABSENT" };
            let _ = writeln!(text, "  {:6} {} (opset {opset}){absent}", one.count, one.op);
        }
        section(&mut text, "control flow:", &found.control);
        section(
            &mut text,
            "cut into regions there, so it is compiled while it runs (`ovolo run`):",
            &found.cuts,
        );
        section(&mut text, "absent:", &found.absent);
        for other in &found.others {
            let _ = writeln!(text, "absent: {other}");
        }
        if refused(found) > 0 && found.dims.values().any(|(_, given)| !given) {
            let _ = writeln!(text, "with other sizes, by --dim NAME=N, fewer nodes may be refused");
        }
        if found.unread > 0 {
            let _ = writeln!(
                text,
                "of {} node(s) only the operator was looked at: the types of their operands are not known, since only a run knows \
                 them or a part of the model is absent",
                found.unread
            );
        }
        for shape in &found.shapes {
            let _ = writeln!(text, "note: {shape}");
        }
        text.push_str(&work(found));
        let verdict = match (found.is_complete(), found.unread) {
            (true, 0) => "everything is there",
            (true, _) => "everything is there, as far as it is known before a run",
            (false, _) => "NOT everything is there",
        };
        let _ = writeln!(text, "{verdict}");
        text
    }

    fn to_json(&self, found: &Survey) -> String {
        let places = |list: &[Remark]| {
            let one = |place: &Remark| json!({ "node": place.node, "op": place.op, "why": place.why });
            list.iter().map(one).collect::<Vec<_>>()
        };
        let operators: Vec<_> = found
            .operators
            .iter()
            .map(|one| json!({ "op": one.op, "opset": one.opset, "count": one.count, "known": one.known }))
            .collect();
        let inputs: Vec<_> =
            found.inputs.iter().map(|(name, ty)| json!({ "name": name, "type": ty })).collect();
        let dims: BTreeMap<_, _> = found
            .dims
            .iter()
            .map(|(name, (size, given))| (name, json!({ "size": size, "given": given })))
            .collect();
        let value = json!({
            "model": self.model.display().to_string(), "complete": found.is_complete(),
            "producer": found.producer, "opset": found.opset, "nodes": found.nodes, "inputs": inputs,
            "dims": dims, "operators": operators, "types": found.types, "control": places(&found.control),
            "cuts": places(&found.cuts), "absent": places(&found.absent), "others": found.others, "shapes": found.shapes,
            "unread": found.unread, "flops": found.flops, "absent_flops_at_least": found.absent_flops,
            "absent_without_types": found.absent_unknown,
        });
        format!("{value}\n")
    }
}

/// The sizes that are tried for dimensions without one.
const SIZES: [usize; 8] = [1, 32, 64, 128, 256, 512, 1024, 16384];

/// Returns the number of nodes that are refused though ovolo has their operator; other sizes may be accepted.
fn refused(found: &Survey) -> usize {
    let known = |place: &&Remark| found.operators.iter().any(|one| one.known && one.op == place.op);
    found.absent.iter().filter(known).count()
}

/// The most nodes that a section lists in full.
const SHOWN: usize = 40;

fn section(text: &mut String, title: &str, places: &[Remark]) {
    if places.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title}");
    for place in places.iter().take(SHOWN) {
        // Nodes that contain graphs are named with their operators.
        let op = if place.node.starts_with(&place.op) { String::new() } else { format!("{} ", place.op) };
        let _ = writeln!(text, "  {op}{}: {}", place.node, place.why.replace('\n', "\n    "));
    }
    if places.len() > SHOWN {
        let _ = writeln!(text, "  and {} more; --json lists all", places.len() - SHOWN);
    }
}

/// Tells the work of the model, and how much of it is absent.
#[allow(clippy::cast_precision_loss)] // Numbers of nodes are small.
fn work(found: &Survey) -> String {
    let sizes = if found.dims.is_empty() { "" } else { " with these sizes" };
    let mut text = format!("work{sizes}: {:.3} million floating-point operations", found.flops / 1e6);
    if found.absent.is_empty() {
        return text + "\n";
    }
    let share = 100.0 * found.absent.len() as f64 / found.nodes.max(1) as f64;
    let all = (found.flops + found.absent_flops).max(1.0);
    let _ = write!(
        text,
        " are there\nabsent: {} of {} nodes ({share:.1} %), at least {:.3} million operations ({:.1} % of all)",
        found.absent.len(),
        found.nodes,
        found.absent_flops / 1e6,
        100.0 * found.absent_flops / all
    );
    if found.absent_unknown > 0 {
        let _ = write!(text, "; of {} of them the work is not known", found.absent_unknown);
    }
    text + "\n"
}
