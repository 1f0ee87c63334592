//! A value of a model: a tensor, or one that holds tensors.

/// A tensor, a sequence of values, or an optional value that is absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<T> {
    /// One tensor.
    Tensor(T),
    /// A sequence.
    Sequence(Vec<Item<T>>),
    /// An optional value that is absent.
    Absent,
}

impl<T> Item<T> {
    /// Makes an item of the same form, with a function of each tensor.
    pub fn map<U>(&self, change: &mut dyn FnMut(&T) -> U) -> Item<U> {
        match self {
            Self::Tensor(tensor) => Item::Tensor(change(tensor)),
            Self::Sequence(list) => Item::Sequence(list.iter().map(|item| item.map(change)).collect()),
            Self::Absent => Item::Absent,
        }
    }
}
