//! Ovolo compiles and runs neural networks, and every decision it takes is a rule in a text file.
pub mod attr;
pub mod backend;
pub mod contract;
pub mod error;
pub mod graph;
pub mod npy;
pub mod onnx;
pub mod op;
pub mod tensor;
pub mod verify;
