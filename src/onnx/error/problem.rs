//! The single problems that an error of the importer lists, with their names, sizes and types as fields.

use crate::tensor::{DType, TensorType};
use std::fmt;

/// A value that is read, and that nothing defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    /// The name of the value.
    pub name: String,
    /// What reads it: the operator with its node's name, or an output of a graph.
    pub reader: String,
    /// The closest name that is defined, if one is close.
    pub close: Option<String>,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, read by {}{}", self.name, self.reader, advice(self.close.as_deref()))
    }
}

/// A value that is defined more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The name of the value.
    pub name: String,
    /// Two of the nodes, inputs or initializers that define it.
    pub makers: [String; 2],
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {} and {}", self.name, self.makers[0], self.makers[1])
    }
}

/// A dimension that has no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnboundDim {
    /// The name of the dimension.
    pub name: String,
    /// The axes that have it, each with the name of its input.
    pub places: Vec<(usize, String)>,
}

impl fmt::Display for UnboundDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        for (at, (axis, input)) in self.places.iter().enumerate() {
            let between = if at == 0 { ":" } else { "," };
            write!(f, "{between} dimension {axis} of input `{input}`")?;
        }
        Ok(())
    }
}

/// A size for a dimension that the model does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDim {
    /// The name of the dimension.
    pub name: String,
    /// The size that it was given.
    pub size: usize,
    /// The model's dimensions that have no size, in alphabetical order.
    pub known: Vec<String>,
    /// The one among them whose name is closest, if one is close.
    pub close: Option<String>,
}

impl fmt::Display for UnknownDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: ", self.name, self.size)?;
        match &self.known[..] {
            [] => write!(f, "every dimension of the model has a size")?,
            known => write!(f, "the model's dimensions without a size are `{}`", known.join("`, `"))?,
        }
        write!(f, "{}", advice(self.close.as_deref()))
    }
}

/// A way in which the inputs of a run do not fit a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputProblem {
    /// An input is given twice.
    Twice {
        /// Its name.
        name: String,
    },
    /// The model has no input of this name.
    Unknown {
        /// The name.
        name: String,
        /// The closest name of an input, if one is close.
        close: Option<String>,
    },
    /// An input is not given.
    Missing {
        /// Its name.
        name: String,
        /// Its type, if all its dimensions have a size.
        ty: Option<TensorType>,
    },
    /// The elements of an input have the wrong type.
    Elements {
        /// Its name.
        name: String,
        /// The type that its elements must have.
        dtype: DType,
        /// Its type, if all its dimensions have a size.
        ty: Option<TensorType>,
        /// The type that was given.
        given: TensorType,
    },
    /// An input has the wrong shape or layout.
    Type {
        /// Its name.
        name: String,
        /// The type that it must have.
        ty: TensorType,
        /// The type that was given.
        given: TensorType,
    },
    /// An input has the wrong number of dimensions.
    Rank {
        /// Its name.
        name: String,
        /// The number of dimensions that it must have.
        rank: usize,
        /// The type that was given.
        given: TensorType,
    },
    /// A dimension of an input has the wrong size.
    Dimension {
        /// The name of the input.
        name: String,
        /// The axis.
        axis: usize,
        /// The size that it must have.
        size: usize,
        /// The type that was given.
        given: TensorType,
    },
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { name } => write!(f, "input `{name}` is given twice; give it once"),
            Self::Unknown { name, close } => {
                write!(f, "the model has no input `{name}`{}", advice(close.as_deref()))
            }
            Self::Missing { name, ty: Some(ty) } => write!(f, "input `{name}` ({ty}) is not given"),
            Self::Missing { name, ty: None } => write!(f, "input `{name}` is not given"),
            Self::Elements { name, dtype, ty, given } => {
                match ty {
                    Some(ty) => write!(f, "input `{name}` must be {ty}")?,
                    None => write!(f, "input `{name}` must be of {dtype}")?,
                }
                write!(f, ", but is {given}; convert its elements to {dtype}")
            }
            Self::Type { name, ty, given } => {
                write!(f, "input `{name}` must be {ty}, but is {given}{}", difference(ty, given))
            }
            Self::Rank { name, rank, given } => {
                write!(f, "input `{name}` must have {rank} dimensions, but is {given}")
            }
            Self::Dimension { name, axis, size, given } => {
                write!(f, "input `{name}` is {given}, and its dimension {axis} must be {size}")
            }
        }
    }
}

/// Returns where two shapes differ, as the end of a sentence; empty if they are equal.
fn difference(want: &TensorType, have: &TensorType) -> String {
    let (want, have) = (&want.shape, &have.shape);
    if want == have {
        return String::new();
    }
    if want.count() == have.count() {
        return "; it has as many elements, so reshape it".to_owned();
    }
    if want.rank() != have.rank() {
        return format!("; it needs {} dimensions, not {}", want.rank(), have.rank());
    }
    let axes = (0..want.rank()).filter(|&axis| want[axis] != have[axis]);
    let list: Vec<String> =
        axes.map(|axis| format!("dimension {axis} is {}, not {}", have[axis], want[axis])).collect();
    format!("; {}", list.join(", "))
}

/// Returns the advice to use a name that is close; empty if there is none.
fn advice(close: Option<&str>) -> String {
    close.map_or_else(String::new, |close| format!("; did you mean `{close}`?"))
}

/// Returns the known name that is closest to a name, if one is close.
pub(in crate::onnx) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const CLOSE: f64 = 0.8;
    let score = |candidate: &&str| strsim::jaro_winkler(name, candidate);
    let best = known
        .into_iter()
        .filter(|candidate| *candidate != name && score(candidate) >= CLOSE)
        .max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| b.cmp(a)));
    best.map(str::to_owned)
}

/// Returns advice such as `; did you mean `x`?` if one of the known names is close; empty otherwise.
pub(in crate::onnx) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    advice(closest(name, known).as_deref())
}
