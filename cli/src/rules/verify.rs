//! `ovolo rules verify`.

use super::super::load::read_graph;
use super::super::progress::Progress;
use super::super::{Outcome, Refusal, Settings, amount, print};
use super::{Loaded, Source, threads};
use clap::Args;
use ovolo::error::Span;
use ovolo::graph::text::Constants;
use ovolo::registry::Registry;
use ovolo::rule::{Pattern, Rule};
use ovolo_proof::verify::{self, Coverage, EXACT, Member, Members, Reason, Verdict, Verification};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    source: Source,
    /// The instances of each rule.
    #[arg(long, default_value_t = 200)]
    instances: usize,
    /// The seed for all random choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads. The result does not depend on their number. Default: the available processors.
    #[arg(long)]
    threads: Option<usize>,
    /// Compare random members of the e-graphs of these models with the models, instead of verifying single
    /// rules.
    #[arg(long = "on", value_name = "MODEL", num_args = 1..)]
    models: Vec<PathBuf>,
    /// The members of each model.
    #[arg(long, default_value_t = 8, requires = "models")]
    members: usize,
    /// Bind a symbolic dimension of the models.
    #[arg(long = "dim", value_name = "NAME=N", requires = "models")]
    dims: Vec<String>,
    /// The pipeline of the models: a file, or the name of a shipped one.
    #[arg(long, default_value = "native")]
    pipeline: String,
    /// Add rules to a `Rewrite` of that pipeline, such as `new.ron:fuse`. May be given more than once.
    #[arg(long, value_name = "RULES:PHASE", requires = "models")]
    add: Vec<String>,
    /// Compare with the reference evaluation of the model, which is slow, instead of with a first member.
    /// Small models are always compared with the reference.
    #[arg(long, requires = "models")]
    reference: bool,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long, requires = "models")]
    seeded_weights: bool,
    /// Evaluate a printed counterexample, and report how its sides differ, instead of verifying rules.
    #[arg(long = "case", value_name = "FILE", conflicts_with = "models")]
    case: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        if self.instances == 0 {
            return Err("--instances must be at least 1".into());
        }
        if let Some(path) = &self.case {
            return self.case(registry, path);
        }
        if !self.models.is_empty() {
            if self.members == 0 {
                return Err("--members must be at least 1".into());
            }
            if !self.source.only.is_empty() || !self.source.files.is_empty() {
                return Err(
                    "--on uses all rules that its pipeline names, with those of --rules DIR, because members come from the \
                     e-graph of all of them: leave out --rule and rule files, or leave out --on"
                        .into(),
                );
            }
        }
        if self.models.is_empty() { self.rules(registry) } else { self.members(registry) }
    }

    fn case(&self, registry: &Registry, path: &Path) -> Outcome {
        let differ = verify_case(registry, path).map_err(|why| why.to_string())?;
        if self.json {
            print(&format!("{}\n", serde_json::json!({ "case": path, "differ": differ })));
        } else if differ.is_none() {
            print("the sides agree\n");
        }
        differ.map_or(Ok(()), Err)
    }

    fn rules(&self, registry: &Registry) -> Outcome {
        let loaded = self.source.load(registry)?;
        let rules = loaded.set.rules();
        let settings = verify::Settings { instances: self.instances, seed: self.seed, ..Default::default() };
        let progress = Mutex::new(Progress::new(rules.len()));
        let done = |one: &Verification| {
            progress.lock().unwrap_or_else(PoisonError::into_inner).step(&one.rule);
        };
        let all = verified(registry, &loaded, settings, self.threads, &AtomicBool::new(false), &done)?;
        drop(progress);
        let bad = all.iter().filter(|one| !one.holds()).count();
        if self.json {
            let list: Vec<_> = all.iter().zip(rules).map(|(one, rule)| json(one, rule, &loaded)).collect();
            print(&format!("{}\n", serde_json::json!({ "rules": list, "failed": bad })));
        } else {
            print(&table(&all));
            let all = all.iter().zip(rules).filter(|(one, _)| !one.holds());
            all.for_each(|(one, rule)| print(&failure(one, rule, &loaded)));
        }
        if bad == 0 {
            return Ok(());
        }
        Err(format!("{bad} of {} failed", amount::of(all.len(), "rule")))
    }

    fn members(&self, registry: &Arc<Registry>) -> Outcome {
        // Without `--json`, the report of each model shows the progress.
        let mut progress = self.json.then(|| Progress::new(self.models.len()));
        let (mut wrong, mut count, mut list) = (0, 0, Vec::new());
        for model in &self.models {
            if let Some(progress) = &mut progress {
                progress.step(&model.display().to_string());
            }
            let settings = Settings {
                dims: self.dims.clone(),
                pipeline: self.pipeline.clone(),
                rules: self.source.rules.clone(),
                add: self.add.clone(),
                cost: Some("flops".into()),
                threads: Some(threads(self.threads)?),
                seeded_weights: self.seeded_weights,
                ..Settings::new(model)
            };
            let options = settings.options(registry, &self.pipeline)?;
            let members = verify::members(
                &settings.graph(registry)?,
                &options,
                self.members,
                self.seed,
                self.reference,
            )
            .map_err(|error| format!("{}: {error}", model.display()))?;
            wrong += members.list.iter().filter(|member| member.program.is_some()).count();
            count += members.list.len();
            if !self.json {
                print(&members_text(&model.display().to_string(), &members));
            }
            let rows: Vec<_> = members.list.iter().map(member_json).collect();
            list.push(serde_json::json!({
                "model": model, "reference": members.reference, "members": rows,
            }));
        }
        drop(progress);
        if self.json {
            print(&format!("{}\n", serde_json::json!({ "models": list, "failed": wrong })));
        }
        if wrong == 0 { Ok(()) } else { Err(format!("{wrong} of {count} members do not agree")) }
    }
}

