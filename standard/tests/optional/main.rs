//! Tests of the program that need something which may be absent: oneDNN, a browser, Ray, Python, ONNX
//! Runtime. Without it they count as ignored, or as failed if `OVOLO_REQUIRE_ONEDNN` or a similar variable is set, as in CI.
#![allow(clippy::unwrap_used)]

#[path = "../cli/common.rs"]
mod common;
#[path = "../../../tests/common/need.rs"]
mod need;
#[path = "../cli/cache/values.rs"]
mod values;

mod editors;
mod exchange;
mod experiment;
mod full_disk;
mod onednn;
mod quantize;
mod ray;
mod report;

use libtest_mimic::{Arguments, Trial};
use need::Need;
use std::process::Command;

/// Trials of functions with some needs, named by their paths.
macro_rules! trials {
    ($needs:expr, $($test:path),* $(,)?) => {
        [$(trial(stringify!($test), &$needs, $test)),*]
    };
}

fn trial(name: &str, needs: &[Need], test: fn()) -> Trial {
    need::trial(name, needs, move || {
        test();
        Ok(())
    })
}

/// Python 3.
fn python() -> Need {
    let found = Command::new("python3").arg("--version").output().map(|_| ());
    Need::new("Python 3", found.map_err(|error| format!("python3: {error}")), "OVOLO_REQUIRE_PYTHON")
}

/// The Python packages ONNX and ONNX Runtime.
fn onnx_runtime() -> Need {
    Need::new("ONNX Runtime", quantize::runtime(), "OVOLO_REQUIRE_ONNXRUNTIME")
}

/// A browser that renders pages without a screen.
fn browser() -> Need {
    Need::new("Chromium", report::browser::browser().map(|_| ()), "OVOLO_REQUIRE_BROWSER")
}

/// The Python package Ray.
fn ray() -> Need {
    Need::new("Ray", ray::python().map(|_| ()), "OVOLO_REQUIRE_RAY")
}

/// Plans of oneDNN's kernels come from the cache as they were kept.
fn plans_on_onednn_are_loaded_unchanged_and_give_the_same_bits() {
    values::loads_give_the_same_bits(&["cpu", "onednn"]);
}

/// A client of the language server in Python.
fn language_client() -> Need {
    Need::new("pytest-lsp", editors::python().map(|_| ()), "OVOLO_REQUIRE_EDITORS")
}

/// Node.js with the packages by which VS Code reads grammars.
fn node() -> Need {
    Need::undemanded("Node.js", editors::node_packages().map(|_| ()))
}

/// Permission to mount a file system.
fn mount() -> Need {
    Need::undemanded("a mount of its own", full_disk::can_mount())
}

fn main() {
    let mut trials = Vec::new();
    trials.extend(trials![[mount()], full_disk::a_full_disk_loses_nothing_but_the_entry]);
    trials.extend(trials![
        [],
        exchange::a_wrong_choice_is_found_by_the_checker,
        exchange::a_model_s_egraph_is_extracted_as_when_it_is_compiled,
        exchange::bad_files_are_refused_with_the_place_and_what_to_do,
        experiment::the_first_example_is_the_same_twice_and_agrees_with_the_commands,
        experiment::a_stopped_run_continues_where_it_stopped,
        experiment::all_mistakes_of_a_spec_are_reported_together_with_their_places,
        experiment::results_by_other_times_are_neither_merged_nor_continued,
        experiment::an_absent_backend_is_reported_in_one_line,
        onednn::without_the_library_its_rules_are_not_used_and_the_report_says_so,
        onednn::doctor_reports_where_it_looked,
        report::a_page_is_one_file_without_requests_and_the_same_each_time,
        report::a_page_that_cannot_be_written_is_refused_at_once,
    ]);
    trials.extend(trials![
        [python()],
        exchange::choices_of_every_extractor_are_priced_again,
        exchange::a_choice_without_a_bound_is_checked,
    ]);
    trials.extend(trials![
        [onnx_runtime()],
        quantize::onnx_runtime_gives_the_outputs_of_quantised_models_within_a_level,
        quantize::onnx_runtime_gives_the_outputs_of_sums_and_pools_of_levels_within_a_level,
    ]);
    trials.extend(trials![
        [need::onednn()],
        plans_on_onednn_are_loaded_unchanged_and_give_the_same_bits,
        onednn::a_residual_is_added_in_place,
        onednn::a_copy_is_priced_and_another_kernel_chosen,
        onednn::a_residual_that_the_kernel_also_reads_is_copied_first,
        onednn::one_and_two_threads_give_one_result,
        onednn::times_depend_on_the_version_and_not_on_the_path,
        onednn::a_model_fitted_without_a_backend_does_not_price_it,
        onednn::a_patched_library_is_a_different_one,
    ]);
    trials.extend(trials![
        [need::onednn(), need::avx512()],
        onednn::in_bf16_chains_of_layers_are_cast_only_at_their_ends,
        onednn::products_limited_by_weights_are_in_bf16,
        onednn::a_model_in_bf16_runs_on_kernels_in_bf16,
    ]);
    trials.extend(trials![
        [browser()],
        experiment::shards_give_the_results_of_one_run_and_other_machines_are_refused,
        experiment::failed_tasks_are_tried_again_and_a_changed_program_is_another_experiment,
        report::each_device_has_a_picture_of_its_memory,
        report::the_pictures_of_squeezenet_are_complete,
        report::names_that_look_like_markup_are_shown_unchanged,
        report::a_model_without_steps_has_a_page_as_well,
        report::the_page_of_a_profile_has_a_row_for_each_step_the_longest_first,
    ]);
    trials.extend(trials![
        [browser(), need::patience()],
        experiment::the_page_of_the_second_example_has_every_plot,
        report::the_pictures_of_bert_are_complete,
    ]);
    trials.extend(trials![[ray()], ray::shards_of_a_local_cluster_give_the_results_of_one_run,]);
    trials.extend(trials![[language_client()], editors::a_client_drives_the_language_server]);
    trials.extend(trials![[node()], editors::the_grammar_names_the_parts_of_sample_lines]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
