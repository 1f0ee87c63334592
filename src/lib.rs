//! Ovolo compiles and runs neural networks, and every decision it takes is a rule in a text file.
pub mod attr;
pub mod backend;
pub mod extract;
pub mod graph;
pub mod op;
pub mod tensor;
