//! A language server for the RON files that users of ovolo write: rules, their examples, pipelines, tables of functions
//! and price lists.
//!
//! It gives an editor the messages of `ovolo rules check` while a file is written, completion, hover with the reference,
//! definitions, references, renaming, the structure of a file, and the form that `ovolo fmt` writes. Everything that it
//! knows comes from a registry, so the ops, guards and passes of another crate are known as well.
//!
//! The protocol is the language server protocol, version 3.17: JSON-RPC over two streams. [`serve_stdio`] is the command
//! `ovolo lsp`; [`serve`] takes any connection, such as one in memory.
//!
//! Two readers share the work. Messages come from the framework's own readers, which want whole files. Everything else is
//! asked while a text is incomplete, so it goes by tokens (`outline`, `term`, `symbol`), which every text has.
//!
//! Files are read from the folders that the editor has open. None is written: the editor applies the edits.

mod address;
mod capability;
mod check;
mod completion;
mod description;
mod document;
mod encoding;
mod finding;
mod formatting;
mod hover;
mod kind;
mod message;
mod outline;
mod project;
mod reference;
mod rename;
mod request;
mod rule_index;
mod server;
mod structure;
mod symbol;
mod term;
mod workspace;

pub use lsp_server::Connection;

use ovolo::registry::Registry;
use server::Server;
use std::io;
use std::sync::Arc;

/// A digest of the crate's sources and of the compiler's settings, which distinguishes this build from others.
pub const BUILD: &str = env!("OVOLO_BUILD");

/// Why a server stopped before the client asked it to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client broke the protocol, or went away while the server was starting or stopping.
    #[error("the client broke the protocol: {0}")]
    Protocol(#[from] lsp_server::ProtocolError),
    /// The parameters of `initialize` cannot be read.
    #[error("the parameters of `initialize` cannot be read: {0}")]
    Initialize(#[from] serde_json::Error),
    /// The client sent `exit` without `shutdown`.
    #[error("the client sent `exit` without `shutdown`")]
    Exit,
    /// The standard input or output failed.
    #[error("the standard input or output failed: {0}")]
    Stream(#[from] io::Error),
}

/// Serves a client over a connection until it sends `shutdown` and `exit`, or closes the connection.
///
/// # Errors
/// If the client breaks the protocol.
pub fn serve(registry: Arc<Registry>, connection: &Connection) -> Result<(), ServeError> {
    Server::start(registry, connection)?.run(connection)
}

/// Serves the client at the standard input and output.
///
/// # Errors
/// As [`serve`], or if a stream fails.
pub fn serve_stdio(registry: Arc<Registry>) -> Result<(), ServeError> {
    let (connection, threads) = Connection::stdio();
    serve(registry, &connection)?;
    // The thread that writes ends when nothing more can be sent.
    drop(connection);
    Ok(threads.join()?)
}
