//! Tests of the server over a connection in memory: what a client sends, and what it is told.
#![allow(clippy::unwrap_used)]

mod client;
mod completion;
mod definition;
mod document;
mod form;
mod hover;
mod incomplete;
mod message;
mod protocol;
mod rename;
mod shipped;
