//! Checks rules against each other, against pipelines and against a corpus.
//!
//! The reader refuses malformed rules. This module finds rules that are well formed but probably wrong: sides
//! of different types, left sides that never match, examples that cannot be parsed, variables that are bound
//! and never used, and rules that change nothing, that another rule makes redundant or reverses, that no
//! pipeline uses, or that never fire. It returns all findings at once, in the order of the rules, each with
//! its places.

mod contradiction;
mod endless;
mod order;
mod same;
mod untyped;

use super::example::{LARGEST, mistakes, unsound};
use super::verify::{self, Clash, Typing};
use ovolo::error::Span;
use ovolo::graph::text;
use ovolo::op::Ops;
use ovolo::pass::pipeline::Pipeline;
use ovolo::rule::print::Names;
use ovolo::rule::{self, AttrPattern, Expr, Pattern, Rule, RuleSet, Template};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kinds of findings, with the names that reports use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The sides have different types, or the right side has no type.
    Mistyped,
    /// No match can satisfy the guards, or the left side has no type.
    Impossible,
    /// A rule that ships with ovolo has the same name.
    NameTaken,
    /// An example cannot be parsed.
    Example,
    /// The right side equals the left side.
    Idle,
    /// The right side has the left side again, so that the rule feeds itself.
    Endless,
    /// A variable is bound and never used.
    Unused,
    /// Every match of the rule is a match of another rule with the same result.
    Subsumed,
    /// No instance of the left side was found, so the types were not checked.
    Undrawn,
    /// Another rule is this rule reversed: together they add nodes and gain nothing.
    Undone,
    /// No phase of any pipeline has the rule.
    NoPipeline,
    /// A pipeline has the rule in a phase that does not allow the precision that the rule rounds to.
    TooCoarse,
    /// The rule fired on no model of the corpus.
    NeverFires,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Mistyped,
        Self::Impossible,
        Self::NameTaken,
        Self::Example,
        Self::Idle,
        Self::Endless,
        Self::Unused,
        Self::Subsumed,
        Self::Undrawn,
        Self::Undone,
        Self::NoPipeline,
        Self::TooCoarse,
        Self::NeverFires,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mistyped => "mistyped",
            Self::Impossible => "impossible",
            Self::NameTaken => "name-taken",
            Self::Example => "example",
            Self::Idle => "idle",
            Self::Endless => "endless",
            Self::Unused => "unused",
            Self::Subsumed => "subsumed",
            Self::Undrawn => "undrawn",
            Self::Undone => "undone",
            Self::NoPipeline => "no-pipeline",
            Self::TooCoarse => "too-coarse",
            Self::NeverFires => "never-fires",
        }
    }
}

/// A probable mistake in a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind.
    pub kind: Kind,
    /// The rule.
    pub rule: Arc<Rule>,
    /// The other rule, if there is one.
    pub other: Option<Arc<Rule>>,
    /// What was found.
    pub message: String,
    /// What the author can do about it.
    pub help: String,
    /// The places in rule files: the first is where the finding is, the others explain it.
    pub places: Vec<Place>,
    /// Whether it was found before and accepted.
    known: bool,
}

/// A place in a rule file.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub span: Span,
    /// What is at this place.
    pub text: String,
}

impl Place {
    fn new(rule: &Rule, span: Span, text: impl Into<String>) -> Self {
        Self { file: rule.file.clone(), span, text: text.into() }
    }
}

/// Whether a rule equals a rule that ships with ovolo.
fn ships(rule: &Rule, shipped: &RuleSet) -> bool {
    let same = |other: &Rule| other.name == rule.name && other.from == rule.from && other.to == rule.to;
    shipped.rules().iter().any(|other| same(other))
}

impl Finding {
    /// Whether this is only a note: a rule without instances may still be right, and each shipped rule that
    /// reverses another has a test that shows what it is worth.
    pub fn is_note(&self) -> bool {
        self.known || self.kind == Kind::Undrawn
    }

