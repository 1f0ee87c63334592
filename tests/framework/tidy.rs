//! House rules that matter.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The floor of each module of the crate: a file uses only its own or lower floors.
const FLOORS: &[(&str, usize)] = &[
    ("error", 0),
    ("ron", 0),
    ("table", 0),
    ("tensor", 0),
    ("attr", 1),
    ("graph", 2),
    ("op", 2),
    ("verify", 2),
    ("rule", 3),
    ("contract", 4),
    ("cost", 4),
    ("extract", 4),
    ("egraph", 5),
    ("memory", 6),
    ("plan", 6),
    ("backend", 7),
    ("file", 7),
    ("host", 7),
    ("pass", 8),
    ("compile", 8),
    ("session", 8),
    ("onnx", 8),
    ("npy", 8),
    ("subprocess", 8),
    ("cache", 8),
];

/// Modules that may read files, the clock or the environment.
const IMPURE: usize = 7;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the library: its module on the ground level, its path, its text.
fn library() -> Vec<(String, PathBuf, String)> {
    let mut files = of("src");
    files.retain(|(module, ..)| module != "lib");
    files
}

/// The same of all crates.
fn all() -> Vec<(String, PathBuf, String)> {
    ["src", "tune/src", "proof/src", "lab/src", "cli/src"].into_iter().flat_map(of).collect()
}

/// The same of one folder.
fn of(folder: &str) -> Vec<(String, PathBuf, String)> {
    let root = crate::common::root().join(folder);
    let mut files = Vec::new();
    sources(&root, &mut files);
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

/// The text before the unit tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn floor(module: &str) -> usize {
    FLOORS.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("`{module}` has no floor")).1
}

#[test]
fn files_use_only_their_own_and_lower_floors() {
    let mut wrong = Vec::new();
    for (module, path, text) in library() {
        for (at, _) in code(&text).match_indices("crate::") {
            let code = code(&text);
            let used: String =
                code[at + 7..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if FLOORS.iter().any(|(name, _)| *name == used) && floor(&used) > floor(&module) {
                wrong.push(format!("{} uses `{used}`", path.display()));
            }
        }
    }
    // Pipelines are read where rules are, and name the backends there are.
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lower_floors_touch_no_file_clock_or_environment() {
    for (module, path, text) in library() {
        if floor(&module) >= IMPURE {
            continue;
        }
        for word in ["std::fs", "std::time", "std::env", "println!", "eprintln!", "SystemTime", "Instant::"] {
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
        let own = path.to_string_lossy().contains("backend/onednn");
        assert!(own || !code(&text).contains("onednn_sys"), "{} names the library", path.display());
    }
}

/// What is written in place is cut short under those who have it mapped.
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
        let own = path.to_string_lossy().contains("backend/cuda");
        assert!(own || !code(&text).contains("cudarc"), "{} names the binding", path.display());
    }
}

#[test]
fn no_file_leaves_work_undone() {
    for (_, path, text) in all() {
        for word in ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME")] {
            assert!(!text.contains(word), "{} has `{word}`", path.display());
        }
    }
}

#[test]
fn files_open_with_what_they_are_for() {
    for (_, path, text) in all() {
        assert!(text.starts_with("//!"), "{} has no module documentation", path.display());
    }
}

#[test]
fn the_worked_cost_model_names_every_feature_that_is_a_text() {
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
