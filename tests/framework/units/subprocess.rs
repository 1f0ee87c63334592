//! Tests of `src/subprocess.rs`.

#[allow(dead_code)]
#[path = "../../../src/subprocess.rs"]
mod source;

use crate::cost::{Answer, AnswerError};
use source::{Invocation, Program, filter};
use std::time::{Duration, Instant};

#[test]
fn one_program_takes_the_place_of_the_shell_and_names_its_files() {
    let shell = |command: &str| Invocation::new(command).shell();
    assert_eq!(shell("cat -u"), "case $(command -v cat) in /*) exec cat -u;; esac; cat -u");
    assert_eq!(shell("/bin/sh -s"), "exec /bin/sh -s");
    for other in ["no/such 3", "cat | cat", "while read -r line; do :; done", "X=1 cat", "'a b' c", ""] {
        assert_eq!(shell(other), other);
    }
    let root = crate::common::root();
    let command = "tool Cargo.toml 'README.md' Cargo.toml no";
    let here = Invocation { folder: Some(root.clone()), ..Invocation::new(command) };
    assert_eq!(here.files(), [root.join("Cargo.toml"), root.join("README.md")]);
}

fn told(command: &str, asks: usize) -> String {
    let how = Invocation { patience: Duration::from_secs(1), ..Invocation::new(command) };
    let program = Program::start(&how).expect("there is a shell");
    let all: Result<Vec<String>, AnswerError> = (0..asks).map(|_| program.answer("{}")).collect();
    all.and_then(|_| program.rest()).expect_err("it does wrong").to_string()
}

#[test]
fn programs_that_do_not_keep_to_a_line_each_are_refused() {
    let twice = told("while read -r line; do echo 1; echo 2; done", 3);
    assert!(twice.contains("wrote a line that nobody had asked for"), "{twice}");
    // A line too many after the last answer is an error too.
    let last = told("read -r line; echo 1; echo 2; cat", 1);
    assert!(last.contains("nobody had asked for, after 1 answer(s): `2`"), "{last}");
    let endless = told("yes | tr -d '\\n'", 1);
    assert!(endless.contains("bytes without an end of line"), "{endless}");
    let mute = told("sleep 30", 1);
    assert!(mute.contains("`sleep 30` has not answered line 1 within 1 s"), "{mute}");
    let start = Instant::now();
    let closed = told("exec 1>&-; sleep 20", 1);
    assert!(closed.contains("closed its input or output before it answered, and runs on"), "{closed}");
    assert!(told("exit 3", 1).contains("ended before it answered (exit status: 3)"));
    assert!(start.elapsed() < Duration::from_secs(15), "nobody waits for what cannot come");
}

#[test]
fn a_filter_reads_its_input_and_answers_once() {
    let how = |command: &str| Invocation {
        patience: Duration::from_secs(1),
        longest: 100_000,
        ..Invocation::new(command)
    };
    // More than a pipe holds, in both directions at once.
    let long = "0123456789".repeat(9_000);
    assert_eq!(filter(&how("cat"), long.clone()).unwrap(), long);
    // A program need not read what it is given.
    assert_eq!(filter(&how("echo enough"), long.clone()).unwrap(), "enough\n");
    let refused = |command: &str| filter(&how(command), long.clone()).expect_err("it does wrong").to_string();
    assert!(refused("cat; cat /dev/zero").contains("wrote more than 100000 bytes"));
    assert!(refused("cat > /dev/null; exit 3").contains("failed (exit status: 3)"));
    assert!(refused("exec sleep 60").contains("has not ended within 1 s"));
    assert!(refused("exec 1>&-; exec sleep 60").contains("has not ended within 1 s"));
    assert!(refused("printf '\\377'").contains("not UTF-8"));
}
