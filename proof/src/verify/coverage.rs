//! Counts what the instances of a rule contained, so that reports can state the coverage.

use super::check::Precision;
use super::draft::{Draft, Exactness};
use ovolo::rule::{self, Expr, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The name for instances that are compared in the types as they are, with their rounding.
pub const COARSE: &str = "compared coarsely";

/// The name for instances with integers that are compared without a tolerance: their results are integers, or no float on
/// the way to them is rounded.
pub const EXACT: &str = "compared exactly";

/// The name for instances whose values had to be drawn smaller, because the first ones overflowed `f64` on
/// the way to one side.
pub const OVERFLOW: &str = "overflow, drawn smaller";

/// The coverage of one rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// The number of distinct lists of leaf types on the left sides.
    pub shapes: usize,
    /// Element types of leaves.
    pub dtypes: Vec<String>,
    /// Ranks of the results.
    pub ranks: Vec<usize>,
    /// The number of distinct attribute lists of the left sides' ops.
    pub attributes: usize,
    /// How many instances had a feature: `padding`, `broadcast`, `size 1`, `odd channels`, `attribute not at
    /// its default`, [`COARSE`], [`EXACT`], [`OVERFLOW`], and each alternative of an `any` guard that held.
    pub features: BTreeMap<String, usize>,
    /// What was seen on the first instance that overflowed. The sides are equal as real numbers, but not in
    /// floating-point numbers of 64 bits.
    pub overflow: Option<String>,
    /// Why the first instance with integers that was compared within a tolerance was not compared exactly.
    pub rounding: Option<String>,
}

/// Collects coverage while a rule is verified.
#[derive(Default)]
pub(super) struct Seen {
    shapes: BTreeSet<String>,
    dtypes: BTreeSet<String>,
    ranks: BTreeSet<usize>,
    attributes: BTreeSet<String>,
    features: BTreeMap<String, usize>,
    overflow: Option<String>,
    rounding: Option<String>,
}

impl Seen {
    /// Counts an accepted instance.
    pub fn add(&mut self, rule: &Rule, draft: &Draft) {
        let below = draft.below(&draft.left);
        let mut features: BTreeSet<String> = BTreeSet::new();
        let mut feature = |name: &str| {
            features.insert(name.to_owned());
        };
        let (mut types, mut attributes) = (String::new(), String::new());
        for at in 0..draft.values.len() {
            if draft.values[at].ty.layout.pads(&draft.values[at].ty.shape) {
                feature("padding");
            }
        }
        // A rule that declares a precision is compared in `f64` as well, so it is not coarse.
        if draft.precision == rule::Precision::F32 && !Precision::for_draft(draft).wide {
            feature(COARSE);
        }
        match &draft.exactness {
            Exactness::Real => {}
            Exactness::Exact => feature(EXACT),
            Exactness::Rounded(why) => drop(self.rounding.get_or_insert_with(|| why.clone())),
        }
        if let Some(what) = &draft.overflow {
            feature(OVERFLOW);
            self.overflow.get_or_insert_with(|| what.clone());
        }
        for at in below {
            let value = &draft.values[at];
            let shape = &value.ty.shape;
            if shape.contains(&1) {
                feature("size 1");
            }
            if shape.rank() == 4 && shape[1] > 1 && shape[1] % 2 == 1 {
                feature("odd channels");
            }
            let Some(op) = value.op else {
                types.push_str(&value.ty.to_string());
                types.push(' ');
                self.dtypes.insert(value.ty.dtype.to_string());
                continue;
            };
            let changed = |(name, attr)| {
                op.attr(name).is_some_and(|def| def.default.as_ref().is_some_and(|d| d != attr))
            };
            if value.attrs.iter().any(changed) {
                feature("attribute not at its default");
            }
            if value.inputs.len() > 1
                && value.inputs.iter().any(|input| draft.values[*input].ty.shape != *shape)
            {
                feature("broadcast");
            }
            if !value.attrs.is_empty() {
                attributes.push_str(&value.attrs.to_string());
            }
        }
        for guard in &rule.guards {
            if let Expr::Call(function, alternatives) = &guard.expr
                && function.name == "any"
            {
                for (at, one) in alternatives.iter().enumerate() {
                    if rule::eval(one, draft).is_ok() {
                        feature(&format!("alternative {} of {}", at + 1, guard.text));
                    }
                }
            }
        }
        self.ranks.extend(draft.left.iter().map(|root| draft.values[*root].ty.shape.rank()));
        self.shapes.insert(types);
        self.attributes.insert(attributes);
        for name in features {
            *self.features.entry(name).or_default() += 1;
        }
    }

    /// Returns the coverage collected so far.
    pub fn coverage(self) -> Coverage {
        Coverage {
            shapes: self.shapes.len(),
            dtypes: self.dtypes.into_iter().collect(),
            ranks: self.ranks.into_iter().collect(),
            attributes: self.attributes.len(),
            features: self.features,
            overflow: self.overflow,
            rounding: self.rounding,
        }
    }
}
