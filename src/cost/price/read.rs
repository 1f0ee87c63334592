//! Reads the files of a price list.

use super::expression::Expr;
use super::parse::{self, Names};
use super::quantity::texts;
use super::view::Views;
use super::{Case, Definition, File, PriceList, Table, Word};
use crate::cost::feature::{BASIC, Feature};
use crate::diagnostic::{Diagnostics, Source, Span, suggestion};
use crate::ron::{Entries, OneOrMany, Raw, Reader, Spanned, Text};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The most files of a list, because each one has a bit of a `u64`.
const FILES: usize = 64;

/// A file as it is written.
#[derive(serde::Deserialize)]
#[serde(rename = "Prices")]
struct Prices<'a> {
    #[serde(default)]
    ops: OneOrMany<Spanned<String>>,
    #[serde(default)]
    fitted_on: Option<String>,
    #[serde(default)]
    tables: Entries<Spanned<String>, Entries<Spanned<String>, f64>>,
    #[serde(borrow)]
    define: Entries<Text, Raw<'a>>,
}

/// A case as it is written: a field for each text feature, `when` and `value`.
struct Written<'a> {
    /// Features by their index in [`BASIC`].
    texts: Vec<(usize, Vec<Spanned<String>>)>,
    when: Option<Raw<'a>>,
    value: Raw<'a>,
}

/// The names of the fields of a case.
static FIELDS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| texts().map(|feature| feature.name).chain(["when", "value"]).collect());

impl<'de: 'a, 'a> Deserialize<'de> for Written<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Written<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`Case(…)`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut found, mut when, mut value) = (Vec::new(), None, None);
                while let Some(key) = map.next_key::<String>()? {
                    let is_text = |feature: &Feature| feature.name == key && !feature.is_number();
                    match BASIC.iter().position(is_text) {
                        Some(at) => found.push((at, map.next_value::<OneOrMany<Spanned<String>>>()?.0)),
                        None if key == "when" => when = Some(map.next_value()?),
                        None => value = Some(map.next_value()?),
                    }
                }
                found.retain(|(_, patterns)| !patterns.is_empty());
                let value = value.ok_or_else(|| A::Error::missing_field("value"))?;
                Ok(Written { texts: found, when, value })
            }
        }

        deserializer.deserialize_struct("Case", &FIELDS, Fields)
    }
}

/// A definition whose name is known, but whose expressions have not been read yet.
struct Head<'a> {
    source: usize,
    word: usize,
    parameters: Vec<String>,
    span: Span,
    value: Raw<'a>,
}

/// Reads the files. A later one takes precedence.
///
/// # Errors
/// All mistakes of all files.
pub(super) fn read(files: &[Source]) -> Result<PriceList, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut list = PriceList {
        files: Vec::new(),
        words: Vec::new(),
        tables: Vec::new(),
        seconds: 0,
        copy: 0,
        correction: None,
        views: Views::default(),
    };
    let (mut heads, mut unread) = (Vec::new(), false);
    for source in files {
        let at = found.add_source(source.clone());
        let mut reader = Reader::new(&mut found, at);
        let Some(raw) = reader.document(&source.text) else {
            unread = true;
            continue;
        };
        if at == FILES {
            reader.mistake(
                format!("a price list has at most {FILES} files"),
                raw.span(),
                "join some of them",
            );
            break;
        }
        let Some(prices) = reader.read::<Prices<'_>>(raw) else {
            unread = true;
            continue;
        };
        let (ops, fitted_on) = (prices.ops.0, prices.fitted_on);
        list.files.push(File { source: source.clone(), ops, fitted_on });
        add_tables(&mut list, &mut reader, at, prices.tables);
        for (key, value) in prices.define.0 {
            heads.extend(head(&mut list, &mut reader, at, &key, value));
        }
    }
    // A file that cannot be read may define words, so missing words are not reported.
    if !unread {
        define(&mut list, &mut found, &heads);
    }
    if found.is_empty() {
        check(&mut list, &mut found, &heads);
    }
    match found.is_empty() {
        true => Ok(list),
        false => {
            found.sort();
            Err(found)
        }
    }
}

type Tables = Entries<Spanned<String>, Entries<Spanned<String>, f64>>;

fn add_tables(list: &mut PriceList, reader: &mut Reader<'_>, file: usize, tables: Tables) {
    for (name, entries) in tables.0 {
        let mut rows = BTreeMap::new();
        for (key, value) in entries.0 {
            if rows.insert(key.value.clone(), value).is_some() {
                reader.mistake(format!("`{key}` is in the table twice"), key.span, "remove one of the two");
            }
        }
        match list.tables.iter_mut().find(|table| table.name == name.value) {
            Some(table) => table.rows.push((file, rows)),
            None => list.tables.push(Table { name: name.value, rows: vec![(file, rows)] }),
        }
    }
}

