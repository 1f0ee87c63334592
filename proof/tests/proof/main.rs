//! Tests that rules are checked and verified, and that wrong ones are found.

#[path = "../../../tests/common/mod.rs"]
mod common;

mod ablate;
mod check;
mod function;
mod patterns;
mod reference;
mod verify;
