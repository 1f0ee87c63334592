//! What `ovolo compare` says.

use ovolo_proof::compare::{
    Bisection, Cause, Comparison, Departure, Distance, Local, RegionComparison, Step, runtime,
};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// A report, which grows with each region.
pub(super) struct Report {
    json: bool,
    model: String,
    with: String,
    notes: Vec<String>,
    drawn: Option<(Vec<(String, String)>, u64)>,
    several: bool,
    text: String,
    list: Vec<Value>,
    /// The first value that departs.
    departs: Option<String>,
    /// Whether all that was compared agrees, and how much that was.
    compared: (usize, usize),
}

impl Report {
    pub fn new(model: &Path, json: bool, runtime: Option<&runtime::Values>) -> Self {
        let with = runtime.map_or_else(
            || "the reference evaluation".to_owned(),
            |runtime| format!("ONNX Runtime {}", runtime.version),
        );
        Self {
            json,
            model: model.display().to_string(),
            with,
            notes: runtime.map_or_else(Vec::new, |runtime| {
                runtime.notes.iter().map(|note| format!("ONNX Runtime: {note}")).collect()
            }),
            drawn: None,
            several: false,
            text: String::new(),
            list: Vec::new(),
            departs: None,
            compared: (0, 0),
        }
    }

    /// Says which inputs were drawn.
    pub fn drawn(&mut self, drawn: &[(String, String)], seed: u64) {
        self.drawn = (!drawn.is_empty()).then(|| (drawn.to_vec(), seed));
    }

    /// Says something else.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Says that the model has several regions, and why.
    pub fn several(&mut self, why: &str) {
        self.several = true;
        let first = why.lines().next().unwrap_or_default().trim_end_matches(':');
        self.notes.push(format!(
            "the shapes of this model depend on its inputs ({first}), so it runs in regions; each region is compared on \
             the values that ovolo itself computed before it"
        ));
    }

    /// Adds a region.
    pub fn add(&mut self, region: &RegionComparison) {
        let Some(comparison) = &region.comparison else { return };
        self.compared.0 += comparison.compared;
        self.compared.1 += comparison.steps;
        if self.departs.is_none() && comparison.departs() {
            let far =
                |output: &&ovolo_proof::compare::Output| output.distance.relative > comparison.tolerance;
            let output = || comparison.outputs.iter().find(far).map(|output| output.name.clone());
            let value = comparison.departure.as_ref().map(|departure| departure.value.clone());
            self.departs = value.or_else(output);
        }
        if self.json {
            self.list.push(region_json(region, comparison));
            return;
        }
        if self.several {
            let _ = write!(self.text, "region {}: ", region.number);
        }
        self.text.push_str(&comparison_text(comparison, &self.with));
    }

    /// Returns the first value that departs.
    pub fn departs(&self) -> Option<String> {
        self.departs.clone()
    }

