//! Tests of `src/op/winograd.rs`.

use ovolo::op::winograd::{Axis, FORMS};

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
