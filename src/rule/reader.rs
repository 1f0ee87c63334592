//! From rule files to checked rules. Every mistake is gathered, with its place.

use super::example;
use super::pattern::{self, Ast, Entry, ExprAst, ExprKind, Kind};
use super::ron::{self, Field, Node, Text, Value};
use super::{
    AttrPattern, AttrVar, Expr, Guard, OperandVar, Pattern, RestAttrVar, RestVar, Rule, Template, expr,
};
use crate::attr::{Attr, AttrKind, Float};
use crate::error::{Diagnostic, Diagnostics, Source, Span, suggestion};
use crate::op::{self, Arity, OpDef};
use std::collections::HashMap;
use std::ops::Range;

const KEYS: &[&str] = &["name", "from", "to", "when", "let", "for-each", "examples"];

/// Reads rule files; mistakes go to `found`.
pub(super) fn read(files: &[(&str, &str)], found: &mut Diagnostics) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut names: HashMap<String, (usize, Span)> = HashMap::new();
    for (name, text) in files {
        let source = found.add_source(Source::new(*name, *text));
        let nodes = match ron::read(text, source) {
            Ok(Node { value: Value::List(nodes), .. }) => nodes,
            Ok(other) => {
                found.push(
                    Diagnostic::new("a rule file is a list of rules")
                        .label(source, other.span, "")
                        .help("write `[Rule(name: …, from: …, to: …), …]`"),
                );
                continue;
            }
            Err(diagnostic) => {
                found.push(diagnostic);
                continue;
            }
        };
        for node in nodes {
            let mut reader = Reader { found, source, file: name, text, rule: String::new() };
            for (rule, span) in reader.rules(&node) {
                if let Some((first_source, first)) = names.insert(rule.name.clone(), (source, span)) {
                    found.push(
                        Diagnostic::new(format!("two rules are called `{}`", rule.name))
                            .label(source, span, "the second")
                            .label(first_source, first, "the first")
                            .help("give one of them another name"),
                    );
                }
                rules.push(rule);
            }
        }
    }
    rules
}

pub(super) struct Reader<'a> {
    found: &'a mut Diagnostics,
    source: usize,
    file: &'a str,
    text: &'a str,
    /// The name of the rule in hand, for messages.
    rule: String,
}

/// What a rule is read from, before `for-each` is written out.
struct Parts<'a> {
    name: &'a Text,
    from: Vec<&'a Text>,
    to: Vec<&'a Text>,
    when: Vec<&'a Text>,
    lets: Vec<(&'a Field, &'a Text)>,
}

/// Names of variables, and what they are.
#[derive(Default)]
struct Scope {
    operands: Vec<String>,
    rests: Vec<String>,
    attrs: Vec<String>,
    rest_attrs: Vec<String>,
    used: Vec<String>,
}

