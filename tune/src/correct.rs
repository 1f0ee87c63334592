//! Corrections of the price list, fitted to tables of times.
//!
//! The price list estimates a kernel from its features and the speeds of a machine. A correction is the factor by
//! which kernels of one kind take longer than their estimate, or less, by regime: large or small ones, filled blocks or
//! not, one thread or several. Regimes are found by a small regression tree for each kind, and are written as a price list.
//!
//! A whole table may be slower than others: the machine had other work, or its speeds were measured in another state. Each
//! table therefore has a factor of its own, as random effects have in mixed models (N. M. Laird and J. H. Ware,
//! "Random-effects models for longitudinal data", Biometrics 38, 1982). It keeps such a table from looking like a regime,
//! and is no part of the corrections.
//!
//! What the corrections leave says how uncertain a price is, for each kind. It is measured on tables that they were not
//! fitted to.

mod list;
mod quality;
mod spread;
mod table;
mod tree;

pub use quality::Quality;
pub use table::{TableError, TimedKernel, TimesTable};

use ovolo::team::Team;
use spread::Spreads;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::OnceLock;
use tree::{Sample, Tree};

/// The fewest kernels of one kind for which a correction is fitted.
const FEWEST: usize = 8;

/// The weight of a time that was not measured within plans: the same as for the cost model `learned`.
const ALONE: f64 = 0.1;

/// How often trees are fitted, and then the factors of tables to what they leave.
const PASSES: usize = 3;

/// A kind of kernels: the op, and the beginning of the names of its implementations.
type Kind = (String, String);

/// Fitted corrections.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrections {
    kinds: BTreeMap<Kind, Tree>,
    spreads: Spreads,
}

impl Corrections {
    /// Fits corrections to the kernels of some tables, and how uncertain the corrected prices are.
    pub fn new(tables: &[TimesTable]) -> Self {
        let all = Self::to(tables, |_, _| true);
        Self { spreads: Spreads::new(tables, &all), ..all }
    }

    /// Fits corrections without some models, and without kernels that are also in them.
    pub fn without(tables: &[TimesTable], models: &[&str]) -> Self {
        let kernels = tables.iter().flat_map(|table| &table.kernels);
        let left_out = kernels.filter(|kernel| models.contains(&kernel.model.as_str()));
        let calls: BTreeSet<&str> = left_out.map(|kernel| kernel.call.as_str()).collect();
        Self::to(tables, |_, kernel| !calls.contains(kernel.call.as_str()))
    }

