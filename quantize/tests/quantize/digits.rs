//! The network of the examples: losses are measured, bounds hold, and files are the same each time.

use crate::fixture::{digits, engine};
use ovolo::npy;
use ovolo::onnx::ImportOptions;
use ovolo_quantize::{
    Batch, Calibration, Data, Document, Metric, Objective, Point, Ranges, Search, accuracy, calibrate,
};

/// The network for batches of 120 images, and three such batches.
fn network() -> (Document, ImportOptions, Vec<Batch>) {
    let document = Document::read(&digits("digits.onnx")).unwrap();
    let import = ImportOptions::default().with_dim("N", 120);
    let mut data = Data::default();
    data.push("image", &digits("images.npy"), npy::read(digits("images.npy")).unwrap());
    let batches = data.batches(engine(&import).compile(document.bytes()).unwrap().plan()).unwrap();
    assert_eq!(batches.len(), 3);
    (document, import, batches)
}

fn labels() -> Vec<i64> {
    npy::read(digits("labels.npy")).unwrap().to_i64().unwrap()
}

/// Calls a function with a search among the layers of the network, by the size of the file.
fn with_search(metric: Metric, calibration: Calibration, call: impl FnOnce(&Document, &Ranges, &Search<'_>)) {
    let (document, import, batches) = network();
    let engine = engine(&import);
    let ranges = calibrate(&document, &engine, &batches, calibration).unwrap();
    let search = Search::new(&document, &engine, &batches, &ranges, Objective::Size, metric).unwrap();
    call(&document, &ranges, &search);
}

#[test]
fn the_loss_is_within_each_bound_and_more_loss_makes_the_file_smaller() {
    with_search(Metric::Outputs, Calibration::MinMax, |_, _, search| {
        let mut bytes = usize::MAX;
        for most in [0.0, 0.006, 0.007, 0.012, 0.05] {
            let point = search.within(most).unwrap();
            assert!(point.loss <= most, "{point:?}");
            assert!(point.bytes <= bytes, "{point:?}");
            bytes = point.bytes;
        }
        assert_eq!(search.within(0.0).unwrap(), search.float);
        let smallest = search.within(0.05).unwrap();
        assert!(smallest.bytes < search.float.bytes / 2 && smallest.loss > 0.0, "{smallest:?}");
        // A layer that is not on the path of the extraction is found if it alone is within the bound.
        assert_eq!(search.within(0.006).unwrap().chosen, [false, false, false, false, true]);
    });
}

#[test]
fn the_curve_rises_in_cost_and_falls_in_loss() {
    with_search(Metric::Outputs, Calibration::Percentile(99.9), |_, _, search| {
        let curve: Vec<Point> = search.curve().unwrap();
        assert!(curve.len() > 2);
        for pair in curve.windows(2) {
            assert!(pair[0].bytes < pair[1].bytes && pair[0].loss > pair[1].loss, "{curve:?}");
        }
        assert_eq!(curve.last().unwrap(), &search.float);
    });
}

#[test]
fn almost_all_digits_are_read_as_before() {
    for calibration in [Calibration::MinMax, Calibration::Entropy, Calibration::Percentile(99.9)] {
        with_search(Metric::Labels(labels()), calibration, |_, _, search| {
            let before = search.float.accuracy.unwrap();
            assert!((before - 355.0 / 360.0).abs() < 1e-9);
            let point = search.within(0.01).unwrap();
            assert!(point.chosen.iter().filter(|chosen| **chosen).count() >= 2, "{point:?}");
            assert!(before - point.accuracy.unwrap() <= 0.01 && point.loss <= 0.01, "{point:?}");
        });
    }
}

#[test]
fn the_written_file_is_the_same_each_time_and_is_the_measured_model() {
    let mut files = Vec::new();
    for _ in 0..2 {
        with_search(Metric::Outputs, Calibration::Entropy, |document, ranges, search| {
            let point = search.within(0.1).unwrap();
            let bytes = search.written(&point).unwrap();
            assert_eq!(bytes, document.quantised(&point.chosen, ranges).unwrap());
            assert_eq!(bytes.len(), point.bytes);
            files.push(bytes);
        });
    }
    assert_eq!(files[0], files[1]);
    let (_, import, batches) = network();
    let mut model = engine(&import).compile(&files[0]).unwrap();
    let outputs: Vec<_> = batches.iter().map(|batch| model.run(batch).unwrap().remove(0)).collect();
    let right = accuracy(&outputs.iter().collect::<Vec<_>>(), &labels()).unwrap();
    assert!(right >= 350.0 / 360.0, "{right}");
}

#[test]
fn integers_compute_the_layers_that_are_quantised() {
    let (document, import, batches) = network();
    let engine = engine(&import);
    let ranges = calibrate(&document, &engine, &batches, Calibration::MinMax).unwrap();
    let model =
        engine.compile(&document.quantised(&[false, false, false, false, true], &ranges).unwrap()).unwrap();
    let ops: Vec<&str> = model.plan().steps.iter().map(|step| step.op.name).collect();
    assert!(ops.iter().any(|op| op.contains("quantize")), "{ops:?}");
    assert!(model.price_of_levels("flat_quantized") > 0.0);
    assert!(model.price_of_levels("flat") <= 0.0);
}

#[test]
fn labels_must_be_as_many_as_rows_and_name_classes_that_there_are() {
    let (document, import, batches) = network();
    let engine = engine(&import);
    let ranges = calibrate(&document, &engine, &batches, Calibration::MinMax).unwrap();
    for (labels, said) in [
        (vec![0; 7], "there are 7 labels for 360 rows of the first output"),
        (vec![10; 360], "a label is 10, and a row of the first output has 10 classes, from 0 on"),
    ] {
        let metric = Metric::Labels(labels);
        let search = Search::new(&document, &engine, &batches, &ranges, Objective::Time, metric);
        assert_eq!(search.err().unwrap().to_string(), format!("the loss cannot be measured: {said}"));
    }
}
