//! The program, where some tests need what may be absent: oneDNN, a browser, Ray, Python. They count as ignored
//! there, and as failed where `OVOLO_REQUIRE_ONEDNN` and so on demand them, as in CI.
#![allow(clippy::unwrap_used)]

#[path = "../cli/common.rs"]
mod common;
#[path = "../../../tests/common/need.rs"]
mod need;

mod exchange;
mod experiment;
mod full_disk;
mod onednn;
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

/// A browser that draws pages without a screen.
fn browser() -> Need {
    Need::new("Chromium", report::browser::browser().map(|_| ()), "OVOLO_REQUIRE_BROWSER")
}

/// The Python package Ray.
fn ray() -> Need {
    Need::new("Ray", ray::python().map(|_| ()), "OVOLO_REQUIRE_RAY")
}

/// A file system that may be mounted.
fn mount() -> Need {
    Need::undemanded("a mount of its own", full_disk::can_mount())
}

fn main() {
    let mut trials = Vec::new();
    trials.extend(trials![[mount()], full_disk::a_disk_that_is_full_loses_nothing_but_the_entry]);
    trials.extend(trials![
        [],
        exchange::a_wrong_choice_is_found_by_the_checker,
        exchange::a_model_s_egraph_is_extracted_as_when_it_is_compiled,
        exchange::bad_files_are_refused_with_the_place_and_what_to_do,
        experiment::the_first_worked_experiment_is_the_same_twice_and_says_what_the_commands_say,
        experiment::what_was_stopped_goes_on_where_it_was,
        experiment::all_mistakes_of_a_spec_are_told_at_once_with_their_places,
        experiment::results_by_other_times_are_neither_merged_nor_gone_on_with,
        experiment::a_backend_that_is_not_there_is_said_in_one_line,
        onednn::without_the_library_its_rules_are_not_in_play_and_the_report_says_so,
        onednn::doctor_says_where_it_looked,
        report::a_page_is_one_file_that_asks_for_nothing_and_is_the_same_each_time,
        report::a_page_that_cannot_be_written_is_refused_before_the_work,
    ]);
    trials.extend(trials![
        [python()],
        exchange::choices_of_every_extractor_are_priced_again,
        exchange::a_choice_without_a_bound_is_checked,
    ]);
    trials.extend(trials![
        [need::onednn()],
        onednn::a_residual_is_added_where_it_lies,
        onednn::a_copy_is_priced_and_another_kernel_taken,
        onednn::a_residual_that_the_kernel_reads_otherwise_is_copied_first,
        onednn::one_and_two_threads_give_one_result,
        onednn::what_times_depend_on_is_the_version_and_not_the_place,
        onednn::a_model_that_was_fitted_without_a_backend_does_not_price_it,
        onednn::a_patched_library_is_another_one,
    ]);
    trials.extend(trials![
        [need::onednn(), need::avx512()],
        onednn::in_bf16_chains_of_layers_are_cast_at_their_ends_alone,
        onednn::where_weights_take_the_time_products_are_in_bf16,
        onednn::a_model_in_bf16_runs_on_kernels_in_bf16,
    ]);
    trials.extend(trials![
        [browser()],
        experiment::shards_give_what_one_run_gives_and_other_machines_are_refused,
        experiment::the_page_of_the_second_worked_experiment_has_every_plot,
        experiment::what_failed_is_tried_again_and_a_changed_program_is_another_experiment,
        report::each_device_has_a_picture_of_its_memory,
        report::the_pictures_of_squeezenet_are_whole,
        report::the_pictures_of_bert_are_whole,
        report::names_that_look_like_a_page_s_own_text_are_shown_as_they_are,
        report::a_model_without_steps_has_a_page_as_well,
        report::the_page_of_a_profile_has_a_row_for_each_step_the_longest_first,
    ]);
    trials.extend(trials![[ray()], ray::shards_of_a_local_cluster_give_what_one_run_gives,]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
