//! Extraction: finds the cheapest program in an e-graph.
//!
//! An extractor takes a [`Problem`]: e-classes with priced candidates, and the classes that must be computed. It
//! returns an [`Extraction`]: one candidate for each class that is used, the cost, and a lower bound that no
//! selection can beat. The cost of a selection is the sum over the *distinct* classes that the roots reach, so a
//! shared class is paid once. A selection must not be cyclic; the e-graph may be.
//!
//! This module does not depend on egg, ops or kernels: the owner of the e-graph states the problem in these plain
//! values. Results depend on the problem alone: the candidates' ranks decide ties, and limits count work, never
//! seconds.

mod bound;
mod canonical;
mod component;
mod eliminate;
mod exact;
mod exchange;
mod frontier;
mod greedy;
#[cfg(feature = "ilp")]
mod ilp;
mod landmark;
mod naive;
mod necessary;
mod neighbourhood;
mod node;
mod option;
mod order;
mod ready;
mod reduce;
mod relax;
mod search;
mod selection;
mod share;
mod table;

pub(crate) use canonical::ROUNDING;
pub use exact::{Exact, Limits};
pub use exchange::FormatError;
pub use exchange::{Label, Named};
pub use greedy::{GreedyDag, GreedyTree};
#[cfg(feature = "ilp")]
pub(crate) use ilp::Ilp;
pub use naive::Naive;
pub(crate) use search::LocalSearch;

use crate::setting::{Kind, Settings};
use crate::table::Table;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Extractors by name.
pub(crate) type Extractors = Table<Kind<dyn Extractor>>;

/// Returns the extractors that ship with ovolo. A new one is a file and a line here.
pub fn extractors() -> &'static Extractors {
    static EXTRACTORS: LazyLock<Extractors> = LazyLock::new(|| {
        let mut table = Table::new("extractor");
        let kinds = [
            kind::<Exact>(),
            kind::<LocalSearch>(),
            kind::<GreedyDag>(),
            kind::<GreedyTree>(),
            kind::<Naive>(),
            #[cfg(feature = "ilp")]
            kind::<Ilp>(),
        ];
        for kind in kinds {
            table.add((kind.plain)().name(), kind).expect("each has a name of its own");
        }
        table
    });
    &EXTRACTORS
}

/// Describes an extractor for a table: how it is made with default settings, and how its settings are read.
pub fn kind<T: Extractor + Default + DeserializeOwned>() -> Kind<dyn Extractor> {
    Kind::<dyn Extractor>::new(
        || Arc::new(T::default()),
        |reader, written| Some(Arc::new(written.read::<T>(reader)?)),
    )
}

/// The extractors that a build may lack, and the feature that adds each.
const OPTIONAL: &[(&str, &str)] = &[("ilp", "ilp")];

/// Returns the Cargo feature that adds the extractor with this name, if this build lacks it.
pub fn needs(name: &str, known: &Extractors) -> Option<&'static str> {
    let (_, feature) = OPTIONAL.iter().find(|(optional, _)| *optional == name)?;
    known.get(name).is_none().then_some(*feature)
}

/// Returns the message for a name that no extractor has: the known names, or the feature to build with.
pub fn unknown(name: &str, known: &Extractors) -> String {
    match needs(name, known) {
        Some(feature) => format!("this build has no extractor `{name}`: build with `--features {feature}`"),
        None => known.unknown(name).to_string(),
    }
}

/// A method to choose among the programs of an e-graph.
///
/// An extractor is its settings: a pipeline that writes `Exact(states: 2000)` gets an extractor with this limit.
pub trait Extractor: Settings {
    /// Returns the name in pipelines and reports, in kebab case.
    fn name(&self) -> &'static str;

    /// Returns what the extractor promises about its results.
    fn claim(&self) -> Claim;

    /// Returns the same extractor with this share of its limits of work; `None` if it has no limits.
    fn with_effort(&self, share: f64) -> Option<Box<dyn Extractor>> {
        let _ = share;
        None
    }

