//! The handle of an op.

use super::{Arity, Flags, Independence, OpDef, OpError};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A small, copyable handle of an op's definition. It dereferences to the [`OpDef`] that it points to.
///
/// Definitions live as long as the process, so a handle is never stale. Handles are compared, ordered and hashed by
/// the op's name, and displayed as that name. Two tables of ops may have different definitions under one name, so
/// graphs of one table must not be mixed with those of the other.
#[derive(Clone, Copy)]
pub struct Op(&'static OpDef);

/// The op of a graph's inputs. It has no operands and no attributes; its type is declared.
pub const INPUT: Op = Op(&INPUT_DEF);

/// The op of a graph's constants. It has no operands and no attributes; its type is that of its value.
pub const CONST: Op = Op(&CONST_DEF);

static INPUT_DEF: OpDef = leaf("input", "a value that the caller gives");
static CONST_DEF: OpDef = leaf("const", "a value that the model holds");

const fn leaf(name: &'static str, doc: &'static str) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(0),
        attrs: Vec::new(),
        flags: Flags {
            elementwise: false,
            layout_agnostic: false,
            sparse: false,
            commutative: false,
            injective: false,
            transfer: None,
            inexact: false,
            function: None,
            independence: Independence::Unknown,
            demands: None,
        },
        infer: |_, _| Err(OpError::Leaf),
        eval: |_, _, _| unreachable!("a leaf is given its value"),
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }
}

impl Op {
    /// Keeps a definition for as long as the process lives, and returns its handle. The memory is never freed.
    pub(crate) fn define(definition: OpDef) -> Self {
        Self(Box::leak(Box::new(definition)))
    }

    /// Returns the definition.
    pub fn definition(self) -> &'static OpDef {
        self.0
    }

    /// Returns the logical op that this op computes, which is the op itself unless it is a lowered op.
    pub fn logical(self) -> Self {
        self.lowered.as_ref().map_or(self, |lowered| lowered.logical)
    }

    /// Returns whether it is [`INPUT`] or [`CONST`].
    pub fn is_leaf(self) -> bool {
        self == INPUT || self == CONST
    }
}

impl Deref for Op {
    type Target = OpDef;
    fn deref(&self) -> &OpDef {
        self.0
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0.name == other.0.name
    }
}

impl Eq for Op {}

impl PartialEq<str> for Op {
    fn eq(&self, name: &str) -> bool {
        self.0.name == name
    }
}

impl PartialEq<&str> for Op {
    fn eq(&self, name: &&str) -> bool {
        self.0.name == *name
    }
}

impl PartialOrd for Op {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Op {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(other.0.name)
    }
}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl serde::Serialize for Op {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Op({})", self.0.name)
    }
}