    /// Returns the whole report.
    pub fn text(self) -> String {
        if self.json {
            let inputs = self.drawn.map(|(drawn, seed)| {
                let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
                json!({ "seed": seed, "drawn": names })
            });
            let value = json!({
                "model": self.model, "with": self.with, "same": self.departs.is_none(), "departs_at": self.departs,
                "inputs": inputs, "notes": self.notes, "regions": self.list,
            });
            return format!("{value}\n");
        }
        let mut text = format!("{} compared with {}\n", self.model, self.with);
        if let Some((drawn, seed)) = &self.drawn {
            let list: Vec<String> = drawn.iter().map(|(name, ty)| format!("`{name}` ({ty})")).collect();
            let _ = writeln!(
                text,
                "inputs drawn at random with seed {seed}: {}; --input NAME=FILE gives real ones",
                list.join(", ")
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text.push_str(&self.text);
        text
    }
}

fn error(distance: &Distance) -> String {
    number(distance.relative)
}

fn number(relative: f64) -> String {
    if relative.is_finite() { format!("{relative:.1e}") } else { "infinite".to_owned() }
}

fn comparison_text(comparison: &Comparison, with: &str) -> String {
    let mut text = String::new();
    let Comparison { tolerance, outputs, steps, compared, .. } = comparison;
    let inner = match &comparison.furthest {
        Some((name, error)) if *error > 0.0 => {
            format!(", the furthest of them `{name}` by {}", number(*error))
        }
        _ => String::new(),
    };
    let verdict = if comparison.departs() { "DEPARTS" } else { "same" };
    let _ = writeln!(
        text,
        "{verdict}: tolerance {tolerance:.1e}; {compared} of {steps} steps compute a value of the model{inner}"
    );
    for output in outputs {
        let far = if output.distance.relative > *tolerance { "  beyond the tolerance" } else { "" };
        let _ = writeln!(
            text,
            "  output `{}` {}: relative error {}{far}",
            output.name,
            output.ty,
            error(&output.distance)
        );
    }
    if let Some(departure) = &comparison.departure {
        text.push_str(&departure_text(departure, with));
    }
    text
}

fn departure_text(departure: &Departure, with: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  first value that departs: `{}` ({}), relative error {}",
        departure.value,
        departure.op,
        error(&departure.distance)
    );
    if let Some(worst) = &departure.distance.worst {
        let _ = writeln!(
            text,
            "    its element {:?} is {} and should be {}",
            worst.position, worst.is, worst.should
        );
    }
    match &departure.step {
        Some(step) => step_text(&mut text, step),
        None => {
            let _ = writeln!(
                text,
                "    no step computes it: it is a part of another value, or follows from constants"
            );
        }
    }
    let _ = writeln!(text, "  judged on the operands that they read:");
    for (step, local) in &departure.locals {
        let _ = writeln!(text, "    {}", local_text(step, local));
    }
    let _ = writeln!(text, "  cause: {}", cause_text(departure, with));
    if let Some(bisection) = &departure.bisection {
        text.push_str(&bisection_text(bisection));
    }
    text
}

fn step_text(text: &mut String, step: &Step) {
    let _ = writeln!(text, "    computed by step {}: {} ({})", step.index, step.op, step.implementation);
    let list = |names: Vec<String>| names.join(", ");
    let imported = list(step.source.imported.iter().map(ToString::to_string).collect());
    if !imported.is_empty() {
        let _ = writeln!(text, "    which came from {imported}");
    }
    if !step.source.rules.is_empty() {
        let _ = writeln!(text, "    by the rules {}", step.source.rules.join(" <- "));
    }
    if !step.source.others.is_empty() {
        let _ = writeln!(text, "    and by {}", step.source.others.join(", "));
    }
}

fn local_text(step: &Step, local: &Local) -> String {
    let verdict = if !local.padded {
        "WRONG: its padding is not zero".to_owned()
    } else if local.is_wrong() {
        format!("WRONG: rounding explains {}", number(local.allowed))
    } else {
        "right within rounding".to_owned()
    };
    format!(
        "step {} {} `{}`: own error {}, {verdict}",
        step.index,
        step.op,
        step.name,
        error(&local.distance)
    )
}

fn cause_text(departure: &Departure, with: &str) -> String {
    match &departure.cause {
        Cause::Kernel { step, op, implementation } => format!(
            "the KERNEL `{op}` (implementation {implementation}) at step {step} does not compute what its op says"
        ),
        Cause::Rule(wrong) => format!(
            "the RULE `{}` ({}:{}): on these values its right side (`{}`) is {} from its left side (`{}`)",
            wrong.rule.name,
            wrong.rule.file,
            wrong.rule.line,
            wrong.right,
            error(&wrong.distance),
            wrong.left
        ),
        Cause::Import { value, op, distance } => format!(
            "the IMPORT or the op `{op}`: on the operands of {with}, ovolo's own evaluation of `{value}` is {} from it",
            error(distance)
        ),
        Cause::Rounding { largest } => {
            let own = match largest {
                Some((step, error)) if *error > 0.0 => {
                    format!("; the largest own error is {} (step {step})", number(*error))
                }
                _ => String::new(),
            };
            format!(
                "ROUNDING alone: each step is right on its own operands, and every rule that led to it holds on these \
                 values{own}; the model makes small differences larger"
            )
        }
    }
}

fn bisection_text(bisection: &Bisection) -> String {
    let mut text = String::new();
    for one in &bisection.tried {
        let result = match &one.error {
            Ok(error) if one.mended => format!("relative error {}: mended", number(*error)),
            Ok(error) => format!("relative error {}: still departs", number(*error)),
            Err(why) => format!("no plan: {}", why.to_string().lines().next().unwrap_or_default()),
        };
        let _ = writeln!(text, "  without {}: {result}", one.part);
    }
    let confirmed = bisection.tried.iter().any(|one| one.mended);
    let _ = match &bisection.found {
        Some(part) if !confirmed => {
            writeln!(text, "  so {part} cannot be left out; by what it did on these values, it is at fault")
        }
        Some(part) => writeln!(text, "  so {part} is at fault"),
        None => writeln!(text, "  no single rule or kernel mends it by its absence"),
    };
    text
}

fn distance_json(distance: &Distance) -> Value {
    json!({
        "relative": distance.relative.is_finite().then_some(distance.relative),
        "infinite": !distance.relative.is_finite(),
        "worst": distance.worst.as_ref().map(|worst| json!({
            "position": worst.position, "is": worst.is, "should": worst.should,
        })),
    })
}

fn step_json(step: &Step) -> Value {
    let imported: Vec<String> = step.source.imported.iter().map(ToString::to_string).collect();
    json!({
        "index": step.index, "name": step.name, "op": step.op, "implementation": step.implementation,
        "rules": step.source.rules, "others": step.source.others, "imported": imported,
    })
}

fn region_json(region: &RegionComparison, comparison: &Comparison) -> Value {
    let outputs: Vec<Value> = comparison
        .outputs
        .iter()
        .map(|output| json!({ "name": output.name, "type": output.ty, "distance": distance_json(&output.distance) }))
        .collect();
    json!({
        "region": region.number, "then": region.why, "same": !comparison.departs(),
        "tolerance": comparison.tolerance, "steps": comparison.steps, "compared": comparison.compared,
        "furthest": comparison.furthest.as_ref().map(|(name, error)| json!({ "name": name, "relative": error })),
        "outputs": outputs, "departure": comparison.departure.as_ref().map(departure_json),
    })
}

fn departure_json(departure: &Departure) -> Value {
    let kind = match &departure.cause {
        Cause::Kernel { .. } => "kernel",
        Cause::Rule(_) => "rule",
        Cause::Import { .. } => "import",
        Cause::Rounding { .. } => "rounding",
    };
    let locals: Vec<Value> = departure
        .locals
        .iter()
        .map(|(step, local)| {
            json!({
                "step": step.index, "op": step.op, "distance": distance_json(&local.distance),
                "allowed": local.allowed, "padding_is_zero": local.padded, "wrong": local.is_wrong(),
            })
        })
        .collect();
    let bisection = departure.bisection.as_ref().map(|bisection| {
        let tried: Vec<Value> = bisection
            .tried
            .iter()
            .map(|one| {
                json!({
                    "without": one.part.name(), "relative": one.error.as_ref().ok(), "mended": one.mended,
                    "error": one.error.as_ref().err().map(ToString::to_string),
                })
            })
            .collect();
        json!({ "found": bisection.found.as_ref().map(|part| part.name()), "tried": tried })
    });
    json!({
        "value": departure.value, "op": departure.op, "distance": distance_json(&departure.distance),
        "step": departure.step.as_ref().map(step_json), "judged": locals,
        "cause": { "kind": kind, "name": departure.cause.blamed() }, "bisection": bisection,
    })
}
