//! The key of an entry: everything that can change the plan, as named fields.

use super::Digest;
use serde::{Deserialize, Serialize};

/// Named fields, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    fields: Vec<(String, String)>,
}

/// A field in which two keys differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The field.
    pub field: String,
    /// Its value in this key; `None` if this key lacks the field.
    pub here: Option<String>,
    /// Its value in the other key; `None` if that key lacks the field.
    pub there: Option<String>,
}

impl Key {
    /// Adds a field, or replaces its value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => self.fields.push((name.to_owned(), value.into())),
        }
        self
    }

    /// Iterates over names and values, in order.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the fingerprint of the key, which names its entry. It changes with every name and every value.
    pub fn fingerprint(&self) -> Digest {
        Digest::texts(self.fields().flat_map(|(name, value)| [name, value]))
    }

    /// Returns the fields in which another key differs, in the order of this key.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let lacking = other.fields().filter(|(name, _)| self.get(name).is_none());
        self.fields()
            .map(|(name, here)| (name, Some(here), other.get(name)))
            .chain(lacking.map(|(name, there)| (name, None, Some(there))))
            .filter(|(_, here, there)| here != there)
            .map(|(name, here, there)| Difference {
                field: name.to_owned(),
                here: here.map(str::to_owned),
                there: there.map(str::to_owned),
            })
            .collect()
    }
}
