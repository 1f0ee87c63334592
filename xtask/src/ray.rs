//! `cargo xtask ray`: installs the Python package Ray, which the tests of experiments on a cluster and of the example for
//! Ray Serve need.

use crate::python::{build_folder, with};

/// The packages, from the Python package index.
const PACKAGES: &[&str] = &["ray[serve]==2.60.0", "numpy>=2"];

/// Installs Ray into an environment of its own in the build folder, because it brings many packages.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    let folder = build_folder().join("ray");
    let stamp = folder.join("stamp");
    if std::fs::read_to_string(&stamp).is_ok_and(|kept| kept == PACKAGES.join(" ")) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    let python = with(&folder, PACKAGES)?;
    std::fs::write(&stamp, PACKAGES.join(" ")).map_err(|error| format!("{}: {error}", stamp.display()))?;
    println!("{} has {}", python.display(), PACKAGES.join(", "));
    Ok(())
}
