//! Tests of the import of ONNX.

mod body;
mod element;
mod value;
