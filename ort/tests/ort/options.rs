//! The options of sessions and runs.

use crate::{DIGITS, builder, model, open};
use ort::ep::{CPU, ExecutionProvider};
use ort::session::RunOptions;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::Tensor;

#[test]
fn options_that_change_nothing_are_taken() {
    let taken = builder().with_optimization_level(GraphOptimizationLevel::Level3).unwrap();
    let taken = taken.with_inter_threads(2).unwrap().with_parallel_execution(true).unwrap();
    let taken = taken.with_memory_pattern(false).unwrap().with_deterministic_compute(true).unwrap();
    let taken = taken.with_log_id("log").unwrap().with_flush_to_zero().unwrap();
    let taken = taken.with_execution_providers([CPU::default().build().error_on_failure()]).unwrap();
    assert!(taken.clone().commit_from_file(DIGITS).is_ok());
}

#[test]
fn only_the_processor_is_available() {
    crate::environment();
    assert!(CPU::is_available().unwrap());
    assert_eq!(crate::environment().devices().count(), 0);
}

#[test]
fn entries_of_ovolo_are_checked() {
    let why = builder().with_config_entry("ovolo.pipelin", "native").map(|_| ()).unwrap_err();
    assert!(why.message().contains("ovolo has no entry `ovolo.pipelin`"), "{why}");
    let why = builder().with_config_entry("ovolo.cache", "yes").map(|_| ()).unwrap_err();
    assert!(why.message().contains("`ovolo.cache` is `0` or `1`, and `yes` was given"), "{why}");
    let mut with = builder().with_config_entry("ovolo.pipeline", "natve").unwrap();
    let why = with.commit_from_file(DIGITS).unwrap_err();
    assert!(why.message().contains("natve") && why.message().contains("native"), "{why}");
}

#[test]
fn options_of_a_run_can_be_read_back() {
    let mut session = open(&model::arithmetic());
    let mut options = RunOptions::new().unwrap().with_tag("first").unwrap();
    options.set("key", "value").unwrap();
    options.set_log_verbosity(3).unwrap();
    assert_eq!(options.tag().unwrap(), "first");
    assert_eq!(options.get("key").as_deref(), Some("value"));
    assert_eq!(options.get("other"), None);
    assert_eq!(options.log_verbosity().unwrap(), 3);
    let a = Tensor::from_array(([3_usize], vec![1.0_f32; 3])).unwrap();
    assert!(session.run_with_options(ort::inputs![&a, &a], &options).is_ok());
}
