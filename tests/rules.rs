//! The shipped rules do what the examples beside them say, and every one has both kinds.
#![allow(clippy::unwrap_used)]

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::audit::example;
use ovolo::rule::{Rule, RuleSet, SHIPPED};
use std::sync::Arc;

fn main() {
    let set = RuleSet::read(SHIPPED).unwrap_or_else(|errors| panic!("{errors}"));
    let trials = set
        .rules()
        .iter()
        .map(|rule| {
            let rule = Arc::clone(rule);
            Trial::test(rule.name.clone(), move || examples(&rule))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn examples(rule: &Rule) -> Result<(), Failed> {
    if let Some(lacks) = example::lacks(rule) {
        return Err(lacks.into());
    }
    let wrong: Vec<String> =
        example::run(rule).into_iter().filter_map(|verdict| Some(verdict.wrong?.message)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
