//! From rule files to checked rules. Every mistake is gathered, with its place.

mod expression;
mod form;
mod left;
mod operator;
mod right;
mod scope;
mod symmetry;

use super::example;
use super::pattern::{self, Ast, ExprAst, Kind, Mistake};
use super::ron::{self, Field, Node, Text, Value};
use super::{AttrVar, Expr, Guard, Places, Rule, Template};
use crate::error::{Diagnostic, Diagnostics, Source, Span, nearest, suggestion};
use crate::op::Ops;
use form::{KEYS, Parts};
use scope::Scope;
use std::collections::HashMap;

/// Reads rule files; mistakes go to `found`.
pub(super) fn read(ops: &Ops, files: &[(&str, &str)], found: &mut Diagnostics) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut names: HashMap<String, (usize, Span)> = HashMap::new();
    for (name, text) in files {
        let source = found.add_source(Source::new(*name, *text));
        let nodes = match ron::items(text, source, "Rule") {
            _ if ron::is_blank(text) => {
                found.push(
                    Diagnostic::new("the rule file is empty")
                        .label(source, Span::new(0, text.len()), "")
                        .help("write `[Rule(name: …, from: …, to: …), …]`, or take the file away"),
                );
                continue;
            }
            Ok((nodes, mistakes)) => {
                for diagnostic in mistakes {
                    let at = diagnostic.labels.first().map_or(0, |label| label.span.start);
                    found.push(match rule_at(text, at) {
                        Some(rule) => diagnostic.note(format!("in rule `{rule}`")),
                        None => diagnostic,
                    });
                }
                nodes
            }
            Err(other) => {
                found.push(
                    Diagnostic::new("a rule file is a list of rules")
                        .label(source, other.span, "")
                        .help("write `[Rule(name: …, from: …, to: …), …]`"),
                );
                continue;
            }
        };
        for node in nodes {
            let mut reader = Reader { ops, found, source, file: name, text, rule: String::new() };
            let made = reader.rules(&node);
            for (at, (rule, span)) in made.iter().enumerate() {
                if made[..at].iter().any(|(other, _)| other.name == rule.name) {
                    // Its rows are called alike.
                    continue;
                }
                let named = |other: &&(Rule, Span)| other.0.name == rule.name;
                let alike = made.iter().filter(named).count();
                if alike > 1 {
                    found.push(
                        Diagnostic::new(format!("{alike} rows of `for-each` are called `{}`", rule.name))
                            .label(source, *span, "the same for all of them")
                            .help(format!(
                                "put what tells them apart into the name, as in `{}-$key`",
                                rule.name
                            ))
                            .note(format!("in rule `{}`", rule.name)),
                    );
                } else if let Some((first_source, first)) = names.insert(rule.name.clone(), (source, *span)) {
                    found.push(
                        Diagnostic::new(format!("two rules are called `{}`", rule.name))
                            .label(source, *span, "the second")
                            .label(first_source, first, "the first")
                            .help("give one of them another name")
                            .note(format!("in rule `{}`", rule.name)),
                    );
                }
            }
            rules.extend(made.into_iter().map(|(rule, _)| rule));
        }
    }
    rules
}

/// The name of the rule that a place is in, in a text that does not read: the last that begins before.
fn rule_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let rule = &text[before.rfind("Rule(")?..];
    let name = rule[rule.find("name")?..].split('"').nth(1)?;
    Some(name).filter(|name| !name.is_empty() && !name.contains('\n'))
}

/// The known name that is this one in another spelling, such as that of ONNX: `MaxPool`, `max_pool`; or
/// that has most of its words.
fn spelled<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = |name: &str| {
        let kept = name.chars().filter(char::is_ascii_alphanumeric);
        kept.map(|c| c.to_ascii_lowercase()).collect::<String>()
    };
    let same = known.iter().copied().find(|one| letters(one) == letters(name));
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    same.or_else(|| nearest(&kebab, known.iter().copied()).filter(|_| kebab != name))
}

/// Advice where a `$key` is not in `for-each`.
pub(super) fn in_rows(known: &[String]) -> String {
    match known {
        [] => "the rule has no rows: add `for-each: { … }`".into(),
        known => format!("its rows have {}", known.join(", ")),
    }
}

