//! Attributes of operators: named, typed, ordered, hashable.

use crate::scalar::{self, Function};
use crate::tensor::{DType, Layout};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A float that compares and hashes by its bits, so that attributes can be keys.
#[derive(Clone, Copy, Debug)]
pub struct Float(pub f64);

impl Float {
    fn key(self) -> u64 {
        // A total order: negative floats reversed, then positive ones.
        let bits = self.0.to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Float {}
impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0) // shortest form that reads back, always with `.` or `e`
    }
}

/// One step of a [`post`](Attr::Post) chain: what a kernel does to each element of its result
/// before it stores it.
///
/// A unary step is the name of an elementwise op and its float parameters (`relu`,
/// `clip(0.0,6.0)`). A binary step takes the node's next extra operand on its right
/// (`add`, `mul`), or on its left when its name begins with `r` (`rsub`, `rdiv`); the operand
/// broadcasts to the result's shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// The elementwise op, or `rsub` / `rdiv` / `rpow`.
    pub op: StepOp,
    /// The op's float attributes, in the order of its definition.
    pub parameters: Vec<Float>,
}

/// What a step does: it applies a function of one number, or one of the value and an operand. It dereferences to
/// its name.
///
/// Two steps are equal if their names are. So graphs must not be mixed whose registries have different functions
/// under one name.
#[derive(Clone, Copy)]
pub struct StepOp {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A function of the value.
    One(Function),
    /// A function of the value and an operand, in this order or in the other one.
    Two(Function, bool),
    /// A function of the value that was put aside and the current one.
    Join(Function),
    /// A step without a function, or a name that is none of a step.
    Other,
}

impl StepOp {
    /// The name of the step of a tree that puts the value aside and begins another one.
    pub const PUSH: &'static str = "push";

    /// Returns the step of this name, among these functions.
    pub(crate) fn find(name: &str, function: impl Fn(&str) -> Option<Function>) -> Option<Self> {
        let of_two = |name: &str| function(name).filter(|one| one.operands() == 2 && one.is_step());
        if let Some(function) = function(name) {
            return Self::from_function(function);
        }
        if name == Self::PUSH {
            return Some(Self { name: Self::PUSH, kind: Kind::Other });
        }
        if let Some(function) = name.strip_prefix("pop-").and_then(of_two) {
            return Some(Self { name: function.join_name()?, kind: Kind::Join(function) });
        }
        let function = of_two(name.strip_prefix('r')?)?;
        Some(Self { name: function.reversed_name()?, kind: Kind::Two(function, true) })
    }

    fn from_function(function: Function) -> Option<Self> {
        let kind = match function.operands() {
            1 => Kind::One(function),
            _ => Kind::Two(function, false),
        };
        function.is_step().then_some(Self { name: function.name(), kind })
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the function of one number that the step applies; `None` for a step that takes an operand.
    pub const fn function(self) -> Option<Function> {
        match self.kind {
            Kind::One(function) => Some(function),
            _ => None,
        }
    }

    /// Returns the function of the value and an operand that the step applies, and whether the operand comes first;
    /// `None` for other steps.
    pub const fn binary(self) -> Option<(Function, bool)> {
        match self.kind {
            Kind::Two(function, reversed) => Some((function, reversed)),
            _ => None,
        }
    }

    /// Returns the function of the value that was put aside and the current one, for a step that only trees have;
    /// `None` for other steps.
    pub const fn joins(self) -> Option<Function> {
        match self.kind {
            Kind::Join(function) => Some(function),
            _ => None,
        }
    }

    /// Returns the function that the step applies to one or two values; `None` for `push`.
    pub const fn applies(self) -> Option<Function> {
        match self.kind {
            Kind::One(function) | Kind::Two(function, _) | Kind::Join(function) => Some(function),
            Kind::Other => None,
        }
    }
}

/// Makes the step of a function. The function must be one of steps, as [`Function::is_step`] says.
impl From<Function> for StepOp {
    fn from(function: Function) -> Self {
        Self::from_function(function).unwrap_or(Self { name: function.name(), kind: Kind::Other })
    }
}

/// Makes the step of this name, if ovolo's own tables have its function.
impl From<&'static str> for StepOp {
    fn from(name: &'static str) -> Self {
        let all = || scalar::built_in_of_two().iter().chain(scalar::built_in());
        let function = |name: &str| all().find(|function| function.name() == name).copied();
        Self::find(name, function).unwrap_or(Self { name, kind: Kind::Other })
    }
}

impl Deref for StepOp {
    type Target = str;
    fn deref(&self) -> &str {
        self.name
    }
}

impl PartialEq for StepOp {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StepOp {}

impl PartialEq<str> for StepOp {
    fn eq(&self, name: &str) -> bool {
        self.name == name
    }
}

impl PartialEq<&str> for StepOp {
    fn eq(&self, name: &&str) -> bool {
        self.name == *name
    }
}

impl PartialOrd for StepOp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StepOp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl Hash for StepOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for StepOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for StepOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if !self.parameters.is_empty() {
            let list: Vec<String> = self.parameters.iter().map(ToString::to_string).collect();
            write!(f, "({})", list.join(","))?;
        }
        Ok(())
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attr {
    /// An integer; flags are 0 or 1. Text form `3`.
    Int(i64),
    /// A float. Text form `0.5` (always with a point or an exponent).
    Float(Float),
    /// Integers. Text form `[1,2]`.
    Ints(Vec<i64>),
    /// A string. Text form `"x"`.
    Str(Arc<str>),
    /// An element type. Text form `f32`.
    DType(DType),
    /// A memory layout. Text form `nChw16c`.
    Layout(Layout),
    /// Steps on the result. Text form `<relu>`, `<add,clip(0.0,6.0)>`, `<>`.
    Post(Vec<Step>),
}

/// The kinds of attribute values, for an op's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AttrKind {
    Int,
    Float,
    Ints,
    Str,
    DType,
    Layout,
    Post,
}