    fn new(kind: Kind, rule: &Arc<Rule>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind,
            rule: Arc::clone(rule),
            other: None,
            message: message.into(),
            help: help.into(),
            places: Vec::new(),
            known: false,
        }
    }

    fn at(mut self, span: Span, text: impl Into<String>) -> Self {
        self.places.push(Place::new(&self.rule, span, text));
        self
    }

    fn and(mut self, other: &Arc<Rule>, text: impl Into<String>) -> Self {
        self.places.push(Place::new(other, other.places.name, text));
        self.other = Some(Arc::clone(other));
        self
    }
}

/// Checks each rule by itself and against the others, except for types. `shipped` are the rules that ship
/// with ovolo.
pub fn rules(rules: &[Arc<Rule>], ops: &Ops, shipped: &RuleSet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in rules {
        findings.extend(impossible(rule));
        findings.extend(examples(rule, ops));
        findings.extend(idle(rule));
        findings.extend(endless(rule));
        findings.extend(unused(rule));
    }
    // Of two rules that say the same, the shipped one stays, or else the first.
    let stays: Vec<(bool, usize)> =
        rules.iter().enumerate().map(|(at, rule)| (!ships(rule, shipped), at)).collect();
    for (at, rule) in rules.iter().enumerate() {
        for (other_at, other) in rules.iter().enumerate() {
            let first = stays[at] < stays[other_at];
            if at != other_at && subsumes(other, rule) && !(first && subsumes(rule, other)) {
                let message = format!("whatever it matches, `{}` matches, with the same result", other.name);
                findings.push(
                    Finding::new(Kind::Subsumed, rule, message, "delete it")
                        .at(rule.places.name, "this rule")
                        .and(other, "is one of this"),
                );
                break;
            }
        }
    }
    let forwards: Vec<String> = rules.iter().map(|rule| equation(rule, false)).collect();
    let backwards: Vec<String> = rules.iter().map(|rule| equation(rule, true)).collect();
    for (at, rule) in rules.iter().enumerate() {
        for other in at + 1..rules.len() {
            if forwards[at] == backwards[other] {
                let other = &rules[other];
                let help = "if models contain only one of the two sides, keep one of the rules: `rules ablate` shows what \
                            each is worth; if you need both, pass `--allow undone`";
                let message = format!("`{}` is this rule backwards", other.name);
                let finding = Finding::new(Kind::Undone, rule, message, help)
                    .at(rule.places.name, "this rule")
                    .and(other, "the other one");
                findings.push(Finding { known: ships(rule, shipped) && ships(other, shipped), ..finding });
            }
        }
    }
    arranged(findings, rules)
}

/// Finds rules that have the name of a shipped rule. Files that are another version of a shipped file do not
/// count: those with the same file name, and those most of whose rules are shipped ones.
pub fn names(rules: &[Arc<Rule>], shipped: &RuleSet) -> Vec<Finding> {
    let of_name = |rule: &Rule| shipped.rules().iter().find(|other| other.name == rule.name);
    let version = |rule: &Rule| rule::is_version(rules, &rule.file, shipped);
    let taken = rules.iter().filter_map(|rule| Some((rule, of_name(rule)?)));
    taken
        .filter(|(rule, other)| rule.stem() != other.stem() && !version(rule))
        .map(|(rule, other)| {
            let message = format!("a rule that ships with ovolo has this name ({}:{})", other.file, other.line);
            let help = "give it a different name: with both, `--rules` refuses the files, and a pipeline that \
                        names it could mean either";
            Finding::new(Kind::NameTaken, rule, message, help).at(rule.places.name, "this rule").and(other, "that one")
        })
        .collect()
}

