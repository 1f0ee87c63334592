//! The choice among layers.

use crate::fixture::noise;
use ovolo_quantize::{Gain, path};
use std::collections::BTreeMap;

fn gain(input: &str, levels: f64, cost: f64, error: f64) -> Gain {
    Gain { inputs: BTreeMap::from([(input.to_owned(), levels)]), cost, error }
}

/// What a choice costs more, and its error, by the definition.
fn sums(gains: &[Gain], chosen: &[bool]) -> (f64, f64) {
    let of = || gains.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(gain, _)| gain);
    let levels: BTreeMap<&String, f64> =
        of().flat_map(|gain| &gain.inputs).map(|(of, cost)| (of, *cost)).collect();
    let own: f64 = of().map(|gain| gain.cost - gain.inputs.values().sum::<f64>()).sum();
    (own + levels.values().sum::<f64>(), of().map(|gain| gain.error).sum())
}

#[test]
fn layers_that_save_most_for_their_error_are_quantised_longest() {
    let gains = [gain("a", 0.0, -4.0, 4.0), gain("b", 0.0, -6.0, 2.0), gain("c", 0.0, 1.0, 0.0)];
    let path = path(&gains).unwrap();
    assert_eq!(path, [[true, true, false], [false, true, false], [false, false, false]]);
}

#[test]
fn layers_with_one_input_pay_once_for_its_levels() {
    // Each layer alone costs more than it saves, both together do not.
    let alone = gain("a", 3.0, 1.0, 1.0);
    assert_eq!(path(std::slice::from_ref(&alone)).unwrap(), [[false]]);
    assert_eq!(path(&[alone.clone(), alone]).unwrap(), [[true, true], [false, false]]);
}

#[test]
fn a_layer_pays_for_the_levels_of_all_its_inputs() {
    let two = |cost: f64| Gain {
        inputs: BTreeMap::from([("a".to_owned(), 3.0), ("b".to_owned(), 2.0)]),
        cost,
        error: 1.0,
    };
    assert_eq!(path(&[two(1.0)]).unwrap(), [[false]]);
    // The levels of one input are there, and then also those of the other one.
    assert_eq!(path(&[two(1.0), gain("a", 3.0, -1.0, 1.0)]).unwrap()[0], [true, true]);
    assert_eq!(path(&[two(4.5), gain("a", 3.0, -1.0, 1.0)]).unwrap()[0], [false, true]);
}

#[test]
fn the_path_has_every_choice_that_is_best_for_some_price_of_error() {
    for seed in 0..40 {
        let numbers: Vec<f64> = noise(18, seed + 1).into_iter().map(f64::from).collect();
        let levels = |input: &str| if input == "a" { 0.2 } else { 0.4 };
        let gains: Vec<Gain> = numbers
            .chunks(3)
            .map(|three| {
                let input = if three[0] > 0.0 { "a" } else { "b" };
                gain(input, levels(input), three[1], three[2].abs())
            })
            .collect();
        let path = path(&gains).unwrap();
        let points: Vec<(f64, f64)> = path.iter().map(|chosen| sums(&gains, chosen)).collect();
        for pair in points.windows(2) {
            assert!(pair[0].0 <= pair[1].0 + 1e-12 && pair[0].1 >= pair[1].1 - 1e-12, "{points:?}");
        }
        assert_eq!(path.last().unwrap(), &vec![false; gains.len()]);
        let all: Vec<(f64, f64)> = (0..1_u32 << gains.len())
            .map(|bits| sums(&gains, &(0..gains.len()).map(|at| bits >> at & 1 == 1).collect::<Vec<_>>()))
            .collect();
        for price in [0.0, 0.01, 0.1, 0.3, 0.7, 1.0, 1.5, 2.5, 5.0, 20.0] {
            let least = |list: &[(f64, f64)]| {
                list.iter().map(|(cost, error)| cost + price * error).fold(f64::INFINITY, f64::min)
            };
            assert!((least(&points) - least(&all)).abs() < 1e-9, "seed {seed}, price {price}");
        }
    }
}

#[test]
fn costs_that_are_no_numbers_are_refused() {
    assert!(
        path(&[gain("a", 0.0, f64::NAN, 1.0)]).is_err() || path(&[gain("a", f64::NAN, 1.0, 1.0)]).is_err()
    );
}