impl Attr {
    /// Returns the kind of this value.
    pub(crate) fn kind(&self) -> AttrKind {
        match self {
            Self::Int(_) => AttrKind::Int,
            Self::Float(_) => AttrKind::Float,
            Self::Ints(_) => AttrKind::Ints,
            Self::Str(_) => AttrKind::Str,
            Self::DType(_) => AttrKind::DType,
            Self::Layout(_) => AttrKind::Layout,
            Self::Post(_) => AttrKind::Post,
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Ints(values) => {
                let list: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", list.join(","))
            }
            Self::Str(text) => write!(f, "{text:?}"),
            Self::DType(dtype) => write!(f, "{dtype}"),
            Self::Layout(layout) => write!(f, "{layout}"),
            Self::Post(steps) => {
                let list: Vec<String> = steps.iter().map(ToString::to_string).collect();
                write!(f, "<{}>", list.join(","))
            }
        }
    }
}

/// The attributes of one node, sorted by name. Names are those that the op declares.
///
/// Text form: `{axis: 1, post: <relu>}`, empty when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attrs(Vec<(&'static str, Attr)>);

impl Attrs {
    /// Returns the values of a function's parameters, which are attributes of its op.
    #[allow(clippy::cast_precision_loss)]
    pub fn parameters(&self, function: Function) -> Vec<f64> {
        let value = |one: &scalar::Parameter| match one.whole {
            true => self.expect_int(one.name) as f64,
            false => self.expect_float(one.name),
        };
        function.parameters().iter().map(value).collect()
    }

    /// Returns an empty list of attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute, or replaces its value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Attr) -> Self {
        self.set(name, value);
        self
    }

    /// Adds an integer attribute.
    #[must_use]
    pub fn int(self, name: &'static str, value: i64) -> Self {
        self.with(name, Attr::Int(value))
    }

    /// Adds a float attribute.
    #[must_use]
    pub fn float(self, name: &'static str, value: f64) -> Self {
        self.with(name, Attr::Float(Float(value)))
    }

    /// Adds an attribute that is a list of integers.
    #[must_use]
    pub fn ints(self, name: &'static str, values: &[i64]) -> Self {
        self.with(name, Attr::Ints(values.to_vec()))
    }

    /// Adds an integer attribute that is a size or an axis.
    #[must_use]
    pub fn size(self, name: &'static str, value: usize) -> Self {
        self.int(name, i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Adds an attribute that is a list of sizes or axes.
    #[must_use]
    pub fn sizes(self, name: &'static str, values: &[usize]) -> Self {
        let values = values.iter().map(|one| i64::try_from(*one).unwrap_or(i64::MAX)).collect();
        self.with(name, Attr::Ints(values))
    }

    /// Adds a text attribute.
    #[must_use]
    pub fn text(self, name: &'static str, value: &str) -> Self {
        self.with(name, Attr::Str(value.into()))
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &'static str, value: Attr) {
        match self.0.binary_search_by_key(&name, |(n, _)| n) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Returns the value of an attribute, if it is set.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.binary_search_by(|(n, _)| (*n).cmp(name)).ok().map(|at| &self.0[at].1)
    }

    /// Iterates over names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Attr)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an integer attribute.
    ///
    /// # Panics
    /// If it is absent or of another kind; the verifier and the rule reader refuse such nodes.
    pub fn expect_int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Attr::Int(value)) => *value,
            other => panic!("attribute `{name}` is {other:?}, not an integer"),
        }
    }

    /// Returns a float attribute. Panics as [`Attrs::expect_int`] does.
    pub fn expect_float(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Attr::Float(value)) => value.0,
            other => panic!("attribute `{name}` is {other:?}, not a float"),
        }
    }

    /// Returns an attribute that is a list of integers. Panics as [`Attrs::expect_int`] does.
    pub fn expect_ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Some(Attr::Ints(values)) => values,
            other => panic!("attribute `{name}` is {other:?}, not a list of integers"),
        }
    }

    /// Returns a string attribute. Panics as [`Attrs::expect_int`] does.
    pub fn expect_str(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Attr::Str(text)) => text,
            other => panic!("attribute `{name}` is {other:?}, not a string"),
        }
    }

    /// Returns a layout attribute. Panics as [`Attrs::expect_int`] does.
    pub fn expect_layout(&self, name: &str) -> &Layout {
        match self.get(name) {
            Some(Attr::Layout(layout)) => layout,
            other => panic!("attribute `{name}` is {other:?}, not a layout"),
        }
    }

    /// Returns an attribute that is an element type. Panics as [`Attrs::expect_int`] does.
    pub fn expect_dtype(&self, name: &str) -> DType {
        match self.get(name) {
            Some(Attr::DType(dtype)) => *dtype,
            other => panic!("attribute `{name}` is {other:?}, not an element type"),
        }
    }

    /// Returns the post chain (attribute `post`), which is empty if the op has none.
    pub fn post(&self) -> &[Step] {
        self.steps("post")
    }

    /// Returns the chain of an attribute, which is empty if it is not set.
    pub fn steps(&self, name: &str) -> &[Step] {
        match self.get(name) {
            Some(Attr::Post(steps)) => steps,
            _ => &[],
        }
    }
}

impl fmt::Display for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        write!(f, "{{{}}}", list.join(", "))
    }
}
