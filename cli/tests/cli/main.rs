//! The program: its commands, what they print, and what they keep.

mod common;

mod cache;
mod command_line;
mod devices;
mod lab;
mod dump;
mod memory;
