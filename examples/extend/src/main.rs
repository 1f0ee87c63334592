//! The command line of ovolo with the additions of this crate, and with a command of its own.

fn main() -> std::process::ExitCode {
    let mut registry = ovolo_standard::registry();
    extend::register(&mut registry).expect("ovolo has nothing with these names");
    ovolo_standard::command_line(registry).command::<extend::Steps>().run()
}