pub(super) struct Reader<'a> {
    ops: &'a Ops,
    found: &'a mut Diagnostics,
    source: usize,
    file: &'a str,
    text: &'a str,
    /// The name of the rule in hand, for messages.
    rule: String,
}

impl Reader<'_> {
    fn say(&mut self, diagnostic: Diagnostic) {
        let diagnostic = if self.rule.is_empty() {
            diagnostic
        } else {
            diagnostic.note(format!("in rule `{}`", self.rule))
        };
        self.found.push(diagnostic);
    }

    /// What is wrong, where, and what to do.
    pub(super) fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        let diagnostic = Diagnostic::new(message).label(self.source, span, "").help(help);
        self.say(diagnostic);
    }

    /// A mistake in the syntax of a pattern or an expression.
    fn syntax(&mut self, text: &Text, mistake: Mistake) {
        self.mistake(mistake.message, text.span(mistake.range), mistake.help);
    }

    pub(super) fn unknown(&mut self, what: &str, name: &str, span: Span, known: &[&str]) {
        let mut diagnostic =
            Diagnostic::new(format!("{what} `{name}` is not known")).label(self.source, span, "");
        diagnostic = match spelled(name, known).or_else(|| suggestion(name, known.iter().copied())) {
            Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
            None if known.is_empty() => diagnostic.help("there are none: take it away"),
            None if known.len() <= 12 => diagnostic.help(format!("there are {}", known.join(", "))),
            None => diagnostic.help("`ovolo rules reference` lists what there is"),
        };
        self.say(diagnostic);
    }

    fn rules(&mut self, node: &Node) -> Vec<(Rule, Span)> {
        let Value::Struct { name, fields, comment } = &node.value else {
            self.mistake("a rule is `Rule(…)`", node.span, "write `Rule(name: …, from: …, to: …)`");
            return Vec::new();
        };
        if name != "Rule" {
            self.mistake(
                format!("`{name}` stands where `Rule` should"),
                Span::new(node.span.start, node.span.start + name.len()),
                "a rule file holds rules only: write `Rule(name: …, from: …, to: …)`",
            );
            return Vec::new();
        }
        let named = fields.iter().find(|field| field.key == "name");
        self.rule = match named.map(|field| &field.node.value) {
            Some(Value::Str(text)) => text.text.clone(),
            _ => String::new(),
        };
        let before = self.found.len();
        for field in fields {
            if !KEYS.contains(&field.key.as_str()) {
                self.unknown("key", &field.key, field.key_span, KEYS);
            }
        }
        let head = Span::new(node.span.start, node.span.start + name.len());
        let Some(parts) = self.parts(fields, head) else { return Vec::new() };
        let rows = self.for_each(fields);
        let examples = example::read(self, fields);
        if self.found.len() > before {
            return Vec::new();
        }
        let line = self.text[..node.span.start].matches('\n').count() + 1;
        let name_span = named.map_or(head, |field| field.node.span);
        let mut rules = Vec::new();
        let mut used = Vec::new();
        for row in &rows {
            let before = self.found.len();
            if let Some(mut rule) = self.rule(&parts, row, &mut used, comment, line) {
                rule.examples = example::fill(self, &examples, row, rows.len() == 1, &mut used);
                rules.push((rule, name_span));
            }
            if self.found.len() > before {
                break; // the other rows would say the same again
            }
        }
        if self.found.len() == before {
            example::fitting(self, &examples, &rows);
        }
        if let (Some(row), true) = (rows.first(), self.found.len() == before) {
            for (key, _) in row.iter().filter(|(key, _)| !used.contains(key)) {
                let span =
                    fields.iter().find(|field| field.key == "for-each").map_or(head, |field| field.node.span);
                self.mistake(
                    format!("`${key}` is not used"),
                    span,
                    format!("write `${key}` where its values belong, in the name as well, or take it away"),
                );
            }
        }
        rules
    }

    /// One rule, for one row of `for-each`.
    fn rule(
        &mut self,
        parts: &Parts<'_>,
        row: &[(String, String)],
        used: &mut Vec<String>,
        doc: &str,
        line: usize,
    ) -> Option<Rule> {
        let mut fill = |text: &Text| match text.replace(row, used) {
            Ok(text) => Some(text),
            Err((name, span)) => {
                let known: Vec<String> = row.iter().map(|(key, _)| format!("`${key}`")).collect();
                self.mistake(format!("`${name}` is not in `for-each`"), span, in_rows(&known));
                None
            }
        };
        let name = fill(parts.name)?;
        let from: Vec<Text> = parts.from.iter().filter_map(|text| fill(text)).collect();
        let to: Vec<Text> = parts.to.iter().filter_map(|text| fill(text)).collect();
        let when: Vec<Text> = parts.when.iter().filter_map(|text| fill(text)).collect();
        let lets: Vec<(&Field, Text)> =
            parts.lets.iter().filter_map(|(field, text)| Some((*field, fill(text)?))).collect();
        if from.len() != parts.from.len()
            || to.len() != parts.to.len()
            || when.len() != parts.when.len()
            || lets.len() != parts.lets.len()
        {
            return None;
        }
        self.rule.clone_from(&name.text);
        let before = self.found.len();
        let mut scope = Scope::default();
        let mut patterns = Vec::new();
        for text in &from {
            if let Some(ast) = self.ast(text) {
                if !matches!(ast.kind, Kind::Op { .. } | Kind::Wrong) {
                    self.mistake(
                        "a left side is an op, not a variable or a number",
                        text.span(ast.range.clone()),
                        "write `(op …)`: a variable alone would match every value",
                    );
                }
                patterns.extend(self.pattern(text, &ast, &mut scope));
            }
        }
        scope.incomplete = patterns.len() != from.len();
        let guards: Vec<Guard> = when
            .iter()
            .filter_map(|text| {
                let ast = self.expression(text)?;
                let (expr, _) = self.expr(text, &ast, &mut scope)?;
                if !matches!(&expr, Expr::Call(function, _) if function.is_guard()) {
                    self.mistake(
                        "a condition is a guard, not a value",
                        text.span(ast.range),
                        "ask something of it, as in `equal(rank-of(?x), 4)`",
                    );
                }
                Some(Guard { text: text.text.clone(), expr })
            })
            .collect();
        let mut computed = Vec::new();
        for (field, text) in &lets {
            let ast = self.expression(text);
            let attribute = format!("`let` of `{}`", field.key);
            let value = ast.and_then(|ast| self.value(text, &ast, &attribute, None, &mut scope));
            if let Some(what) = scope.kind(&field.key) {
                self.mistake(
                    format!("`?{}` is {what} already", field.key),
                    field.key_span,
                    "give the computed attribute another name",
                );
            }
            scope.places.push((format!("?{}", field.key), field.key_span));
            // One that does not read is bound all the same: what uses it is no other mistake.
            let (at, _) = scope.attr(&field.key, value.as_ref().and_then(|(_, kind)| *kind));
            computed.extend(value.map(|(expr, _)| (AttrVar(at), expr)));
        }
        let templates: Vec<Template> = to
            .iter()
            .filter_map(|text| {
                let ast = self.ast(text)?;
                let template = self.template(text, &ast, &mut scope)?;
                if matches!(template, Template::Each(..)) {
                    self.mistake(
                        "a right side is one value, not a list of operands",
                        text.span(ast.range),
                        "put it among the operands of an op, as in `(concat ?xs.. {axis: 1})`",
                    );
                }
                Some(template)
            })
            .collect();
        if self.found.len() > before || scope.incomplete {
            return None;
        }
        let symmetric = symmetry::symmetric(&patterns, &templates, &guards, &computed);
        Some(Rule {
            name: name.text,
            doc: doc.to_owned(),
            file: self.file.to_owned(),
            line,
            places: Places { variables: scope.places, ..parts.places() },
            from: patterns,
            to: templates,
            guards,
            precision: parts.precision,
            lets: computed,
            symmetric,
            operand_vars: scope.operands,
            rest_vars: scope.rests,
            attr_vars: scope.attrs,
            rest_attr_vars: scope.rest_attrs,
            examples: Vec::new(),
        })
    }

    fn ast(&mut self, text: &Text) -> Option<Ast> {
        let (ast, mistakes) = pattern::pattern(text);
        mistakes.into_iter().for_each(|mistake| self.syntax(text, mistake));
        ast
    }

    fn expression(&mut self, text: &Text) -> Option<ExprAst> {
        let (ast, mistakes) = pattern::expression(text);
        mistakes.into_iter().for_each(|mistake| self.syntax(text, mistake));
        ast
    }
}
