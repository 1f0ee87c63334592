//! The deserializer. The crate `ron` reads numbers and texts; structs, lists and maps are split here, so that their
//! parts keep their positions.

use super::mistake::{Mistake, Role};
use super::{Field, Raw, Shape, advice};
use crate::diagnostic::{Span, suggestion};
use serde::de::value::{BorrowedStrDeserializer, UsizeDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The names by which types of this layer request data that serde's data model does not have.
pub(crate) const RAW: &str = "$ovolo::ron::Raw";
pub(crate) const SPANNED: &str = "$ovolo::ron::Spanned";
pub(crate) const ONE_OR_MANY: &str = "$ovolo::ron::OneOrMany";

/// The reading of one value, which is repeated until no mistake is left.
pub(crate) struct Session {
    /// The positions of the values that are left out.
    left_out: RefCell<BTreeSet<usize>>,
}

impl Session {
    /// Returns a session that leaves out these values from the start.
    pub(crate) fn without(values: &[Raw<'_>]) -> Self {
        Self { left_out: RefCell::new(values.iter().map(|value| value.span().start).collect()) }
    }

    /// Reads the value without the parts that are left out. `named` says that the name before the parentheses was
    /// already read.
    pub(crate) fn read<'de, T: Deserialize<'de>>(&self, raw: Raw<'de>, named: bool) -> Result<T, Mistake> {
        let value = ValueReader { session: self, raw, role: Role::Root, named };
        T::deserialize(value).map_err(|mistake| mistake.at(raw, Role::Root))
    }

    /// Leaves out the value in which a mistake was found. Returns whether something is left to read.
    pub(crate) fn leave_out(&self, mistake: &Mistake, root: Raw<'_>) -> bool {
        let within = mistake.place().filter(|place| *place != root.span().start);
        within.is_some_and(|place| self.left_out.borrow_mut().insert(place))
    }

    fn has(&self, value: Raw<'_>) -> bool {
        !self.left_out.borrow().contains(&value.span().start)
    }
}

/// A value that is being read.
#[derive(Clone, Copy)]
struct ValueReader<'s, 'de> {
    session: &'s Session,
    raw: Raw<'de>,
    role: Role<'de>,
    /// Whether the name before the parentheses was already read.
    named: bool,
}

impl<'s, 'de> ValueReader<'s, 'de> {
    fn shape(&self) -> Result<Shape<'de>, Mistake> {
        self.raw.shape().map_err(|error| Mistake::new(error.code.to_string(), "write RON"))
    }

    /// Returns a part of this value.
    fn part(&self, raw: Raw<'de>, role: Role<'de>) -> Self {
        Self { session: self.session, raw, role, named: false }
    }

    fn read<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(self).map_err(|mistake| mistake.at(self.raw, self.role))
    }

    /// Returns the role of the entries of this value.
    fn entry(&self) -> Role<'de> {
        match self.role {
            Role::Root => Role::Entry(self.raw.name().unwrap_or("the list")),
            Role::Field(name) | Role::Value(name) | Role::Entry(name) | Role::Key(name) => Role::Entry(name),
        }
    }

    /// Reads a number or a text with the crate `ron`.
    fn leaf<T>(
        self,
        wanted: &str,
        read: impl FnOnce(&mut ::ron::Deserializer<'de>) -> Result<T, ::ron::Error>,
    ) -> Result<T, Mistake> {
        let text = self.raw.text();
        let wrong = |error: ::ron::Error| wrong(text, &error, wanted);
        let mut reader = ::ron::Deserializer::from_str(text).map_err(|error| wrong(error.code))?;
        let value = read(&mut reader).map_err(wrong)?;
        reader.end().map_err(wrong)?;
        Ok(value)
    }

    fn items<V: Visitor<'de>>(self, items: Vec<Raw<'de>>, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_seq(Items { value: self, items: items.into_iter() })
    }

    fn map<V: Visitor<'de>>(
        self,
        entries: Vec<(Raw<'de>, Raw<'de>)>,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        for (at, (key, value)) in entries.iter().enumerate() {
            let same = |(first, _): &&(Raw<'_>, Raw<'_>)| first.text() == key.text();
            if let (Some((first, _)), true) = (entries[..at].iter().find(same), self.session.has(*value)) {
                return Err(twice(key.text(), key.span(), first.span()).leaving_out(*value));
            }
        }
        visitor.visit_map(Map { value: self, entries: entries.into_iter(), next: None })
    }

    /// Reads the fields of a struct. If their names are not known, all are accepted.
    fn fields<V: Visitor<'de>>(
        self,
        name: &str,
        known: Option<&'static [&'static str]>,
        fields: Vec<Field<'de>>,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let name = self.raw.name().unwrap_or(name);
        let mut seen: Vec<Field<'de>> = Vec::new();
        for field in &fields {
            if let Some(first) = seen.iter().find(|first| first.key == field.key)
                && self.session.has(field.value)
            {
                return Err(twice(field.key, field.key_span, first.key_span).leaving_out(field.value));
            }
            seen.push(*field);
            let unknown = known.filter(|known| !known.contains(&field.key) && self.session.has(field.value));
            if let Some(known) = unknown {
                return Err(Mistake::new(
                    format!("`{name}` has no field `{}`", field.key),
                    advice(field.key, known),
                )
                .label(field.key_span, "")
                .leaving_out(field.value));
            }
        }
        let (left, out): (Vec<_>, Vec<_>) =
            fields.into_iter().partition(|field| self.session.has(field.value));
        let access = Fields { value: self, fields: left.into_iter(), next: None };
        visitor.visit_map(access).map_err(|mistake| {
            let meant = |field: &Field<'_>, missing: &str| {
                let known = known.unwrap_or_default();
                field.key == missing
                    || !known.contains(&field.key)
                        && suggestion(field.key, known.iter().copied()) == Some(missing)
            };
            mistake.of_struct(name, self.raw.head(), |missing| out.iter().any(|field| meant(field, missing)))
        })
    }
}

