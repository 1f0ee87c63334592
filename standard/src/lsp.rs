//! `ovolo lsp`: the language server.

use clap::Args;
use ovolo::registry::Registry;
use ovolo_cli::{AddedCommand, Refusal};
use std::sync::Arc;

/// The command `lsp`, which serves an editor over the standard input and output.
#[derive(Args)]
pub struct Lsp {
    /// Accepted because many editors give it: standard input and output are the only way to serve.
    #[arg(long, hide = true)]
    stdio: bool,
}

impl AddedCommand for Lsp {
    const NAME: &'static str = "lsp";
    const ABOUT: &'static str =
        "Serve an editor over standard input and output, by the language server protocol";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        ovolo_lsp::serve_stdio(Arc::clone(registry)).map_err(|why| why.to_string())?;
        Ok(())
    }
}
