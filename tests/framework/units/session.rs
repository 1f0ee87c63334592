//! Tests of sessions.

mod store;
