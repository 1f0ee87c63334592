//! Tests of the repository's own rules.
#![allow(clippy::unwrap_used)]

mod errors;
mod modules;
mod public;
mod release;

use errors::texts_for_errors;
use modules::{Modules, Ties, circles, within};
use public::public_names;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The source folders of the crates.
const CRATES: &[&str] = &[
    "src",
    "cli/src",
    "cuda/src",
    "fingerprint/src",
    "fourier/src",
    "lab/src",
    "linear/src",
    "lsp/src",
    "native/src",
    "onednn/src",
    "onednn-sys/src",
    "ort/src",
    "proof/src",
    "python/src",
    "quantize/src",
    "random/src",
    "standard/src",
    "team/src",
    "train/src",
    "tune/src",
    "vector/src",
    "xtask/src",
];

/// The floor of each module of the framework: a file may only use its own and lower floors.
const FLOORS: &[(&str, usize)] = &[
    ("diagnostic", 0),
    ("random", 0),
    ("ron", 0),
    ("scalar", 0),
    ("setting", 0),
    ("table", 0),
    ("team", 0),
    ("tensor", 0),
    ("attr", 1),
    ("value", 1),
    ("graph", 2),
    ("op", 2),
    ("verify", 2),
    ("rule", 3),
    ("cost", 4),
    ("extract", 4),
    ("egraph", 5),
    ("memory", 6),
    ("plan", 6),
    ("backend", 7),
    ("digest", 7),
    ("file", 7),
    ("host", 7),
    ("error", 8),
    ("stage", 8),
    ("model", 8),
    ("dynamic", 8),
    ("pass", 8),
    ("compile", 8),
    ("session", 8),
    ("onnx", 8),
    ("npy", 8),
    ("subprocess", 8),
    ("cache", 8),
    ("registry", 8),
];

/// The lowest floor on which modules may read files, the clock or the environment.
const IMPURE: usize = 7;

fn files_with(extension: &str, folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(extension, &path, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
}

/// Every source file of the library: its top-level module, its path, its text.
fn library() -> Vec<(String, PathBuf, String)> {
    let mut files = files("src");
    files.retain(|(module, ..)| module != "lib");
    files
}

/// The same for all crates except `xtask`, which is not a part of the program.
fn all() -> Vec<(String, PathBuf, String)> {
    CRATES.iter().filter(|folder| !folder.starts_with("xtask")).flat_map(|folder| files(folder)).collect()
}

/// The same for one folder.
fn files(folder: &str) -> Vec<(String, PathBuf, String)> {
    let root = crate::common::root().join(folder);
    let mut files = Vec::new();
    files_with("rs", &root, &mut files);
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let module = relative.split(['/', '.']).next().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            (module, path, text)
        })
        .collect()
}

/// Returns the text before the unit tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn floor(module: &str) -> usize {
    FLOORS.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("`{module}` has no floor")).1
}

/// Calls a function with the files of a crate: their paths relative to its folder, and their texts.
fn with_files<R>(folder: &str, look: impl FnOnce(&[(&str, &str)]) -> R) -> R {
    let root = crate::common::root().join(folder);
    let files = files(folder);
    let path = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
    let texts: Vec<(String, &str)> = files.iter().map(|(_, at, text)| (path(at), text.as_str())).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    look(&texts)
}

/// What the modules of a crate use from each other.
fn ties(folder: &str) -> Ties {
    with_files(folder, |files| Modules::read(files).ties())
}

