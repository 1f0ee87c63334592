//! What is wrong with a value, on its way from where it was found to where it is reported.

use super::Raw;
use crate::diagnostic::{Diagnostic, Span};
use serde::de::{self, Expected, Unexpected};
use std::fmt;

/// The first thing that is wrong with a value.
#[derive(Debug)]
pub(crate) struct Mistake {
    message: String,
    help: Option<String>,
    labels: Vec<(Span, &'static str)>,
    /// Where the value begins that is left out when reading goes on.
    place: Option<usize>,
    /// The field that is missing.
    missing: Option<&'static str>,
    /// Whether it follows from another mistake, and need not be reported.
    follows: bool,
}

/// What a value is to what holds it, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role<'a> {
    /// It is all that is read.
    Root,
    /// The value of a field or of a key.
    Field(&'a str),
    /// An entry of the list in a field.
    Entry(&'a str),
    /// A key of the map in a field.
    Key(&'a str),
}

impl fmt::Display for Role<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("this"),
            Self::Field(name) => write!(f, "`{name}`"),
            Self::Entry(name) => write!(f, "an entry of `{name}`"),
            Self::Key(name) => write!(f, "a key of `{name}`"),
        }
    }
}

impl Mistake {
    /// What is wrong, and what to do.
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

    /// With a place that the message is about.
    pub(crate) fn label(mut self, span: Span, text: &'static str) -> Self {
        self.labels.push((span, text));
        self
    }

    /// With the value that is left out.
    pub(crate) fn leaving_out(mut self, value: Raw<'_>) -> Self {
        self.place.get_or_insert(value.span().start);
        self
    }

    /// As a mistake of this value, unless it is known to be of a value within.
    pub(crate) fn at(mut self, value: Raw<'_>, role: Role<'_>) -> Self {
        if self.place.is_some() {
            return self;
        }
        if self.message.starts_with("must ") {
            self.message = format!("{role} {}", self.message);
        }
        if let (Role::Field(name), Some(form)) =
            (role, self.help.as_ref().and_then(|help| help.strip_prefix("write `")))
        {
            self.help = Some(format!("write `{name}: {form}"));
        }
        if self.labels.is_empty() {
            self.labels.push((value.span(), ""));
        }
        self.leaving_out(value)
    }

    /// Where the value begins that is left out.
    pub(crate) fn place(&self) -> Option<usize> {
        self.place
    }

    /// A missing field, of a struct of this name: reported, unless a field of the struct that was left out may
    /// have been the one.
    pub(crate) fn of_struct(mut self, name: &str, head: Span, left_out: impl Fn(&str) -> bool) -> Self {
        if let (Some(field), None) = (self.missing, self.place) {
            self.message = format!("`{name}` lacks the field `{field}`");
            self.labels = vec![(head, "")];
            self.follows = left_out(field);
        }
        self
    }

    /// What is to be reported, if it does not follow from another mistake.
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
