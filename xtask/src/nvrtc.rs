//! `cargo xtask nvrtc`: fetches NVIDIA's run-time compiler from the Python package index.

use crate::wheel::Wheel;

/// NVRTC 12.9, which needs neither a device nor a driver.
const NVRTC: Wheel = Wheel {
    package: "nvidia-cuda-nvrtc-cu12==12.9.86",
    sha256: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
    folder: "nvrtc",
    files: &["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"],
    elsewhere: "install a CUDA toolkit and set OVOLO_NVRTC",
};

/// Fetches the library into `nvrtc` in the build folder, unless it is there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    NVRTC.fetch()
}
