//! Tests of `src/op/winograd.rs`.

use crate::common;
use ovolo::attr::Attrs;
use ovolo::op::winograd::{Axis, FORMS, sizes};
use ovolo::tensor::{DType, Tensor};

/// Each axis must compute the convolution of any inputs with the filter's taps.
#[test]
fn tiles_are_convolutions() {
    for axis in FORMS.into_iter().flatten() {
        let Axis { taps, tile } = axis;
        let (form, size) = (axis.matrices(), axis.size());
        let times = |matrix: &[f64], vector: &[f64]| -> Vec<f64> {
            let rows = matrix.chunks_exact(vector.len());
            rows.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
        };
        let filter: Vec<f64> = (0..taps).map(|i| (i as f64 * 1.7).sin()).collect();
        let inputs: Vec<f64> = (0..size).map(|i| (i as f64 * 2.3).cos()).collect();
        let (u, v) = (times(&form.filter, &filter), times(&form.input, &inputs));
        let product: Vec<f64> = u.iter().zip(&v).map(|(u, v)| u * v).collect();
        for (at, value) in times(&form.output, &product).into_iter().enumerate() {
            let want: f64 = filter.iter().zip(&inputs[at..]).map(|(g, d)| g * d).sum();
            assert!((value - want).abs() < 1e-12, "F({tile},{taps})[{at}]: {value}, not {want}");
        }
    }
}

/// Weights in `f32` are those of the matrices, for numbers of outputs that do and do not fill the lanes.
#[test]
#[allow(clippy::cast_possible_truncation)]
fn weights_are_transformed_by_the_matrices() {
    let op = common::ops().get("winograd-weights").expect("it is an op");
    for form in FORMS {
        let ([r, s], [m, n]) = (form.map(|axis| axis.taps), form.map(Axis::size));
        let (outputs, channels) = (19, 3);
        let filters: Vec<f64> = (0..outputs * channels * r * s).map(|i| (i as f64 * 1.7).sin()).collect();
        let w = Tensor::from_f64(DType::F32, [outputs, channels, r, s], &filters);
        let attrs = Attrs::new().ints("tile", &sizes(form.map(|axis| axis.tile)));
        let ty = op.result(&attrs, &[w.ty()]).expect("the form is known");
        let got = op.evaluate(&attrs, &[&w], &ty).to_f64();
        let [rows, columns] = form.map(|axis| axis.matrices().filter);
        for (at, value) in got.iter().enumerate() {
            let (output, channel) = (at % outputs, at / outputs % channels);
            let (row, column) = (at / outputs / channels / n, at / outputs / channels % n);
            assert!(row < m);
            let filter = &filters[(output * channels + channel) * r * s..][..r * s];
            let term = |i: usize| {
                let factor = rows[row * r + i / s] * columns[column * s + i % s];
                factor * f64::from(filter[i] as f32)
            };
            let want: f64 = (0..r * s).map(term).sum();
            assert!((value - want).abs() < 1e-6, "{form:?} {at}: {value}, not {want}");
        }
    }
}
