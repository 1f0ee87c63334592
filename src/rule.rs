//! Rewrite rules: equalities between patterns, read from `rules/*.ron`.
//!
//! A rule says that what matches `from` equals `to` where its guards (`when`) agree. Patterns bind
//! operands (`?x`), any number of operands (`?xs..`), an operand that may be absent (`?x?`), constants
//! in a range (`?c:0..6`), attributes (`axis: ?a`) and the rest of the
//! attributes (`*a`). The reader checks everything against the op registry and reports every error
//! of every file at once.

mod compute;
pub mod example;
mod expr;
mod gone;
mod guard;
mod interval;
mod literal;
mod part;
mod pattern;
mod precision;
pub mod print;
mod reader;
mod set;
mod signature;
mod words;

pub use example::Example;
pub use expr::{Arguments, Bindings, Eval, Fact, Function, Value, ask, eval};
pub use interval::Interval;
pub use precision::Precision;
pub use set::{RuleSet, is_version};
pub use signature::{KINDS, Kind};
pub use words::{Texts, Vocabulary, Words};

use crate::attr::{Attr, StepOp};
use crate::error::Span;
use crate::op::Op;

/// What may stand among the operands of an op on a left side, and what it means: for the reference.
pub const OPERANDS: &[(&str, &str)] = &[
    ("?x", "any value, the same one wherever the name stands"),
    ("?xs..", "any number of operands, none among them; at any place, and several in one op"),
    ("?x?", "an operand that may be absent; a guard that names it is not asked where it is"),
    ("0.5", "a constant of one element with this value"),
    ("0..6", "a constant of one element in this range, ends included; `0..`, `..6` and `..` are open"),
    ("?c:0..6", "as before, and `?c` stands for it; `?c:0.5` as well"),
    ("(relu ?x)", "an op"),
];

/// An operand variable: the index of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandVar(pub usize);
/// A variable for any number of operands, or for one that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestVar(pub usize);
/// An attribute variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttrVar(pub usize);
/// A variable for the rest of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestAttrVar(pub usize);

/// A left side.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any value.
    Operand(OperandVar),
    /// A constant of one element in this interval, which the variable is bound to, if there is one.
    Number(Interval, Option<OperandVar>),
    /// In an operand list: any number of operands.
    Rest(RestVar),
    /// In an operand list: one operand or none.
    Optional(RestVar),
    /// An op.
    Op {
        /// The op.
        op: Op,
        /// Its operands.
        children: Vec<Pattern>,
        /// Attributes that are checked: those written, and without `*rest` those at their default.
        attrs: Vec<(&'static str, AttrPattern)>,
        /// The attributes that are not in `attrs`.
        rest_attrs: Option<RestAttrVar>,
    },
}

/// What an attribute of a left side must be.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrPattern {
    /// This value.
    Literal(Attr),
    /// What the variable stands for; it is bound where it is not yet.
    Var(AttrVar),
}

impl Pattern {
    /// The variable of what stands for any number of operands, or for one or none.
    pub fn spread(&self) -> Option<RestVar> {
        match self {
            Self::Rest(var) | Self::Optional(var) => Some(*var),
            _ => None,
        }
    }
}

/// The declaration of a rest variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Rest {
    /// Its name.
    pub name: String,
    /// Whether it stands for one operand at most.
    pub optional: bool,
}

impl std::fmt::Display for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "?{}{}", self.name, if self.optional { "?" } else { ".." })
    }
}

/// A right side.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// What the variable stands for.
    Operand(OperandVar),
    /// A constant of one f32 element.
    Scalar(f64),
    /// In an operand list: every value of a rest, as it is or each in a template. What is absent is
    /// left out.
    Each(RestVar, Option<(OperandVar, Box<Template>)>),
    /// An op.
    Op {
        /// The op.
        op: Op,
        /// Its operands.
        children: Vec<Template>,
        /// The attributes that are written.
        attrs: Vec<(&'static str, Expr)>,
        /// Attributes taken from the left side, as far as the op has them.
        rest_attrs: Option<RestAttrVar>,
    },
}

