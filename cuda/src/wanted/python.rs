//! The directories in which Python packages put NVIDIA's libraries.
//!
//! The packages of CUDA 12 have a directory for each library (`nvidia/cudnn/lib`), those of CUDA 13 one for most of
//! them (`nvidia/cu13/lib`). Machines that run PyTorch have them, often without a CUDA toolkit.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Returns the directories `nvidia/*/lib` of the Python installations to which the programs on the search path belong,
/// and of the user, in a fixed order. Python does not run for this.
pub(super) fn folders(search_path: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    let programs = search_path.map(std::env::split_paths).into_iter().flatten();
    let prefixes = programs.filter(|folder| folder.join("python3").exists());
    let prefixes = prefixes.filter_map(|folder| folder.parent().map(Path::to_owned));
    let prefixes = prefixes.chain(home.map(|home| home.join(".local")));
    let mut found = Vec::new();
    for prefix in prefixes {
        for python in matching(&prefix.join("lib"), |name| name.starts_with("python3")) {
            for packages in ["site-packages", "dist-packages"] {
                for library in matching(&python.join(packages).join("nvidia"), |_| true) {
                    let folder = library.join("lib");
                    if folder.is_dir() && !found.contains(&folder) {
                        found.push(folder);
                    }
                }
            }
        }
    }
    found
}

/// Returns the entries of a directory with such names, in the reverse order of their names, so that a newer version is
/// before an older one.
fn matching(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    paths.sort_by(|a, b| b.cmp(a));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_an_environment_are_found_without_python() {
        let root = std::env::temp_dir().join(format!("ovolo-packages-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let packages = root.join("venv/lib/python3.12/site-packages/nvidia");
        for folder in ["cu13/lib", "cudnn/lib", "nccl/include"] {
            std::fs::create_dir_all(packages.join(folder)).unwrap();
        }
        // Only the name of the program counts.
        std::fs::create_dir_all(root.join("venv/bin/python3")).unwrap();
        std::fs::create_dir_all(root.join("elsewhere/bin")).unwrap();
        let path = std::env::join_paths([root.join("elsewhere/bin"), root.join("venv/bin")]).unwrap();
        let found = folders(Some(&path), None);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [packages.join("cudnn/lib"), packages.join("cu13/lib")]);
        assert!(folders(None, Some(&root)).is_empty());
    }
}
