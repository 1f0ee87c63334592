//! Tests of the loops that no op reaches alone, each on every instruction set. A test on an instruction set that this
//! processor lacks counts as ignored.
#![allow(clippy::unwrap_used)]

// These tests need private items. Only these modules are compiled a second time: the library itself has no test target,
// since that would compile every kernel again.
#[allow(dead_code)]
#[path = "../../../vector/src/chain.rs"]
mod chain;
#[allow(dead_code)]
#[path = "../../../linear/src/few.rs"]
mod few;
#[allow(dead_code)]
#[path = "../../../vector/src/formula.rs"]
mod formula;
#[allow(dead_code)]
#[path = "../../../linear/src/gemm.rs"]
mod gemm;

#[allow(dead_code)]
#[path = "../../../tests/common/kernel.rs"]
mod check;
mod few_rows;
#[path = "../kernels/fixture.rs"]
mod fixture;
mod steps;
mod tiles;

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo_vector::lanes::{self, Isa};
use ovolo_vector::{args, math, prefetch};

/// The instruction sets.
const ISAS: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

fn main() {
    // Reads `OVOLO_ISA`.
    fixture::ops();
    let mut trials = vec![Trial::test("every_loop_of_its_own_is_of_a_function", || {
        steps::overrides_are_functions();
        Ok(())
    })];
    for isa in ISAS {
        trials.push(trial("functions_and_steps_agree_with_their_formulas", isa, steps::agree_on));
        trials.push(trial("short_rows_are_joined", isa, steps::rows_on));
        trials.push(trial("tiles_agree", isa, tiles::agree_on));
        trials.push(trial("products_of_few_rows_agree", isa, few_rows::agree_on));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns a test on an instruction set, which counts as ignored if kernels do not run on it. With
/// `OVOLO_REQUIRE_AVX512`, as in CI on a processor that has AVX-512, its absence is a failure, unless `OVOLO_ISA` asks
/// for another set.
fn trial(name: &str, isa: Isa, run: fn(Isa)) -> Trial {
    let name = format!("{name}::{isa}");
    if isa <= Isa::running() {
        return Trial::test(name, move || {
            run(isa);
            Ok(())
        });
    }
    let has = |variable| std::env::var_os(variable).is_some();
    let demanded = isa == Isa::Avx512 && has("OVOLO_REQUIRE_AVX512") && !has("OVOLO_ISA");
    let why = format!("kernels run on {} here", Isa::running());
    Trial::test(name, move || Err(Failed::from(why)))
        .with_kind(format!("needs {isa}"))
        .with_ignored_flag(!demanded)
}
