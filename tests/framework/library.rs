//! The example of the use as a library: it runs, and stands alike in three places.

#[path = "../../examples/library.rs"]
mod example;

use ovolo::{Error, ImportOptions, Model, Options};

#[test]
fn the_documentation_and_the_readme_have_the_example() {
    let read = |file: &str| std::fs::read_to_string(crate::common::root().join(file)).unwrap();
    let example = read("examples/library.rs");
    let shown =
        |line: &&str| !line.is_empty() && !line.starts_with("//") && *line != "Ok(())" && *line != "}";
    let (example, _) = example.split_once("#[test]").unwrap();
    let lines = example.lines().map(str::trim).filter(shown).filter(|line| !line.starts_with("fn main"));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() <= 11, "{lines:#?}");
    let (readme, face) = (read("README.md"), read("src/lib.rs"));
    assert!(readme.contains(&lines.join("\n")), "README.md has other lines than {lines:#?}");
    assert!(face.contains(&lines.join("\n//! ")), "src/lib.rs has other lines than {lines:#?}");
}

#[test]
fn what_a_registry_lacks_is_told_by_the_type_of_the_error() {
    let registry = crate::common::registry();
    let error = Options::new(registry, "natve").err().unwrap();
    assert!(
        matches!(&error, Error::Unknown(unknown) if unknown.nearest.as_deref() == Some("native")),
        "{error}"
    );
    let missing = Model::load(registry, "no/such.ovolo", &ImportOptions::default()).unwrap_err();
    assert!(matches!(missing, Error::File(_)), "{missing}");
    let missing = Model::load(registry, "no/such.onnx", &ImportOptions::default()).unwrap_err();
    assert!(matches!(missing, Error::Onnx(_)), "{missing}");
}