fn index(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
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

    pub(super) fn mistake(&mut self, message: impl Into<String>, span: Span) {
        let diagnostic = Diagnostic::new(message).label(self.source, span, "");
        self.say(diagnostic);
    }

    pub(super) fn unknown(&mut self, what: &str, name: &str, span: Span, known: &[&str]) {
        let mut diagnostic =
            Diagnostic::new(format!("{what} `{name}` is not known")).label(self.source, span, "");
        diagnostic = match suggestion(name, known.iter().copied()) {
            Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
            None if known.len() <= 12 => diagnostic.help(format!("there are {}", known.join(", "))),
            None => diagnostic,
        };
        self.say(diagnostic);
    }

    fn rules(&mut self, node: &Node) -> Vec<(Rule, Span)> {
        let Value::Struct { name, fields, comment } = &node.value else {
            self.mistake("a rule is `Rule(…)`", node.span);
            return Vec::new();
        };
        if name != "Rule" {
            self.mistake(
                format!("`{name}` stands where `Rule` should"),
                Span::new(node.span.start, node.span.start + name.len()),
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
        if let (Some(row), true) = (rows.first(), self.found.len() == before) {
            for (key, _) in row.iter().filter(|(key, _)| !used.contains(key)) {
                let span =
                    fields.iter().find(|field| field.key == "for-each").map_or(head, |field| field.node.span);
                self.mistake(format!("`${key}` is not used"), span);
            }
        }
        rules
    }

    fn parts<'n>(&mut self, fields: &'n [Field], head: Span) -> Option<Parts<'n>> {
        let mut required = |key: &str| {
            let field = fields.iter().find(|field| field.key == key);
            if field.is_none() {
                self.mistake(format!("the rule lacks `{key}`"), head);
            }
            field
        };
        let (name, from, to) = (required("name"), required("from"), required("to"));
        let (name, from, to) = (name?, from?, to?);
        let Value::Str(name_text) = &name.node.value else {
            self.mistake("a rule's name is text in quotes", name.node.span);
            return None;
        };
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '$';
        let plain = name_text.text.replace(|c: char| c.is_ascii_alphanumeric(), "");
        if name_text.text.is_empty()
            || !name_text.text.contains('$')
                && !name_text.text.chars().all(|c| kebab(c) || c.is_ascii_uppercase())
            || plain.contains(' ')
        {
            self.mistake(format!("`{}` is not in kebab case", name_text.text), name.node.span);
        }
        let (from_texts, to_texts) = (self.texts(&from.node), self.texts(&to.node));
        if from_texts.len() != to_texts.len() {
            let diagnostic = Diagnostic::new(format!(
                "{} left side(s), {} right side(s)",
                from_texts.len(),
                to_texts.len()
            ))
            .label(self.source, to.node.span, "")
            .label(self.source, from.node.span, "")
            .help("each left side equals the right side in the same position");
            self.say(diagnostic);
        }
        let when = fields
            .iter()
            .find(|field| field.key == "when")
            .map(|field| self.texts(&field.node))
            .unwrap_or_default();
        let mut lets = Vec::new();
        if let Some(field) = fields.iter().find(|field| field.key == "let") {
            match &field.node.value {
                Value::Map(entries) => {
                    for entry in entries {
                        match &entry.node.value {
                            Value::Str(text) => lets.push((entry, text)),
                            _ => self.mistake("a computed attribute is text in quotes", entry.node.span),
                        }
                    }
                }
                _ => self.mistake("`let` is a map: `{ k: \"…\" }`", field.node.span),
            }
        }
        Some(Parts { name: name_text, from: from_texts, to: to_texts, when, lets })
    }

    /// A string, or a list of strings.
    fn texts<'n>(&mut self, node: &'n Node) -> Vec<&'n Text> {
        match &node.value {
            Value::Str(text) => vec![text],
            Value::List(items) => items
                .iter()
                .filter_map(|item| match &item.value {
                    Value::Str(text) => Some(text),
                    _ => {
                        self.mistake("text in quotes is expected here", item.span);
                        None
                    }
                })
                .collect(),
            _ => {
                self.mistake("text in quotes, or a list of it, is expected here", node.span);
                Vec::new()
            }
        }
    }

    /// The rows of `for-each`: a map of lists is their product, a list of maps is taken as it is.
    fn for_each(&mut self, fields: &[Field]) -> Vec<Vec<(String, String)>> {
        let Some(field) = fields.iter().find(|field| field.key == "for-each") else {
            return vec![Vec::new()];
        };
        match &field.node.value {
            Value::Map(entries) => {
                let mut rows: Vec<Vec<(String, String)>> = vec![Vec::new()];
                for entry in entries {
                    let Value::List(items) = &entry.node.value else {
                        self.mistake("a list of values is expected here", entry.node.span);
                        continue;
                    };
                    let values: Vec<String> = items.iter().filter_map(|item| self.scalar(item)).collect();
                    rows = rows
                        .iter()
                        .flat_map(|row| {
                            values.iter().map(|value| {
                                let mut row = row.clone();
                                row.push((entry.key.clone(), value.clone()));
                                row
                            })
                        })
                        .collect();
                }
                rows
            }
            Value::List(items) => items
                .iter()
                .filter_map(|item| match &item.value {
                    Value::Map(entries) => Some(
                        entries
                            .iter()
                            .filter_map(|entry| Some((entry.key.clone(), self.scalar(&entry.node)?)))
                            .collect(),
                    ),
                    _ => {
                        self.mistake("a row of `for-each` is a map: `{ l: \"…\" }`", item.span);
                        None
                    }
                })
                .collect(),
            _ => {
                self.mistake("`for-each` is a map of lists, or a list of maps", field.node.span);
                Vec::new()
            }
        }
    }

    pub(super) fn scalar(&mut self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Str(text) => Some(text.text.clone()),
            Value::Number(value) => Some(value.to_string()),
            _ => {
                self.mistake("text in quotes or a number is expected here", node.span);
                None
            }
        }
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
                self.mistake(format!("`${name}` is not in `for-each`"), span);
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
                if !matches!(ast.kind, Kind::Op { .. }) {
                    self.mistake(
                        "a left side is an op, not a variable or a number",
                        text.span(ast.range.clone()),
                    );
                }
                patterns.extend(self.pattern(text, &ast, &mut scope));
            }
        }
        if patterns.len() != from.len() {
            return None; // what the left does not bind is not the right side's mistake
        }
        let guards: Vec<Guard> = when
            .iter()
            .filter_map(|text| {
                let ast = pattern::expression(text)
                    .map_err(|(message, range)| self.mistake(message, text.span(range)))
                    .ok()?;
                let expr = self.expr(text, &ast, &mut scope)?;
                if !matches!(&expr, Expr::Call(function, _) if function.guard) {
                    self.mistake("a condition is a guard, such as `const(?x)`", text.span(ast.range));
                }
                Some(Guard { text: text.text.clone(), expr })
            })
            .collect();
        let mut computed = Vec::new();
        for (field, text) in &lets {
            match pattern::expression(text) {
                Ok(ast) => {
                    if let Some(expr) = self.expr(text, &ast, &mut scope) {
                        if scope.attrs.contains(&field.key) {
                            self.mistake(format!("`?{}` is bound already", field.key), field.key_span);
                        }
                        computed.push((AttrVar(index(&mut scope.attrs, &field.key)), expr));
                    }
                }
                Err((message, range)) => self.mistake(message, text.span(range)),
            }
        }
        let templates: Vec<Template> = to
            .iter()
            .filter_map(|text| {
                let ast = self.ast(text)?;
                self.template(text, &ast, &mut scope)
            })
            .collect();
        if self.found.len() > before {
            return None;
        }
        let symmetric = patterns.len() == 2 && shape(&patterns[0]) == shape(&patterns[1]);
        Some(Rule {
            name: name.text,
            doc: doc.to_owned(),
            file: self.file.to_owned(),
            line,
            from: patterns,
            to: templates,
            guards,
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
        pattern::pattern(text).map_err(|(message, range)| self.mistake(message, text.span(range))).ok()
    }

    fn op(&mut self, text: &Text, name: &str, range: &Range<usize>) -> Option<&'static OpDef> {
        let def = op::find(name);
        if def.is_none() {
            let known: Vec<&str> = op::all().iter().map(|def| def.name).collect();
            self.unknown("op", name, text.span(range.clone()), &known);
        }
        def
    }

    fn arity(
        &mut self,
        text: &Text,
        range: &Range<usize>,
        def: &OpDef,
        given: usize,
        open: bool,
        post: Option<usize>,
    ) {
        let (fits, wanted) = match def.arity {
            Arity::Exactly(n) => (given == n || open && given <= n, format!("{n}")),
            Arity::AtLeast(n) => (given >= n || open, format!("at least {n}")),
            Arity::Post(n) => match post {
                Some(extra) if !open => (given == n + extra, format!("{}", n + extra)),
                _ => (given >= n || open, format!("at least {n}")),
            },
        };
        if !fits {
            self.mistake(
                format!("`{}` takes {wanted} operand(s), {given} are written", def.name),
                text.span(range.clone()),
            );
        }
    }

    fn attr_name(
        &mut self,
        text: &Text,
        def: &'static OpDef,
        name: &str,
        range: &Range<usize>,
    ) -> Option<&'static op::AttrDef> {
        let found = def.attr(name);
        if found.is_none() {
            let known: Vec<&str> = def.attrs.iter().map(|def| def.name).collect();
            self.unknown(&format!("attribute of `{}`:", def.name), name, text.span(range.clone()), &known);
        }
        found
    }

    fn pattern(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Pattern> {
        let (name, name_range, children, entries) = match &ast.kind {
            Kind::Var(name) => {
                self.one_kind(text, name, &ast.range, &scope.attrs, &scope.rests, "an operand")?;
                return Some(Pattern::Operand(OperandVar(index(&mut scope.operands, name))));
            }
            Kind::Number(value) => return Some(Pattern::Scalar(*value)),
            Kind::Rest(_) => {
                self.mistake("a rest stands last among the operands of an op", text.span(ast.range.clone()));
                return None;
            }
            Kind::Op { name, name_range, children, attrs } => (name, name_range, children, attrs),
        };
        let def = self.op(text, name, name_range)?;
        let mut rest = None;
        let mut patterns = Vec::new();
        for (at, child) in children.iter().enumerate() {
            match &child.kind {
                Kind::Rest(name) if at + 1 == children.len() => {
                    self.one_kind(text, name, &child.range, &scope.attrs, &scope.operands, "a rest")?;
                    rest = Some(RestVar(index(&mut scope.rests, name)));
                }
                _ => patterns.push(self.pattern(text, child, scope)?),
            }
        }
        let mut attrs: Vec<(&'static str, AttrPattern)> = Vec::new();
        let mut rest_attrs = None;
        for entry in entries {
            match entry {
                Entry::Rest { name, .. } => {
                    rest_attrs = Some(RestAttrVar(index(&mut scope.rest_attrs, name)))
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range)?;
                    let expected = match &value.kind {
                        ExprKind::Var(var) => {
                            self.one_kind(
                                text,
                                var,
                                &value.range,
                                &scope.operands,
                                &scope.rests,
                                "an attribute",
                            )?;
                            AttrPattern::Var(AttrVar(index(&mut scope.attrs, var)))
                        }
                        ExprKind::Literal(literal) => {
                            AttrPattern::Literal(self.literal(text, attr, literal, &value.range)?)
                        }
                        ExprKind::Call(..) => {
                            self.mistake(
                                "a left side binds attributes or names values; it computes none",
                                text.span(value.range.clone()),
                            );
                            return None;
                        }
                    };
                    attrs.push((attr.name, expected));
                }
            }
        }
        let post = attrs.iter().find_map(|(_, value)| match value {
            AttrPattern::Literal(Attr::Post(steps)) => Some(op::post::extras(steps)),
            _ => None,
        });
        let no_post = def.attr("post").is_some()
            && rest_attrs.is_none()
            && !attrs.iter().any(|(name, _)| *name == "post");
        self.arity(
            text,
            &ast.range,
            def,
            patterns.len(),
            rest.is_some(),
            if no_post { Some(0) } else { post },
        );
        if rest_attrs.is_none() {
            for attr in &def.attrs {
                if attrs.iter().any(|(name, _)| *name == attr.name) {
                    continue;
                }
                match &attr.default {
                    Some(default) => attrs.push((attr.name, AttrPattern::Literal(default.clone()))),
                    None => {
                        let diagnostic = Diagnostic::new(format!(
                            "attribute `{}` of `{}` is not mentioned",
                            attr.name, def.name
                        ))
                        .label(self.source, text.span(ast.range.clone()), "")
                        .help(format!(
                            "bind it with `{}: ?{}`, or all others with `*rest`",
                            attr.name,
                            attr.name.chars().next().unwrap_or('a')
                        ));
                        self.say(diagnostic);
                    }
                }
            }
        }
        Some(Pattern::Op { op: def, children: patterns, rest, attrs, rest_attrs })
    }

    /// An error where a name stands for two kinds of things.
    fn one_kind(
        &mut self,
        text: &Text,
        name: &str,
        range: &Range<usize>,
        a: &[String],
        b: &[String],
        what: &str,
    ) -> Option<()> {
        if a.iter().chain(b).any(|other| other == name) {
            self.mistake(
                format!("`?{name}` is {what} here and something else elsewhere"),
                text.span(range.clone()),
            );
            return None;
        }
        Some(())
    }

    fn literal(
        &mut self,
        text: &Text,
        attr: &op::AttrDef,
        literal: &Attr,
        range: &Range<usize>,
    ) -> Option<Attr> {
        #[allow(clippy::cast_precision_loss)]
        let literal = match (attr.kind, literal) {
            (AttrKind::Float, Attr::Int(value)) => Attr::Float(Float(*value as f64)),
            _ => literal.clone(),
        };
        if literal.kind() == attr.kind {
            return Some(literal);
        }
        self.mistake(
            format!(
                "attribute `{}` is of kind {:?}, and {literal} is of kind {:?}",
                attr.name,
                attr.kind,
                literal.kind()
            ),
            text.span(range.clone()),
        );
        None
    }

    fn template(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Template> {
        let (name, name_range, children, entries) = match &ast.kind {
            Kind::Var(name) => {
                let Some(at) = scope.operands.iter().position(|known| known == name) else {
                    let known: Vec<String> = scope.operands.iter().map(|name| format!("?{name}")).collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let diagnostic = Diagnostic::new(format!("`?{name}` is not bound on the left"))
                        .label(self.source, text.span(ast.range.clone()), "")
                        .help(format!(
                            "the left binds {}",
                            if known.is_empty() { "no operand".to_owned() } else { known.join(", ") }
                        ));
                    self.say(diagnostic);
                    return None;
                };
                return Some(Template::Operand(OperandVar(at)));
            }
            Kind::Number(value) => return Some(Template::Scalar(*value)),
            Kind::Rest(name) => {
                let Some(at) = scope.rests.iter().position(|known| known == name) else {
                    self.mistake(
                        format!("`?{name}..` is not bound on the left"),
                        text.span(ast.range.clone()),
                    );
                    return None;
                };
                return Some(Template::Each(RestVar(at), None));
            }
            Kind::Op { name, name_range, children, attrs } => (name, name_range, children, attrs),
        };
        if name == "each" {
            return self.each(text, ast, children, scope);
        }
        let def = self.op(text, name, name_range)?;
        let mut templates = Vec::new();
        for child in children {
            templates.push(self.template(text, child, scope)?);
        }
        let open = templates.iter().any(|child| matches!(child, Template::Each(..)));
        let single = templates.iter().filter(|child| !matches!(child, Template::Each(..))).count();
        let mut attrs: Vec<(&'static str, Expr)> = Vec::new();
        let mut rest_attrs = None;
        for entry in entries {
            match entry {
                Entry::Rest { name, range } => {
                    match scope.rest_attrs.iter().position(|known| known == name) {
                        Some(at) => rest_attrs = Some(RestAttrVar(at)),
                        None => self
                            .mistake(format!("`*{name}` is not bound on the left"), text.span(range.clone())),
                    }
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range)?;
                    let expr = match &value.kind {
                        ExprKind::Literal(literal) => {
                            Expr::Literal(self.literal(text, attr, literal, &value.range)?)
                        }
                        _ => self.expr(text, value, scope)?,
                    };
                    attrs.push((attr.name, expr));
                }
            }
        }
        let post = match attrs.iter().find(|(name, _)| *name == "post") {
            Some((_, Expr::Literal(Attr::Post(steps)))) => Some(op::post::extras(steps)),
            Some(_) => None,
            None if rest_attrs.is_none() => Some(0),
            None => None,
        };
        self.arity(text, &ast.range, def, single, open, post);
        if rest_attrs.is_none() {
            for attr in def.attrs.iter().filter(|attr| attr.default.is_none()) {
                if !attrs.iter().any(|(name, _)| *name == attr.name) {
                    self.mistake(
                        format!("attribute `{}` of `{}` is missing", attr.name, def.name),
                        text.span(ast.range.clone()),
                    );
                }
            }
        }
        Some(Template::Op { op: def, children: templates, attrs, rest_attrs })
    }

    /// `(each ?xs.. ?x template)`: a template for every value of a rest.
    fn each(&mut self, text: &Text, ast: &Ast, children: &[Ast], scope: &mut Scope) -> Option<Template> {
        let [Ast { kind: Kind::Var(rest) | Kind::Rest(rest), .. }, Ast { kind: Kind::Var(item), .. }, inner] =
            children
        else {
            self.mistake("`each` is written `(each ?xs ?x (… ?x …))`", text.span(ast.range.clone()));
            return None;
        };
        let Some(at) = scope.rests.iter().position(|known| known == rest) else {
            self.mistake(
                format!("`?{rest}..` is not bound on the left"),
                text.span(children[0].range.clone()),
            );
            return None;
        };
        let item = OperandVar(index(&mut scope.operands, item));
        let inner = self.template(text, inner, scope)?;
        Some(Template::Each(RestVar(at), Some((item, Box::new(inner)))))
    }

    fn expr(&mut self, text: &Text, ast: &ExprAst, scope: &mut Scope) -> Option<Expr> {
        Some(match &ast.kind {
            ExprKind::Literal(literal) => Expr::Literal(literal.clone()),
            ExprKind::Var(name) => {
                scope.used.push(name.clone());
                let at = |names: &[String]| names.iter().position(|known| known == name);
                if let Some(at) = at(&scope.attrs) {
                    Expr::Attr(AttrVar(at))
                } else if let Some(at) = at(&scope.operands) {
                    Expr::Operand(OperandVar(at))
                } else if let Some(at) = at(&scope.rests) {
                    Expr::Rest(RestVar(at))
                } else {
                    self.mistake(format!("`?{name}` is not bound on the left"), text.span(ast.range.clone()));
                    return None;
                }
            }
            ExprKind::Call(name, arguments) => {
                let span = text.span(ast.range.start..ast.range.start + name.len());
                let Some(function) = expr::functions().find(|function| function.name == name) else {
                    let known: Vec<&str> = expr::functions().map(|function| function.name).collect();
                    self.unknown("guard or function", name, span, &known);
                    return None;
                };
                let (least, most) = function.arity;
                if arguments.len() < least || arguments.len() > most {
                    let wanted = if least == most { format!("{least}") } else { format!("at least {least}") };
                    self.mistake(
                        format!("`{name}` takes {wanted} argument(s), {} are given", arguments.len()),
                        text.span(ast.range.clone()),
                    );
                    return None;
                }
                Expr::Call(
                    function,
                    arguments.iter().map(|one| self.expr(text, one, scope)).collect::<Option<_>>()?,
                )
            }
        })
    }
}

/// A pattern's text without the names of its variables.
fn shape(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Operand(_) => "?".into(),
        Pattern::Scalar(value) => value.to_string(),
        Pattern::Op { op, children, rest, .. } => {
            let children: Vec<String> = children.iter().map(shape).collect();
            format!("({} {}{})", op.name, children.join(" "), if rest.is_some() { " .." } else { "" })
        }
    }
}
