//! Mistakes in values, as they are passed from the code that finds them to the code that reports them.

use super::Raw;
use crate::diagnostic::{Diagnostic, Span};
use serde::de::{self, Expected, Unexpected};
use std::fmt;

/// The first mistake in a value.
#[derive(Debug)]
pub(crate) struct Mistake {
    message: String,
    help: Option<String>,
    labels: Vec<(Span, &'static str)>,
    /// The position of the value that is left out when reading continues.
    place: Option<usize>,
    /// The field that is missing.
    missing: Option<&'static str>,
    /// Whether the mistake follows from another one, so that it is not reported.
    follows: bool,
}

/// The role of a value in the value that contains it, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role<'a> {
    /// The outermost value.
    Root,
    /// The value of a field.
    Field(&'a str),
    /// The value of a key in a map.
    Value(&'a str),
    /// An entry of the list in a field.
    Entry(&'a str),
    /// A key of the map in a field.
    Key(&'a str),
}

impl fmt::Display for Role<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("this"),
            Self::Field(name) | Self::Value(name) => write!(f, "`{name}`"),
            Self::Entry(name) => write!(f, "an entry of `{name}`"),
            Self::Key(name) => write!(f, "a key of `{name}`"),
        }
    }
}

impl Mistake {
    /// Returns a mistake with a message and advice.
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: Some(help.into()),
            labels: Vec::new(),
            place: None,
            missing: None,
            follows: false,
        }
    }

    /// Adds a position to which the message refers.
    pub(crate) fn label(mut self, span: Span, text: &'static str) -> Self {
        self.labels.push((span, text));
        self
    }

    /// Sets the value that is left out.
    pub(crate) fn leaving_out(mut self, value: Raw<'_>) -> Self {
        self.place.get_or_insert(value.span().start);
        self
    }

    /// Assigns the mistake to this value, unless it already belongs to an inner value.
    pub(crate) fn at(mut self, value: Raw<'_>, role: Role<'_>) -> Self {
        if self.place.is_some() {
            return self;
        }
        if self.message.starts_with("must ") {
            self.message = format!("{role} {}", self.message);
        }
        let form = self.help.as_ref().and_then(|help| help.strip_prefix("write `"));
        match (role, form) {
            (Role::Field(name), Some(form)) => self.help = Some(format!("write `{name}: {form}")),
            (Role::Value(name), Some(form)) => self.help = Some(format!("write `\"{name}\": {form}")),
            _ => {}
        }
        if self.labels.is_empty() {
            self.labels.push((value.span(), ""));
        }
        self.leaving_out(value)
    }

    /// Returns the position of the value that is left out.
    pub(crate) fn place(&self) -> Option<usize> {
        self.place
    }

    /// Completes the mistake of a missing field with the name of its struct. It is not reported if a field that was
    /// left out may be the missing one.
    pub(crate) fn of_struct(mut self, name: &str, head: Span, left_out: impl Fn(&str) -> bool) -> Self {
        if let (Some(field), None) = (self.missing, self.place) {
            self.message = format!("`{name}` lacks the field `{field}`");
            self.labels = vec![(head, "")];
            self.follows = left_out(field);
        }
        self
    }

    /// Returns the diagnostic, unless the mistake follows from another one.
    pub(crate) fn into_diagnostic(self, source: usize) -> Option<Diagnostic> {
        let labels = self.labels.into_iter();
        let diagnostic = labels.fold(Diagnostic::new(self.message), |diagnostic, (span, text)| {
            diagnostic.label(source, span, text)
        });
        (!self.follows).then(|| match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        })
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        let (first, help) = match message.split_once('\n') {
            Some((first, help)) => (first, Some(help.to_owned())),
            None => (message.as_str(), None),
        };
        Self { help, ..Self::new(first, "") }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("must be {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("must be {expected}"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("`{variant}` is not known"), super::advice(variant, expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field),
            ..Self::new(format!("the field `{field}` is missing"), format!("add `{field}: …`"))
        }
    }
}
