//! Tests of `src/cost/learned/linear.rs`.

use super::source::learned::encode::Row;
use super::source::learned::linear::{Linear, solve};

#[test]
fn a_system_is_solved() {
    // [[4, 2], [2, 3]] [1, 2] = [8, 8].
    let found = solve(vec![4.0, 0.0, 2.0, 3.0], vec![8.0, 8.0]);
    assert!((found[0] - 1.0).abs() < 1e-12 && (found[1] - 2.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn a_line_is_found_again_for_each_kind() {
    let row = |x: f64, kind: usize| Row { numbers: vec![x, 0.0, 0.0], categories: vec![Some(kind)] };
    let of = |x: f64, kind: usize| if kind == 0 { 2.0 * x } else { 5.0 - x };
    let rows: Vec<Row> = (0..4000).map(|at| row(f64::from(at % 40) / 10.0, at as usize % 2)).collect();
    let targets: Vec<f64> = (0..4000).map(|at| of(f64::from(at % 40) / 10.0, at as usize % 2)).collect();
    let line = Linear::fit(&rows, &targets, vec![2]);
    for (row, target) in rows.iter().zip(&targets) {
        assert!((line.predict(row) - target).abs() < 0.05, "{row:?}: {} {target}", line.predict(row));
    }
}
