//! Tests that need oneDNN or plans for AVX-512. Without these they count as ignored, or as failed if
//! `OVOLO_REQUIRE_ONEDNN` is set, as in CI.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../common/kernel.rs"]
mod check;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/need.rs"]
mod need;

mod concat;
mod fit;
mod onednn;
mod resample;

use libtest_mimic::{Arguments, Trial};
use need::Need;
// The module `check` also belongs to the backends' crates, and there it finds the ops under this name.
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
    trials.extend(trials![
        [need::plans_for_avx512()],
        concat::concatenations_of_squeezenet_need_no_steps,
        fit::operands_lie_within_the_concatenation,
        fit::the_obstacle_to_a_smaller_plan_is_named,
    ]);
    trials.extend(trials![
        [need::onednn()],
        onednn::convolutions_agree_in_every_layout_that_has_a_kernel,
        onednn::chains_follow_a_convolution,
        onednn::products_agree,
        onednn::sums_of_bytes_are_exact,
        onednn::pools_agree,
        onednn::rows_and_elements_agree,
        onednn::attention_agrees,
        onednn::conversions_concatenations_and_reductions_agree,
        onednn::reference_implementations_of_onednn_are_refused,
        onednn::refusals_do_not_depend_on_earlier_kernels,
        onednn::kernels_in_bf16_agree,
        onednn::images_of_other_sizes_agree,
        onednn::recurrent_layers_agree,
        resample::results_are_those_of_onnx,
        resample::transposed_convolutions_run_in_blocks,
        resample::modes_absent_from_onednn_run_natively,
    ]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
