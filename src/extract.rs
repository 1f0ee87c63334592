//! Extraction: of all the programs an e-graph holds, the cheapest.
//!
//! Takes a [`Problem`]: e-classes with priced candidates, and the classes that must be there. Gives
//! an [`Extraction`]: one candidate for each class that is used, its cost, and a lower bound that no
//! selection can beat. The cost of a selection is the sum over the *distinct* classes that the roots
//! reach, so what is shared is paid once. A selection must not be cyclic; the e-graph may be.
//!
//! Nothing here knows egg, ops or kernels: whoever holds the e-graph states the problem in these
//! plain values. Results depend on the problem alone: ties are decided by the candidates' ranks, and
//! limits are counted in work, never in seconds.

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
mod share;
mod table;

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
pub type Extractors = Table<Kind<dyn Extractor>>;

/// The extractors that ship with ovolo. A new one is a file and a line here.
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

/// How an extractor is had, for a table of them.
pub fn kind<T: Extractor + Default + DeserializeOwned>() -> Kind<dyn Extractor> {
    Kind {
        plain: || Arc::new(T::default()),
        read: |reader, written| Some(Arc::new(written.read::<T>(reader)?)),
    }
}

/// The extractor with this name and its default settings.
pub fn find(name: &str) -> Option<Arc<dyn Extractor>> {
    extractors().get(name).map(|kind| (kind.plain)())
}

/// Every extractor with its default settings.
pub fn all() -> impl Iterator<Item = Arc<dyn Extractor>> {
    extractors().iter().map(|(_, kind)| (kind.plain)())
}

/// Extractors that a build may lack, and the feature that brings each.
const OPTIONAL: &[(&str, &str)] = &[("ilp", "ilp")];

/// The feature of a build that has the extractor with this name, where this one does not.
pub fn needs(name: &str, known: &Extractors) -> Option<&'static str> {
    let (_, feature) = OPTIONAL.iter().find(|(optional, _)| *optional == name)?;
    known.get(name).is_none().then_some(*feature)
}

/// What to say of a name that no extractor has: which there are, or how to have it.
pub fn unknown(name: &str, known: &Extractors) -> String {
    match needs(name, known) {
        Some(feature) => format!("this build has no extractor `{name}`: build with `--features {feature}`"),
        None => known.unknown(name).to_string(),
    }
}

/// A way to choose among the programs of an e-graph.
///
/// The extractor is its own settings: a pipeline that writes `Exact(states: 2000)` has one with these.
pub trait Extractor: Settings {
    /// The name in pipelines and reports: kebab-case.
    fn name(&self) -> &'static str;

    /// What its results may be held to.
    fn claim(&self) -> Claim;

    /// The same with this share of its limits of work; `None` for one that has none.
    fn with_effort(&self, share: f64) -> Option<Box<dyn Extractor>> {
        let _ = share;
        None
    }

    /// The same for a search that extracts hundreds of times, once it is known that a proof takes long; `None`
    /// for one that never does.
    fn hurried(&self) -> Option<Box<dyn Extractor>> {
        None
    }

    /// Steps that an extraction which reached a limit took; 0 where they are not counted.
    fn work(&self) -> usize {
        0
    }

    /// Chooses.
    ///
    /// # Errors
    /// A problem that is malformed, or that has no selection of finite cost; an extractor for small
    /// problems also refuses large ones.
    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError>;
}

/// A share of a limit of work, one at least.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn part(limit: usize, share: f64) -> usize {
    ((limit as f64 * share) as usize).max(1)
}

/// What an extractor promises of its results, besides that they are valid selections whose stated
/// cost is right and whose bound is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The cheapest selection where the result says `proven`, which is a matter of work limits.
    Optimal,
    /// The cheapest where nothing is shared: shared classes are priced once for each use.
    OptimalForTrees,
    /// A good selection.
    Heuristic,
}

/// The number of an e-class: its place in [`Problem::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The place in [`Problem::classes`].
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
    /// Classes that must be selected, all of them.
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
    /// Seconds, at least zero. Infinite: it cannot be run.
    pub cost: f64,
    /// The classes it reads. Repetition is allowed and changes nothing.
    pub children: Vec<ClassId>,
    /// Its place in the canonical order of all candidates. Ties go by it; if no two candidates have
    /// the same, the result does not depend on how classes are numbered.
    pub rank: u32,
}

/// A selection, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Extraction {
    /// For each class the place of the chosen candidate; `None` for those that the roots do not reach.
    pub choice: Vec<Option<u32>>,
    /// Seconds: the sum over the distinct classes that are chosen.
    pub cost: f64,
    /// No selection costs less than this.
    pub bound: f64,
    /// Whether the selection is known to be the cheapest (up to rounding).
    pub proven: bool,
    /// How it came about.
    pub report: Report,
}

