//! The program `ovolo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ovolo_standard::command_line(ovolo_standard::registry()).run()
}
