//! Checks of an op in a pattern against the op registry: its name, operands and attributes.

use super::Reader;
use crate::attr::{Attr, AttrKind, Float};
use crate::diagnostic::Diagnostic;
use crate::op::{self, Arity, Op};
use crate::ron::Text;
use crate::rule::Kind;
use crate::rule::pattern::{Ast, Entry, Kind as PatternKind};
use std::ops::Range;

/// Names of ops in other systems that are close to a wrong name of ours, or to none.
const ELSEWHERE: &[(&str, &str)] = &[
    ("sum", "`add` for the sum of two values, `reduce-sum` for sums along axes"),
    ("mean", "`reduce-mean`"),
    ("prod", "`mul` for the product of two values, `reduce-prod` for products along axes"),
    ("plus", "`add`"),
    ("minus", "`sub`"),
    ("multiply", "`mul`"),
    ("divide", "`div`"),
    ("permute", "`transpose`"),
];

/// The number of operands in a pattern.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// Operands that are always present.
    pub single: usize,
    /// Optional operands.
    pub optional: usize,
    /// Whether there is a rest.
    pub open: bool,
}

impl Given {
    /// Counts operands as they are written. Some of them may be unreadable.
    pub(crate) fn count(children: &[Ast]) -> Self {
        let spread = |child: &Ast| match &child.kind {
            PatternKind::Spread { optional, .. } => Some(*optional),
            // It stands for each value of a rest.
            PatternKind::Op { name, .. } if name == "each" => Some(false),
            _ => None,
        };
        Self {
            single: children.iter().filter(|child| spread(child).is_none()).count(),
            optional: children.iter().filter(|child| spread(child) == Some(true)).count(),
            open: children.iter().any(|child| spread(child) == Some(false)),
        }
    }
}

impl Reader<'_> {
    pub(super) fn op(&mut self, text: &Text, name: &str, range: &Range<usize>) -> Option<Op> {
        let op = self.vocabulary.ops.get(name);
        if op.is_none() {
            let mut span = text.span(range.clone());
            // All letters of the value of a `$key` have the place of that key. The mistake is in the row.
            if span.end - span.start == 1
                && name.len() > 1
                && let Some((_, place)) = self.values.iter().find(|(value, _)| value == name)
            {
                span = *place;
            }
            if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| name.eq_ignore_ascii_case(theirs)) {
                self.mistake(format!("op `{name}` is not known"), span, format!("write {ours}"));
                return None;
            }
            let known = self.vocabulary.ops.names();
            self.unknown("op", name, span, &known);
        }
        op
    }

    /// Reports each attribute that is written twice, and a second rest of attributes.
    pub(super) fn once(&mut self, text: &Text, entries: &[Entry]) {
        let parts = |entry: &Entry| match entry {
            Entry::Attr { name, range, .. } => (Some(name.clone()), range.clone()),
            Entry::Rest { range, .. } => (None, range.clone()),
        };
        for (at, (name, range)) in entries.iter().map(parts).enumerate() {
            let Some((_, first)) = entries[..at].iter().map(parts).find(|(other, _)| *other == name) else {
                continue;
            };
            let (message, help) = match &name {
                Some(name) => (
                    format!("attribute `{name}` stands twice"),
                    "take one of them away: an attribute has one value",
                ),
                None => (
                    "a second rest of attributes stands here".to_owned(),
                    "take one of them away: one rest has all attributes that are not written",
                ),
            };
            let diagnostic = Diagnostic::new(message)
                .label(self.source, text.span(range), "here again")
                .label(self.source, text.span(first), "first here")
                .help(help);
            self.say(diagnostic);
        }
    }

    pub(super) fn arity(
        &mut self,
        text: &Text,
        range: &Range<usize>,
        def: Op,
        given: Given,
        post: Option<usize>,
    ) {
        let (least, most) = match def.arity {
            Arity::Exactly(n) => (n, n),
            Arity::AtLeast(n) => (n, usize::MAX),
            Arity::Between(least, most) => (least, most),
            Arity::Post(n) => post.map_or((n, usize::MAX), |extra| (n + extra, n + extra)),
        };
        let written = given.single + given.optional;
        let listed = matches!(def.arity, Arity::AtLeast(_));
        if !given.open && !listed && given.optional > 0 && written == least {
            self.mistake(
                format!("`{}` has at least {least} operands, so none of those written is optional", def.name),
                text.span(range.clone()),
                format!(
                    "it is: {}; write `?x` in place of `?x?` for an operand that is always there",
                    def.doc
                ),
            );
            return;
        }
        let reaches = given.open || given.single + given.optional >= least;
        if reaches && given.single <= most {
            return;
        }
        let wanted = match most {
            _ if least == most => least.to_string(),
            usize::MAX => format!("at least {least}"),
            _ => format!("{least} to {most}"),
        };
        let advice = if given.single > most {
            "take the last ones away"
        } else {
            "write those that are missing, `?x` for any value or `?xs..` for any number of them"
        };
        self.mistake(
            format!(
                "`{}` takes {wanted} operand(s), {} are written",
                def.name,
                given.single + given.optional
            ),
            text.span(range.clone()),
            format!("it is: {}; {advice}", def.doc),
        );
    }

    pub(super) fn attr_name(
        &mut self,
        text: &Text,
        op: Op,
        name: &str,
        range: &Range<usize>,
    ) -> Option<&'static op::AttrDef> {
        let found = op.definition().attr(name);
        if found.is_none() {
            let known: Vec<&str> = op.attrs.iter().map(|def| def.name).collect();
            self.unknown(&format!("attribute of `{op}`:"), name, text.span(range.clone()), &known);
        }
        found
    }

    pub(super) fn literal(
        &mut self,
        text: &Text,
        def: Op,
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
            let Some((why, advice)) = op::law::broken(def, attr.name, &literal) else { return Some(literal) };
            self.mistake(
                format!("no `{}` has `{}: {literal}`: {why}", def.name, attr.name),
                text.span(range.clone()),
                advice,
            );
            return None;
        }
        self.mistake(
            format!(
                "attribute `{}` takes {}, and `{literal}` is {}",
                attr.name,
                Kind::from_attr(attr.kind).words(),
                Kind::from_attr(literal.kind()).words()
            ),
            text.span(range.clone()),
            format!("it is: {}; {}", attr.doc, Kind::from_attr(attr.kind).advice()),
        );
        None
    }
}
