//! Tests of the program: its commands, what they print, and what they keep.

mod common;
mod outcome;
#[path = "../../../tests/common/onnx.rs"]
mod proto;

mod cache;
mod check;
mod command_line;
mod compare;
mod decision;
mod devices;
mod doctor;
mod dump;
mod fmt;
mod given;
mod lab;
mod lsp;
mod memory;
mod pages;
mod quantize;
mod reduce;
mod regions;
mod rule_pages;
mod shell;
mod test;
mod train;
