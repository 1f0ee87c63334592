//! The program `ovolo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ovolo_cli::main(ovolo_standard::registry())
}
