//! Completion inside of patterns, guards and graphs.

use super::item::Items;
use crate::description;
use crate::document::Document;
use crate::outline::Literal;
use crate::symbol::{self, Symbol};
use crate::term::{Language, Open, Role, Terms};
use lsp_types::CompletionItemKind;
use ovolo::error::Span;
use ovolo::registry::Registry;
use ovolo::rule::Kind;
use ovolo::tensor::DType;

/// Adds the names that may stand at a byte of a text in a language.
pub fn complete(
    registry: &Registry,
    document: &Document,
    literal: &Literal,
    (at, language): (usize, Language),
    items: &mut Items<'_>,
) {
    let text = &document.text;
    let terms = Terms::read(text, Span::new(literal.body.start, at), language);
    let partial = terms.list.last().filter(|term| term.span.end == at && terms.sign.is_none());
    let part = partial.map_or(Span::at(at), |term| Span::new(term.span.start, at));
    let scope = Scope { registry, document, literal, part };
    let field = literal.field.map_or("", |field| field.slice(text));
    match (terms.sign, partial.map(|term| &term.role)) {
        (Some('?'), _) | (_, Some(Role::Variable(_))) => scope.variables("", items),
        (Some('*'), _) | (_, Some(Role::Rest)) => scope.rests("", items),
        (Some('$'), _) | (_, Some(Role::Key)) => scope.keys(items),
        _ => match (terms.open.last(), language) {
            (Some(Open::Op(name)), _) if name.is_empty() || is(partial.map(|term| &term.role), &Role::Op) => {
                scope.ops(items);
                if field == "to" {
                    let doc = "a template for each value of a rest: (each ?xs ?x (op ?x))";
                    items.add(part, CompletionItemKind::KEYWORD, ("each", "each"), doc);
                }
            }
            (Some(Open::Op(_)), _) => scope.variables("?", items),
            (Some(Open::Attributes(op, None)), _) => scope.attributes(op, &terms, items),
            (Some(Open::Attributes(op, Some(attribute))), _) => {
                // The attribute's own name is the last term until its value begins.
                scope.values(op, attribute, (language, field), items);
            }
            (Some(Open::Call(name)), Language::Expression | Language::Pattern) => {
                let guards = description::word_of(registry, name)
                    .is_some_and(|word| word.takes.contains(&Kind::Guard) || word.more == Some(Kind::Guard));
                scope.functions(|is_guard| is_guard == guards, items);
                scope.variables("?", items);
            }
            (Some(Open::Chain), _) => scope.steps(items),
            (None, Language::Expression) => {
                let guards = field != "let";
                scope.functions(|is_guard| is_guard == guards, items);
                if field == "because" {
                    let doc = "no left side matches";
                    items.add(part, CompletionItemKind::CONSTANT, ("no match", "no match"), doc);
                }
            }
            (None, Language::Graph) => scope.ops(items),
            _ => {}
        },
    }
}

fn is(role: Option<&Role>, wanted: &Role) -> bool {
    role == Some(wanted)
}

/// What the names at a position depend on.
struct Scope<'a> {
    registry: &'a Registry,
    document: &'a Document,
    literal: &'a Literal,
    /// The part of the text that a name replaces.
    part: Span,
}

impl Scope<'_> {
    fn ops(&self, items: &mut Items<'_>) {
        for op in self.registry.ops().all() {
            items.add(self.part, CompletionItemKind::CLASS, (op.name, op.name), op.doc);
        }
    }

    /// Adds the attributes of an op that are not written yet.
    fn attributes(&self, op: &str, terms: &Terms, items: &mut Items<'_>) {
        let Some(op) = self.registry.ops().get(op) else { return };
        let written = |name: &str| {
            let is_one = |role: &Role| matches!(role, Role::Attribute(of) if of == op.name);
            terms.list.iter().any(|term| {
                is_one(&term.role)
                    && term.span.start != self.part.start
                    && term.span.slice(&self.document.text) == name
            })
        };
        for attr in op.attrs.iter().filter(|attr| !written(attr.name)) {
            let new = format!("{}: ", attr.name);
            items.add(self.part, CompletionItemKind::PROPERTY, (attr.name, &new), attr.doc);
            items.describe(description::attribute(attr));
        }
        self.rests("*", items);
    }

    /// Adds what may be the value of an attribute.
    fn values(&self, op: &str, attribute: &str, place: (Language, &str), items: &mut Items<'_>) {
        let op = self.registry.ops().get(op);
        let kind = op.as_ref().and_then(|op| description::attribute_of(op, attribute)).map(|attr| attr.kind);
        if let (Language::Pattern, field) = place {
            self.variables("?", items);
            if field == "to" {
                self.functions(|is_guard| !is_guard, items);
            }
        }
        if kind.is_none_or(|kind| format!("{kind:?}") == "DType") {
            for dtype in DType::ALL {
                items.add(
                    self.part,
                    CompletionItemKind::ENUM_MEMBER,
                    (dtype.name(), dtype.name()),
                    "an element type",
                );
            }
        }
    }

    fn functions(&self, wanted: impl Fn(bool) -> bool, items: &mut Items<'_>) {
        let mut words: Vec<_> = self.registry.words().all().filter(|word| wanted(word.is_guard())).collect();
        words.sort_by_key(|word| word.name);
        for word in words {
            items.add(self.part, CompletionItemKind::FUNCTION, (word.name, word.name), &word.signature());
            items.describe(description::word(word));
        }
    }

    fn steps(&self, items: &mut Items<'_>) {
        for name in self.registry.ops().step_names() {
            items.add(self.part, CompletionItemKind::OPERATOR, (name, name), "a step of a chain");
        }
    }

    /// Adds the variables of the rule; `sign` is what must be written before the name.
    fn variables(&self, sign: &str, items: &mut Items<'_>) {
        self.named("a variable of the rule", CompletionItemKind::VARIABLE, ("?", sign), items, |symbol| {
            match symbol {
                Symbol::Variable(name) => Some(name),
                _ => None,
            }
        });
    }

    fn rests(&self, sign: &str, items: &mut Items<'_>) {
        let doc = "the rest of the attributes";
        self.named(doc, CompletionItemKind::VARIABLE, ("*", sign), items, |symbol| match symbol {
            Symbol::Rest(name) => Some(name),
            _ => None,
        });
    }

    fn keys(&self, items: &mut Items<'_>) {
        self.named(
            "a key of the rows",
            CompletionItemKind::CONSTANT,
            ("$", ""),
            items,
            |symbol| match symbol {
                Symbol::Key(name) => Some(name),
                _ => None,
            },
        );
    }

    /// Adds the names of a sort that the rule has elsewhere.
    fn named(
        &self,
        doc: &str,
        kind: CompletionItemKind,
        (shown, sign): (&str, &str),
        items: &mut Items<'_>,
        name: impl Fn(&Symbol) -> Option<&String>,
    ) {
        let item = self.document.outline.item(self.literal.parent);
        for one in symbol::occurrences(self.document) {
            let here = one.span.start <= self.part.end && self.part.end <= one.span.end;
            if let Some(name) = name(&one.symbol).filter(|_| one.item == item && !here) {
                items.add(self.part, kind, (&format!("{shown}{name}"), &format!("{sign}{name}")), doc);
            }
        }
    }
}
