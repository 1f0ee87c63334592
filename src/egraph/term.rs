//! The nodes of an e-graph.

use super::Operands;
use super::shared::Shared;
use crate::attr::{Attr, Attrs};
use crate::op::Op;
use egg::Id;
use std::fmt;
use std::sync::Arc;

/// An op with its attributes and operands. The attribute `name` distinguishes leaves of one op.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    pub(crate) op: Op,
    pub(crate) attrs: Shared,
    pub(crate) children: Operands,
}

impl Term {
    pub(super) fn leaf(op: Op, name: &str) -> Self {
        let attrs = Shared::new(Attrs::new().with("name", Attr::Str(name.into())));
        Self { op, attrs, children: Operands::new() }
    }

    /// The name of a leaf.
    pub(crate) fn leaf_name(&self) -> Option<&Arc<str>> {
        match self.attrs.get("name") {
            Some(Attr::Str(name)) if self.is_leaf() => Some(name),
            _ => None,
        }
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.op.is_leaf()
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.op, self.attrs)
    }
}

impl egg::Language for Term {
    type Discriminant = Op;

    fn discriminant(&self) -> Op {
        self.op
    }

    fn matches(&self, other: &Self) -> bool {
        self.op == other.op && self.children.len() == other.children.len() && self.attrs == other.attrs
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}
