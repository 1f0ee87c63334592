//! Tests completions and manual pages.
#![allow(clippy::unwrap_used)]

use crate::common;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn completions_have_all_commands_and_are_scripts() {
    let at = common::folder("shell-completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = common::ovolo(&at, &["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}");
        for name in ["rules", "why-not", "save-cache", "pipeline", "quantize"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
        if shell == "bash" {
            let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(bash.wait().unwrap().success());
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let at = common::folder("shell-man");
    let output = common::ovolo(&at, &["man-pages", "--out", "man1"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let pages = std::fs::read_dir(at.join("man1")).unwrap().count();
    assert_eq!(said, format!("wrote {pages} pages to man1\n"));
    let page = |name: &str| std::fs::read_to_string(at.join("man1").join(name)).unwrap();
    for name in ovolo_standard::command_line(ovolo_standard::registry()).names() {
        assert!(page(&format!("ovolo-{name}.1")).contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(page("ovolo.1").contains("ovolo\\-rules(1)"), "{}", page("ovolo.1"));
    let verify = page("ovolo-rules-verify.1");
    assert!(verify.contains(".TH ovolo-rules-verify 1") && verify.contains("instances"), "{verify}");
}