/// Finds rules whose sides have different types on some instance, or whose right side never has a type. Uses
/// `threads` threads; `done` is called with each rule that is checked.
pub fn types(rules: &[Arc<Rule>], threads: usize, done: &(dyn Fn(&Rule) + Sync)) -> Vec<Finding> {
    let finding = |(rule, typing): (&Arc<Rule>, Typing)| match typing {
        Typing::Alike => None,
        Typing::Clash(clash) => Some(mistyped(rule, &clash)),
        Typing::Undrawn(why) => {
            let message = format!("no instance was found that has types and that the guards accept: {why}");
            let help = "its types were not checked; `rules verify` counts why instances are refused";
            Some(Finding::new(Kind::Undrawn, rule, message, help).at(rule.places.name, ""))
        }
    };
    rules.iter().zip(verify::typings(rules, threads, done)).filter_map(finding).collect()
}

/// Sorts findings in the order of the rules, with notes at the end. The rows of one `for_each` share their
/// text, so a mistake in that text is reported once, for the first row.
pub fn arranged(mut findings: Vec<Finding>, rules: &[Arc<Rule>]) -> Vec<Finding> {
    findings.sort_by_key(|finding| {
        (finding.is_note(), rules.iter().position(|rule| Arc::ptr_eq(rule, &finding.rule)), finding.kind)
    });
    // A rule that can never match has no instances either; one finding is enough.
    let impossible: Vec<Arc<Rule>> = findings
        .iter()
        .filter(|finding| finding.kind == Kind::Impossible)
        .map(|finding| Arc::clone(&finding.rule))
        .collect();
    findings.retain(|finding| {
        finding.kind != Kind::Undrawn || !impossible.iter().any(|rule| Arc::ptr_eq(rule, &finding.rule))
    });
    let mut told = BTreeSet::new();
    findings.retain(|finding| {
        let Some(Place { file, span, .. }) = finding.places.first() else { return true };
        let of_text = matches!(
            finding.kind,
            Kind::Mistyped
                | Kind::Impossible
                | Kind::Example
                | Kind::Idle
                | Kind::Endless
                | Kind::Unused
                | Kind::NoPipeline
        );
        !of_text || told.insert((finding.kind, file.clone(), *span))
    });
    findings
}

fn mistyped(rule: &Arc<Rule>, clash: &Clash) -> Finding {
    let place = |spans: &[Span]| spans.get(clash.side).copied().unwrap_or(rule.places.name);
    let (message, right, help) = match &clash.right {
        Ok(right) => (
            "the sides differ in type",
            format!("right: {right}"),
            "make both sides the same type, or add a guard to `when` that demands it",
        ),
        Err(why) => (
            "the right side has no type on any match, so the rule never fires",
            format!("right: {why}"),
            "correct the right side: its ops do not fit together",
        ),
    };
    let with = if clash.variables.is_empty() { String::new() } else { format!(", with {}", clash.variables) };
    Finding::new(Kind::Mistyped, rule, format!("{message}{with}"), help)
        .at(place(&rule.places.from), format!("left: {}", clash.left))
        .at(place(&rule.places.to), right)
}

/// Finds a rule that no match can satisfy.
fn impossible(rule: &Arc<Rule>) -> Option<Finding> {
    let finding = |message: String, help: &str| Finding::new(Kind::Impossible, rule, message, help);
    if let Some(guards) = contradiction::contradiction(rule) {
        let texts: Vec<String> = guards.iter().map(|at| format!("`{}`", rule.guards[*at].text)).collect();
        let message = match &texts[..] {
            [one] => format!("{one} never holds"),
            many => format!("{} cannot hold together", many.join(" and ")),
        };
        let found = finding(message, "relax one of them, or delete the rule: it never fires");
        let spans = guards.iter().filter_map(|at| rule.places.when.get(*at));
        return Some(spans.fold(found, |found, span| found.at(*span, "")));
    }
    let (side, why) = untyped::untyped(rule)?;
    let help = "correct the left side or the guards: the rule never fires";
    let place = rule.places.from.get(side).copied().unwrap_or(rule.places.name);
    Some(finding(format!("the left side never has a type: {why}"), help).at(place, ""))
}

