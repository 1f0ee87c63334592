//! Tests of the program: its commands, what they print, and what they keep.

mod common;

mod cache;
mod command_line;
mod devices;
mod fmt;
mod lab;
mod memory;