#[test]
fn modules_use_only_their_own_and_lower_floors() {
    let wrong: Vec<String> = within(&ties("src"), "")
        .into_iter()
        .filter(|((from, to), _)| from != "lib" && to != "lib" && floor(to) > floor(from))
        .map(|((from, to), names)| format!("`{from}` uses `{to}`: {names:?}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the circles between the modules of a crate. At each level, a module counts together with
/// everything in it. Each circle comes with the module in which it lies and with its dependencies, one line
/// each.
fn every_circle(ties: &Ties) -> Vec<(String, Vec<String>)> {
    let mut outer = BTreeSet::from([String::new()]);
    for mut name in ties.keys().flat_map(|(from, to)| [from.as_str(), to]) {
        while let Some((parent, _)) = name.rsplit_once('/') {
            outer.insert(parent.to_owned());
            name = parent;
        }
    }
    let mut found = Vec::new();
    for outer in outer {
        let ties = within(ties, &outer);
        for circle in circles(&ties) {
            let inside = ties.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let lines = inside.map(|((from, to), names)| format!("`{from}` uses `{to}`: {names:?}"));
            found.push((outer.clone(), lines.collect()));
        }
    }
    found
}

/// The folders of data files that people read, each with its most columns.
const WIDTHS: &[(&str, usize)] =
    &[("rules", 100), ("ops", 120), ("costs", 120), ("passes", 120), ("train/ops", 100)];

#[test]
fn lines_of_data_files_are_short() {
    for (folder, most) in WIDTHS {
        let mut files = Vec::new();
        files_with("ron", &crate::common::root().join(folder), &mut files);
        assert!(!files.is_empty(), "{folder} has no files");
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let long = text.lines().position(|line| line.chars().count() > *most);
            assert_eq!(long.map(|at| at + 1), None, "{}: the line is above {most} columns", path.display());
        }
    }
}

/// The most public names that the framework may have.
const PUBLIC_NAMES: usize = 440;

#[test]
fn the_framework_has_few_public_names() {
    let names = with_files("src", public_names);
    assert!(names.len() <= PUBLIC_NAMES, "{} public names: {names:#?}", names.len());
}

/// The crates of backends.
const BACKENDS: &[&str] = &["cuda/src", "native/src", "onednn/src"];

#[test]
fn public_types_of_backends_have_other_names_than_those_of_the_framework() {
    let types = |folder: &str| -> BTreeSet<String> {
        let names = with_files(folder, public_names);
        let last = names.iter().filter_map(|name| name.rsplit("::").next());
        last.filter(|name| name.starts_with(char::is_uppercase)).map(str::to_owned).collect()
    };
    let own = types("src");
    for folder in BACKENDS {
        let theirs = types(folder);
        assert!(!theirs.is_empty(), "{folder} has no public types");
        let same: Vec<&String> = theirs.intersection(&own).collect();
        assert!(same.is_empty(), "{folder}: {same:?} are names of the framework as well");
    }
}

#[test]
fn a_public_name_counts_once_and_a_private_one_does_not() {
    let names = public_names(&[
        ("lib.rs", "pub mod a; mod b; pub use a::A; pub use b::{B, b as c}; pub(crate) use b::D;"),
        ("a.rs", "pub use crate::b::B; pub struct A; struct P; #[doc(hidden)] pub fn hidden() {}"),
        ("b.rs", "mod e; pub use e::E; pub struct B; pub struct D; pub fn b() {}"),
        ("b/e.rs", "pub struct E;"),
    ]);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a::A", "b::B", "b::b"]);
    let names =
        public_names(&[("lib.rs", "macro_rules! m { ($a:ident) => { pub enum E { $a } pub enum $a {} } }")]);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["E"]);
}

#[test]
fn modules_have_no_circles() {
    for folder in CRATES {
        let circles: Vec<_> = every_circle(&ties(folder)).into_iter().collect();
        assert!(circles.is_empty(), "circles in {folder}: {circles:#?}");
    }
}

#[test]
fn circles_are_found_through_any_kind_of_path() {
    let circles = |files: &[(&str, &str)]| {
        let found = every_circle(&Modules::read(files).ties());
        found.into_iter().map(|(module, _)| module).collect::<Vec<_>>()
    };
    let root = ("lib.rs", "pub mod a; pub mod b;");
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    assert_eq!(circles(&[root, a, ("b.rs", "pub struct B(crate::a::A);")]), [""]);
    assert_eq!(
        circles(&[root, a, ("b.rs", "pub struct B; use super::a as other; type C = other::A;")]),
        [""]
    );
    assert_eq!(
        circles(&[root, a, ("b.rs", "pub struct B; fn c() { println!(\"{}\", crate::a::D); }")]),
        [""]
    );
    assert_eq!(circles(&[root, a, ("b.rs", "pub struct B; use crate::a::*;")]), [""]);
    // Through re-exports, or between modules inside two others.
    let inner = [root, ("a.rs", "mod c; pub use c::A;"), ("a/c.rs", "pub struct A(crate::b::B);")];
    assert_eq!(circles(&[&inner[..], &[("b.rs", "pub struct B(crate::a::A);")]].concat()), [""]);
    let halves = [
        root,
        ("a.rs", "pub mod c; pub mod d;"),
        ("a/c.rs", "use crate::b::B;"),
        ("a/d.rs", "pub struct D;"),
    ];
    assert_eq!(circles(&[&halves[..], &[("b.rs", "pub struct B(crate::a::d::D);")]].concat()), [""]);
    let siblings = [
        root,
        ("b.rs", ""),
        ("a.rs", "mod c; mod d;"),
        ("a/c.rs", "use super::d::D; pub struct C;"),
        ("a/d.rs", "pub struct D(super::c::C);"),
    ];
    assert_eq!(circles(&siblings), ["a"]);
    // No circle: a unit test, a comment, and a module that uses its parent.
    let b = "//! As `crate::a::A`.\npub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
    assert_eq!(circles(&[root, a, ("b.rs", b)]), [""; 0]);
    let child = [
        root,
        ("b.rs", ""),
        ("a.rs", "mod c; use c::C; pub struct A(C);"),
        ("a/c.rs", "use super::A; pub struct C;"),
    ];
    assert_eq!(circles(&child), [""; 0]);
}

#[test]
fn lower_floors_use_no_file_clock_or_environment() {
    for (module, path, text) in library() {
        if floor(&module) >= IMPURE {
            continue;
        }
        for word in ["std::fs", "std::time", "std::env", "println!", "eprintln!", "SystemTime", "Instant::"] {
            assert!(!code(&text).contains(word), "{} has `{word}`", path.display());
        }
    }
}

/// What the library is to do, programs tell it: it reads no variable, and prints nothing.
#[test]
fn the_library_reads_no_variable_and_prints_nothing() {
    for (_, path, text) in library() {
        for word in ["env::var", "env::args", "println!", "print!(", "dbg!("] {
            assert!(!code(&text).contains(word), "{} has `{word}`", path.display());
        }
    }
}

#[test]
fn only_the_e_graph_names_egg() {
    for (module, path, text) in all() {
        if module != "egraph" {
            assert!(!code(&text).contains("egg::"), "{} names egg", path.display());
        }
    }
}

#[test]
fn only_its_backend_names_onednn_s_library() {
    for (_, path, text) in all() {
        let own = path.to_string_lossy().contains("onednn/src");
        assert!(own || !code(&text).contains("onednn_sys"), "{} names the library", path.display());
    }
}

/// Floors and tools ask the registry for backends, so that a backend of another crate can stand in for any of them.
#[test]
fn only_the_standard_registry_knows_particular_backends() {
    for folder in ["", "cli/", "lab/", "proof/", "quantize/", "train/", "tune/"] {
        let manifest = crate::common::root().join(folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let (_, own) = text.split_once("\n[dependencies]\n").unwrap();
        let own = own.split("\n[").next().unwrap();
        for backend in ["ovolo-cuda", "ovolo-native", "ovolo-onednn"] {
            assert!(!own.contains(backend), "{} depends on {backend}", manifest.display());
        }
        for (_, path, text) in files(&format!("{folder}src")) {
            for word in ["\"native.", "\"onednn.", "\"cuda.", "\"cublaslt.", "\"cudnn."] {
                assert!(!code(&text).contains(word), "{} names an op of a backend: {word}", path.display());
            }
        }
    }
}

/// A file that is overwritten in place would be truncated for processes that have it mapped.
#[test]
fn files_are_written_by_one_module() {
    for (module, path, text) in all() {
        for word in ["fs::write(", "File::create", "OpenOptions", "set_len(", "fs::copy("] {
            assert!(module == "file" || !code(&text).contains(word), "{} has `{word}`", path.display());
        }
    }
}

#[test]
fn only_its_backend_names_nvidia_s_libraries() {
    for (_, path, text) in all() {
        let own = path.to_string_lossy().contains("cuda/src");
        assert!(own || !code(&text).contains("cudarc"), "{} names the binding", path.display());
    }
}

/// A caller matches on an error, which a text does not let it do.
#[test]
fn no_public_item_gives_a_text_as_its_error() {
    let wrong: Vec<String> = all()
        .into_iter()
        .flat_map(|(_, path, text)| {
            let found = texts_for_errors(&text);
            found.into_iter().map(move |name| format!("{}: `{name}`", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let found = texts_for_errors(
        "pub fn a() -> Result<(), String> {} fn b() -> Result<(), String> {} pub type C = fn() -> Result<u8, String>;
         impl D { pub fn e(f: &dyn Fn() -> Result<(), String>) {} fn g() -> Result<(), String> {} }
         pub struct H { pub i: Result<u8, &'static String>, j: Result<u8, String> }
         pub trait K { fn l() -> Result<String, Error>; fn m() -> Result<(), String>; }
         impl FromStr for D { type Err = String; }",
    );
    assert_eq!(found, ["a", "C", "e", "H", "m", "Err"]);
}

#[test]
fn no_file_leaves_work_undone() {
    for (_, path, text) in all() {
        for word in ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME")] {
            assert!(!text.contains(word), "{} has `{word}`", path.display());
        }
    }
}

/// Returns whether a crate's library has a setting of Cargo that is `false`.
fn library_is_without(folder: &str, setting: &str) -> bool {
    let manifest = crate::common::root().join(folder).with_file_name("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let library = text.split("\n[").find(|table| table.starts_with("lib]"));
    library.is_some_and(|table| table.lines().any(|line| line == format!("{setting} = false")))
}

/// A library with `test = false` is not compiled a second time for the tests in its files. Such a test only runs if a file
/// of `tests/` includes its file, or one of another crate.
#[test]
fn tests_in_the_files_of_a_library_are_run() {
    let off: Vec<&&str> = CRATES.iter().filter(|folder| library_is_without(folder, "test")).collect();
    assert!(off.contains(&&"src"));
    let tests_of = |folder: &str| -> String {
        let mut tests = Vec::new();
        let beside = crate::common::root().join(folder).with_file_name("tests");
        if beside.exists() {
            files_with("rs", &beside, &mut tests);
        }
        tests.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
    };
    let tests: String = CRATES.iter().map(|folder| tests_of(folder)).collect();
    for folder in off {
        let own = tests_of(folder);
        for (_, path, text) in files(folder) {
            let relative = path.strip_prefix(crate::common::root().join(folder)).unwrap();
            let relative = relative.display();
            let compiled = own.contains(&format!("../src/{relative}\"]"))
                || tests.contains(&format!("../{folder}/{relative}\"]"));
            let run = compiled && *folder != "src";
            for word in ["#[test]", "cfg(test)"] {
                assert!(run || !text.contains(word), "{} has `{word}`", path.display());
            }
        }
    }
}

#[test]
fn examples_in_documentation_are_run() {
    let off: Vec<&&str> = CRATES.iter().filter(|folder| library_is_without(folder, "doctest")).collect();
    assert!(off.contains(&&"cli/src") && !off.contains(&&"src"));
    for folder in off {
        for (_, path, text) in files(folder) {
            let mut fences = text
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("//"))
                .filter_map(|line| line.split_once("```"));
            let mut opened = None;
            let wrong = fences.find(|(_, kind)| {
                opened = if opened.is_some() { None } else { Some(*kind) };
                opened.is_some_and(|kind| !["text", "sh", "json", "ron"].contains(&kind))
            });
            assert!(wrong.is_none(), "{}: an example that no test runs", path.display());
        }
    }
}

#[test]
fn files_start_with_module_documentation() {
    for (_, path, text) in all() {
        assert!(text.starts_with("//!"), "{} has no module documentation", path.display());
    }
}

#[test]
fn the_example_cost_model_names_every_text_feature() {
    let folder = crate::common::root().join("examples/cost");
    let example = std::fs::read_to_string(folder.join("learned.py")).unwrap();
    let lists: String = example
        .lines()
        .filter(|line| line.starts_with("CATEGORIES = ") || line.starts_with("LEFT_OUT = "))
        .collect();
    for feature in ovolo::cost::FEATURES.iter().filter(|feature| !feature.is_number()) {
        assert!(lists.contains(&format!("\"{}\"", feature.name)), "`{}` is in neither list", feature.name);
    }
}

#[test]
fn crates_can_be_published() {
    let mut packages = release::packages();
    assert_eq!(release::obstacles(&packages), Vec::<String>::new());
    // What would keep them from it is found.
    let lab = packages.iter_mut().find(|package| package["name"] == "ovolo-lab").unwrap();
    lab["license"] = serde_json::Value::Null;
    lab["publish"] = serde_json::json!([]);
    let cli = packages.iter_mut().find(|package| package["name"] == "ovolo-cli").unwrap();
    cli["license"] = serde_json::Value::Null;
    let found = release::obstacles(&packages).join("\n");
    assert!(found.contains("ovolo-cli has no license") && !found.contains("ovolo-lab has no"), "{found}");
    assert!(
        found.contains("ovolo-cli depends on ovolo-lab, which has no version or is not published"),
        "{found}"
    );
}