/// Finds examples whose graph cannot be parsed or is not valid.
fn examples(rule: &Arc<Rule>, ops: &Ops) -> Vec<Finding> {
    let mut findings = Vec::new();
    for example in &rule.examples {
        let place = example.place();
        let place = Place { file: place.file.to_string(), span: place.graph, text: "this graph".to_owned() };
        let (message, help) = match text::parse_small(ops, &example.graph(), LARGEST) {
            Err(found) => {
                (mistakes(&found), "write it in the text form of graphs, as `ovolo dump` prints it")
            }
            Ok(graph) => match ovolo::verify::verify(graph) {
                Err(why) => (unsound(&why), "correct the graph: an example must be a graph that can run"),
                Ok(_) => continue,
            },
        };
        let message = format!("its graph is not valid: {message}");
        findings.push(Finding { places: vec![place], ..Finding::new(Kind::Example, rule, message, help) });
    }
    findings
}

/// Finds a rule whose right sides equal its left sides.
fn idle(rule: &Arc<Rule>) -> Option<Finding> {
    let message = "the right side equals the left side, so the rule changes nothing";
    let help = "write what it should become, or delete the rule; operands of `add`, `mul` and other \
                commutative ops match in both orders without a rule";
    same::sides(rule).then(|| {
        Finding::new(Kind::Idle, rule, message, help)
            .at(rule.places.from.first().copied().unwrap_or_default(), "left")
            .at(rule.places.to.first().copied().unwrap_or_default(), "right")
    })
}

/// Finds a rule that feeds itself.
fn endless(rule: &Arc<Rule>) -> Option<Finding> {
    let part = endless::again(rule)?;
    let message = format!("the rule feeds itself: its left side matches `{part}` of its right side");
    let help = "each match makes the next one, until the phase stops at a limit: reverse the rule, or add a guard that what \
                it makes does not satisfy";
    let place = rule.places.to.first().copied().unwrap_or_default();
    Some(Finding::new(Kind::Endless, rule, message, help).at(place, ""))
}

/// Finds rules that no phase of any pipeline has, and rules in phases that do not allow their precision.
pub fn pipelines(rules: &[Arc<Rule>], pipelines: &[Pipeline]) -> Vec<Finding> {
    let named = |pipeline: &&Pipeline, rule: &Rule| pipeline.rewrites().any(|phase| phase.names(rule));
    let used =
        |rule: &Rule| pipelines.iter().any(|pipeline| rule.fits(&pipeline.assume) && named(&pipeline, rule));
    let lonely: Vec<&Arc<Rule>> = rules.iter().filter(|rule| !used(rule)).collect();
    let unused = "add it to the `rules` of a phase, or delete it; `--pipeline FILE` adds your own pipeline";
    let unassumed = "write that `assume` into one of them if it may assume so, or say it in a guard, which needs no pipeline";
    let mut findings: Vec<Finding> = Vec::new();
    for rule in &lonely {
        let all =
            |list: &mut dyn Iterator<Item = &Arc<Rule>>| list.filter(|one| one.file == rule.file).count();
        let alone = all(&mut lonely.iter().copied());
        let assumed: Vec<String> = rule.assumes.iter().map(|one| format!("\"{one}\"")).collect();
        let named = pipelines.iter().any(|pipeline| named(&pipeline, rule));
        let help = if named { unassumed } else { unused };
        // A file none of whose rules are used is reported once.
        let message = match alone > 1 && alone == all(&mut rules.iter()) {
            _ if named => {
                format!("no pipeline that names this rule or its file assumes {}", assumed.join(", "))
            }
            true if findings.iter().any(|finding| finding.rule.file == rule.file) => continue,
            true => format!("no pipeline names this file, `{}`, or any of its {alone} rules", rule.stem()),
            false => "no pipeline names this rule or its file".to_owned(),
        };
        findings.push(Finding::new(Kind::NoPipeline, rule, message, help).at(rule.places.name, ""));
    }
    for rule in rules {
        let strict = |pipeline: &&Pipeline| {
            !pipeline.precision.allows(rule.precision) && pipeline.rewrites().any(|phase| phase.names(rule))
        };
        for pipeline in pipelines.iter().filter(strict) {
            let message = format!(
                "the rule rounds to {}, but the precision of pipeline `{}` is {}",
                rule.precision, pipeline.name, pipeline.precision
            );
            let help = "remove the rule from that pipeline's phases, or change the pipeline's `precision`";
            findings.push(Finding::new(Kind::TooCoarse, rule, message, help).at(rule.places.name, ""));
        }
    }
    findings
}

