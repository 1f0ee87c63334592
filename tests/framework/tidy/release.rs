//! What a crate needs before it can be published.

use serde_json::Value;
use std::process::Command;

/// Returns the packages of the workspace, as Cargo describes them.
pub fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(crate::common::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    found["packages"].as_array().unwrap().clone()
}

/// Returns what keeps the packages of a workspace from being published, a line each.
pub fn obstacles(packages: &[Value]) -> Vec<String> {
    let is_published = |package: &&Value| package["publish"].is_null();
    let published: Vec<&Value> = packages.iter().filter(is_published).collect();
    let mut found = Vec::new();
    for package in &published {
        let name = package["name"].as_str().unwrap();
        for key in ["description", "license", "repository"] {
            if package[key].is_null() {
                found.push(format!("{name} has no {key}"));
            }
        }
        let own = package["dependencies"].as_array().unwrap().iter().filter(|one| !one["path"].is_null());
        for dependency in own {
            let other = dependency["name"].as_str().unwrap();
            // Cargo leaves out what only tests use, unless it has a version. Then it must be published before, and
            // the crates of this workspace are tested with crates that depend on them.
            let versioned = dependency["req"] != "*";
            if dependency["kind"] == "dev" {
                if versioned {
                    found.push(format!("the tests of {name} name a version of {other}"));
                }
            } else if !versioned || !published.iter().any(|one| one["name"] == other) {
                found.push(format!("{name} depends on {other}, which has no version or is not published"));
            }
        }
    }
    found
}
