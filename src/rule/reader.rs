//! The reader, which turns rule files into checked rules. It collects all mistakes with their positions.

mod example;
mod expression;
mod file;
mod form;
mod left;
mod operator;
mod right;
mod row;
mod scope;
mod symmetry;

pub(super) use file::read;

use super::gone::Gone;
use super::pattern::{self, Ast, ExprAst, Kind, Mistake};
use super::{AttrVar, Expr, Guard, Pattern, Places, Precision, Rule, Template, Vocabulary};
use crate::diagnostic::{Diagnostic, Diagnostics, Span, nearest, suggestion};
use crate::op::Ops;
use crate::ron::{self, Raw, Text};
use example::{Beside, Written};
use form::Form;
use row::Row;
use scope::Scope;
use std::collections::HashMap;

/// Returns whether a pattern uses an op that is not in `ops`.
fn lacks_op(pattern: &str, ops: &Ops) -> bool {
    // A parenthesis directly after a word opens the arguments of a computed attribute.
    let opens = |at: usize| !pattern[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    let mut heads = pattern.match_indices('(').filter(|(at, _)| opens(*at)).map(|(at, _)| {
        let rest = pattern[at + 1..].trim_start();
        &rest[..rest.find([' ', '(', ')', '\n']).unwrap_or(rest.len())]
    });
    let word = |head: &str| head.starts_with(|c: char| c.is_ascii_lowercase()) && head != "each";
    heads.any(|head| word(head) && ops.get(head).is_none())
}

fn in_rule(name: &str) -> String {
    format!("in rule `{name}`")
}

/// Returns the known name for another spelling, such as `MaxPool` of ONNX or `max_pool`, or otherwise one with most
/// of the same words.
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

pub(super) struct Reader<'a> {
    vocabulary: Vocabulary<'a>,
    found: &'a mut Diagnostics,
    source: usize,
    file: &'a str,
    /// Whether the file is part of ovolo, and unchanged.
    ships: bool,
    /// The name of the current rule, for messages.
    rule: String,
    /// The values in the `for_each` of the current rule, with their positions.
    values: Vec<(String, Span)>,
    /// Rules of backends that are absent.
    left_out: Vec<Gone>,
}

