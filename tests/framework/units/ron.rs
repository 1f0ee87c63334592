//! Tests of `src/ron.rs`.

#[allow(dead_code, unused_imports)]
#[path = "../../../src"]
pub mod source {
    pub mod ron;
}

mod format;
mod lexer;

use crate::diagnostic::Diagnostics;
use source::ron::{OneOrMany, Raw, Reader, Spanned, Text};
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(default)]
struct Lens {
    name: String,
    focus: Spanned<f64>,
    glass: Glass,
    coats: Vec<String>,
    sizes: BTreeMap<String, usize>,
    note: Option<String>,
}

impl Default for Lens {
    fn default() -> Self {
        Self {
            name: "plain".into(),
            focus: 1.0.into(),
            glass: Glass::Crown,
            coats: Vec::new(),
            sizes: BTreeMap::new(),
            note: None,
        }
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
enum Glass {
    Crown,
    Flint { lead: u8 },
    Mixed(Vec<u8>),
}

#[derive(Debug, serde::Deserialize)]
struct Camera<'a> {
    name: Text,
    #[serde(borrow)]
    parts: Vec<Raw<'a>>,
    film: OneOrMany<u32>,
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut found = Diagnostics::for_text("x.ron", text);
    let mut reader = Reader::new(&mut found, 0);
    let text = reader.mend(text);
    let value = reader.document(&text).and_then(|raw| reader.read(raw));
    found.into_result(()).map_err(|found| found.to_string())?;
    Ok(value.expect("a value that has no mistakes is read"))
}

#[test]
fn derived_types_read_as_from_the_crate() {
    let text = r#"Lens(name: "a\tb", focus: 2, glass: Flint(lead: 3), coats: ["x"], sizes: {"wide": 4}, note: Some("n"))"#;
    let lens = read::<Lens>(text).unwrap();
    assert_eq!(text.find("2,"), Some(lens.focus.span.start));
    assert_eq!(lens.note.as_deref(), Some("n"));
    assert_eq!(
        ::ron::from_str::<Lens>(&text.replace("focus: 2", "focus: (2.0)")).map(|lens| lens.name),
        Ok("a\tb".into())
    );
    assert_eq!(read::<Lens>("(glass: Mixed([1, 2]), note: \"n\")").unwrap().glass, Glass::Mixed(vec![1, 2]));
    assert_eq!(read::<Lens>("Lens()").unwrap(), Lens::default());
}

#[test]
fn all_mistakes_are_found_at_once() {
    let text = r#"Lens(
    name: 3,
    focus: "near",
    fokus: 2,
    glass: Flint(lead: 300, tin: 1),
    coats: ["a", 1, b],
    sizes: {wide: 1, "tall": -1},
    coats: [],
)"#;
    insta::assert_snapshot!(read::<Lens>(text).unwrap_err(), @r#"
    error: `Lens` has no field `fokus`
      --> x.ron:4:5
      |
    4 |     fokus: 2,
      |     ^^^^^
      |
      = help: did you mean `focus`?

    error: `coats` is written twice
      --> x.ron:8:5
      |
    6 |     coats: ["a", 1, b],
      |     ----- first here
    7 |     sizes: {wide: 1, "tall": -1},
    8 |     coats: [],
      |     ^^^^^ here again
      |
      = help: remove one of them, or give it the name that is meant

    error: `name` must be text in quotes
      --> x.ron:2:11
      |
    2 |     name: 3,
      |           ^
      |
      = help: write `name: "…"`

    error: `focus` must be a number
      --> x.ron:3:12
      |
    3 |     focus: "near",
      |            ^^^^^^
      |
      = help: write a number

    error: `Flint` has no field `tin`
      --> x.ron:5:29
      |
    5 |     glass: Flint(lead: 300, tin: 1),
      |                             ^^^
      |
      = help: known are lead

    error: `lead` must be a smaller number
      --> x.ron:5:24
      |
    5 |     glass: Flint(lead: 300, tin: 1),
      |                        ^^^
      |
      = help: it is too large for its type

    error: an entry of `coats` must be text in quotes
      --> x.ron:6:18
      |
    6 |     coats: ["a", 1, b],
      |                  ^
      |
      = help: write `"…"`

    error: an entry of `coats` must be text in quotes
      --> x.ron:6:21
      |
    6 |     coats: ["a", 1, b],
      |                     ^
      |
      = help: write `"…"`

    error: a key of `sizes` must be text in quotes
      --> x.ron:7:13
      |
    7 |     sizes: {wide: 1, "tall": -1},
      |             ^^^^
      |
      = help: write `"…"`

    error: `tall` must be 0 or more
      --> x.ron:7:30
      |
    7 |     sizes: {wide: 1, "tall": -1},
      |                              ^^
      |
      = help: write a whole number from 0 on
    "#);
}

#[test]
fn old_names_of_fields_are_reported_and_read() {
    insta::assert_snapshot!(read::<Lens>("Lens(name: \"a-b\", fo-cus: 1)").unwrap_err(), @r#"
        error: `fo-cus` is written `fo_cus`
          --> x.ron:1:19
          |
        1 | Lens(name: "a-b", fo-cus: 1)
          |                   ^^^^^^
          |
          = help: RON has no hyphens in names of fields

        error: `Lens` has no field `fo_cus`
          --> x.ron:1:19
          |
        1 | Lens(name: "a-b", fo-cus: 1)
          |                   ^^^^^^
          |
          = help: did you mean `focus`?
        "#);
}

#[test]
fn what_follows_from_a_mistake_is_not_reported() {
    #[derive(Debug, serde::Deserialize)]
    struct Pair {
        #[allow(dead_code)]
        first: u8,
        #[allow(dead_code)]
        second: Vec<Half>,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Half {
        #[allow(dead_code)]
        size: u8,
    }
    insta::assert_snapshot!(read::<Pair>("Pair(frist: 1, second: [Half(size: x), Half()])").unwrap_err(), @r"
        error: `Pair` has no field `frist`
          --> x.ron:1:6
          |
        1 | Pair(frist: 1, second: [Half(size: x), Half()])
          |      ^^^^^
          |
          = help: did you mean `first`?

        error: `size` must be a whole number
          --> x.ron:1:36
          |
        1 | Pair(frist: 1, second: [Half(size: x), Half()])
          |                                    ^
          |
          = help: write a whole number

        error: `Half` lacks the field `size`
          --> x.ron:1:40
          |
        1 | Pair(frist: 1, second: [Half(size: x), Half()])
          |                                        ^^^^
          |
          = help: add `size: …`
        ");
}

#[test]
fn raw_values_have_names_comments_and_places() {
    let text = "// A camera.
Camera(
    name: r#\"a\"b\"#, // its name
    film: 35,
    parts: [
        // The front.
        // It turns.
        Lens(focus: 1),
        3, // a number

        /* none */ \"text\",
    ],
)";
    let mut found = Diagnostics::for_text("x.ron", text);
    let mut reader = Reader::new(&mut found, 0);
    let root = reader.document(text).unwrap();
    assert_eq!((root.comment().as_str(), root.name(), root.line()), ("A camera.", Some("Camera"), 2));
    let camera: Camera<'_> = reader.read(root).unwrap();
    assert_eq!(camera.film.0, [35]);
    assert_eq!(camera.name.text, "a\"b");
    assert_eq!(camera.name.span(1..3).slice(text), "\"b");
    let [lens, number, word] = camera.parts[..] else { panic!("{:?}", camera.parts) };
    assert_eq!(
        (lens.comment().as_str(), lens.name(), lens.line()),
        ("The front. It turns.", Some("Lens"), 8)
    );
    assert_eq!((number.text(), number.comment().as_str(), number.follows_a_gap()), ("3", "", false));
    assert_eq!((word.text(), word.comment().as_str(), word.follows_a_gap()), ("\"text\"", "", true));
    assert!(!lens.follows_a_gap());
    assert!(found.is_empty(), "{found}");
}

#[test]
fn every_byte_of_a_text_has_its_place() {
    let text = "\"a\\\"é\\u{e9}\\\n      b\\x41c\"";
    let mut found = Diagnostics::for_text("x.ron", text);
    let mut reader = Reader::new(&mut found, 0);
    let root = reader.document(text).unwrap();
    let read: Text = reader.read(root).unwrap();
    assert_eq!(read.text, "a\"éébAc");
    let places: Vec<&str> = read
        .text
        .char_indices()
        .map(|(at, c)| {
            let start = read.span(at..at + c.len_utf8()).start;
            &text[start..=start + text[start..].chars().next().map_or(0, |c| c.len_utf8() - 1)]
        })
        .collect();
    assert_eq!(places, ["a", "\\", "é", "\\", "b", "\\", "c"]);
    assert_eq!(read.whole().slice(text), text.trim_matches('"'));
}

#[test]
fn a_list_goes_on_after_a_value_that_is_not_ron() {
    let text = "[\n    Lens(name: 1 focus: 2),\n    Lens(focus: 3),\n    Lens(name: \"x),\n]";
    let mut found = Diagnostics::for_text("x.ron", text);
    let items = Reader::new(&mut found, 0).items(text, "Lens").unwrap();
    assert_eq!(items.iter().map(Raw::text).collect::<Vec<_>>(), ["Lens(focus: 3)"]);
    insta::assert_snapshot!(found, @r#"
    error: `,` or `)` is missing here
      --> x.ron:2:18
      |
    2 |     Lens(name: 1 focus: 2),
      |         -        ^
      |         |
      |         opened here
      |
      = help: write `,` before what follows, or `)` to close what is open

    error: the text does not end
      --> x.ron:4:16
      |
    4 |     Lens(name: "x),
      |                ^
      |
      = help: close it with the quotes that it begins with
    "#);
}

#[test]
fn quotes_that_are_missing_on_an_earlier_line_are_found() {
    let text = "[\n    Lens(name: \"a, focus: 1),\n    Lens(name: \"b\", focus: 2),\n]";
    let mut found = Diagnostics::for_text("x.ron", text);
    Reader::new(&mut found, 0).items(text, "Lens");
    insta::assert_snapshot!(found, @r#"
    error: a text goes on to another line, and neither `,` nor a bracket follows it
      --> x.ron:2:16
      |
    2 |     Lens(name: "a, focus: 1),
      |                ^ it begins here
    3 |     Lens(name: "b", focus: 2),
      |                 - this follows it
      |
      = help: if it ends on its first line, close it there with the quotes that it begins with
    "#);
}
