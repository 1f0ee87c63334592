//! Tests of convolutions in blocks of 16 channels, for which only processors with AVX-512 have kernels. Elsewhere they count
//! as ignored, or as failed if `OVOLO_REQUIRE_AVX512` is set, as in CI. The tests `kernels` have those in blocks of 8.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../tests/common/kernel.rs"]
mod check;
// Its other tests are those of `kernels`.
#[allow(dead_code, unused_imports)]
#[path = "../kernels/convolution.rs"]
mod convolution;
#[path = "../kernels/fixture.rs"]
mod fixture;

use libtest_mimic::{Arguments, Trial};
use ovolo_native::Isa;

fn main() {
    // This tells the library what `OVOLO_ISA` asks for.
    fixture::ops();
    let planned = Isa::planned();
    let wide = planned == Isa::Avx512;
    let demanded = std::env::var_os("OVOLO_REQUIRE_AVX512").is_some() && planned == Isa::host();
    let trials = convolution::IN_BLOCKS.iter().map(|&(name, test)| {
        let trial = Trial::test(name, move || match wide {
            true => {
                test(16);
                Ok(())
            }
            false => Err(format!("the test needs AVX-512: plans are for {planned}").into()),
        });
        if wide { trial } else { trial.with_kind("needs AVX-512").with_ignored_flag(!demanded) }
    });
    let trials = trials.collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
