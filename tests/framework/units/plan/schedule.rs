//! Tests of `src/plan/schedule.rs`.

#[allow(dead_code)]
#[path = "../../../../src/plan/schedule.rs"]
mod source;

use ovolo::plan::{Base, Plan, Step};
use ovolo::tensor::Device;
use source::{Bytes, DeviceStep, Kind, segment};

/// The first byte, and the first byte after the range.
type Span = (usize, usize);

/// Returns the launches for kernels that read and write these bytes of the arena.
fn scheduled(steps: &[(&[Span], Span)]) -> Vec<DeviceStep> {
    let kernels: Vec<_> = steps.iter().map(|(reads, writes)| (Kind::Kernel, *reads, *writes)).collect();
    of_kinds(&kernels)
}

/// Returns the launches for steps of these kinds that do so.
fn of_kinds(steps: &[(Kind, &[Span], Span)]) -> Vec<DeviceStep> {
    let range = |(from, to): Span| from..to;
    let bytes: Vec<Bytes> = steps
        .iter()
        .map(|(kind, reads, writes)| Bytes {
            kind: *kind,
            reads: reads.iter().map(|one| (Device::Host, range(*one))).collect(),
            writes: vec![(Device::Host, range(*writes))],
        })
        .collect();
    segment(&(0..steps.len()).collect::<Vec<_>>(), &bytes)
}

fn launch(step: usize, stream: usize, after: &[usize]) -> DeviceStep {
    DeviceStep { step, stream, after: after.to_vec() }
}

#[test]
fn copies_have_streams_of_their_own_and_wait_for_what_they_must() {
    let launches = of_kinds(&[
        (Kind::Upload, &[], (0, 4)),
        (Kind::Kernel, &[(0, 4)], (4, 8)),
        (Kind::Kernel, &[(4, 8)], (8, 12)),
        // It can run at the same time as both kernels, because no kernel uses its bytes.
        (Kind::Upload, &[], (12, 16)),
        // It can run at the same time as the second kernel: it overwrites what the first one has read.
        (Kind::Upload, &[], (0, 4)),
        (Kind::Download, &[(8, 12)], (100, 104)),
        (Kind::Kernel, &[(12, 16)], (16, 20)),
        (Kind::Download, &[(4, 8)], (104, 108)),
    ]);
    let expected = [
        launch(0, 0, &[]),
        launch(1, 1, &[0]),
        launch(2, 1, &[]),
        launch(3, 0, &[]),
        launch(4, 0, &[1]),
        launch(5, 2, &[2]),
        launch(6, 3, &[3]),
        launch(7, 2, &[]),
    ];
    assert_eq!(launches, expected);
}

#[test]
fn branches_have_streams_and_meet() {
    let launches = scheduled(&[
        (&[], (0, 4)),
        (&[], (4, 8)),
        (&[(0, 4)], (8, 12)),
        (&[(4, 8)], (12, 16)),
        (&[(8, 12), (12, 16)], (16, 20)),
        (&[(16, 20)], (20, 24)),
    ]);
    let expected = [
        launch(0, 0, &[]),
        launch(1, 1, &[]),
        launch(2, 0, &[]),
        launch(3, 1, &[]),
        launch(4, 1, &[2]),
        launch(5, 1, &[]),
    ];
    assert_eq!(launches, expected);
}

#[test]
fn a_place_is_written_again_once_it_was_read_and_once_it_was_written() {
    // The last step reads nothing, and overwrites what step 1 reads.
    let read = scheduled(&[(&[], (0, 4)), (&[(0, 4)], (4, 8)), (&[], (8, 12)), (&[(8, 12)], (0, 4))]);
    assert_eq!(read[3], launch(3, 1, &[1]));
    let written = scheduled(&[(&[], (0, 8)), (&[], (8, 16)), (&[(8, 16)], (4, 8))]);
    assert_eq!(written[2], launch(2, 1, &[0]));
}

#[test]
fn what_is_waited_for_already_is_not_named_again() {
    let launches = scheduled(&[
        (&[], (0, 4)),
        (&[], (4, 8)),
        (&[(0, 4), (4, 8)], (8, 12)),
        (&[(0, 4), (8, 12)], (12, 16)),
    ]);
    assert_eq!(launches[2], launch(2, 1, &[0]));
    assert_eq!(launches[3], launch(3, 1, &[]));
}
