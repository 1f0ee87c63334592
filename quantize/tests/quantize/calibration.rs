//! Calibration: histograms, thresholds, and ranges of a model's values.

use crate::fixture::{batches, engine, model, node, three_products, weights};
use ovolo::onnx::ImportOptions;
use ovolo::tensor::Tensor;
use ovolo_quantize::{BINS, Calibration, Document, Histogram, QuantizeError, Range, calibrate, threshold};
use prost::Message;

#[test]
fn a_histogram_counts_and_cuts_off_as_much_at_either_end() {
    let mut histogram = Histogram::new(Range::new(-1024.0, 1024.0));
    // Each bin has a width of one, and one value.
    #[allow(clippy::cast_precision_loss)]
    histogram.add((0..BINS).map(|bin| bin as f32 - 1023.5));
    assert!(histogram.counts().iter().all(|count| *count == 1));
    assert_eq!(histogram.without(0.0), Range::new(-1024.0, 1024.0));
    assert_eq!(histogram.without(0.5), Range::new(-512.0, 512.0));
    // What is outside of the range is in the bins at its ends.
    histogram.add([-1e9, 1e9, f32::INFINITY]);
    assert_eq!((histogram.counts()[0], histogram.counts()[BINS - 1]), (2, 3));
    let mut flat = Histogram::new(Range::new(0.0, 0.0));
    flat.add([0.0; 5]);
    assert_eq!(flat.without(0.1), Range::new(0.0, 0.0));
}

#[test]
fn a_percentile_of_values_at_one_side_cuts_only_there() {
    let mut histogram = Histogram::new(Range::new(0.0, 2048.0));
    histogram.add(std::iter::repeat_n(0.5, 990).chain(std::iter::repeat_n(2047.5, 10)));
    // One percent is 10 values of 1000, and half of them may be cut off at either end: no whole bin.
    assert_eq!(histogram.without(0.01), Range::new(0.0, 2048.0));
    assert_eq!(histogram.without(0.02), Range::new(0.0, 1.0));
}

#[test]
fn the_threshold_keeps_even_values_and_cuts_off_what_is_rare() {
    // Levels of eight bins each lose nothing of equal counts, so the whole range is best.
    assert_eq!(threshold(&[3; BINS], 256), BINS);
    // Two values in a million are far away from the others, which would share few levels.
    let mut counts: Vec<u64> =
        (0..BINS).map(|bin| if bin < 300 { 10_000 - 33 * bin as u64 } else { 0 }).collect();
    counts[BINS - 1] = 2;
    let bins = threshold(&counts, 128);
    assert!((250..=400).contains(&bins), "{bins}");
    // Nothing is lost if each bin has a level of its own.
    let mut few = vec![0; BINS];
    few[..128].fill(7);
    assert!(threshold(&few, 128) >= 128);
    assert_eq!(threshold(&[0; BINS], 128), BINS);
    assert_eq!(threshold(&[1, 2, 3], 128), 3);
}

#[test]
fn names_of_calibrations_are_read_and_written() {
    for (text, expected) in [
        ("min-max", Calibration::MinMax),
        ("entropy", Calibration::Entropy),
        ("percentile:99.9", Calibration::Percentile(99.9)),
    ] {
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(expected.to_string(), text);
    }
    for wrong in ["", "minmax", "percentile", "percentile:0", "percentile:101", "percentile:nan", "entropy:3"]
    {
        assert!(wrong.parse::<Calibration>().is_err(), "{wrong}");
    }
}

/// `y = relu(x w) v` for weights with one column each.
fn chain() -> Vec<u8> {
    let nodes =
        vec![node("MatMul", &["x", "w"], "a"), node("Relu", &["a"], "b"), node("MatMul", &["b", "v"], "y")];
    let weights = vec![weights("w", &[2, 1], &[1.0, 2.0]), weights("v", &[1, 1], &[1.0])];
    model(nodes, weights, &[1, 2], &[1, 1]).encode_to_vec()
}

#[test]
fn ranges_are_those_of_all_batches_for_inputs_and_values_within() {
    let bytes = chain();
    let import = ImportOptions::default();
    let given = [Tensor::from_elements([3, 2], &[1.0_f32, 2.0, -3.0, -4.0, 0.5, 0.0])];
    let batches = batches(&bytes, &given).unwrap();
    assert_eq!(batches.len(), 3);
    let document = Document::new("chain", bytes).unwrap();
    let ranges = calibrate(&document, &engine(&import), &batches, Calibration::MinMax).unwrap();
    assert_eq!(ranges.len(), 2);
    assert_eq!(ranges["x"], Range::new(-4.0, 2.0));
    assert_eq!(ranges["b"], Range::new(0.0, 5.0));
}

#[test]
fn entropy_and_percentiles_stay_within_the_least_and_the_greatest_values() {
    let bytes = three_products();
    let given = Tensor::from_elements([64, 16], &crate::fixture::noise(1024, 9));
    let batches = batches(&bytes, &[given]).unwrap();
    let document = Document::new("three", bytes).unwrap();
    let import = ImportOptions::default();
    let of = |method| calibrate(&document, &engine(&import), &batches, method).unwrap();
    let whole = of(Calibration::MinMax);
    for method in [Calibration::Entropy, Calibration::Percentile(99.0)] {
        let ranges = of(method);
        assert_eq!(ranges.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
        for (name, range) in &ranges {
            assert!(
                range.low() >= whole[name].low() && range.high() <= whole[name].high(),
                "{method} {name}"
            );
            assert!(
                range.high() > 0.5 * whole[name].high(),
                "{method} {name}: {range:?} of {:?}",
                whole[name]
            );
        }
        assert!(method == Calibration::Entropy || ranges["top"].high() < whole["top"].high());
    }
}

#[test]
fn values_that_are_not_finite_have_no_range() {
    let bytes = chain();
    let batches = batches(&bytes, &[Tensor::from_elements([2, 2], &[1.0_f32, 2.0, f32::NAN, 0.0])]).unwrap();
    let document = Document::new("chain", bytes).unwrap();
    let error = calibrate(&document, &engine(&ImportOptions::default()), &batches, Calibration::MinMax);
    let error = error.unwrap_err();
    assert!(matches!(error, QuantizeError::NotFinite { batch: 1, .. }), "{error}");
    assert!(error.to_string().contains("holds NaN in batch 1"), "{error}");
}
