//! A value of a model: a tensor, or one that holds tensors.

use crate::tensor::Tensor;

/// A tensor, a sequence of values, maps, or an optional value that is absent.
#[derive(Clone, Debug)]
pub enum Item<T> {
    /// One tensor.
    Tensor(T),
    /// A sequence.
    Sequence(Vec<Item<T>>),
    /// A sequence of maps with the same keys: a list of keys, and a matrix with a row for each map.
    Maps(Tensor, T),
    /// An optional value that is absent.
    Absent,
}

impl<T> Item<T> {
    /// Makes an item of the same form, with a function of each tensor.
    pub fn map<U>(&self, change: &mut dyn FnMut(&T) -> U) -> Item<U> {
        match self {
            Self::Tensor(tensor) => Item::Tensor(change(tensor)),
            Self::Sequence(list) => Item::Sequence(list.iter().map(|item| item.map(change)).collect()),
            Self::Maps(keys, rows) => Item::Maps(keys.clone(), change(rows)),
            Self::Absent => Item::Absent,
        }
    }
}
