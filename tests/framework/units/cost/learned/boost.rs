//! Tests of `src/cost/learned/boost.rs`.

use super::source::learned::boost::Boosted;
use super::source::learned::encode::Row;

#[test]
fn a_function_with_a_step_and_kinds_is_learned() {
    let row =
        |at: usize| Row { numbers: vec![(at % 37) as f64, (at % 11) as f64], categories: vec![Some(at % 3)] };
    let of = |row: &Row| {
        let step = if row.numbers[0] > 20.0 { 3.0 } else { 0.0 };
        step + row.numbers[1] * 0.1 + row.categories[0].map_or(0.0, |kind| kind as f64)
    };
    let rows: Vec<Row> = (0..1500).map(row).collect();
    let targets: Vec<f64> = rows.iter().map(of).collect();
    let weights = vec![0.1; rows.len()];
    let fitted = Boosted::fit(&rows, &targets, &weights, &[3]);
    assert!(fitted.takes(2) && !fitted.takes(3));
    assert_eq!(fitted, Boosted::fit(&rows, &targets, &weights, &[3]), "it is the same each time");
    for row in &rows {
        assert!((fitted.predict(row) - of(row)).abs() < 0.3, "{row:?}: {} {}", fitted.predict(row), of(row));
    }
    // Each row has two targets. The prediction is nearer to the one with the larger weight.
    let twice: Vec<Row> = rows.iter().chain(&rows).cloned().collect();
    let both: Vec<f64> = (0..twice.len()).map(|at| if at < rows.len() { 0.0 } else { 1.0 }).collect();
    let heavy: Vec<f64> = both.iter().map(|target| if *target > 0.0 { 9.0 } else { 1.0 }).collect();
    let near = Boosted::fit(&twice, &both, &heavy, &[3]).predict(&rows[0]);
    assert!((near - 0.9).abs() < 0.05, "{near}");
    // An unknown text counts as the mean of all.
    let unseen = Row { numbers: vec![1.0, 5.0], categories: vec![None] };
    assert!((0.0..4.0).contains(&fitted.predict(&unseen)));
}