/// Finds rules that did not fire on any of a corpus of `models` models. `fired` counts how often each rule
/// changed an e-graph.
pub fn corpus(rules: &[Arc<Rule>], fired: &FxHashMap<String, usize>, models: usize) -> Vec<Finding> {
    let idle = rules.iter().filter(|rule| fired.get(&rule.name).is_none_or(|times| *times == 0));
    idle.map(|rule| {
        let message =
            format!("the rule changed nothing on {models} model{}", if models == 1 { "" } else { "s" });
        Finding::new(
            Kind::NeverFires,
            rule,
            message,
            "run `rules why-not` to see the reason, or find a model that needs the rule",
        )
        .at(rule.places.name, "")
    })
    .collect()
}

/// Finds variables that are bound once and never used. A name that begins with `_` says that this is
/// intended.
fn unused(rule: &Arc<Rule>) -> Vec<Finding> {
    let mut uses = Uses {
        operands: vec![0; rule.operand_vars.len()],
        rests: vec![0; rule.rest_vars.len()],
        attrs: vec![0; rule.attr_vars.len()],
        rest_attrs: vec![0; rule.rest_attr_vars.len()],
    };
    rule.from.iter().for_each(|pattern| uses.pattern(pattern));
    rule.guards.iter().for_each(|guard| uses.expr(&guard.expr));
    rule.lets.iter().for_each(|(var, expr)| {
        uses.attrs[var.0] += 1;
        uses.expr(expr);
    });
    rule.to.iter().for_each(|template| uses.template(template));
    let names = Names::new(rule);
    let operands = names.operands.iter().zip(uses.operands);
    let rests = names.rests.iter().zip(uses.rests);
    let attrs = names.attrs.iter().zip(uses.attrs);
    let lonely = operands.chain(rests).chain(attrs).chain(names.rest_attrs.iter().zip(uses.rest_attrs));
    lonely
        .filter(|(name, times)| *times == 1 && !name[1..].starts_with('_'))
        .map(|(name, _)| {
            let help = format!("if any value is right, name it `{}_{}`", &name[..1], &name[1..]);
            Finding::new(Kind::Unused, rule, format!("`{name}` is bound and never used"), help)
                .at(rule.places.variable(name).unwrap_or(rule.places.name), "")
        })
        .collect()
}

struct Uses {
    operands: Vec<usize>,
    rests: Vec<usize>,
    attrs: Vec<usize>,
    rest_attrs: Vec<usize>,
}

impl Uses {
    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Operand(var) => self.operands[var.0] += 1,
            Pattern::Number(_, var) => var.iter().for_each(|var| self.operands[var.0] += 1),
            Pattern::Rest(var) | Pattern::Optional(var) => self.rests[var.0] += 1,
            Pattern::Op { children, attrs, rest_attrs, .. } => {
                rest_attrs.iter().for_each(|var| self.rest_attrs[var.0] += 1);
                children.iter().for_each(|child| self.pattern(child));
                for (_, expected) in attrs {
                    if let AttrPattern::Var(var) = expected {
                        self.attrs[var.0] += 1;
                    }
                }
            }
        }
    }

    fn template(&mut self, template: &Template) {
        match template {
            Template::Operand(var) => self.operands[var.0] += 1,
            Template::Scalar(_) => {}
            Template::Each(rest, inner) => {
                self.rests[rest.0] += 1;
                if let Some((item, inner)) = inner {
                    self.operands[item.0] += 1;
                    self.template(inner);
                }
            }
            Template::Op { children, attrs, rest_attrs, .. } => {
                rest_attrs.iter().for_each(|var| self.rest_attrs[var.0] += 1);
                children.iter().for_each(|child| self.template(child));
                attrs.iter().for_each(|(_, expr)| self.expr(expr));
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(_) | Expr::Step(_) => {}
            Expr::Rest(var) | Expr::Optional(var) => self.rests[var.0] += 1,
            Expr::Attr(var) => self.attrs[var.0] += 1,
            Expr::Operand(var) => self.operands[var.0] += 1,
            Expr::Call(_, arguments) => arguments.iter().for_each(|one| self.expr(one)),
        }
    }
}

