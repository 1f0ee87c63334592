//! Signatures: the kinds of the arguments and results of guards and computed attributes.
//!
//! The reader checks every argument against them, so that a guard with wrong arguments is reported with its position,
//! instead of making a rule that never fires. All kinds are known when a rule is read: an attribute variable has the
//! kind of the attribute that binds it.

use crate::attr::AttrKind;
use std::fmt;

/// The largest length of a list, and so the largest size. It is far above the rank of any value.
pub(super) const LARGEST: i64 = 128;

/// An upper bound of the rank of values in models, and so of the distance of an axis from either end.
pub(super) const MOST_DIMENSIONS: i64 = 16;

/// A kind of argument or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operand, which may be optional.
    Operand,
    /// A rest of operands.
    Rest,
    /// An integer.
    Integer,
    /// An integer from 0 to 128, such as a rank or the length of a list.
    Size,
    /// A float.
    Float,
    /// An integer or a float.
    Number,
    /// A list of integers.
    List,
    /// Text in quotes.
    Text,
    /// Text in quotes that names a step of a chain.
    Step,
    /// An element type.
    DType,
    /// A layout.
    Layout,
    /// A chain of steps.
    Chain,
    /// An attribute of any kind.
    Attribute,
    /// An attribute of the first argument's kind.
    Same,
    /// A condition.
    Guard,
}

/// All kinds that signatures use, with their descriptions, for the reference.
pub const KINDS: &[(Kind, &str)] = &[
    (Kind::Operand, "an operand, `?x` or `?x?`"),
    (Kind::Rest, "a rest of operands, `?xs..` on the left, here `?xs`"),
    (Kind::Integer, "an integer, `4`"),
    (Kind::Size, "an integer from 0 to 128, `4`: of dimensions, of entries of a list"),
    (Kind::Float, "a float, `0.5`"),
    (Kind::Number, "an integer or a float; the result is an integer where no argument is a float"),
    (Kind::List, "a list of integers, `[1,2]`"),
    (Kind::Text, "text, `\"nearest\"`"),
    (Kind::Step, "a step of a chain, `\"relu\"`"),
    (Kind::DType, "an element type, `f32`"),
    (Kind::Layout, "a layout, `nChw16c`"),
    (Kind::Chain, "a chain of steps, `<relu>`"),
    (Kind::Attribute, "an attribute of any kind"),
    (Kind::Same, "an attribute of the first argument's kind"),
    (Kind::Guard, "a guard, `is-f32(?x)`"),
];

impl Kind {
    /// Returns the kind of an attribute's value.
    pub(crate) fn from_attr(kind: AttrKind) -> Self {
        match kind {
            AttrKind::Int => Self::Integer,
            AttrKind::Float => Self::Float,
            AttrKind::Ints => Self::List,
            AttrKind::Str => Self::Text,
            AttrKind::DType => Self::DType,
            AttrKind::Layout => Self::Layout,
            AttrKind::Post => Self::Chain,
        }
    }

    /// Returns whether a value of the kind `given` is accepted where this kind is required.
    pub(crate) fn takes(self, given: Self) -> bool {
        match self {
            Self::Size => given == Self::Integer,
            Self::Number => matches!(given, Self::Integer | Self::Float),
            Self::Step => given == Self::Text,
            Self::Attribute | Self::Same => !matches!(given, Self::Operand | Self::Rest | Self::Guard),
            _ => self == given,
        }
    }

    /// Returns the kind as words in a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Operand => "an operand",
            Self::Rest => "a rest of operands",
            Self::Integer => "an integer",
            Self::Size => "an integer from 0 to 128",
            Self::Float => "a float",
            Self::Number => "a number",
            Self::List => "a list of integers",
            Self::Text => "text",
            Self::Step => "the name of a step",
            Self::DType => "an element type",
            Self::Layout => "a layout",
            Self::Chain => "a chain of steps",
            Self::Attribute | Self::Same => "an attribute",
            Self::Guard => "a guard",
        }
    }

    /// Returns advice how a value of the kind is written.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Operand => "write an operand that the left binds, as `?x`",
            Self::Rest => "write a rest that the left binds as `?xs..`",
            Self::Integer | Self::Size => "write an integer such as `4`, or compute one, as `dim(?x, 1)`",
            Self::Float => "write a float such as `0.5`",
            Self::Number => "write a number such as `0.5`, or compute one, as `dim(?x, 1)`",
            Self::List => "write a list such as `[1,2]`, or compute one, as `shape-of(?x)`",
            Self::Text | Self::Step => "write text in quotes",
            Self::DType => "write an element type such as `f32`",
            Self::Layout => "write a layout such as `nChw16c`, or `layout-of(?x)`",
            Self::Chain => "write a chain such as `<relu>`, or an attribute that is one",
            Self::Attribute | Self::Same => {
                "write a value, an attribute that the left binds, or compute one, as `dim(?x, 1)`"
            }
            Self::Guard => "ask something of it, as in `equal(rank-of(?x), 4)`",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operand => "operand",
            Self::Rest => "rest",
            Self::Integer => "integer",
            Self::Size => "size",
            Self::Float => "float",
            Self::Number => "number",
            Self::List => "list",
            Self::Text => "text",
            Self::Step => "step",
            Self::DType => "dtype",
            Self::Layout => "layout",
            Self::Chain => "chain",
            Self::Attribute => "attribute",
            Self::Same => "same",
            Self::Guard => "guard",
        })
    }
}
