//! The program `ovolo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ovolo_cli::CommandLine::new(ovolo_standard::registry())
        .command::<ovolo_standard::Kernels>()
        .command::<ovolo_quantize::Quantize>()
        .command::<ovolo_standard::Lsp>()
        .run()
}
