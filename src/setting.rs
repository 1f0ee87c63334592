//! Settings: what a pass, a cost model or an extractor is told, read from RON and described by itself.
//!
//! Settings are a plain struct beside the code that reads them. `#[derive(Deserialize)]` reads them from a
//! pipeline, `#[derive(Serialize)]` describes them for the key of a cached plan: so a new setting is a new field, and
//! nothing else. A [`Kind`] in a `Table` gives them the name under which a file asks for them.
//!
//! In a file a thing is named in quotes, `"exact"`, or written with settings, `Exact(states: 2000)`: the name in
//! camel case, `LocalSearch(…)` for `local-search`.

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

/// What describes itself: everything that derives [`Serialize`] and [`Debug`](fmt::Debug).
pub trait Settings: Any + fmt::Debug + Send + Sync {
    /// Every setting by its name.
    ///
    /// # Errors
    /// A setting that is no plain data, such as a map whose keys are no texts.
    fn describe(&self) -> serde_json::Result<serde_json::Value>;
}

impl<T: Serialize + Any + fmt::Debug + Send + Sync> Settings for T {
    fn describe(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }
}

/// Writes a named thing as its name and its settings.
///
/// # Errors
/// As of [`Settings::describe`].
pub fn named<S: Serializer>(name: &str, settings: &dyn Settings, serializer: S) -> Result<S::Ok, S::Error> {
    let described = settings.describe().map_err(S::Error::custom)?;
    if described.is_null() || described.as_object().is_some_and(serde_json::Map::is_empty) {
        return serializer.serialize_str(name);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, &described)?;
    map.end()
}

/// Settings as a flat list: `limits.gpu:0`, and the value as text. `none` stands for what is not set.
pub fn flatten(name: &str, value: &serde_json::Value, list: &mut Vec<(String, String)>) {
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

/// Where settings are written: files that they name lie in the same folder.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    /// The folder; `None` for settings that come from no file.
    pub path: Option<&'a Path>,
    /// Reads a text file.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

impl Folder<'_> {
    /// Of settings that come from no file, and so can name none.
    pub(crate) const NONE: Self = Folder { path: None, read: &|_| Err(std::io::ErrorKind::NotFound.into()) };

    /// The text of a file in the folder; a mistake where it cannot be read.
    pub(crate) fn open(&self, reader: &mut Reader<'_>, name: &Spanned<String>) -> Option<Source> {
        let Some(folder) = self.path else {
            let help = "a file can be named by settings that are in a file themselves";
            reader.mistake(format!("`{name}` is in no folder"), name.span, help);
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

/// Settings as they are written in a file.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// `Name(setting: …)`.
    pub value: Raw<'a>,
    /// The values of fields that somebody else reads.
    pub others: &'a [Raw<'a>],
    /// The folder of the file.
    pub folder: Folder<'a>,
}

impl Written<'_> {
    /// The settings as a type; every mistake goes to the reader.
    pub(crate) fn read<T: DeserializeOwned>(&self, reader: &mut Reader<'_>) -> Option<T> {
        reader.settings(self.value, self.others)
    }
}

/// How a kind of thing is had: as it is by default, or with the settings of a file.
pub struct Kind<T: ?Sized> {
    /// With the default settings.
    pub plain: fn() -> Arc<T>,
    /// With the settings of a file; every mistake goes to the reader.
    pub read: fn(&mut Reader<'_>, Written<'_>) -> Option<Arc<T>>,
}

impl<T: ?Sized> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Kind<T> {}

impl<T: ?Sized> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kind")
    }
}

/// Reads the thing that a file asks for: by its name in quotes, or by `Name(…)`.
pub fn choose<T: ?Sized>(
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
    if let Some(name) = Text::of(raw) {
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

/// `LocalSearch` as `local-search`.
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

/// `local-search` as `LocalSearch`.
pub fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}