/// Which rules are to be verified, and how.
#[derive(Clone, Debug)]
pub struct VerifySettings {
    /// Rule files; the shipped ones if there are none.
    pub files: Vec<PathBuf>,
    /// Folders with further rule files.
    pub folders: Vec<PathBuf>,
    /// The names of rules or files, if not all rules are to be verified.
    pub only: Vec<String>,
    /// The instances of each rule, at least one.
    pub instances: usize,
    /// The seed for all random choices.
    pub seed: u64,
    /// Threads; all processors without a number. The result does not depend on it.
    pub threads: Option<usize>,
}

/// Evaluates both sides of a counterexample that [`verify_rules`] reports, and returns how they differ; `None` if they agree.
///
/// # Errors
/// A file with mistakes, or one that has no two sides.
pub fn verify_case(registry: &Registry, path: &Path) -> Result<Option<String>, Refusal> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let graph = ovolo::verify::verify(read_graph(registry, path, &Constants::none())?)
        .map_err(|error| named(&error))?
        .into_inner();
    Ok(verify::compare_case(&graph).map_err(|error| named(&error))?)
}

/// Verifies rules on generated instances. Returns what `ovolo rules verify --json` prints of each rule. `told` is called
/// after each rule, from any thread, with the number of all rules. Once `stop` is set, the rest is left out.
///
/// # Errors
/// A rule file with mistakes, or no rule.
pub fn verify_rules(
    registry: &Registry,
    asked: &VerifySettings,
    stop: &AtomicBool,
    told: &(dyn Fn(usize) + Sync),
) -> Result<Vec<serde_json::Value>, Refusal> {
    if asked.instances == 0 {
        Err("the instances of a rule must be at least 1".to_owned())?;
    }
    let VerifySettings { files, folders, only, .. } = asked.clone();
    let loaded = Source { files, rules: folders, only }.load(registry)?;
    let settings = verify::Settings { instances: asked.instances, seed: asked.seed, ..Default::default() };
    let count = loaded.set.rules().len();
    let all = verified(registry, &loaded, settings, asked.threads, stop, &|_| told(count))?;
    // Both are in the order of the rules, of which some may be left out.
    let mut rules = loaded.set.rules().iter();
    let mut rule = |one: &Verification| rules.find(|rule| rule.name == one.rule);
    Ok(all.iter().filter_map(|one| Some(json(one, rule(one)?, &loaded))).collect())
}