impl Reader<'_> {
    fn say(&mut self, diagnostic: Diagnostic) {
        let diagnostic = if self.rule.is_empty() { diagnostic } else { diagnostic.note(in_rule(&self.rule)) };
        // A value of a row that stands in several places is wrong once.
        if !self.found.iter().any(|other| *other == diagnostic) {
            self.found.push(diagnostic);
        }
    }

    /// Adds a mistake: the message, the position and the advice.
    pub(super) fn mistake(&mut self, message: impl Into<String>, span: Span, help: impl AsRef<str>) {
        let diagnostic = Diagnostic::new(message).label(self.source, span, "").help(help);
        self.say(diagnostic);
    }

    /// Adds a mistake in the syntax of a pattern or an expression.
    fn syntax(&mut self, text: &Text, mistake: Mistake) {
        self.mistake(mistake.message, text.span(mistake.range), mistake.help);
    }

    pub(super) fn unknown(&mut self, what: &str, name: &str, span: Span, known: &[&str]) {
        let mut diagnostic =
            Diagnostic::new(format!("{what} `{name}` is not known")).label(self.source, span, "");
        diagnostic = match spelled(name, known).or_else(|| suggestion(name, known.iter().copied())) {
            Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
            None if known.is_empty() => diagnostic.help("there are none: remove it"),
            None if known.len() <= 12 => diagnostic.help(format!("there are {}", known.join(", "))),
            None => diagnostic.help("`ovolo rules reference` lists what there is"),
        };
        self.say(diagnostic);
    }

    /// Reports each rule with the same name as another one.
    fn named_once(&mut self, made: &[(Rule, Span)], names: &mut HashMap<String, (usize, Span)>) {
        for (at, (rule, span)) in made.iter().enumerate() {
            if made[..at].iter().any(|(other, _)| other.name == rule.name) {
                // Several rows of the rule have the same name, which is reported for the first one.
                continue;
            }
            self.rule.clone_from(&rule.name);
            let alike = made.iter().filter(|(other, _)| other.name == rule.name).count();
            if alike > 1 {
                let help = format!("put what tells them apart into the name, as in `{}-$key`", rule.written);
                let message = format!("{alike} rows of `for_each` are called `{}`", rule.name);
                self.say(
                    Diagnostic::new(message).label(self.source, *span, "the same for all of them").help(help),
                );
            } else if let Some((first_source, first)) = names.insert(rule.name.clone(), (self.source, *span))
            {
                let diagnostic = Diagnostic::new(format!("two rules are called `{}`", rule.name))
                    .label(self.source, *span, "the second")
                    .label(first_source, first, "the first")
                    .help("give one of them another name");
                self.say(diagnostic);
            }
        }
    }

    /// Returns the rules of one entry of a file, one for each row, with the positions of their names.
    fn rules(
        &mut self,
        raw: Raw<'_>,
        law: &str,
        beside: &Beside,
        written: &mut Vec<Written>,
    ) -> Vec<(Rule, Span)> {
        let name = raw.field("name").and_then(Text::parse);
        self.rule = name.as_ref().map(|name| name.text.clone()).unwrap_or_default();
        let before = self.found.len();
        let mut values = ron::Reader::new(self.found, self.source);
        values.note(Some(&self.rule).filter(|rule| !rule.is_empty()).map(|rule| in_rule(rule)));
        let form = values.read::<Form>(raw);
        // A rule that was only read in part is not checked further.
        let Some(form) = form.filter(|_| self.found.len() == before) else { return Vec::new() };
        self.check(&form);
        self.values = form.values();
        let mut used = Vec::new();
        let rows = self.rows(&form, &mut used);
        if self.found.len() > before {
            return Vec::new();
        }
        let mut rules = Vec::new();
        for row in &rows {
            let before = self.found.len();
            let rule = self.rule(&form, row, &mut used);
            if self.found.len() == before {
                let examples = beside.fill(self, &form.name.text, row, rows.len() == 1);
                rules.extend(rule.map(|rule| {
                    let rule = Rule { doc: law.to_owned(), line: raw.line(), examples, ..rule };
                    (rule, form.name.value_span())
                }));
            }
            if self.found.len() > before {
                break; // The other rows would have the same mistakes.
            }
        }
        if let (Some(row), Some(written), true) = (rows.first(), &form.for_each, self.found.len() == before) {
            for (key, _) in row.iter().filter(|(key, _)| !used.contains(key)) {
                self.mistake(
                    format!("`${key}` is not used"),
                    written.span,
                    format!("write `${key}` where its values belong, in the name as well, or remove it"),
                );
            }
        }
        let makes = rules.iter().map(|(rule, _): &(Rule, Span)| rule.name.clone()).collect();
        written.push(Written { name: form.name.text, rows, makes });
        rules
    }

    /// Replaces each `$key` in a text by its value in a row. Reports keys without a value.
    pub(super) fn fill(&mut self, text: &Text, row: &Row, used: &mut Vec<String>) -> Option<Text> {
        match text.replace(row, used) {
            Ok(text) => Some(text),
            Err((name, span)) => {
                let known: Vec<String> = row.iter().map(|(key, _)| format!("`${key}`")).collect();
                let help = match &known[..] {
                    [] => "the rule has no rows: add `for_each: {…}`".to_owned(),
                    known => format!("its rows have {}", known.join(", ")),
                };
                self.mistake(format!("`${name}` is not in `for_each`"), span, help);
                None
            }
        }
    }

    /// Replaces each `$key` in several texts; `None` if a value is missing.
    fn fill_all(&mut self, texts: &[Text], row: &Row, used: &mut Vec<String>) -> Option<Vec<Text>> {
        let filled: Vec<Text> = texts.iter().filter_map(|text| self.fill(text, row, used)).collect();
        (filled.len() == texts.len()).then_some(filled)
    }

    /// Returns the precision to which the rule rounds, for a row.
    fn precision(&mut self, form: &Form, row: &Row, used: &mut Vec<String>) -> Option<Precision> {
        let Some(written) = &form.precision else { return Some(Precision::default()) };
        let name = self.fill(written, row, used)?;
        let known = Precision::find(&name.text);
        if known.is_none() {
            let names = Precision::ALL.map(|one| format!("`\"{one}\"`"));
            self.mistake(
                format!("precision `{}` is not known", name.text),
                written.value_span(),
                format!("known are {}: all but the first are of rules that round", names.join(", ")),
            );
        }
        known
    }

    /// Returns what the rule assumes, for a row.
    fn assumes(&mut self, form: &Form, row: &Row, used: &mut Vec<String>) -> Option<Vec<&'static str>> {
        let mut found = Vec::new();
        for written in &form.assume.0 {
            let name = self.fill(written, row, used)?;
            let Some(known) = Rule::ASSUMPTIONS.into_iter().find(|known| *known == name.text) else {
                let names = Rule::ASSUMPTIONS.map(|one| format!("`\"{one}\"`"));
                self.mistake(
                    format!("assumption `{}` is not known", name.text),
                    written.value_span(),
                    format!("known are {}", names.join(", ")),
                );
                return None;
            };
            found.push(known);
        }
        Some(found)
    }

    /// Returns the rule for one row of `for_each`.
    fn rule(&mut self, form: &Form, row: &Row, used: &mut Vec<String>) -> Option<Rule> {
        let name = self.fill(&form.name, row, used)?;
        let [from, to, when] =
            [&form.from.0, &form.to.0, &form.when.0].map(|texts| self.fill_all(texts, row, used));
        let lets: Vec<Text> = form.lets.0.iter().map(|(_, text)| text.clone()).collect();
        let lets = self.fill_all(&lets, row, used);
        let precision = self.precision(form, row, used)?;
        let assumes = self.assumes(form, row, used)?;
        let (from, to, when, lets) = (from?, to?, when?, lets?);
        self.rule.clone_from(&name.text);
        let mut sides = from.iter().chain(&to);
        if self.ships && sides.any(|text| lacks_op(&text.text, self.vocabulary.ops)) {
            let row = row.iter().map(|(_, value)| value.clone()).collect();
            self.left_out.push(Gone { name: name.text, file: self.file.to_owned(), row });
            return None;
        }
        let before = self.found.len();
        let mut scope = Scope::default();
        let patterns = self.left_sides(&from, &mut scope);
        scope.incomplete = patterns.len() != from.len();
        scope.later = form.lets.0.iter().map(|(key, _)| key.text.clone()).collect();
        let guards: Vec<Guard> = when.iter().filter_map(|text| self.guard(text, &mut scope)).collect();
        let computed = self.computed(form, &lets, &mut scope);
        let templates: Vec<Template> =
            to.iter().filter_map(|text| self.right_side(text, &mut scope)).collect();
        if self.found.len() > before || scope.incomplete {
            return None;
        }
        let symmetric = symmetry::symmetric(&patterns, &templates, &guards, &computed);
        Some(Rule {
            name: name.text,
            written: form.name.text.clone(),
            row: row.iter().map(|(_, value)| value.clone()).collect(),
            keys: row.iter().map(|(key, _)| key.clone()).collect(),
            doc: String::new(),
            file: self.file.to_owned(),
            line: 0,
            places: Places { variables: scope.places, ..form.places() },
            from: patterns,
            to: templates,
            guards,
            precision,
            assumes,
            lets: computed,
            symmetric,
            operand_vars: scope.operands,
            rest_vars: scope.rests,
            attr_vars: scope.attrs,
            rest_attr_vars: scope.rest_attrs,
            examples: Vec::new(),
        })
    }

    /// Reads the left sides, which bind the variables.
    fn left_sides(&mut self, from: &[Text], scope: &mut Scope) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for text in from {
            if let Some(ast) = self.ast(text) {
                if !matches!(ast.kind, Kind::Op { .. } | Kind::Wrong) {
                    self.mistake(
                        "a left side is an op, not a variable or a number",
                        text.span(ast.range.clone()),
                        "write `(op …)`: a variable alone would match every value",
                    );
                }
                patterns.extend(self.pattern(text, &ast, scope));
            }
        }
        patterns
    }

    /// Reads a condition of `when`.
    fn guard(&mut self, text: &Text, scope: &mut Scope) -> Option<Guard> {
        let ast = self.expression(text)?;
        let (expr, _) = self.expr(text, &ast, scope)?;
        if !matches!(&expr, Expr::Call(function, _) if function.is_guard()) {
            self.mistake(
                "a condition is a guard, not a value",
                text.span(ast.range),
                "ask something of it, as in `equal(rank-of(?x), 4)`",
            );
        }
        Some(Guard { text: ron::flat(&text.text), expr })
    }

    /// Reads the computed attributes of `let`, whose texts have the values of a row.
    fn computed(&mut self, form: &Form, lets: &[Text], scope: &mut Scope) -> Vec<(AttrVar, Expr)> {
        let mut computed = Vec::new();
        for (at, ((key, _), text)) in form.lets.0.iter().zip(lets).enumerate() {
            scope.later = form.lets.0[at..].iter().map(|(key, _)| key.text.clone()).collect();
            let ast = self.expression(text);
            let attribute = format!("`let` of `{}`", key.text);
            let value = ast.and_then(|ast| self.value(text, &ast, &attribute, None, scope));
            if let Some(what) = scope.kind(&key.text) {
                self.mistake(
                    format!("`?{}` is {what} already", key.text),
                    key.whole(),
                    "give the computed attribute another name",
                );
            }
            scope.places.push((format!("?{}", key.text), key.whole()));
            // An attribute that could not be read is still bound, so that its uses are not reported as mistakes.
            let (at, _) = scope.attr(&key.text, value.as_ref().and_then(|(_, kind)| *kind));
            computed.extend(value.map(|(expr, _)| (AttrVar(at), expr)));
        }
        scope.later.clear();
        computed
    }

    /// Reads a right side.
    fn right_side(&mut self, text: &Text, scope: &mut Scope) -> Option<Template> {
        let ast = self.ast(text)?;
        let template = self.template(text, &ast, scope)?;
        if matches!(template, Template::Each(..)) {
            self.mistake(
                "a right side is one value, not a list of operands",
                text.span(ast.range),
                "put it among the operands of an op, as in `(concat ?xs.. {axis: 1})`",
            );
        }
        Some(template)
    }

    fn ast(&mut self, text: &Text) -> Option<Ast> {
        let (ast, mistakes) = pattern::pattern(text, self.vocabulary);
        mistakes.into_iter().for_each(|mistake| self.syntax(text, mistake));
        ast
    }

    fn expression(&mut self, text: &Text) -> Option<ExprAst> {
        let (ast, mistakes) = pattern::expression(text, self.vocabulary);
        mistakes.into_iter().for_each(|mistake| self.syntax(text, mistake));
        ast
    }
}