/// An expression over what a match binds.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value.
    Literal(Attr),
    /// A step of a chain, by its name.
    Step(StepOp),
    /// An attribute variable.
    Attr(AttrVar),
    /// An operand variable.
    Operand(OperandVar),
    /// A rest variable.
    Rest(RestVar),
    /// An operand that may be absent; then a guard that names it is not asked.
    Optional(RestVar),
    /// A guard or a computed attribute.
    Call(&'static Function, Vec<Expr>),
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// As it is written.
    pub text: String,
    /// What is asked.
    pub expr: Expr,
}

/// Where the parts of a rule stand in its file, quotes not included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The name.
    pub name: Span,
    /// The left sides.
    pub from: Vec<Span>,
    /// The right sides.
    pub to: Vec<Span>,
    /// The guards.
    pub when: Vec<Span>,
    /// The expressions of computed attributes.
    pub lets: Vec<Span>,
    /// Where each variable is bound, as it is written: `?x`, `?xs..`, `?m?`, `*a`.
    pub variables: Vec<(String, Span)>,
}

impl Places {
    /// Where a variable is bound.
    pub fn variable(&self, written: &str) -> Option<Span> {
        self.variables.iter().find(|(name, _)| name == written).map(|(_, span)| *span)
    }
}

/// One rewrite rule, with `for_each` written out.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, in kebab case.
    pub name: String,
    /// Its name as it is written, with `$key` where `for_each` puts values: rules that one text makes have it in common.
    pub written: String,
    /// The values of its row of `for_each`.
    pub row: Vec<String>,
    /// The comment above it: its law.
    pub doc: String,
    /// The file it stands in.
    pub file: String,
    /// The line it begins at.
    pub line: usize,
    /// Where its parts stand in the file.
    pub places: Places,
    /// Left sides; a multi-output rule has several.
    pub from: Vec<Pattern>,
    /// Right sides, one for each left side.
    pub to: Vec<Template>,
    /// Conditions, asked in order.
    pub guards: Vec<Guard>,
    /// What the right sides round to, where the left sides do not.
    pub precision: Precision,
    /// Attributes computed before the right sides are built.
    pub lets: Vec<(AttrVar, Expr)>,
    /// Two left sides whose order does not matter, to them, the guards and the right sides: one match a pair,
    /// not two.
    pub symmetric: bool,
    /// Names of operand variables.
    pub operand_vars: Vec<String>,
    /// Rest variables.
    pub rest_vars: Vec<Rest>,
    /// Names of attribute variables.
    pub attr_vars: Vec<String>,
    /// Names of rest-of-attributes variables.
    pub rest_attr_vars: Vec<String>,
    /// Graphs that must fire, and graphs that must not: from the file of examples beside the rule's own.
    pub examples: Vec<Example>,
}

impl Template {
    /// Whether an op of the backend is in it.
    fn leads_to(&self, backend: &str) -> bool {
        match self {
            Self::Operand(_) | Self::Scalar(_) | Self::Each(_, None) => false,
            Self::Each(_, Some((_, template))) => template.leads_to(backend),
            Self::Op { op, children, .. } => {
                op.is_lowered() && op.backend() == Some(backend)
                    || children.iter().any(|child| child.leads_to(backend))
            }
        }
    }
}

impl Rule {
    /// Whether a right side has an op of the backend.
    pub fn leads_to(&self, backend: &str) -> bool {
        self.to.iter().any(|template| template.leads_to(backend))
    }

    /// The rule's file without folder and ending.
    pub fn stem(&self) -> &str {
        stem(&self.file)
    }

    /// Whether a name is one that pipelines and commands may call the rule by: its own, that of its file without folder
    /// and ending, or `FILE:VALUE` with a value of its row of `for_each`.
    pub fn is_called(&self, name: &str) -> bool {
        is_called(name, &self.name, self.stem(), &self.row)
    }
}

fn is_called(name: &str, rule: &str, stem: &str, row: &[String]) -> bool {
    name == rule
        || name == stem
        || name
            .split_once(':')
            .is_some_and(|(file, value)| file == stem && row.iter().any(|known| known == value))
}

fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.strip_suffix(".ron").unwrap_or(name)
}
