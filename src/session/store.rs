//! Constants that the sessions of one model share.

use crate::digest::Digest;
use crate::tensor::{Tensor, WeakTensor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was computed from the constants of a model, such as packed weights, for all plans of that model.
///
/// A constant is found by its *recipe*: a digest of the op that computes it, its attributes and its type, and of the
/// recipes of its operands. The recipe of a weight is its name, if the store knows it, and otherwise its elements. So
/// plans for inputs of different sizes share each weight that they pack in the same way.
///
/// The store keeps nothing in memory: a constant that no session uses any more is freed. Sessions in several threads may
/// share a store.
#[derive(Default)]
pub struct Store(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    /// The named weights, by the identities of their bytes. They are held so that no other bytes get their identities.
    weights: FxHashMap<usize, (Tensor, Digest)>,
    /// What was computed, by recipes.
    made: FxHashMap<Digest, Made>,
    /// The digests of bytes that this process has written to the cache, or read from it and checked.
    checked: FxHashSet<Digest>,
}

/// A constant that was computed.
struct Made {
    tensor: WeakTensor,
    /// The digest of its bytes, if it is known.
    content: Option<Digest>,
}

impl Store {
    /// Makes a store without constants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a name to a weight, so that its elements need not be read to recognise it. In one store, equal names must
    /// mean equal elements.
    pub fn name(&self, weight: &Tensor, name: &str) {
        let digest = Digest::texts(["weight", name]);
        self.shared().weights.insert(weight.identity(), (weight.clone(), digest));
    }

    /// Returns the number of bytes of all constants that sessions of this store have in memory now.
    pub fn bytes(&self) -> usize {
        let shared = self.shared();
        let made = shared.made.values().filter_map(|made| made.tensor.upgrade());
        let mut tensors: Vec<_> = made.collect();
        tensors.sort_unstable_by_key(Tensor::identity);
        tensors.dedup_by_key(|tensor| tensor.identity());
        tensors.iter().map(|tensor| tensor.ty().bytes()).sum()
    }

    /// Returns the recipe of a constant of a graph.
    pub(super) fn leaf(&self, constant: &Tensor) -> Digest {
        let named = self.shared().weights.get(&constant.identity()).map(|(_, digest)| *digest);
        let source = named.unwrap_or_else(|| Digest::new(constant.taken().bytes()));
        Digest::texts([source.to_string().as_str(), &constant.ty().to_string()])
    }

    /// Returns the constant of a recipe, if a session has it in memory.
    pub(crate) fn find(&self, recipe: &Digest) -> Option<Tensor> {
        self.shared().made.get(recipe)?.tensor.upgrade()
    }

    /// Notes a constant. Returns the one to use, which is another one if a session has already made it.
    pub(crate) fn keep(&self, recipe: Digest, tensor: Tensor, content: Option<Digest>) -> Tensor {
        let mut shared = self.shared();
        if let Some(there) = shared.made.get(&recipe).and_then(|made| made.tensor.upgrade()) {
            return there;
        }
        if shared.made.len().is_power_of_two() {
            shared.made.retain(|_, made| made.tensor.upgrade().is_some());
        }
        shared.made.insert(recipe, Made { tensor: tensor.downgrade(), content });
        tensor
    }

    /// Returns the digest of the bytes of a constant, if it was noted.
    pub(crate) fn content(&self, recipe: &Digest) -> Option<Digest> {
        self.shared().made.get(recipe)?.content
    }

    /// Notes the digest of the bytes of a constant.
    pub(crate) fn note_content(&self, recipe: &Digest, content: Digest) {
        if let Some(made) = self.shared().made.get_mut(recipe) {
            made.content = Some(content);
        }
    }

    /// Returns whether this process has checked that a file of the cache has the bytes of this digest.
    pub(crate) fn is_checked(&self, content: &Digest) -> bool {
        self.shared().checked.contains(content)
    }

    /// Notes that a file of the cache has the bytes of this digest.
    pub(crate) fn note_checked(&self, content: Digest) {
        self.shared().checked.insert(content);
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