/// Returns the text of both sides with variables numbered in order of appearance, so that equal rules have
/// equal texts.
fn equation(rule: &Rule, backwards: bool) -> String {
    let names = Names::new(rule);
    let side = |from: bool| -> String {
        if from {
            rule.from.iter().map(|pattern| names.pattern(pattern)).collect::<Vec<_>>().join(" ; ")
        } else {
            rule.to.iter().map(|template| names.template(template)).collect::<Vec<_>>().join(" ; ")
        }
    };
    let text = format!("{} = {}", side(!backwards), side(backwards));
    let mut numbers: Vec<String> = Vec::new();
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['?', '*']) {
        result.push_str(&rest[..=at]);
        let tail = &rest[at + 1..];
        let length =
            tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(tail.len());
        let name = rest[at..at + 1 + length].to_owned();
        let number = numbers.iter().position(|known| *known == name).unwrap_or_else(|| {
            numbers.push(name);
            numbers.len() - 1
        });
        result.push_str(&number.to_string());
        rest = &tail[length..];
    }
    result + rest
}

/// Whether every match of `special` is a match of `general` with the same right sides, and the guards of
/// `general` accept whatever those of `special` accept. A rule that assumes more has fewer pipelines.
fn subsumes(general: &Rule, special: &Rule) -> bool {
    let root = |pattern: &Pattern| match pattern {
        Pattern::Op { op, .. } => op.name,
        _ => "",
    };
    if !general.from.iter().map(root).eq(special.from.iter().map(root))
        || !general.lets.is_empty()
        || !special.lets.is_empty()
        || !general.fits(&special.assumes)
    {
        return false;
    }
    order::orders(&special.from).iter().any(|from| covers(general, special, from))
}

/// Whether `general` subsumes `special` with the left sides in this order.
fn covers(general: &Rule, special: &Rule, from: &[Pattern]) -> bool {
    let names = Names::new(special);
    let mut cover = Cover::new(general, &names);
    if !general.from.iter().zip(from).all(|(general, special)| cover.pattern(general, special)) {
        return false;
    }
    let bound = cover.bound();
    let asked: Vec<String> = special.guards.iter().map(|guard| names.expr(&guard.expr)).collect();
    general.guards.iter().all(|guard| asked.contains(&bound.expr(&guard.expr)))
        && general.to.iter().zip(&special.to).all(|(a, b)| bound.template(a) == names.template(b))
}

/// A number that is bound to a variable, as the variable alone: that is how a right side refers to it.
fn bare(pattern: &Pattern) -> Pattern {
    match pattern {
        Pattern::Number(_, Some(var)) => Pattern::Operand(*var),
        other => other.clone(),
    }
}

/// The bindings that turn the general rule's pattern into the special one's.
#[derive(Clone)]
struct Cover<'a> {
    special: &'a Names,
    operands: Vec<Option<String>>,
    rests: Vec<Option<String>>,
    attrs: Vec<Option<String>>,
    rest_attrs: Vec<Option<String>>,
}

fn agree(slot: &mut Option<String>, text: String) -> bool {
    slot.get_or_insert_with(|| text.clone()) == &text
}

impl<'a> Cover<'a> {
    /// Binds nothing yet of the variables of a general rule. `special` names those of the other one.
    fn new(general: &Rule, special: &'a Names) -> Self {
        Self {
            special,
            operands: vec![None; general.operand_vars.len()],
            rests: vec![None; general.rest_vars.len()],
            attrs: vec![None; general.attr_vars.len()],
            rest_attrs: vec![None; general.rest_attr_vars.len()],
        }
    }