/// Registers a definition by its name.
fn head<'a>(
    list: &mut PriceList,
    reader: &mut Reader<'_>,
    source: usize,
    key: &Text,
    value: Raw<'a>,
) -> Option<Head<'a>> {
    let (name, parameters) = match parse::head(key) {
        Ok(head) => head,
        Err((message, span, help)) => {
            reader.mistake(message, span, help);
            return None;
        }
    };
    let span = key.value_span();
    let known = list.words.iter().position(|word| word.name == name);
    let word = known.unwrap_or_else(|| {
        list.words.push(Word { name: name.clone(), parameters: parameters.len(), definitions: Vec::new() });
        list.words.len() - 1
    });
    let expected = list.words[word].parameters;
    if expected != parameters.len() {
        let message = format!("`{name}` has {expected} parameters elsewhere, and {} here", parameters.len());
        reader.mistake(message, span, "a word has the same number of parameters wherever it is defined");
        return None;
    }
    if list.words[word].definitions.iter().any(|definition| definition.file == source) {
        reader.mistake(format!("`{name}` is defined twice"), span, "write one definition, with cases");
        return None;
    }
    list.words[word].definitions.push(Definition { file: source, cases: Vec::new() });
    Some(Head { source, word, parameters, span, value })
}

/// Reads the definitions of all words.
fn define(list: &mut PriceList, found: &mut Diagnostics, heads: &[Head<'_>]) {
    let words: Vec<(String, usize)> =
        list.words.iter().map(|word| (word.name.clone(), word.parameters)).collect();
    let tables: Vec<String> = list.tables.iter().map(|table| table.name.clone()).collect();
    for head in heads {
        let names = Names { words: &words, tables: &tables, parameters: &head.parameters };
        let mut reader = Reader::new(found, head.source);
        let cases = cases(&mut reader, head.value, &names);
        let definitions = &mut list.words[head.word].definitions;
        if let Some(definition) = definitions.iter_mut().find(|definition| definition.file == head.source) {
            definition.cases = cases;
        }
    }
}

/// Reads one expression, or a list of cases.
fn cases(reader: &mut Reader<'_>, value: Raw<'_>, names: &Names<'_>) -> Vec<Case> {
    if value.is_text() || value.number().is_some() {
        let span = value.span();
        let value = expression(reader, value, names);
        return value.map(|value| Case { texts: Vec::new(), when: None, value, span }).into_iter().collect();
    }
    if !value.text().starts_with('[') {
        let help = "write an expression in quotes, `\"flops / peak\"`, or `[Case(op: …, value: …), …]`";
        reader.mistake("a definition is an expression or a list of cases", value.span(), help);
        return Vec::new();
    }
    let written = reader.read::<Vec<Raw<'_>>>(value).unwrap_or_default();
    written.into_iter().filter_map(|raw| case(reader, raw, names)).collect()
}

fn case(reader: &mut Reader<'_>, raw: Raw<'_>, names: &Names<'_>) -> Option<Case> {
    let written = reader.read::<Written<'_>>(raw)?;
    let when = match written.when {
        Some(when) => Some(expression(reader, when, names)?),
        None => None,
    };
    let value = expression(reader, written.value, names)?;
    Some(Case { texts: written.texts, when, value, span: written.value.span() })
}

/// Reads an expression in quotes, or a number.
fn expression(reader: &mut Reader<'_>, raw: Raw<'_>, names: &Names<'_>) -> Option<Expr> {
    if let Some(number) = raw.number() {
        return Some(Expr::Number(number));
    }
    let Some(text) = Text::parse(raw) else {
        reader.mistake("an expression is text in quotes", raw.span(), "write `\"flops / 2e11\"`, say");
        return None;
    };
    parse::parse(&text, names).map_err(|(message, span, help)| reader.mistake(message, span, help)).ok()
}

/// Makes the checks that need all files: that there is a price, that no word is defined by itself, that each word is
/// defined for every op for which it is used, and that a copy uses no data of a kernel.
fn check(list: &mut PriceList, found: &mut Diagnostics, heads: &[Head<'_>]) {
    let word = |name: &str, parameters: usize| {
        list.words.iter().position(|word| word.name == name && word.parameters == parameters)
    };
    let (seconds, copy, correction) = (word("seconds", 0), word("copy", 1), word("correction", 0));
    for (known, form) in [(seconds, "seconds"), (copy, "copy(size)")] {
        if known.is_none() {
            let mut reader = Reader::new(found, 0);
            let help = format!("add `\"{form}\": \"…\"` to `define`");
            reader.mistake(format!("no file defines `{form}`"), Span::default(), help);
        }
    }
    let mut circles =
        Circles { list, state: vec![State::New; list.words.len()], path: Vec::new(), circle: None };
    (0..list.words.len()).for_each(|at| circles.enter(at));
    if let Some(circle) = circles.circle {
        let head =
            heads.iter().find(|head| Some(&head.word) == circle.first()).expect("every word has a head");
        let names: Vec<&str> = circle.iter().map(|at| list.words[*at].name.as_str()).collect();
        let message = format!("`{}` is defined by itself: {}", names[0], names.join(", "));
        Reader::new(found, head.source).mistake(message, head.span, "write out one of these words");
        return;
    }
    for head in heads {
        reach(list, found, head);
    }
    // The feature `function_operations` is the word of this name.
    let roots = [seconds, copy, word("function_operations", 0)];
    let roots: Vec<usize> = roots.into_iter().flatten().collect();
    unused(list, found, heads, &roots);
    if let Some(copy) = copy.filter(|copy| asks_for_kernel(list, *copy)) {
        let head = heads.iter().find(|head| head.word == copy).expect("every word has a head");
        let help = "use its parameter and the machine's speeds only";
        Reader::new(found, head.source).mistake("a copy is no kernel, and has no features", head.span, help);
    }
    list.seconds = seconds.unwrap_or(0);
    list.copy = copy.unwrap_or(0);
    list.correction = correction;
}

/// Returns the expressions of a definition.
fn expressions(definition: &Definition) -> impl Iterator<Item = &Expr> {
    definition.cases.iter().flat_map(|case| case.when.iter().chain([&case.value]))
}

/// Returns the words that a definition uses.
fn uses(definition: &Definition) -> Vec<usize> {
    let mut words = Vec::new();
    for expr in expressions(definition) {
        expr.visit(&mut |one| {
            if let Expr::Word(at, _) = one {
                words.push(*at);
            }
        });
    }
    words
}

/// Reports words that are defined only in files for other ops.
fn reach(list: &PriceList, found: &mut Diagnostics, head: &Head<'_>) {
    let definitions = &list.words[head.word].definitions;
    let definition = definitions.iter().find(|one| one.file == head.source).expect("its head was read");
    for used in uses(definition) {
        let word = &list.words[used];
        let reached = |one: &Definition| one.file == head.source || list.files[one.file].ops.is_empty();
        let same_ops = |one: &Definition| list.files[one.file].ops == list.files[head.source].ops;
        if !word.definitions.iter().any(|one| reached(one) || same_ops(one)) {
            let elsewhere = &list.files[word.definitions[0].file].source.name;
            let message = format!("`{}` is defined for the ops of {elsewhere} only", word.name);
            let help = "define it here as well, or in a file for all ops";
            Reader::new(found, head.source).mistake(message, head.span, help);
        }
    }
}

/// Reports words that no price depends on: a misspelt name would change nothing, without a word.
fn unused(list: &PriceList, found: &mut Diagnostics, heads: &[Head<'_>], roots: &[usize]) {
    let mut used = vec![false; list.words.len()];
    let mut open = roots.to_vec();
    while let Some(word) = open.pop() {
        if !std::mem::replace(&mut used[word], true) {
            open.extend(list.words[word].definitions.iter().flat_map(uses));
        }
    }
    for head in heads.iter().filter(|head| !used[head.word]) {
        let name = &list.words[head.word].name;
        let known =
            list.words.iter().zip(&used).filter(|(_, used)| **used).map(|(word, _)| word.name.as_str());
        let help = match suggestion(name, known) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "use it in `seconds`, or in a word that `seconds` uses, or remove it".to_owned(),
        };
        Reader::new(found, head.source).mistake(format!("no price uses `{name}`"), head.span, help);
    }
}

/// Returns whether a word uses data that only a kernel has.
fn asks_for_kernel(list: &PriceList, word: usize) -> bool {
    list.words[word].definitions.iter().any(|definition| {
        let mut asks = definition.cases.iter().any(|case| !case.texts.is_empty());
        for expr in expressions(definition) {
            expr.visit(&mut |one| {
                asks |= match one {
                    Expr::Feature(_)
                    | Expr::Constants
                    | Expr::Own(_)
                    | Expr::Attribute(..)
                    | Expr::Measure(..)
                    | Expr::EachOperand(_)
                    | Expr::Functions(_)
                    | Expr::StepsBesides(_) => true,
                    Expr::Word(at, _) => asks_for_kernel(list, *at),
                    _ => false,
                };
            });
        }
        asks
    })
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Entered,
    Left,
}

/// Finds words that are defined by themselves.
struct Circles<'l> {
    list: &'l PriceList,
    state: Vec<State>,
    path: Vec<usize>,
    circle: Option<Vec<usize>>,
}

impl Circles<'_> {
    fn enter(&mut self, at: usize) {
        match self.state[at] {
            State::Left => {}
            State::Entered => {
                let first = self.path.iter().position(|one| *one == at).unwrap_or(0);
                self.circle.get_or_insert_with(|| self.path[first..].iter().copied().chain([at]).collect());
            }
            State::New => {
                self.state[at] = State::Entered;
                self.path.push(at);
                for definition in &self.list.words[at].definitions {
                    uses(definition).into_iter().for_each(|used| self.enter(used));
                }
                self.path.pop();
                self.state[at] = State::Left;
            }
        }
    }
}
