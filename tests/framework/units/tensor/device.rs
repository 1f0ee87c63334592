//! Tests of `src/tensor/device.rs`.

use ovolo::tensor::{Device, Family};

#[test]
fn a_device_reads_as_it_is_written() {
    for device in [Device::Host, Device::Accelerator(Family::new("gpu"), 3)] {
        assert_eq!(device.to_string().parse(), Ok(device));
    }
    for text in ["", "gpu", "gpu:", "gpu:00", "gpu:256", ":0", "Gpu:0", "0:0", "g u:0", "host:0"] {
        assert!(text.parse::<Device>().is_err(), "{text}");
    }
    assert!(Device::Host < Device::Accelerator(Family::new("a"), 0));
}