    /// Returns a faster version for a search that extracts hundreds of times, after a proof turned out to take long;
    /// `None` if the extractor never takes long.
    fn hurried(&self) -> Option<Box<dyn Extractor>> {
        None
    }

    /// Returns the number of steps of an extraction that reached a limit; 0 if steps are not counted.
    fn work(&self) -> usize {
        0
    }

    /// Returns what the extractor must be given before it can choose, with advice; `None` if it needs nothing.
    fn lacks(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the same problem always gives the same choice. If not, plans are not cached.
    fn repeats(&self) -> bool {
        true
    }

    /// Chooses a candidate for each class that is needed.
    ///
    /// # Errors
    /// The problem is malformed, or it has no selection of finite cost. An extractor for small problems also refuses
    /// large ones.
    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError>;
}

/// Returns a share of a limit of work, at least one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn part(limit: usize, share: f64) -> usize {
    ((limit as f64 * share) as usize).max(1)
}

/// What an extractor promises about its results. All results are valid selections whose cost is right and whose bound
/// is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The selection is the cheapest one if the result says `proven`. Whether it is proven depends on the limits of
    /// work.
    Optimal,
    /// The selection is the cheapest one if nothing is shared: a shared class is priced once for each use.
    OptimalForTrees,
    /// The selection is good, without a promise.
    Heuristic,
}

/// The number of an e-class: its index in [`Problem::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The index in [`Problem::classes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "class {}", self.0)
    }
}

/// An e-graph with prices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// The e-classes.
    pub classes: Vec<Class>,
    /// The classes that must be computed.
    pub roots: Vec<ClassId>,
}

/// The candidates that compute one value in one form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// The candidates, in any order.
    pub nodes: Vec<Candidate>,
}

/// One way to compute a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The cost in seconds, at least zero. It is infinite if the candidate cannot be run.
    pub cost: f64,
    /// The classes that it reads. A class may occur several times; this changes nothing.
    pub children: Vec<ClassId>,
    /// Its position in the canonical order of all candidates, which decides ties. If all ranks are different, the
    /// result does not depend on how classes are numbered.
    pub rank: u32,
}

/// A selection, with its cost and a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Extraction {
    /// For each class the index of the chosen candidate; `None` for a class that the roots do not reach.
    pub choice: Vec<Option<u32>>,
    /// The cost in seconds: the sum over the distinct classes that are chosen.
    pub cost: f64,
    /// No selection costs less than this.
    pub bound: f64,
    /// Whether the selection is known to be the cheapest one, up to rounding.
    pub proven: bool,
    /// How the extractor found it.
    pub report: Report,
}

impl Extraction {
    /// Removes rounding from the bound: it becomes the cost if the selection is proven, and is at most the cost
    /// otherwise. Both are sums of the same prices in different orders.
    pub fn settle(&mut self) {
        self.bound = if self.proven { self.cost } else { self.bound.min(self.cost) };
    }

    /// Returns the share of the cost by which it may be too high: 0 if the selection is proven.
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 { (1.0 - self.bound / self.cost).max(0.0) } else { 0.0 }
    }
}

/// What an extractor did. All numbers are counts; nothing is timed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The method that found the result, because an extractor may have several.
    pub method: String,
    /// The classes and candidates that can be run and reached.
    pub size: Size,
    /// Those of them that were left after reduction.
    pub reduced: Size,
    /// The number of strongly connected components that were left.
    pub components: usize,
    /// The number of classes in the largest component.
    pub largest_component: usize,
    /// The number of states that were made, over all steps.
    pub states: usize,
    /// The largest number of states that were kept at one time.
    pub peak_states: usize,
    /// The limit that was reached, if this is why the result is not proven.
    pub limit: Option<String>,
}

/// The size of an e-graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of classes.
    pub classes: usize,
    /// The number of candidates.
    pub nodes: usize,
}

