//! A list of named things, in which a registry keeps what is added to it.

use crate::diagnostic::suggestion;
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Named things in the order in which they were added, found by name.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// The noun for these things in messages, such as `op` or `cost model`.
    kind: &'static str,
    entries: Vec<(Cow<'static, str>, T)>,
    places: FxHashMap<Cow<'static, str>, usize>,
}

/// Two things of one table have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two {kind}s named `{name}`: give one of them another name")]
pub struct Duplicate {
    /// The noun for the things of the table.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

/// A name that a table does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} `{name}`{}", self.advice())]
pub struct Unknown {
    /// The noun for the things of the table.
    pub kind: &'static str,
    /// The name that was asked for.
    pub name: String,
    /// The nearest name of the table.
    pub nearest: Option<String>,
    /// All names of the table.
    pub known: Vec<String>,
}

impl Unknown {
    fn advice(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!(": did you mean `{nearest}`?"),
            None if self.known.is_empty() => String::new(),
            None => format!(": there are {}", self.known.join(", ")),
        }
    }
}

impl<T> Table<T> {
    /// Makes an empty table. `kind` is the noun for its things in messages.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, entries: Vec::new(), places: FxHashMap::default() }
    }

    /// Makes a table of things whose names are known to differ.
    ///
    /// # Panics
    /// If two things have one name.
    pub(crate) fn from_entries(
        kind: &'static str,
        things: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Self {
        let mut table = Self::new(kind);
        for (name, thing) in things {
            table.add(name, thing).unwrap_or_else(|duplicate| panic!("{duplicate}"));
        }
        table
    }

    /// Adds a thing at the end.
    ///
    /// # Errors
    /// If another thing already has the name.
    pub(crate) fn add(&mut self, name: impl Into<Cow<'static, str>>, thing: T) -> Result<(), Duplicate> {
        let name = name.into();
        if self.places.contains_key(&name) {
            return Err(Duplicate { kind: self.kind, name: name.into_owned() });
        }
        self.places.insert(name.clone(), self.entries.len());
        self.entries.push((name, thing));
        Ok(())
    }

    /// Returns the thing of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.places.get(name).map(|at| &self.entries[*at].1)
    }

    /// Returns the thing of this name.
    ///
    /// # Errors
    /// There is no such thing. The error has the nearest name.
    pub fn find(&self, name: &str) -> Result<&T, Unknown> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    /// Returns the error that there is no thing of this name.
    pub(crate) fn unknown(&self, name: &str) -> Unknown {
        let nearest = suggestion(name, self.names()).map(ToString::to_string);
        Unknown {
            kind: self.kind,
            name: name.to_owned(),
            nearest,
            known: self.names().map(ToOwned::to_owned).collect(),
        }
    }

    /// Returns all names, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.entries.iter().map(|(name, _)| &**name)
    }

    /// Returns all things with their names, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.entries.iter().map(|(name, thing)| (&**name, thing))
    }

    /// Returns the noun for the things in messages.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
