//! Rewrite rules: equalities between patterns, read from `rules/*.ron`.
//!
//! A rule says that a match of `from` equals `to` if its guards (`when`) accept the match. Patterns bind operands
//! (`?x`), any number of operands (`?xs..`), an operand that may be absent (`?x?`), constants in a range (`?c:0..6`),
//! attributes (`axis: ?a`) and the rest of the attributes (`*a`). The reader checks everything against the op
//! registry, and reports all errors of all files at once.

mod compute;
mod condition;
mod equation;
mod example;
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
mod variable;
mod words;

pub(crate) use condition::Guard;
pub use example::{Example, beside};
pub use expr::{Arguments, Bindings, Fact, No, Value, Word, ask, eval};
pub use interval::Interval;
pub use precision::Precision;
pub use set::{RuleSet, is_version};
pub use signature::{KINDS, Kind};
pub use variable::{AttrVar, OperandVar, RestVar};
pub(crate) use variable::{Rest, RestAttrVar};
pub use words::Texts;
pub(crate) use words::{Vocabulary, Words};

use crate::attr::{Attr, StepOp};
use crate::diagnostic::Span;
use crate::op::Op;

/// The forms of operands on a left side, with their meanings, for the reference.
pub const OPERANDS: &[(&str, &str)] = &[
    ("?x", "any value, the same one wherever the name stands"),
    (
        "?xs..",
        "any number of operands, also none; it may stand at any place, and several may stand in one op",
    ),
    ("?x?", "an operand that may be absent; a guard that names it is skipped where it is absent"),
    ("0.5", "a constant of one element with this value"),
    ("0..6", "a constant of one element in this range, ends included; `0..`, `..6` and `..` are open"),
    ("?c:0..6", "the same, and `?c` stands for it; `?c:0.5` as well"),
    ("(relu ?x)", "an op"),
];

/// A left side.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any value.
    Operand(OperandVar),
    /// A constant of one element in this interval. If there is a variable, it is bound to the constant.
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
        /// The attributes that are checked: those that are written, and without `*rest` also all others, which must
        /// have their defaults.
        attrs: Vec<(&'static str, AttrPattern)>,
        /// The attributes that are not in `attrs`.
        rest_attrs: Option<RestAttrVar>,
    },
}

/// The condition on an attribute of a left side.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrPattern {
    /// This value.
    Literal(Attr),
    /// The value of the variable. If it is not bound yet, this binds it.
    Var(AttrVar),
}

impl Pattern {
    /// Returns the variable if the pattern stands for any number of operands, or for an optional operand.
    pub fn spread(&self) -> Option<RestVar> {
        match self {
            Self::Rest(var) | Self::Optional(var) => Some(*var),
            _ => None,
        }
    }
}

/// A right side.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// The value of the variable.
    Operand(OperandVar),
    /// A constant with one `f32` element.
    Scalar(f64),
    /// In an operand list: every value of a rest, unchanged or inside a template. An absent operand is left out.
    Each(RestVar, Option<(OperandVar, Box<Template>)>),
    /// An op.
    Op {
        /// The op.
        op: Op,
        /// Its operands.
        children: Vec<Template>,
        /// The attributes that are written.
        attrs: Vec<(&'static str, Expr)>,
        /// Attributes that are taken from the left side, if the op has them.
        rest_attrs: Option<RestAttrVar>,
    },
}

/// An expression over the variables that a match binds.
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
    /// An optional operand. If it is absent, guards that use it are skipped.
    Optional(RestVar),
    /// A guard or a computed attribute.
    Call(&'static Word, Vec<Expr>),
}

/// The positions of the parts of a rule in its file, without quotes.
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
    /// The positions where variables are bound, by their text: `?x`, `?xs..`, `?m?`, `*a`.
    pub variables: Vec<(String, Span)>,
}

impl Places {
    /// Returns the position where a variable is bound.
    pub fn variable(&self, written: &str) -> Option<Span> {
        self.variables.iter().find(|(name, _)| name == written).map(|(_, span)| *span)
    }
}

