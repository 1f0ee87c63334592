//! The data of a problem that does not depend on the order: the insides of its components, the conversions, and the
//! classes that can replace others.

use crate::extract::canonical::Work;
use crate::extract::component::Components;
use crate::extract::node::Node;
use crate::extract::option::{INNER_CLASSES, Inner};

/// A reduced problem in the form that the frontier needs.
pub(in crate::extract) struct Network<'a> {
    pub work: &'a Work,
    pub components: &'a Components,
    pub(super) inner: Vec<Inner>,
    /// Conversions between the forms of each component: see [`Inner::conversions`].
    pub(super) conversions: Vec<Vec<Vec<(u32, f64)>>>,
    /// For each class, other classes instead of which it may be computed, and the largest additional cost.
    pub(super) replaces: Vec<Vec<(u32, f64)>>,
    /// The estimated cost of each class, which ranks states.
    pub worth: &'a [f64],
}

impl<'a> Network<'a> {
    /// Returns the network; `None` if a component has too many classes.
    pub(crate) fn new(work: &'a Work, components: &'a Components, worth: &'a [f64]) -> Option<Self> {
        if components.largest() > INNER_CLASSES {
            return None;
        }
        let inner: Vec<Inner> = (0..components.len()).map(|at| Inner::new(work, components, at)).collect();
        let conversions = inner.iter().map(Inner::conversions).collect();
        let mut replaces = vec![Vec::new(); work.classes.len()];
        for class in 0..work.classes.len() as u32 {
            for (other, price) in substitutes(work, components, class) {
                replaces[other as usize].push((class, price));
            }
        }
        Some(Self { work, components, inner, conversions, replaces, worth })
    }
}

/// Returns the classes that can be computed from the children of any candidate of a class, and their largest
/// additional cost. A value and the result of an elementwise op on it are such a pair, because a fused chain can
/// compute either. Roots are left out: they are demanded even if nothing reads them.
fn substitutes(work: &Work, components: &Components, class: u32) -> Vec<(u32, f64)> {
    let nodes = &work.classes[class as usize];
    let alone = |class: u32| components.classes[components.of[class as usize] as usize].len() == 1;
    let root = work.roots.binary_search(&class).is_ok();
    let Some(first) = nodes.first().filter(|_| alone(class) && !root) else { return Vec::new() };
    let near = first.children.iter().flat_map(|&child| &components.class_readers[child as usize]);
    let mut near: Vec<u32> = near.flat_map(|&reader| &components.classes[reader as usize]).copied().collect();
    near.sort_unstable();
    near.dedup();
    let price = |other: u32| {
        let more = |made: &Node| {
            let others = work.classes[other as usize].iter();
            let fits = others.filter(|node| node.children.iter().all(|child| made.children.contains(child)));
            fits.map(|node| node.cost - made.cost).fold(f64::INFINITY, f64::min)
        };
        nodes.iter().map(more).fold(f64::NEG_INFINITY, f64::max)
    };
    let others = near.into_iter().filter(|&other| other != class && alone(other));
    others.map(|other| (other, price(other))).filter(|(_, price)| *price < f64::INFINITY).collect()
}