/// Returns the mistake of a field or a key that is written twice.
fn twice(name: &str, again: Span, first: Span) -> Mistake {
    Mistake::new(
        format!("`{name}` is written twice"),
        "remove one of them, or give it the name that is meant",
    )
    .label(again, "here again")
    .label(first, "first here")
}

/// Returns the mistake for a value that the crate could not read.
fn wrong(text: &str, error: &::ron::Error, wanted: &str) -> Mistake {
    use ::ron::Error;
    use serde::de::Error as _;
    match error {
        Error::Message(message) => Mistake::custom(message),
        Error::InvalidValueForType { expected, .. } => Mistake::custom(format!("must be {expected}")),
        Error::IntegerOutOfBounds if text.starts_with('-') => {
            Mistake::new("must be 0 or more", "write a whole number from 0 on")
        }
        Error::IntegerOutOfBounds => Mistake::new("must be a smaller number", "it is too large for its type"),
        _ if wanted == TEXT => Mistake::new(format!("must be {wanted}"), "write `\"…\"`"),
        _ => Mistake::new(format!("must be {wanted}"), format!("write {wanted}")),
    }
}

const TEXT: &str = "text in quotes";
const WHOLE: &str = "a whole number";

macro_rules! leaves {
    ($($method:ident $wanted:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            self.leaf($wanted, |reader| reader.$method(visitor))
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueReader<'_, 'de> {
    type Error = Mistake;

    leaves! {
        deserialize_bool "`true` or `false`";
        deserialize_i8 WHOLE; deserialize_i16 WHOLE; deserialize_i32 WHOLE; deserialize_i64 WHOLE;
        deserialize_u8 WHOLE; deserialize_u16 WHOLE; deserialize_u32 WHOLE; deserialize_u64 WHOLE;
        deserialize_f32 "a number"; deserialize_f64 "a number";
        deserialize_char "a character, such as 'x'";
        deserialize_str TEXT; deserialize_string TEXT;
        deserialize_bytes "bytes"; deserialize_byte_buf "bytes";
        deserialize_unit "()";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.shape()? {
            Shape::Struct(fields) => self.fields("", None, fields, visitor),
            Shape::Map(entries) => self.map(entries, visitor),
            Shape::Tuple(items) | Shape::List(items) => self.items(items, visitor),
            Shape::Leaf => self.leaf("a value", |reader| reader.deserialize_any(visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match (self.raw.text(), self.raw.name()) {
            ("None", _) => visitor.visit_none(),
            (_, Some("Some")) => match self.shape()? {
                Shape::Tuple(items) if items.len() == 1 => visitor.visit_some(self.part(items[0], self.role)),
                _ => {
                    Err(Mistake::new("must be `Some(…)` of one value", "write the value alone, or `Some(…)`"))
                }
            },
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_struct(name, &[], visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let span = self.raw.span;
        let places = [span.start, span.end].map(Part::Number);
        match name {
            RAW => {
                let parts =
                    [Part::Text(self.raw.document), Part::Number(self.raw.lead), places[0], places[1]];
                visitor.visit_seq(Parts { value: None, parts: &parts })
            }
            SPANNED => visitor.visit_seq(Parts { value: Some(self), parts: &places }),
            ONE_OR_MANY if self.raw.text().starts_with('[') => self.deserialize_seq(visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.shape()? {
            Shape::List(items) | Shape::Tuple(items) => self.items(items, visitor),
            _ => Err(Mistake::new("must be a list", "write `[…, …]`")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.shape()? {
            Shape::Map(entries) => self.map(entries, visitor),
            _ => Err(Mistake::new("must be a map", "write `{\"key\": …}`")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let form = || {
            let fields: Vec<String> = fields.iter().take(3).map(|field| format!("{field}: …")).collect();
            let more = if fields.len() < 3 { "" } else { ", …" };
            format!("write `{name}({}{more})`", fields.join(", "))
        };
        match (self.shape()?, self.raw.name()) {
            (Shape::Struct(_), Some(other)) if !self.named && other != name => {
                Err(Mistake::new(format!("`{other}` stands where `{name}` should"), form())
                    .label(self.raw.head(), ""))
            }
            (Shape::Struct(given), _) => self.fields(name, Some(fields), given, visitor),
            _ => Err(Mistake::new(format!("must be `{name}(…)`"), form())),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let shape = self.shape()?;
        let word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
        let name = match (&shape, self.raw.name()) {
            (Shape::Leaf, _) if word(self.raw.text()) => self.raw.text(),
            (Shape::Struct(_) | Shape::Tuple(_), Some(name)) => name,
            _ => return Err(Mistake::new("must be a name", format!("write one of {}", variants.join(", ")))),
        };
        if !variants.contains(&name) {
            return Err(Mistake::new(format!("`{name}` is not known"), advice(name, variants))
                .label(self.raw.head(), ""));
        }
        visitor.visit_enum(Variant { value: self, name })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }
}

/// The values of a list.
struct Items<'s, 'de> {
    value: ValueReader<'s, 'de>,
    items: std::vec::IntoIter<Raw<'de>>,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let next = self.items.find(|item| self.value.session.has(*item));
        next.map(|item| self.value.part(item, self.value.entry()).read(seed)).transpose()
    }
}

/// The fields of a struct, without those that are left out.
struct Fields<'s, 'de> {
    value: ValueReader<'s, 'de>,
    fields: std::vec::IntoIter<Field<'de>>,
    next: Option<Field<'de>>,
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        self.next = self.fields.next();
        self.next.map(|field| seed.deserialize(BorrowedStrDeserializer::new(field.key))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Mistake> {
        let field = self.next.take().ok_or_else(out_of_order)?;
        self.value.part(field.value, Role::Field(field.key)).read(seed)
    }
}

/// The entries of a map.
struct Map<'s, 'de> {
    value: ValueReader<'s, 'de>,
    entries: std::vec::IntoIter<(Raw<'de>, Raw<'de>)>,
    next: Option<(Raw<'de>, Raw<'de>)>,
}

impl<'de> MapAccess<'de> for Map<'_, 'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let session = self.value.session;
        self.next = self.entries.find(|(key, value)| session.has(*key) && session.has(*value));
        let role = match self.value.entry() {
            Role::Entry(name) => Role::Key(name),
            role => role,
        };
        self.next.map(|(key, _)| self.value.part(key, role).read(seed)).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Mistake> {
        let (key, value) = self.next.take().ok_or_else(out_of_order)?;
        self.value.part(value, Role::Value(key.text().trim_matches('"'))).read(seed)
    }
}

fn out_of_order() -> Mistake {
    serde::de::Error::custom("a value was asked for before its key")
}

/// A variant of an enum: a name, or a name with content in parentheses.
struct Variant<'s, 'de> {
    value: ValueReader<'s, 'de>,
    name: &'de str,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let name = seed.deserialize(BorrowedStrDeserializer::<Mistake>::new(self.name))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        match self.value.shape()? {
            Shape::Leaf => Ok(()),
            _ => {
                Err(Mistake::new(format!("`{}` takes nothing", self.name), format!("write `{}`", self.name)))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        match self.value.shape()? {
            Shape::Tuple(items) if items.len() == 1 => self.value.part(items[0], self.value.role).read(seed),
            // The fields of a struct in a variant are written as fields of the variant.
            _ => ValueReader { named: true, ..self.value }.read(seed),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.value.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match self.value.shape()? {
            Shape::Struct(given) => self.value.fields(self.name, Some(fields), given, visitor),
            _ => Err(Mistake::new(
                format!("`{}` takes fields", self.name),
                format!("write `{}(…)`", self.name),
            )),
        }
    }
}

/// A part of the data that a type of this layer requests: the document, or a position in it.
#[derive(Clone, Copy)]
enum Part<'de> {
    Text(&'de str),
    Number(usize),
}

/// These parts, followed by the value itself.
struct Parts<'p, 's, 'de> {
    parts: &'p [Part<'de>],
    value: Option<ValueReader<'s, 'de>>,
}

impl<'de> SeqAccess<'de> for Parts<'_, '_, 'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some((first, rest)) = self.parts.split_first() else {
            return self.value.take().map(|value| value.read(seed)).transpose();
        };
        self.parts = rest;
        match *first {
            Part::Text(text) => seed.deserialize(BorrowedStrDeserializer::<Mistake>::new(text)).map(Some),
            Part::Number(number) => {
                let number: UsizeDeserializer<Mistake> = number.into_deserializer();
                seed.deserialize(number).map(Some)
            }
        }
    }
}
