//! Developer tasks of the ovolo workspace.
fn main() {}