/// Verifies the rules of some files, until `stop` is set. `done` is called after each.
pub(super) fn verified(
    registry: &Registry,
    loaded: &Loaded,
    settings: verify::Settings,
    asked: Option<usize>,
    stop: &AtomicBool,
    done: &(dyn Fn(&Verification) + Sync),
) -> Result<Vec<Verification>, String> {
    let rules = loaded.set.rules();
    if rules.is_empty() {
        return Err("there is no rule to verify: the files have none".into());
    }
    Ok(verify::rules_until(rules, registry.ops(), settings, threads(asked)?, stop, done))
}

pub(super) fn verdict(one: &Verification) -> &'static str {
    match one.verdict {
        Verdict::Holds => "holds",
        Verdict::Wrong { .. } => "WRONG",
        Verdict::Uncovered { .. } => "UNCOVERED",
    }
}

/// Returns the element types and the features of instances.
pub(super) fn features(coverage: &Coverage) -> String {
    let features: Vec<String> =
        coverage.features.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!("{}; {}", coverage.dtypes.join(" "), features.join(", "))
}

fn table(all: &[Verification]) -> String {
    let width = all.iter().map(|one| one.rule.len()).max().unwrap_or(0).max(4);
    let mut text =
        format!("{:width$}  verdict    instances   tries  examples  types  attributes  seen\n", "rule");
    for one in all {
        let coverage = &one.coverage;
        let _ = writeln!(
            text,
            "{:width$}  {:9}  {:9}  {:6}  {:8}  {:5}  {:10}  {}",
            one.rule,
            verdict(one),
            one.instances,
            one.tries,
            one.examples,
            coverage.shapes,
            coverage.attributes,
            features(coverage)
        );
    }
    let held = all.iter().filter(|one| one.holds()).count();
    let instances: usize = all.iter().map(|one| one.instances).sum();
    let coarse: Vec<&str> = all.iter().filter(|one| one.is_coarse()).map(|one| one.rule.as_str()).collect();
    if !coarse.is_empty() {
        let _ = writeln!(text, "compared only within the rounding of narrow types: {}", coarse.join(", "));
    }
    let exact = all.iter().filter(|one| one.is_exact()).count();
    if exact > 0 {
        let _ = writeln!(
            text,
            "compared exactly, without a tolerance: all instances of {}",
            amount::of(exact, "rule")
        );
    }
    for one in all {
        if let Some(why) = &one.coverage.rounding {
            let exact = one.coverage.features.get(EXACT).copied().unwrap_or(0);
            let _ = writeln!(
                text,
                "{}: {exact} of {} compared exactly, the others within a tolerance, for instance since {why}",
                one.rule,
                amount::of(one.instances, "instance")
            );
        }
    }
    for one in all {
        if let Some(overflow) = &one.coverage.overflow {
            let _ = writeln!(
                text,
                "{}: equal as real numbers, but not in f64: {overflow}; smaller values were compared",
                one.rule
            );
        }
    }
    let _ = writeln!(
        text,
        "{held} of {} {} on {}",
        amount::of(all.len(), "rule"),
        if all.len() == 1 { "holds" } else { "hold" },
        amount::of(instances, "instance")
    );
    text
}

