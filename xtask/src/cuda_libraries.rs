//! `cargo xtask cuda-libraries`: NVIDIA's libraries cuBLASLt and cuDNN, from the Python package index.

use crate::wheel::Wheel;

const ELSEWHERE: &str = "install a CUDA toolkit and cuDNN 9, and set OVOLO_CUBLASLT and OVOLO_CUDNN";

/// cuBLASLt 12.9, from a wheel of about 580 MB.
const CUBLAS: Wheel = Wheel {
    package: "nvidia-cublas-cu12==12.9.3.13",
    sha256: "d7d51055f161b317c7105ddaae90e71eda059026074ffef93cf7cde2886bfe72",
    folder: "cublas",
    files: &["libcublasLt.so.12"],
    elsewhere: ELSEWHERE,
};

/// cuDNN 9 with all its parts, from a wheel of about 700 MB.
pub const CUDNN: Wheel = Wheel {
    package: "nvidia-cudnn-cu12==9.28.0.42",
    sha256: "9ff58b7f36dacd0a93e89f8f2957b52466889217963701daa15e577317cfa375",
    folder: "cudnn",
    files: &[
        "libcudnn.so.9",
        "libcudnn_adv.so.9",
        "libcudnn_cnn.so.9",
        "libcudnn_engines_precompiled.so.9",
        "libcudnn_engines_runtime_compiled.so.9",
        "libcudnn_engines_tensor_ir.so.9",
        "libcudnn_ext.so.9",
        "libcudnn_graph.so.9",
        "libcudnn_heuristic.so.9",
        "libcudnn_ops.so.9",
    ],
    elsewhere: ELSEWHERE,
};

/// Fetches both into `cublas` and `cudnn` in the build folder, unless they are there already.
pub fn run(words: &[String]) -> Result<(), String> {
    crate::none(words)?;
    CUBLAS.fetch()?;
    CUDNN.fetch()
}
