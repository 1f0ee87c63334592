//! Tests of what may be absent: oneDNN, and plans for AVX-512. They count as ignored there, and as failed where `OVOLO_REQUIRE_ONEDNN`
//! demands it, as in CI.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../common/kernel.rs"]
mod check;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/need.rs"]
mod need;

mod concat;
mod onednn;
mod resample;

use libtest_mimic::{Arguments, Trial};
use need::Need;
// `check` is a module of the backends' crates as well, and finds the ops under this name there.
use common as fixture;

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

fn main() {
    let mut trials = Vec::new();
    trials.extend(trials![[need::plans_for_avx512()], concat::the_concatenations_of_squeezenet_are_no_steps]);
    trials.extend(trials![
        [need::onednn()],
        onednn::convolutions_agree_in_every_layout_that_has_a_kernel,
        onednn::chains_follow_a_convolution,
        onednn::products_agree,
        onednn::pools_agree,
        onednn::rows_and_elements_agree,
        onednn::conversions_concatenations_and_reductions_agree,
        onednn::what_only_the_reference_computes_is_refused,
        onednn::what_is_refused_does_not_hang_on_what_was_made_before,
        onednn::kernels_in_bf16_agree,
        onednn::images_of_other_sizes_agree,
        resample::results_are_those_of_onnx,
        resample::transposed_convolutions_run_in_blocks,
        resample::what_onednn_places_otherwise_runs_natively,
    ]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