/// Describes what is wrong with a rule. For one without instances, the place is the guard that refused most.
fn failure(one: &Verification, rule: &Rule, loaded: &Loaded) -> String {
    let mut text = format!("\n{} ({}): ", one.rule, loaded.place(rule, rule.places.name));
    match &one.verdict {
        Verdict::Holds => {}
        Verdict::Wrong { what, case } => {
            let _ = write!(text, "{what}\n\n{case}");
        }
        Verdict::Uncovered { reasons, worked_out } => {
            let limit = if *worked_out { ", when the limit on work was reached" } else { "" };
            let advice = match (reasons.iter().any(|reason| reason.guard.is_some()), one.examples) {
                (true, 0) => "Relax its guards, or correct them if nothing can satisfy them.",
                (true, _) => {
                    "Its examples fire and agree, but they are too few for a verdict: values that satisfy the guards are not drawn. Relax the guards, or write the numbers that they compute as literals, which are drawn; `--on MODEL` compares members of a model that the rule fires on."
                }
                (false, 0) => {
                    "No guard is the reason: correct the sides so that their ops fit together, or write an example that fires."
                }
                (false, _) => {
                    "Its examples fire and agree, but they are too few for a verdict: values that fit the sides are not drawn. Replace a rare literal or attribute by a variable or a wider range, and demand it in `when`; `--on MODEL` compares members of a model that the rule fires on."
                }
            };
            let _ = writeln!(
                text,
                "{} in {}{limit}. {advice}",
                amount::of(one.instances, "instance"),
                amount::of(one.tries, "attempt")
            );
            for reason in reasons {
                let place = guard(rule, reason).map(|span| format!(" ({})", loaded.place(rule, span)));
                let _ = writeln!(
                    text,
                    "  {}{}, such as: {}",
                    amount::of(reason.count, "time"),
                    place.unwrap_or_default(),
                    reason.text
                );
            }
            let mut undrawn = BTreeSet::new();
            rule.from.iter().for_each(|pattern| without_sampler(pattern, &mut undrawn));
            for op in undrawn {
                let _ = writeln!(
                    text,
                    "  `{op}` has no sampler, so operands and attributes of it are drawn as those of an elementwise op. If \
                     these do not fit, declare one: `OpDef::sample`"
                );
            }
        }
    }
    text
}

/// Collects the names of a left side's logical ops that have no sampler.
fn without_sampler(pattern: &Pattern, found: &mut BTreeSet<&'static str>) {
    let Pattern::Op { op, children, .. } = pattern else { return };
    if !op.is_lowered() && !verify::has_sampler(*op) {
        found.insert(op.name);
    }
    children.iter().for_each(|child| without_sampler(child, found));
}

/// The place of the guard that refused attempts.
fn guard(rule: &Rule, reason: &Reason) -> Option<Span> {
    rule.places.when.get(reason.guard?).copied()
}

fn json(one: &Verification, rule: &Rule, loaded: &Loaded) -> serde_json::Value {
    let (_, column) = loaded.line_column(&one.file, rule.places.name.start);
    let told = |reason: &Reason| {
        let place = guard(rule, reason).map(|span| loaded.line_column(&one.file, span.start));
        serde_json::json!({
            "reason": reason.text, "count": reason.count,
            "line": place.map(|place| place.0), "column": place.map(|place| place.1),
        })
    };
    let (what, case, reasons) = match &one.verdict {
        Verdict::Holds => (None, None, None),
        Verdict::Wrong { what, case } => (Some(what), Some(case), None),
        Verdict::Uncovered { reasons, .. } => {
            (None, None, Some(reasons.iter().map(told).collect::<Vec<_>>()))
        }
    };
    serde_json::json!({
        "rule": one.rule, "file": one.file, "line": one.line, "column": column,
        "verdict": verdict(one).to_lowercase(),
        "instances": one.instances, "tries": one.tries, "examples": one.examples,
        "what": what, "case": case, "reasons": reasons,
        "coverage": {
            "types": one.coverage.shapes,
            "dtypes": one.coverage.dtypes,
            "ranks": one.coverage.ranks,
            "attributes": one.coverage.attributes,
            "features": one.coverage.features,
            "overflow": one.coverage.overflow,
            "rounding": one.coverage.rounding,
        },
    })
}

fn members_text(model: &str, members: &Members) -> String {
    let held = match members.reference {
        true => "compared with the reference evaluation of the model",
        false => {
            "compared with member 0, so a mistake that all members share is not seen (`--reference` evaluates the model)"
        }
    };
    let mut text = format!("{model}: {held}\n");
    for member in &members.list {
        let _ = writeln!(
            text,
            "  member {}: {} by {}, relative error {:.1e}{}",
            member.number,
            amount::of(member.ops, "step"),
            amount::of(member.rules.len(), "rule"),
            member.error,
            if member.program.is_some() { ", WRONG" } else { "" }
        );
    }
    if let Some(Member { rules, program: Some(program), .. }) =
        members.list.iter().find(|member| member.program.is_some())
    {
        let _ = writeln!(text, "  rules of the first wrong member: {}\n{program}", rules.join(" "));
    }
    text
}

fn member_json(member: &Member) -> serde_json::Value {
    serde_json::json!({
        "number": member.number, "steps": member.ops, "error": member.error, "rules": member.rules,
        "program": member.program,
    })
}
