//! Tests that the shipped rules do what the examples beside them say, that every rule has both kinds of
//! examples, and that every rule is worth something: a snapshot shows what (see `worth`). If
//! `OVOLO_SLOW_TESTS` is set, rules made wrong in one small place must be caught by `rules verify`.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "proof/mutants.rs"]
mod mutants;
#[path = "../../tests/common/need.rs"]
mod need;
#[path = "rules/worth.rs"]
mod worth;

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::rule::{Rule, RuleSet};
use ovolo_proof::example;
use std::sync::Arc;

fn main() {
    // Snapshots show plans for AVX-512, whatever the processor is.
    if let Some(passed) = common::again_for_avx512() {
        std::process::exit(i32::from(!passed));
    }
    // Rules that lead to NVIDIA's libraries show their worth by what can run, because the choice would depend
    // on whether a library is installed. oneDNN is limited to what all processors with AVX-512 support, so
    // that its candidates are the same on all of them.
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("ONEDNN_MAX_CPU_ISA", "AVX512_CORE");
        std::env::set_var("OVOLO_CUBLASLT", "/nowhere/libcublasLt.so");
        std::env::set_var("OVOLO_CUDNN", "/nowhere/libcudnn.so");
    }
    let set = common::rules();
    let snapshots = [need::plans_for_avx512()];
    // A rule that leads to oneDNN can only show its worth if the library tells which kernels it has.
    let library = [need::plans_for_avx512(), need::onednn(), need::avx512()];
    let trials = set
        .rules()
        .iter()
        .flat_map(|rule| {
            let (one, other, set) = (Arc::clone(rule), Arc::clone(rule), set.clone());
            let needs = match rule.stem() == "onednn" || rule.is_called("half:bf16") {
                true => &library[..],
                false => &snapshots[..],
            };
            let shown = shows(rule, &set);
            [
                Trial::test(format!("examples::{}", rule.name), move || examples(&one)),
                need::trial(format!("worth::{}", rule.name), needs, move || worth(&other, &set, shown)),
            ]
        })
        .chain(mutants::files().into_iter().map(|file| {
            need::patience().trial(format!("unsound_mutants_are_caught::{file}"), move || {
                mutants::unsound_mutants_are_caught_and_survivors_are_equivalent(&file);
                Ok(())
            })
        }))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn examples(rule: &Rule) -> Result<(), Failed> {
    if let Some(lacks) = example::lacks(rule) {
        return Err(lacks.into());
    }
    let wrong: Vec<String> = example::run(rule, common::ops())
        .into_iter()
        .filter_map(|verdict| Some(verdict.wrong?.message))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Whether the snapshot of the rules that one text makes is of this one: the first of them. The others are held to
/// their worth without one.
fn shows(rule: &Rule, set: &RuleSet) -> bool {
    set.rules()
        .iter()
        .find(|other| other.file == rule.file && other.written == rule.written)
        .is_some_and(|first| first.name == rule.name)
}

fn worth(rule: &Rule, set: &RuleSet, shown: bool) -> Result<(), Failed> {
    let worth = worth::worth(rule, set)?;
    if !shown {
        return Ok(());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(common::root().join("snapshots/rules"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(rule.written.clone(), worth));
    Ok(())
}
