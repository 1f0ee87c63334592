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
mod guard;
mod interval;
mod literal;
mod part;
mod pattern;
mod precision;
pub mod print;
mod reader;
pub mod ron;
mod signature;
mod words;

pub use example::Example;
pub use expr::Eval;
pub use expr::{Arguments, Bindings, Fact, Function, No, Value, ask, eval};
pub use interval::Interval;
pub use precision::Precision;
pub use signature::{KINDS, Kind};
pub use words::Texts;
pub(crate) use words::{Vocabulary, Words};

use crate::attr::Attr;
use crate::error::{Diagnostic, Diagnostics, Span, nearest};
use crate::op::Op;
use std::sync::Arc;

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
    /// Graphs that must fire, and graphs that must not.
    pub examples: Vec<Example>,
}

/// The rules of some files, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    /// Rules that were removed or left out: their names and those of their files are still known, and select nothing.
    gone: Vec<Gone>,
}

/// A rule that was removed from a set, or left out of it.
#[derive(Clone, Debug)]
struct Gone {
    name: String,
    file: String,
}

impl From<&Arc<Rule>> for Gone {
    fn from(rule: &Arc<Rule>) -> Self {
        Self { name: rule.name.clone(), file: rule.file.clone() }
    }
}

impl RuleSet {
    /// Reads rule files, given as names and texts.
    ///
    /// # Errors
    /// Every mistake of every file.
    pub fn read(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> Result<Self, Diagnostics> {
        let (rules, found) = Self::read_right(vocabulary, files);
        found.into_result(rules)
    }

    /// Reads rule files as far as they are right: those of their rules that are, and every mistake of the
    /// others.
    pub fn read_right(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> (Self, Diagnostics) {
        let mut found = Diagnostics::new();
        let (rules, gone) = reader::read(vocabulary, files, &mut found);
        found.sort();
        (Self { rules: rules.into_iter().map(Arc::new).collect(), gone }, found)
    }

    /// These rules beside those of another set, of which a rule is left out where one here is called so. A
    /// file of that set is left out whole where one here is another version of it: one of its name with a rule
    /// of it, or one of whose rules most are called as some of it. What names what is left out selects nothing.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let named = |rule: &Rule| self.rules.iter().find(|own| own.name == rule.name);
        let replaced = |rule: &&Arc<Rule>| {
            named(rule)
                .is_some_and(|own| own.stem() == rule.stem() || is_version(&self.rules, &own.file, other))
        };
        let versions: Vec<&str> =
            other.rules.iter().filter(replaced).map(|rule| rule.file.as_str()).collect();
        let (gone, others): (Vec<_>, Vec<_>) = other
            .rules
            .iter()
            .cloned()
            .partition(|rule| named(rule).is_some() || versions.contains(&rule.file.as_str()));
        Self {
            rules: self.rules.iter().cloned().chain(others).collect(),
            gone: self.gone.iter().chain(&other.gone).cloned().chain(gone.iter().map(Gone::from)).collect(),
        }
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// All rules but one. What names it, or its file where it was alone there, still does, and selects
    /// nothing.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let (gone, rules): (Vec<_>, Vec<_>) = self.rules.iter().cloned().partition(|rule| rule.name == name);
        Self { rules, gone: self.gone.iter().cloned().chain(gone.iter().map(Gone::from)).collect() }
    }

    /// Only the rules of these files or with these names, as `select` finds them.
    ///
    /// # Errors
    /// A name that is neither.
    pub fn keep(&self, names: &[String]) -> Result<Self, Diagnostics> {
        Ok(Self { rules: self.select(names)?, gone: Vec::new() })
    }

    /// The first of the rules of this file or with this name that rounds more than a pipeline of a
    /// precision allows.
    pub(crate) fn coarser(&self, name: &str, allowed: Precision) -> Option<&Arc<Rule>> {
        let named = |rule: &&Arc<Rule>| rule.name == name || rule.stem() == name;
        self.rules.iter().filter(named).find(|rule| !allowed.allows(rule.precision))
    }

    /// The rules of these files (named without folder and ending) or with these names, each once, in the order of
    /// the names; those of one name in the order of the set. A user's file adds to the shipped one of the same name.
    ///
    /// # Errors
    /// A name that is neither.
    pub fn select(&self, names: &[String]) -> Result<Vec<Arc<Rule>>, Diagnostics> {
        let mut found = Diagnostics::new();
        names.iter().filter_map(|name| self.unknown(name)).for_each(|diagnostic| found.push(diagnostic));
        let place = |rule: &Rule| names.iter().position(|name| rule.name == *name || rule.stem() == name);
        let mut selected: Vec<(usize, &Arc<Rule>)> =
            self.rules.iter().filter_map(|rule| Some((place(rule)?, rule))).collect();
        selected.sort_by_key(|(place, _)| *place);
        found.into_result(selected.into_iter().map(|(_, rule)| Arc::clone(rule)).collect())
    }
}

/// Whether most rules of a file are called as rules of a set, and more than one is: it is another version.
pub fn is_version(rules: &[Arc<Rule>], file: &str, of: &RuleSet) -> bool {
    let known = |rule: &&Arc<Rule>| of.rules.iter().any(|other| other.name == rule.name);
    let (named, others): (Vec<_>, Vec<_>) = rules.iter().filter(|rule| rule.file == file).partition(known);
    named.len() > 1 && named.len() > others.len()
}

impl RuleSet {
    /// That nothing is called so, with the nearest name; `None` where a rule or a file is.
    pub(crate) fn unknown(&self, name: &str) -> Option<Diagnostic> {
        let gone = |gone: &Gone| gone.name == name || stem(&gone.file) == name;
        if self.rules.iter().any(|rule| rule.name == name || rule.stem() == name)
            || self.gone.iter().any(gone)
        {
            return None;
        }
        let mut files: Vec<&str> = self.rules.iter().map(|rule| rule.stem()).collect();
        files.dedup();
        let known = files.iter().copied().chain(self.rules.iter().map(|rule| rule.name.as_str()));
        let help = match nearest(name, known) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("the rule files are {}", files.join(", ")),
        };
        Some(Diagnostic::new(format!("no rule and no rule file is called `{name}`")).help(help))
    }
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
    pub(crate) fn leads_to(&self, backend: &str) -> bool {
        self.to.iter().any(|template| template.leads_to(backend))
    }

    /// The rule's file without folder and ending.
    pub fn stem(&self) -> &str {
        stem(&self.file)
    }
}

fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.strip_suffix(".ron").unwrap_or(name)
}
