//! `cargo xtask nvrtc`: fetches NVIDIA's run-time compiler from the Python package index, and the disassembler by which
//! tests look at its machine code.

use crate::wheel::Wheel;

/// NVRTC 12.9, which needs neither a device nor a driver.
const NVRTC: Wheel = Wheel {
    package: "nvidia-cuda-nvrtc-cu12==12.9.86",
    sha256: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
    folder: "nvrtc",
    files: &["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"],
    elsewhere: "install a CUDA toolkit and set OVOLO_NVRTC",
};

/// The disassembler, a program of 5 MB.
const NVDISASM: Wheel = Wheel {
    package: "nvidia-cuda-nvdisasm==13.2.78",
    sha256: "b4ebcd3c5046bf8039ac52675b9dbefd843600969649ecaab0a42b0713a61dae",
    folder: "nvdisasm",
    files: &["nvdisasm"],
    elsewhere: "install a CUDA toolkit and set OVOLO_NVDISASM",
};

/// Fetches both into `nvrtc` and `nvdisasm` in the build folder, unless they are there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    NVRTC.fetch()?;
    NVDISASM.fetch()
}
