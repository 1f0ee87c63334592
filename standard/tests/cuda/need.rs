//! The needs of device tests: a C++ compiler, NVRTC, the stand-ins for the driver and the libraries, or a
//! device and the libraries themselves.

#[path = "../../../tests/common/need.rs"]
mod shared;

use super::{host, machine, nvrtc, standin};
use shared::Need;
pub use shared::trial;
use std::path::PathBuf;

/// Where a test runs plans or calls the libraries.
#[derive(Clone, Copy)]
pub enum Place {
    /// It runs no plans.
    Nowhere,
    /// On a device, or on the stand-in for one.
    Driver,
    /// On the stand-in only, which reports what happened.
    Standin,
}

/// Returns the needs of a test that runs at a place and uses some libraries.
pub fn needs(place: Place, libraries: &[&'static str]) -> Vec<Need> {
    let mut needs = match place {
        Place::Nowhere => Vec::new(),
        Place::Driver if standin::on_device() => Vec::new(),
        Place::Driver | Place::Standin => vec![standin(), nvrtc()],
    };
    needs.extend(libraries.iter().copied().map(library));
    needs
}

/// A C++ compiler, to run generated kernels on the processor.
pub fn cxx() -> Need {
    Need::new("a C++ compiler", host::compiler().map(|_| ()), "OVOLO_REQUIRE_CXX")
}

/// NVIDIA's run-time compiler.
pub fn nvrtc() -> Need {
    let found = nvrtc::compiler().map(|_| ());
    Need::new("NVRTC", found, "OVOLO_REQUIRE_NVRTC")
}

/// NVIDIA's disassembler.
pub fn disassembler() -> Need {
    let found = machine::disassembler()
        .map(|_| ())
        .map_err(|why| format!("the disassembler: {why}; `cargo xtask nvrtc` fetches it"));
    Need::new("nvdisasm", found, "OVOLO_REQUIRE_NVRTC")
}

/// An NVIDIA device, for tests that take minutes on the stand-in.
pub fn device() -> Need {
    let found =
        if standin::on_device() { Ok(()) } else { Err("`cargo xtask gpu` runs it on one".to_owned()) };
    Need::new("a device", found, "OVOLO_TEST_DEVICE")
}

/// The stand-in for a device, unless the tests run on a device.
fn standin() -> Need {
    if standin::on_device() {
        return Need::undemanded("the stand-in", Err("these tests run on a device".to_owned()));
    }
    let found = standin::get().map(|_| ()).ok_or("it needs a C++ compiler".to_owned());
    Need::new("the stand-in", found, "OVOLO_REQUIRE_CXX")
}

/// A library of NVIDIA, or the stand-in for it; it must be the same kind as the driver.
fn library(name: &'static str) -> Need {
    let found = crate::common::registry().backends().find(name).map_err(Into::into);
    let found = found.and_then(|backend| backend.found()).map(|_| ()).map_err(|why| why.to_string());
    if let (Some(_), Err(why)) = (standin::get(), &found) {
        panic!("the stand-in for `{name}`: {why}");
    }
    Need::undemanded(name, found)
}

/// The program `ovolo`: Cargo's, or the one that `OVOLO_TEST_PROGRAM` names.
pub fn program() -> PathBuf {
    let named = std::env::var_os("OVOLO_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_ovolo").into(), PathBuf::from)
}
