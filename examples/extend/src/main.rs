//! The command line of ovolo, with what this crate adds.

fn main() -> std::process::ExitCode {
    let mut registry = ovolo_cli::standard();
    extend::register(&mut registry).expect("ovolo has nothing of these names");
    ovolo_cli::main(registry)
}
