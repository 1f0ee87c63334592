//! The kinds of parts, and what one part is worth on one model.

use super::NoProgram;
use std::fmt;
use std::str::FromStr;

/// The kind of parts that are left out one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Rules.
    Rule,
    /// All rules of a file.
    File,
    /// All kernels of a lowered op.
    Kernel,
    /// Extractors.
    Extractor,
    /// Orders of execution.
    Order,
    /// Memory planners.
    Planner,
}

/// A text that names no kind of parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of rule, file, kernel, extractor, order, planner")]
pub struct UnknownPart(pub String);

impl By {
    const ALL: [(&'static str, Self); 6] = [
        ("rule", Self::Rule),
        ("file", Self::File),
        ("kernel", Self::Kernel),
        ("extractor", Self::Extractor),
        ("order", Self::Order),
        ("planner", Self::Planner),
    ];

    /// Returns whether the parts are compared by the bytes of a plan, and not by its seconds.
    pub fn counts_bytes(self) -> bool {
        matches!(self, Self::Order | Self::Planner)
    }
}

impl FromStr for By {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, by)| by).ok_or_else(|| UnknownPart(text.to_owned()))
    }
}

impl fmt::Display for By {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(_, by)| by == self).map_or("", |(name, _)| name);
        out.write_str(name)
    }
}

/// A cost: seconds by the cost model, or bytes of memory ([`By::counts_bytes`]); or why there is no plan.
pub type Cost = Result<f64, NoProgram>;

/// One part, measured on one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name of the part.
    pub name: String,
    /// Whether the best plan has it. An extractor, an order or a planner is used if no other one gives less.
    pub used: bool,
    /// The cost with it: of the best plan, or of the plan that this extractor, order or planner gives.
    pub with: Cost,
    /// The cost of the best plan without it.
    pub without: Cost,
    /// The time that the extraction took in seconds, for an extractor.
    pub seconds: Option<f64>,
}