    /// Returns what the variables are bound to, `?` for those that are not.
    fn bound(self) -> Names {
        let texts = |list: Vec<Option<String>>| {
            list.into_iter().map(|one| one.unwrap_or_else(|| "?".into())).collect()
        };
        Names {
            operands: texts(self.operands),
            rests: texts(self.rests),
            attrs: texts(self.attrs),
            rest_attrs: texts(self.rest_attrs),
        }
    }

    fn pattern(&mut self, general: &Pattern, special: &Pattern) -> bool {
        match (general, special) {
            (Pattern::Operand(var), _) => {
                agree(&mut self.operands[var.0], self.special.pattern(&bare(special)))
            }
            (Pattern::Number(a, var), Pattern::Number(b, _)) => {
                a.least <= b.least
                    && b.most <= a.most
                    && var.is_none_or(|var| {
                        // A right side of the special rule refers to a bound operand by its number or by its
                        // name.
                        agree(&mut self.operands[var.0], self.special.pattern(&bare(special)))
                    })
            }
            (
                Pattern::Op { op, children, attrs, rest_attrs },
                Pattern::Op { op: other, children: inner, attrs: inner_attrs, rest_attrs: inner_rest_attrs },
            ) => {
                op.name == other.name
                    && self.operands(children, inner)
                    && self.attributes(
                        attrs,
                        rest_attrs.map(|var| var.0),
                        inner_attrs,
                        inner_rest_attrs.map(|var| var.0),
                    )
            }
            _ => false,
        }
    }

    /// Matches operands from left to right. A rest of the general rule takes as many operands as the first
    /// fit needs.
    fn operands(&mut self, general: &[Pattern], special: &[Pattern]) -> bool {
        let Some((first, more)) = general.split_first() else { return special.is_empty() };
        let Some(var) = first.spread() else {
            return special.split_first().is_some_and(|(other, rest)| {
                other.spread().is_none() && self.pattern(first, other) && self.operands(more, rest)
            });
        };
        (0..=special.len()).any(|taken| {
            let before = self.clone();
            let (here, rest) = special.split_at(taken);
            let fits = matches!(first, Pattern::Rest(_))
                || here.len() <= 1 && here.iter().all(|one| !matches!(one, Pattern::Rest(_)));
            let texts: Vec<String> = here.iter().map(|child| self.special.pattern(&bare(child))).collect();
            let covered = fits && agree(&mut self.rests[var.0], texts.join(" ")) && self.operands(more, rest);
            if !covered {
                *self = before;
            }
            covered
        })
    }

    fn attributes(
        &mut self,
        general: &[(&'static str, AttrPattern)],
        rest: Option<usize>,
        special: &[(&'static str, AttrPattern)],
        special_rest: Option<usize>,
    ) -> bool {
        let text = |expected: &AttrPattern, names: &Names| match expected {
            AttrPattern::Literal(value) => value.to_string(),
            AttrPattern::Var(var) => names.attrs[var.0].clone(),
        };
        for (name, expected) in general {
            let Some((_, other)) = special.iter().find(|(known, _)| known == name) else { return false };
            let other = text(other, self.special);
            let fits = match expected {
                AttrPattern::Literal(value) => value.to_string() == other,
                AttrPattern::Var(var) => agree(&mut self.attrs[var.0], other),
            };
            if !fits {
                return false;
            }
        }
        let mut others: Vec<String> = special
            .iter()
            .filter(|(name, _)| !general.iter().any(|(known, _)| known == name))
            .map(|(name, expected)| format!("{name}: {}", text(expected, self.special)))
            .collect();
        others.extend(special_rest.map(|var| self.special.rest_attrs[var].clone()));
        match rest {
            Some(var) => agree(&mut self.rest_attrs[var], others.join(", ")),
            None => others.is_empty(),
        }
    }
}
