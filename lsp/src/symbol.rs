//! The names in a file, each with its place and with what it names.

use crate::document::Document;
use crate::outline::Literal;
use crate::term::{Language, Role, Term, Terms};
use ovolo::error::Span;

/// What a name in a file names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Symbol {
    /// A variable of a rule, `?x`, for an operand or an attribute.
    Variable(String),
    /// A variable of a rule for the rest of the attributes, `*a`.
    Rest(String),
    /// A key of a rule's rows, `$op`.
    Key(String),
    /// A rule or, in a pipeline, also a file of rules. `$key` is left as it is written.
    Rule(String),
    /// An op.
    Op(String),
    /// An attribute of an op.
    Attribute(String, String),
    /// A guard or a computed attribute.
    Function(String),
    /// A step of a chain.
    Step(String),
    /// The name of a struct, such as `Rule`, or of a pass.
    Struct(String),
    /// A field of a struct.
    Field(String, String),
    /// The value of a field that names something, such as `backends`: the field, and the name.
    Setting(String, String),
}

/// A name at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The place of the name, without its sign.
    pub span: Span,
    /// What it names.
    pub symbol: Symbol,
    /// The outermost struct around it, as an index of the outline's structs: the rule whose variables these are.
    pub item: Option<usize>,
    /// The field that it stands in.
    pub field: String,
    /// For a variable that is the value of an attribute: the op and the attribute.
    pub value_of: Option<(String, String)>,
}

/// Returns the language of a text in quotes by its struct and its field; `None` for a plain text.
pub fn language(head: &str, field: &str) -> Option<Language> {
    match (head, field) {
        ("Rule", "from" | "to" | "for_each") => Some(Language::Pattern),
        ("Rule", "when" | "let") | ("Example", "because") => Some(Language::Expression),
        ("Example", "fires" | "after" | "refuses") => Some(Language::Graph),
        _ => None,
    }
}

/// Returns all names of a file, in the order of their places.
pub fn occurrences(document: &Document) -> Vec<Occurrence> {
    let Document { text, outline, .. } = document;
    let mut found = Vec::new();
    for literal in &outline.literals {
        in_literal(document, literal, &mut found);
    }
    for one in &outline.structs {
        let symbol = Symbol::Struct(one.head.slice(text).to_owned());
        found.push(Occurrence {
            span: one.head,
            symbol,
            item: outline.item(one.parent),
            field: String::new(),
            value_of: None,
        });
    }
    for field in &outline.fields {
        let head = outline.head(text, field.parent).to_owned();
        let symbol = Symbol::Field(head, field.key.slice(text).to_owned());
        let item = outline.item(field.parent);
        found.push(Occurrence { span: field.key, symbol, item, field: String::new(), value_of: None });
    }
    found.sort_by_key(|one| (one.span.start, one.span.end));
    found
}

/// Returns the innermost name at a position, which may also be directly after its last character.
pub fn at(document: &Document, at: usize) -> Option<Occurrence> {
    let touches = |one: &Occurrence| (one.span.start..=one.span.end).contains(&at);
    let covers = |one: &Occurrence| (one.span.start..one.span.end).contains(&at);
    let all: Vec<Occurrence> = occurrences(document).into_iter().filter(touches).collect();
    // A key within the name of a rule counts more than the name, and a name that begins here more than one that ends.
    all.into_iter().min_by_key(|one| (!covers(one), one.span.end - one.span.start))
}

fn in_literal(document: &Document, literal: &Literal, found: &mut Vec<Occurrence>) {
    let Document { text, outline, .. } = document;
    let (head, field) =
        (outline.head(text, literal.parent), literal.field.map_or("", |field| field.slice(text)));
    let item = outline.item(literal.parent);
    let whole = literal.body.slice(text).to_owned();
    let mut push = |span: Span, symbol: Symbol, value_of| {
        found.push(Occurrence { span, symbol, item, field: field.to_owned(), value_of });
    };
    match (head, field) {
        ("Rule", "for_each") | ("Example", "for") if literal.is_key => {
            return push(literal.body, Symbol::Key(whole), None);
        }
        ("Rule", "let") if literal.is_key => return push(literal.body, Symbol::Variable(whole), None),
        ("Rule", "name") | ("Examples", "rule") | (_, "rules") => {
            push(literal.body, Symbol::Rule(whole), None);
        }
        ("Function", "name") => push(literal.body, Symbol::Op(whole), None),
        (_, "backends" | "precision" | "assume" | "extractor" | "cost" | "order" | "planner")
            if head != "Rule" =>
        {
            push(literal.body, Symbol::Setting(field.to_owned(), whole), None);
        }
        _ => {}
    }
    let language = language(head, field);
    let has_keys = matches!(head, "Rule" | "Examples" | "Example");
    for Term { span, role } in Terms::read(text, literal.body, language.unwrap_or(Language::Pattern)).list {
        let name = span.slice(text).to_owned();
        match role {
            Role::Key if has_keys => push(span, Symbol::Key(name), None),
            _ if language.is_none() => {}
            Role::Op => push(span, Symbol::Op(name), None),
            Role::Attribute(op) => push(span, Symbol::Attribute(op, name), None),
            Role::Function => push(span, Symbol::Function(name), None),
            Role::Variable(value_of) => push(span, Symbol::Variable(name), value_of),
            Role::Rest => push(span, Symbol::Rest(name), None),
            Role::Step => push(span, Symbol::Step(name), None),
            Role::Key | Role::Value => {}
        }
    }
}
