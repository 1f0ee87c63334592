//! The program: its commands, what they print, and what they keep.

mod common;

mod cache;
mod command_line;
mod decision;
mod devices;
mod dump;
mod lab;
mod memory;
