//! Tests the texts of the command line, without the parts that differ between machines.

use crate::cache::fixture::{files, folder};
use std::path::Path;
use std::process::Command;

/// Runs a command and returns the text of both streams and the exit code.
fn said(at: &Path, line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .args(line.split(' '))
        .env("OVOLO_CACHE", at.join("cache"))
        .env("OVOLO_PIPELINE", "native")
        .env("OVOLO_CACHE_LIMIT", "1GiB")
        .current_dir(at)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let code = output.status.code().unwrap();
    let end = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
    let text = format!("$ ovolo {line}\n{}", text.replace(&at.display().to_string(), "HERE"));
    format!("{}{end}", plain(&text))
}

/// Returns the text without digests, sizes, ages, and facts about the machine.
fn plain(text: &str) -> String {
    let words = |line: &str| -> String {
        let pieces = line.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let word = |piece: &str| {
            let end = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let hex = end.len() >= 7 && end.bytes().all(|b| b.is_ascii_hexdigit());
            let number = end.contains('.') && end.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let replaced = if hex {
                "DIGEST"
            } else if number {
                "1.5"
            } else {
                end
            };
            format!("{replaced}{}", &piece[end.len()..])
        };
        pieces.map(word).collect()
    };
    let line = |line: &str| {
        for field in ["ovolo", "processor", "instruction sets", "build"] {
            if line.trim_start().starts_with(&format!("{field}: ")) {
                return format!("  {field}: …\n");
            }
        }
        let line = words(line);
        let mut spaces: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let indent = line.len() - line.trim_start().len();
        while let Some(at) =
            spaces.windows(3).position(|three| three[1..] == ["s", "ago"] || three[1..] == ["min", "ago"])
        {
            spaces.splice(at..at + 3, ["now"]);
        }
        format!("{}{}\n", " ".repeat(indent.min(2)), spaces.join(" "))
    };
    text.lines().map(line).collect()
}

#[test]
fn texts_of_the_commands() {
    let at = folder("texts");
    std::fs::copy(crate::cache::fixture::digits(), at.join("digits.onnx")).unwrap();
    let images = crate::common::root().join("examples/digits/images.npy");
    std::fs::copy(images, at.join("images.npy")).unwrap();
    let digits = "digits.onnx --dim N=360 --cost flops --threads 1";
    let why = format!("cache why {digits}");
    let run = format!("run {digits} --input image=images.npy");
    let mut text = String::new();
    let mut say = |line: &str| text += &format!("{}\n", said(&at, line));
    say("cache list");
    say(&why);
    said(&at, &run);
    say(&why);
    say("cache why digits.onnx --dim N=1 --cost flops --threads 2");
    say("cache why no-such-model.onnx");
    // Commands that a run would refuse as well, and one without measured speeds.
    say("cache why digits.onnx --cost flops --threads 1");
    say("cache why digits.onnx --dim N=1 --cost flopps --threads 1");
    say("cache why digits.onnx --dim N=1 --cost flops --extractor exakt --threads 1");
    say("cache why digits.onnx --dim N=360 --cost roofline --threads 1");
    let own = std::fs::read_to_string(crate::common::root().join("passes/native.ron")).unwrap();
    std::fs::write(at.join("native.ron"), own.replace("nodes: 40000", "nodes: 50000")).unwrap();
    std::fs::create_dir_all(at.join("rules")).unwrap();
    std::fs::write(at.join("rules/own.ron"), "[]").unwrap();
    say(&format!("{why} --pipeline native.ron --rules rules --memory-limit 1MiB"));
    say("cache list");
    let name = |folder: &str| {
        let found = files(&at.join("cache").join(folder));
        found[0].file_name().unwrap().to_str().unwrap().to_owned()
    };
    say(&format!("cache show {}", &name("plans")[..7]));
    say("cache show zzz");
    say("cache verify");
    say(&format!("save-cache {digits} digits.cache"));
    say("cache clear");
    say("load-cache digits.cache");
    say(&why);
    let weight = at.join("cache/weights").join(name("weights"));
    let mut bytes = std::fs::read(&weight).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&weight, bytes).unwrap();
    say(&why);
    say("cache verify");
    say(&run);
    say("cache verify");
    let mut bytes = std::fs::read(&weight).unwrap();
    bytes.pop();
    std::fs::write(&weight, bytes).unwrap();
    say("cache verify --remove");
    say("cache list");
    said(&at, &run);
    std::fs::write(at.join("cache/plans").join(name("plans")), "no plan").unwrap();
    say("cache list");
    say(&why);
    say("cache prune");
    say("cache prune --limit much");
    std::fs::write(at.join("digits.cache"), "nothing of the kind").unwrap();
    say("load-cache digits.cache");
    say("load-cache no-such-file");
    say("cache clear --all");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/cache"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    // A build may have more extractors.
    let text = text.replace("naive, ilp", "naive");
    settings.bind(|| insta::assert_snapshot!("texts", text));
}
