//! Settings of passes, cost models and extractors, which are read from RON and can describe themselves.
//!
//! Settings are a plain struct beside the code that uses them. `#[derive(Deserialize)]` reads them from a pipeline,
//! and `#[derive(Serialize)]` describes them for the key of a cached plan, so a new setting only needs a new field.
//! A [`Kind`] in a `Table` gives them the name that files use.
//!
//! A file names something in quotes, `"exact"`, or writes it with settings, `Exact(states: 2000)`. In the second
//! form the name is in camel case: `LocalSearch(…)` for `local-search`.

use crate::diagnostic::{Source, Span, suggestion};
use crate::ron::{Raw, Reader, Spanned, Text};
use crate::table::Table;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::{Error as _, SerializeMap, Serializer};
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Values that can describe their settings: everything that derives [`Serialize`] and [`Debug`](fmt::Debug).
pub trait Settings: Any + fmt::Debug + Send + Sync {
    /// Returns every setting by its name.
    ///
    /// # Errors
    /// A setting that is not plain data, such as a map whose keys are not texts.
    fn describe(&self) -> serde_json::Result<serde_json::Value>;
}

impl<T: Serialize + Any + fmt::Debug + Send + Sync> Settings for T {
    fn describe(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }
}

/// Serialises a name with its settings.
///
/// # Errors
/// As [`Settings::describe`].
pub(crate) fn named<S: Serializer>(
    name: &str,
    settings: &dyn Settings,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let described = settings.describe().map_err(S::Error::custom)?;
    if described.is_null() || described.as_object().is_some_and(serde_json::Map::is_empty) {
        return serializer.serialize_str(name);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, &described)?;
    map.end()
}

/// Appends settings to a flat list of names, such as `limits.gpu:0`, and values as text. The value of a setting
/// that is not set is `none`.
pub(crate) fn flatten(name: &str, value: &serde_json::Value, list: &mut Vec<(String, String)>) {
    use serde_json::Value;
    let text = match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, list));
            return;
        }
        Value::Null => "none".to_owned(),
        Value::Object(_) => "none".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned)).collect();
            items.join(" ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    list.push((name.to_owned(), text));
}

/// The folder of the file in which settings are written. Files that they name are in the same folder.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    /// The folder; `None` for settings that come from no file.
    pub path: Option<&'a Path>,
    /// Reads a text file.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

impl Folder<'_> {
    /// For settings that do not come from a file, and so cannot name files.
    pub(crate) const NONE: Self = Folder { path: None, read: &|_| Err(std::io::ErrorKind::NotFound.into()) };

    /// Returns the text of a file in the folder. If it cannot be read, a mistake goes to the reader.
    pub(crate) fn open(&self, reader: &mut Reader<'_>, name: &Spanned<String>) -> Option<Source> {
        let Some(folder) = self.path else {
            let help = "settings can name a file only if they are in a file themselves";
            reader.mistake(format!("`{name}` cannot be found without a folder"), name.span, help);
            return None;
        };
        let path = folder.join(&name.value);
        match (self.read)(&path) {
            Ok(text) => Some(Source::new(path.display().to_string(), text)),
            Err(error) => {
                let help = "it must be a text file, beside the file that names it";
                reader.mistake(format!("{}: {error}", path.display()), name.span, help);
                None
            }
        }
    }
}

/// Settings in the form in which a file has them.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// `Name(setting: …)`.
    pub value: Raw<'a>,
    /// The values of fields that the caller reads itself.
    pub others: &'a [Raw<'a>],
    /// The folder of the file.
    pub folder: Folder<'a>,
}

impl Written<'_> {
    /// Reads the settings as a type. Every mistake goes to the reader.
    pub(crate) fn read<T: DeserializeOwned>(&self, reader: &mut Reader<'_>) -> Option<T> {
        reader.settings(self.value, self.others)
    }
}

/// How to make a value of one kind: with its default settings, or with those in a file.
pub struct Kind<T: ?Sized> {
    /// Makes the value with its default settings.
    pub plain: Arc<dyn Fn() -> Arc<T> + Send + Sync>,
    /// Makes the value with the settings in a file. Every mistake goes to the reader.
    pub read: fn(&mut Reader<'_>, Written<'_>) -> Option<Arc<T>>,
}

impl<T: ?Sized + 'static> Kind<T> {
    /// Makes a kind of these two functions.
    pub fn new(
        plain: impl Fn() -> Arc<T> + Send + Sync + 'static,
        read: fn(&mut Reader<'_>, Written<'_>) -> Option<Arc<T>>,
    ) -> Self {
        Self { plain: Arc::new(plain), read }
    }
}

impl<T: ?Sized + Send + Sync + 'static> Kind<T> {
    /// Makes a kind that has one value, such as an object of another language. A file names it in quotes; settings in
    /// parentheses are a mistake.
    pub fn of(value: Arc<T>) -> Self {
        Self::new(
            move || Arc::clone(&value),
            |reader, written| {
                let help = "write its name in quotes";
                reader.mistake("it takes no settings from a file".to_owned(), written.value.span(), help);
                None
            },
        )
    }
}

impl<T: ?Sized> Clone for Kind<T> {
    fn clone(&self) -> Self {
        Self { plain: Arc::clone(&self.plain), read: self.read }
    }
}

impl<T: ?Sized> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kind")
    }
}

/// Makes the value that a file names in quotes or as `Name(…)`.
pub(crate) fn choose<T: ?Sized>(
    kinds: &Table<Kind<T>>,
    reader: &mut Reader<'_>,
    written: Written<'_>,
) -> Option<Arc<T>> {
    let raw = written.value;
    let unknown = |reader: &mut Reader<'_>, name: &str, span: Span| {
        let unknown = kinds.unknown(name);
        let help = match &unknown.nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known are {}", unknown.known.join(", ")),
        };
        reader.mistake(format!("{} `{name}` is not known", unknown.kind), span, help);
    };
    if let Some(name) = Text::parse(raw) {
        return match kinds.get(&name.text) {
            Some(kind) => Some((kind.plain)()),
            None => {
                unknown(reader, &name.text, raw.span());
                None
            }
        };
    }
    let Some(name) = raw.name() else {
        let help = "write its name in quotes, or `Name(…)` with its settings";
        reader.mistake(format!("a {} should stand here", kinds.kind()), raw.span(), help);
        return None;
    };
    match kinds.get(&kebab(name)) {
        Some(kind) => (kind.read)(reader, written),
        None => {
            let known: Vec<String> = kinds.names().map(camel).collect();
            let help = match suggestion(name, known.iter().map(String::as_str)) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            reader.mistake(format!("{} `{name}` is not known", kinds.kind()), raw.head(), help);
            None
        }
    }
}

/// Returns `local-search` for `LocalSearch`.
pub fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

/// Returns `LocalSearch` for `local-search`.
pub(crate) fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}
