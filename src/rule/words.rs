//! The words of rules: guards and computed attributes by name.

use super::{Function, compute, guard};
use crate::op::Ops;
use crate::table::{Duplicate, Table};
use std::borrow::Cow;

/// Guards and computed attributes that rules may name, in order.
#[derive(Clone, Debug)]
pub struct Words(Table<&'static Function>);

impl Default for Words {
    fn default() -> Self {
        Self::new()
    }
}

impl Words {
    /// Those that ovolo has.
    pub(crate) fn new() -> Self {
        let mut words = Self(Table::new("guard or function"));
        for function in guard::GUARDS.iter().chain(compute::COMPUTED) {
            words.0.add(function.name, function).expect("ovolo's own words have different names");
        }
        words
    }

    /// Adds a guard or a computed attribute, which is kept for as long as the process lives.
    ///
    /// # Errors
    /// If another one has its name.
    pub(crate) fn add(&mut self, function: Function) -> Result<(), Duplicate> {
        self.0.add(function.name, Box::leak(Box::new(function)))
    }

    /// The guard or computed attribute of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'static Function> {
        self.0.get(name).copied()
    }

    /// All of them, in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Function> {
        self.0.iter().map(|(_, function)| *function)
    }
}

/// What rule files are read by: what rules may name.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    /// The ops.
    pub ops: &'a Ops,
    /// Guards and computed attributes.
    pub words: &'a Words,
    /// The rule files that ship with ovolo, by name. In one of these, as it ships, a rule may name an op of a backend
    /// that has none among the ops: it is left out then.
    pub shipped: &'a Texts,
}

impl Vocabulary<'_> {
    /// Whether a file is one that ships, as it ships.
    pub(super) fn ships(&self, name: &str, text: &str) -> bool {
        self.shipped.get(name).is_some_and(|shipped| shipped == text)
    }
}

/// Texts by the names of their files.
pub type Texts = Table<Cow<'static, str>>;
