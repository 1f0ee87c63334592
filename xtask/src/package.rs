//! `cargo xtask python`: builds the Python package `ovolo`, installs it and runs its tests.

use crate::python::{build_folder, command, environment, root};
use std::process::Command;

/// Installs the package with what its tests need into an environment in the build folder, and runs pytest. Words go to
/// pytest, for example `-k gil`.
pub fn run(words: &[String]) -> Result<(), String> {
    let python = environment(&build_folder().join("package"))?;
    let package = root().join("python");
    println!("building {}", package.display());
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // The build is in the folder that other tasks build in too, so it takes what they have built.
    install.env("CARGO_TARGET_DIR", build_folder()).arg(format!("{}[test]", package.display()));
    command(&mut install).map_err(|error| format!("{error}\npip could not install the package"))?;
    // The folder `python` has the sources of the package, which must not be taken for the installed one.
    let mut test = Command::new(&python);
    // As many processes as there are cores, since most tests wait for one thread.
    test.args(["-P", "-m", "pytest", "-q", "-n", "auto", "--rootdir"])
        .arg(&package)
        .arg(package.join("tests"))
        .args(words);
    // Ray Serve and MLServer need versions of other packages that exclude each other.
    let ray = build_folder().join("ray").join("bin").join("python");
    if ray.exists() {
        test.env("OVOLO_RAY", ray);
    }
    test.current_dir(build_folder());
    command(&mut test)
}
