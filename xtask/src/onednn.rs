//! `cargo xtask onednn`: fetches the library oneDNN from the Python package index.

use crate::wheel::Wheel;

/// oneDNN 3.1, which needs only GNU OpenMP.
const ONEDNN: Wheel = Wheel {
    package: "onednn-cpu-gomp==2023.1.0",
    sha256: "5635b0c0ea5d9ae0688fbab8346c465c40cb0db3a5db39ff744353ccda435cac",
    folder: "onednn",
    files: &["libdnnl.so.3"],
    elsewhere: "install oneDNN 3 and set OVOLO_ONEDNN",
};

/// Fetches the library into `onednn` in the build folder, unless it is there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    ONEDNN.fetch()
}