    /// Fits corrections to the kernels that are taken, by the position of their table and by themselves.
    fn to(tables: &[TimesTable], taken: impl Fn(usize, &TimedKernel) -> bool) -> Self {
        let mut kinds: BTreeMap<Kind, Vec<(usize, Sample<'_>)>> = BTreeMap::new();
        for (at, table) in tables.iter().enumerate() {
            for kernel in table.kernels.iter().filter(|kernel| taken(at, kernel)) {
                // A plan takes the sum of its kernels' times, so long kernels count for more. Their weight grows
                // only with the square root, because the times of short kernels are less exact.
                let weight = kernel.seconds.sqrt() * if kernel.within_plans { 1.0 } else { ALONE };
                let sample = Sample {
                    model: &kernel.model,
                    values: &kernel.values,
                    target: (kernel.seconds / kernel.estimate()).ln(),
                    weight,
                };
                kinds.entry(kind(kernel)).or_default().push((at, sample));
            }
        }
        kinds.retain(|_, samples| samples.len() >= FEWEST);
        let mut of_tables = vec![0.0; tables.len()];
        let mut trees: BTreeMap<Kind, Tree> = BTreeMap::new();
        for _ in 0..PASSES {
            trees.clear();
            for (kind, samples) in &kinds {
                let mut own: Vec<Sample<'_>> = samples.iter().map(|(_, sample)| *sample).collect();
                own.iter_mut().zip(samples).for_each(|(own, (at, _))| own.target -= of_tables[*at]);
                trees.insert(kind.clone(), Tree::fit(&own));
            }
            of_tables = effects(tables.len(), &kinds, &trees);
        }
        Self { kinds: trees, spreads: Spreads::default() }
    }

    /// Returns the factor for a kernel; 1 for a kind of which there were too few.
    pub fn factor(&self, kernel: &TimedKernel) -> f64 {
        self.kinds.get(&kind(kernel)).map_or(1.0, |tree| tree.factor(&kernel.values))
    }

    /// Returns how well the corrections predict a table.
    pub fn quality(&self, table: &TimesTable) -> Quality {
        Quality::new(&table.name, table.kernels.iter(), self)
    }

    /// Returns the text of a price list with these corrections.
    pub fn write(&self, fitted_on: &str) -> String {
        list::write(&self.kinds, &self.spreads, fitted_on)
    }

    /// Returns the number of kinds of kernels, and of regimes of all kinds together.
    pub fn size(&self) -> (usize, usize) {
        (self.kinds.len(), self.kinds.values().map(Tree::leaves).sum())
    }
}

/// Returns the logarithm of the factor of each table: the median of what the trees leave of its kernels, less the mean of these
/// medians, which belongs to the trees.
fn effects(
    tables: usize,
    kinds: &BTreeMap<Kind, Vec<(usize, Sample<'_>)>>,
    trees: &BTreeMap<Kind, Tree>,
) -> Vec<f64> {
    let mut left: Vec<Vec<f64>> = vec![Vec::new(); tables];
    for (tree, (at, sample)) in
        kinds.iter().flat_map(|(kind, samples)| samples.iter().map(|sample| (&trees[kind], sample)))
    {
        left[*at].push(sample.target - tree.factor(sample.values).ln());
    }
    let medians: Vec<Option<f64>> = left
        .into_iter()
        .map(|mut left| {
            left.sort_by(f64::total_cmp);
            left.get(left.len() / 2).copied()
        })
        .collect();
    #[allow(clippy::cast_precision_loss)] // Tables are few.
    let mean = medians.iter().flatten().sum::<f64>() / medians.iter().flatten().count().max(1) as f64;
    medians.into_iter().map(|median| median.map_or(0.0, |median| median - mean)).collect()
}

/// Returns the op and what names of implementations have in common on machines with other instruction sets.
fn kind(kernel: &TimedKernel) -> Kind {
    let name = &kernel.implementation;
    let sets = ["-avx", "-portable", ":"];
    let end = sets.iter().filter_map(|set| name.find(set)).min().unwrap_or(name.len());
    (kernel.op.clone(), name[..end].to_owned())
}

/// Predicts each model by corrections that were fitted without it and without kernels that are also in it.
pub fn without_each_model(tables: &[TimesTable]) -> Vec<Quality> {
    let kernels = || tables.iter().flat_map(|table| &table.kernels);
    let models: BTreeSet<&str> = kernels().map(|kernel| kernel.model.as_str()).collect();
    let models: Vec<&str> = models.into_iter().collect();
    each(models.len(), |at| {
        let rest = Corrections::without(tables, &[models[at]]);
        Quality::new(models[at], kernels().filter(|one| one.model == models[at]), &rest)
    })
}

/// Predicts each table by corrections that were fitted to the others.
pub fn without_each_table(tables: &[TimesTable]) -> Vec<Quality> {
    each(tables.len(), |left_out| {
        let rest = Corrections::to(tables, |at, _| at != left_out);
        Quality::new(&tables[left_out].name, tables[left_out].kernels.iter(), &rest)
    })
}

/// Computes some results, of which none depends on another, on all processors.
fn each<T: Send + Sync>(count: usize, compute: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    Team::shared(threads).run(count, |at| {
        results[at].get_or_init(|| compute(at));
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}
