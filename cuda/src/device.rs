//! The properties of a device, and the price list that follows from them.

use ovolo::error::Source;
use ovolo::tensor::Family;
use std::fmt;

/// The family of devices that the backend runs on.
pub const FAMILY: Family = Family::new("cuda");

/// A compute capability, such as 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Architecture(pub u32, pub u32);

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.0, self.1)
    }
}

/// What the driver reports about a device. Prices are computed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Properties {
    /// The name.
    pub name: String,
    /// The compute capability.
    pub architecture: Architecture,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock: u32,
    /// The highest clock of the memory, in kHz.
    pub memory_clock: u32,
    /// The width of the memory's bus, in bits.
    pub memory_bus: u32,
}

impl Properties {
    /// Returns the words of `costs/cuda.ron` that describe the device, with their values.
    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let hertz = |kilohertz: u32| format!("{:e}", f64::from(kilohertz) * 1e3);
        let Architecture(major, minor) = self.architecture;
        let all = [
            ("capability", (10 * major + minor).to_string()),
            ("multiprocessors", self.multiprocessors.to_string()),
            ("clock", hertz(self.clock)),
            ("memory_clock", hertz(self.memory_clock)),
            ("memory_bus", self.memory_bus.to_string()),
        ];
        // Drivers report 0 for what they do not know, such as clocks of virtual devices. The shipped list has a value.
        all.into_iter().filter(|(_, value)| !matches!(value.as_str(), "0" | "0e0")).collect()
    }

    /// Returns a price list with the words that describe the device.
    pub(super) fn prices(&self) -> Source {
        let words: String =
            self.words().iter().map(|(word, value)| format!("        \"{word}\": {value},\n")).collect();
        let name: String = self.name.chars().filter(|sign| !matches!(sign, '"' | '\\')).collect();
        let text = format!(
            "Prices(\n    ops: [\"cuda.*\", \"cublaslt.*\", \"cudnn.*\"],\n    \
             fitted_on: \"the properties of {name} that its driver reports\",\n    define: {{\n{words}    }},\n)\n"
        );
        Source::new(format!("{}", ovolo::tensor::Device::Accelerator(FAMILY, 0)), text)
    }
}
