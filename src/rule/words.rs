//! The words of rules: guards and computed attributes by name.

use super::{Word, compute, equation, guard};
use crate::op::Ops;
use crate::table::{Duplicate, Table};
use std::borrow::Cow;

/// The guards and computed attributes that rules may use, in order.
#[derive(Clone, Debug)]
pub struct Words(Table<&'static Word>);

impl Default for Words {
    fn default() -> Self {
        Self::new()
    }
}

impl Words {
    /// Returns ovolo's own guards and computed attributes.
    pub(crate) fn new() -> Self {
        let mut words = Self(Table::new("guard or function"));
        for function in guard::GUARDS.iter().chain(compute::COMPUTED).chain(equation::EQUATIONS) {
            words.0.add(function.name, function).expect("ovolo's own words have different names");
        }
        words
    }

    /// Adds a guard or a computed attribute, which is kept until the process ends.
    ///
    /// # Errors
    /// If another one has the same name.
    pub(crate) fn add(&mut self, function: Word) -> Result<(), Duplicate> {
        self.0.add(function.name, Box::leak(Box::new(function)))
    }

    /// Returns the guard or computed attribute of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'static Word> {
        self.0.get(name).copied()
    }

    /// Returns all guards and computed attributes, in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Word> {
        self.0.iter().map(|(_, function)| *function)
    }
}

/// The names that rules may use, by which rule files are read.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    /// The ops.
    pub ops: &'a Ops,
    /// The guards and computed attributes.
    pub words: &'a Words,
    /// Ovolo's own rule files, by name. In an unchanged one of these, a rule may use an op of a backend that is
    /// absent from the ops. Such a rule is left out. In every other file, as in those that other crates add, it is a
    /// mistake.
    pub shipped: &'a Texts,
}

impl Vocabulary<'_> {
    /// Returns whether a file is one of ovolo's own, and unchanged.
    pub(super) fn ships(&self, name: &str, text: &str) -> bool {
        self.shipped.get(name).is_some_and(|shipped| shipped == text)
    }
}

/// Texts by the names of their files.
pub type Texts = Table<Cow<'static, str>>;
