//! What the op registry says of an op in a pattern: its name, operands and attributes.

use super::Reader;
use crate::attr::{Attr, AttrKind, Float};
use crate::op::{self, Arity, OpDef};
use crate::rule::ron::Text;
use std::ops::Range;

impl Reader<'_> {
    pub(super) fn op(&mut self, text: &Text, name: &str, range: &Range<usize>) -> Option<&'static OpDef> {
        let def = op::find(name);
        if def.is_none() {
            let known: Vec<&str> = op::all().iter().map(|def| def.name).collect();
            self.unknown("op", name, text.span(range.clone()), &known);
        }
        def
    }

    pub(super) fn arity(
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

    pub(super) fn attr_name(
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

    pub(super) fn literal(
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
}
