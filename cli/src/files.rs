//! Reads files and folders that the user names.

use std::path::{Path, PathBuf};

/// Returns the files of a folder and its subfolders, sorted. Skips folders whose names begin with a dot.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden {
            files.extend(files_below(&path)?);
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// The rule files of a directory: names and texts.
pub(super) fn rule_files(directory: &Path) -> Result<Vec<(String, String)>, String> {
    let listed =
        std::fs::read_dir(directory).map_err(|error| format!("--rules {}: {error}", directory.display()))?;
    let mut found: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "ron"));
    found.sort();
    if found.is_empty() {
        return Err(format!("--rules {}: the directory has no .ron file", directory.display()));
    }
    found.into_iter().map(|path| Ok((path.display().to_string(), read(&path)?))).collect()
}

/// Returns whether two paths lead to one file.
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    let full = |path: &Path| path.canonicalize().ok();
    one == other || full(one).is_some_and(|one| Some(one) == full(other))
}

/// Reads a text file. If it is not text, the error names the first place that is not.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if bytes.contains(&0) {
        return Err(format!("{}: this is not a text file but a binary one, such as a model", path.display()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (before, after) = error.as_bytes().split_at(at);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        format!(
            "{}:{line}:{column}: this is not UTF-8 text: no character begins with byte {:#04x}\n  help: save the \
             file as UTF-8; `iconv -f LATIN1 -t UTF-8 FILE` converts a file in Latin-1",
            path.display(),
            after.first().copied().unwrap_or(0)
        )
    })
}