impl Extraction {
    /// Has the bound say what is known, to the last bit: the cost where that is proven, and else no more than
    /// the cost. Both are sums of the same prices, taken in different orders.
    pub fn settle(&mut self) {
        self.bound = if self.proven { self.cost } else { self.bound.min(self.cost) };
    }

    /// The share of the cost that may be too much: 0 where the selection is proven.
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 { (1.0 - self.bound / self.cost).max(0.0) } else { 0.0 }
    }
}

/// What an extractor saw and did: all of it counted, nothing timed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The method that gave the result: an extractor may have several.
    pub method: String,
    /// Classes and candidates that are runnable and reachable.
    pub size: Size,
    /// What was left of them after reduction.
    pub reduced: Size,
    /// Strongly connected components of what was left.
    pub components: usize,
    /// Classes of the largest component.
    pub largest_component: usize,
    /// States that were made, over all steps.
    pub states: usize,
    /// States that were kept at once, at most.
    pub peak_states: usize,
    /// The limit that was reached, if the result is unproven because of one.
    pub limit: Option<String>,
}

/// How large an e-graph is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Classes.
    pub classes: usize,
    /// Candidates.
    pub nodes: usize,
}

/// Why there is no extraction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// A child or root is not in the list of classes.
    #[error("{of} names {class}, but there are {classes} classes: number the classes from zero")]
    UnknownClass {
        /// What names it.
        of: String,
        /// The class that does not exist.
        class: ClassId,
        /// How many there are.
        classes: usize,
    },
    /// A price is negative or not a number.
    #[error("candidate {node} of {class} costs {cost}: a cost is at least zero, or infinite")]
    BadCost {
        /// The class.
        class: ClassId,
        /// The candidate's place in it.
        node: usize,
        /// The price.
        cost: f64,
    },
    /// Prices are so large that sums of them are no numbers.
    #[error(
        "the costs are too large to be added: at {class} their sum is beyond {:e}; what cannot be run costs \
         infinity",
        f64::MAX
    )]
    TooDear {
        /// The class at which the sum of the dearest candidates of all classes so far is no number.
        class: ClassId,
    },
    /// Nothing that can be run computes a root.
    #[error(
        "nothing that can be run computes root {root}: each candidate is unpriced or rests on a class that is, \
         starting from {missing}; add a lowering or a kernel for it"
    )]
    NothingRuns {
        /// The root.
        root: ClassId,
        /// A class below it that lacks runnable candidates although all they read can be run, or
        /// that waits for itself.
        missing: ClassId,
    },
    /// The problem is too large for an extractor meant for small ones.
    #[error("the {extractor} extractor gave up after {steps} steps: it is for small graphs, use `exact`")]
    TooLarge {
        /// The extractor.
        extractor: &'static str,
        /// Steps that were allowed.
        steps: usize,
    },
    /// A choice is not a selection.
    #[error("{class} is reached, but {why}")]
    BadChoice {
        /// The class.
        class: ClassId,
        /// What is wrong there.
        why: &'static str,
    },
}

impl Problem {
    /// Checks that classes exist, that prices are prices, and that they can be added.
    ///
    /// # Errors
    /// [`ExtractError::UnknownClass`], [`ExtractError::BadCost`], [`ExtractError::TooDear`].
    pub(crate) fn validate(&self) -> Result<(), ExtractError> {
        let classes = self.classes.len();
        let known = |of: &dyn Fn() -> String, class: ClassId| {
            if class.index() < classes {
                Ok(())
            } else {
                Err(ExtractError::UnknownClass { of: of(), class, classes })
            }
        };
        for &root in &self.roots {
            known(&|| "a root".to_owned(), root)?;
        }
        let mut sum = 0.0;
        for (index, class) in self.classes.iter().enumerate() {
            let mut dearest = 0.0_f64;
            for (node, candidate) in class.nodes.iter().enumerate() {
                if candidate.cost.is_nan() || candidate.cost < 0.0 {
                    let class = ClassId(index as u32);
                    return Err(ExtractError::BadCost { class, node, cost: candidate.cost });
                }
                if candidate.cost.is_finite() {
                    dearest = dearest.max(candidate.cost);
                }
                for &child in &candidate.children {
                    known(&|| format!("candidate {node} of class {index}"), child)?;
                }
            }
            sum += dearest;
            if !f64::is_finite(sum) {
                return Err(ExtractError::TooDear { class: ClassId(index as u32) });
            }
        }
        Ok(())
    }

    /// The cost of a choice: the sum over the distinct classes that the roots reach through it.
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