/// The reason why there is no extraction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// A child or a root is not in the list of classes.
    #[error("{of} names {class}, but there are {classes} classes: number the classes from zero")]
    UnknownClass {
        /// The candidate or root that names it.
        of: String,
        /// The class that does not exist.
        class: ClassId,
        /// The number of classes.
        classes: usize,
    },
    /// A price is negative or not a number.
    #[error("candidate {node} of {class} costs {cost}: a cost is at least zero, or infinite")]
    BadCost {
        /// The class.
        class: ClassId,
        /// The index of the candidate in it.
        node: usize,
        /// The price.
        cost: f64,
    },
    /// Prices are so large that their sums are not finite.
    #[error(
        "the costs are too large to be added: at {class} their sum is beyond {:e}; what cannot be run costs \
         infinity",
        f64::MAX
    )]
    TooDear {
        /// The class at which the sum of the most expensive candidates of all classes so far is not finite.
        class: ClassId,
    },
    /// A root cannot be computed from candidates that can be run.
    #[error(
        "no candidates that can be run compute root {root}: each one is unpriced or depends on a class that is, \
         starting from {missing}; add a lowering or a kernel for it"
    )]
    NothingRuns {
        /// The root.
        root: ClassId,
        /// A class below it without a candidate that can be run, although everything that its candidates read can be
        /// computed; or a class that depends on itself.
        missing: ClassId,
    },
    /// The problem is too large for an extractor meant for small ones.
    #[error("the {extractor} extractor gave up after {steps} steps: it is for small graphs, use `exact`")]
    TooLarge {
        /// The extractor.
        extractor: &'static str,
        /// The number of steps that were allowed.
        steps: usize,
    },
    /// The extractor itself failed, such as a program of the caller.
    #[error("the extractor `{extractor}` failed: {why}")]
    Failed {
        /// The extractor.
        extractor: String,
        /// The reason.
        why: String,
    },
    /// A choice is not a valid selection.
    #[error("{class} is reached, but {why}")]
    BadChoice {
        /// The class.
        class: ClassId,
        /// What is wrong there.
        why: &'static str,
    },
}

impl Problem {
    /// Checks that its numbers are valid, and that the roots can be computed from candidates that can be run. Ovolo's own
    /// extractors do it first; one of another crate should as well, since a search for plans within a limit of memory asks
    /// them also about limits that no plan keeps.
    ///
    /// # Errors
    /// What is wrong, or which root cannot be computed.
    pub fn check(&self) -> Result<(), ExtractError> {
        canonical::runs(self).map(|_| ())
    }

    /// Returns the cost of a choice in seconds: the sum over the distinct classes that the roots reach through it.
    ///
    /// # Errors
    /// [`ExtractError::BadChoice`] if a class that is reached has no choice, or depends on itself.
    pub fn cost(&self, choice: &[Option<u32>]) -> Result<f64, ExtractError> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.classes.len()];
        let mut cost = 0.0;
        for &root in &self.roots {
            let mut stack = vec![(root, 0)];
            while let Some((class, next)) = stack.pop() {
                let bad = |why| ExtractError::BadChoice { class, why };
                let node =
                    choice.get(class.index()).copied().flatten().ok_or_else(|| bad("nothing is chosen"))?;
                let node = self.classes[class.index()].nodes.get(node as usize);
                let node = node.ok_or_else(|| bad("the choice is none of its candidates"))?;
                if next == 0 {
                    match marks[class.index()] {
                        Mark::Done => continue,
                        Mark::Open => return Err(bad("it depends on itself")),
                        Mark::New => marks[class.index()] = Mark::Open,
                    }
                    cost += node.cost;
                }
                if let Some(&child) = node.children.get(next) {
                    stack.push((class, next + 1));
                    stack.push((child, 0));
                } else {
                    marks[class.index()] = Mark::Done;
                }
            }
        }
        Ok(cost)
    }
}