/// A rewrite rule, after `for_each` is expanded.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The name, in kebab case.
    pub name: String,
    /// The name as it is written, with `$key` in place of the values of `for_each`. All rules that are expanded from
    /// one text share it.
    pub written: String,
    /// The values of the row of `for_each`.
    pub row: Vec<String>,
    /// The names of these values, without `$`.
    pub keys: Vec<String>,
    /// The comment above the rule, which is its law.
    pub doc: String,
    /// The file of the rule.
    pub file: String,
    /// The line where the rule begins.
    pub line: usize,
    /// The positions of its parts in the file.
    pub places: Places,
    /// The left sides. A rule with several outputs has several.
    pub from: Vec<Pattern>,
    /// The right sides, one for each left side.
    pub to: Vec<Template>,
    /// The guards, which are evaluated in order.
    pub guards: Vec<Guard>,
    /// The precision to which the right sides round values, if the left sides do not.
    pub precision: Precision,
    /// What the rule assumes of values beside its guards: some of [`ASSUMPTIONS`](Self::ASSUMPTIONS).
    pub assumes: Vec<&'static str>,
    /// The attributes that are computed before the right sides are built.
    pub lets: Vec<(AttrVar, Expr)>,
    /// Whether the rule has two left sides that can be exchanged without changing the left sides, the guards and the
    /// right sides. Then each pair is one match instead of two.
    pub symmetric: bool,
    /// The names of operand variables.
    pub operand_vars: Vec<String>,
    /// The rest variables.
    pub rest_vars: Vec<Rest>,
    /// The names of attribute variables.
    pub attr_vars: Vec<String>,
    /// The names of variables for the rest of the attributes.
    pub rest_attr_vars: Vec<String>,
    /// The examples: graphs on which the rule must fire, and graphs on which it must not. They come from the file of
    /// examples that belongs to the rule file.
    pub examples: Vec<Example>,
}

impl Template {
    /// Returns whether the template contains an op of the backend.
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
    /// The fields of a rule in a file, with their meanings, for the reference.
    pub const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("name", "the name, in kebab case and unique; with `$key` if there is a `for_each`"),
        ("from", "the left side: a pattern, or a list of patterns that one match binds together"),
        ("to", "the right side: a pattern, or a list with one for each left side"),
        ("when", "the guards, which are evaluated in order"),
        ("let", "attributes that are computed once: `{\"k\": \"add(dim(?w, 0), 1)\"}` is used as `?k`"),
        (
            "for_each",
            "makes a rule for each row, a list of maps, or for each combination, a map of lists; `$key` stands for the \
             value in every text",
        ),
        (
            "for_functions",
            "makes a rule for each function of the registry: `$op`, `$attributes`, `$arguments`, `$step`",
        ),
        (
            "precision",
            "`\"tf32\"`, `\"f16\"`, `\"bf16\"`, `\"int8\"` or `\"int4\"` for a rule that rounds to it; otherwise `\"f32\"`",
        ),
        (
            "assume",
            "`[\"finite\"]` for a rule that holds only where no value is infinite or NaN; only pipelines with the same \
             `assume` use it",
        ),
    ];

    /// The assumption that no value is infinite or NaN, unless it is computed from constants alone, or is a mask of attention,
    /// whose elements may be negative infinity. Where another one is, the right side of a rule may be NaN in more elements
    /// than the left side, or in fewer.
    pub const FINITE: &'static str = "finite";
    /// What rules may assume of values.
    pub const ASSUMPTIONS: [&'static str; 1] = [Self::FINITE];

    /// Returns whether a right side contains an op of the backend.
    pub fn leads_to(&self, backend: &str) -> bool {
        self.to.iter().any(|template| template.leads_to(backend))
    }

    /// Returns whether a pipeline that makes these assumptions may use the rule.
    pub fn fits(&self, assumptions: &[&str]) -> bool {
        self.assumes.iter().all(|one| assumptions.contains(one))
    }

    /// Returns the name of the rule's file without folder and extension.
    pub fn stem(&self) -> &str {
        stem(&self.file)
    }

    /// Returns all names by which [`Rule::is_called`] is true.
    fn names(&self) -> impl Iterator<Item = String> {
        let stem = self.stem();
        let rows = self.row.iter().map(move |value| format!("{stem}:{value}"));
        [self.name.clone(), stem.to_owned()].into_iter().chain(rows)
    }

    /// Returns whether pipelines and commands may refer to the rule by a name: its own name, the name of its file
    /// without folder and extension, or `FILE:VALUE` with a value of its row of `for_each`.
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
