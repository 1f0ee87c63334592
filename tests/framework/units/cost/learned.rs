//! Tests of `src/cost/learned.rs`.

#[allow(dead_code)]
#[path = "../../../../src/cost"]
mod source {
    pub mod learned;

    pub use ovolo::cost::*;
}

mod boost;
mod linear;

use ovolo::cost::{FEATURES, Feature, FeatureValue, Machine, PriceList};
use source::learned::{Example, Fit, LEARNERS};
use std::collections::{BTreeMap, BTreeSet};

/// The price list that ships with ovolo.
fn shipped() -> PriceList {
    PriceList::over_shipped(&[]).unwrap()
}

/// Kernels whose time is their estimate times a factor of their op and their constants.
fn examples() -> Vec<Example> {
    let text = |feature: &Feature, at: usize| match feature.name {
        "op" => FeatureValue::Text(format!("native.op{}", at % 4)),
        _ if feature.is_number() => FeatureValue::Number((at % 97 * (1 + at % 5)) as f64),
        _ => FeatureValue::Text("plain".to_owned()),
    };
    (0..600)
        .map(|at| {
            let features: Vec<FeatureValue> = FEATURES.iter().map(|feature| text(feature, at)).collect();
            let estimate = 1e-6 * (1 + at % 97 * (1 + at % 5)) as f64;
            let constants = if at % 2 == 0 { 0 } else { 1 << 20 };
            let seconds = estimate * (1 + at % 4) as f64 * if at % 2 == 0 { 1.0 } else { 1.3 };
            let model = format!("model{}", at / 200);
            Example {
                model,
                call: format!("a.{at}"),
                features,
                estimate,
                constants,
                seconds,
                within_plans: true,
            }
        })
        .collect()
}

#[test]
fn what_follows_from_features_is_learned_and_models_are_held_out() {
    let head = vec!["this machine".to_owned()];
    for learner in LEARNERS {
        let fit = Fit::new(learner, head.clone(), here(), Machine::NOMINAL, &shipped(), &examples())
            .expect("it is fitted");
        let all = fit.held_out.last().expect("there are models");
        assert_eq!((fit.held_out.len(), all.model.as_str(), all.kernels), (4, "all", 600));
        assert!(all.spearman > Some(0.99) && all.error < Some(0.05), "{learner}: {all:?}");
        let again = Fit::read(&fit.write(), &head, &here(), &shipped()).expect("it is read");
        let one = &examples()[7];
        let [a, b] = [&fit, &again].map(|fit| fit.seconds(&one.features, one.estimate, one.constants));
        assert!((a / b - 1.0).abs() < 1e-9 && (a / one.seconds - 1.0).abs() < 0.1, "{a} {b} {one:?}");
    }
}

/// The libraries of this machine. All examples use the first one.
fn here() -> BTreeMap<String, String> {
    BTreeMap::from([("a", "A 1"), ("b", "B 1")].map(|(name, library)| (name.to_owned(), library.to_owned())))
}

#[test]
fn a_fit_holds_for_the_libraries_of_the_backends_that_it_has_seen() {
    let fit = Fit::new("linear", Vec::new(), here(), Machine::NOMINAL, &shipped(), &examples())
        .expect("it is fitted");
    assert_eq!(Fit::backends(&fit.write()), Ok(BTreeSet::from(["a".to_owned()])));
    let with = |backend: &str, library: &str| {
        let mut libraries = here();
        libraries.insert(backend.to_owned(), library.to_owned());
        Fit::read(&fit.write(), &[], &libraries, &shipped()).map(|_| ())
    };
    assert_eq!(with("b", "B 2"), Ok(()));
    assert_eq!(
        Fit::read(&fit.write(), &[], &BTreeMap::new(), &shipped()).map(|_| ()),
        Ok(()),
        "none is there"
    );
    let why = with("a", "A 2").expect_err("another version").to_string();
    assert!(why.contains("it has `A 1` where `A 2` is"), "{why}");
}

#[test]
fn models_of_elsewhere_and_damaged_ones_are_refused() {
    let head = vec!["this machine".to_owned()];
    let fit = Fit::new("linear", head.clone(), here(), Machine::NOMINAL, &shipped(), &examples())
        .expect("it is fitted");
    let text = fit.write();
    let other = Fit::read(&text, &["that machine".to_owned()], &here(), &shipped())
        .expect_err("it is another machine's")
        .to_string();
    assert!(other.contains("it has `this machine` where `that machine` is"), "{other}");
    let renamed = Fit::read(&text.replace("\"bytes_out\"", "\"bytes_off\""), &head, &here(), &shipped());
    let renamed = renamed.expect_err("it has other features").to_string();
    assert!(renamed.contains("it has `bytes_off` where `bytes_out` is"), "{renamed}");
    for wrong in ["", "{}", "[1, 2]"] {
        assert!(
            Fit::read(wrong, &head, &here(), &shipped())
                .expect_err("no fit")
                .to_string()
                .contains("not a model that `ovolo fit`")
        );
    }
    let short = text.replacen("\"scales\":[[", "\"scales\":[[0.0,1.0],[", 1);
    assert!(
        Fit::read(&short, &head, &here(), &shipped()).expect_err("damaged").to_string().contains("damaged")
    );
    let mut turned: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    turned["range"] = serde_json::json!([5.0, -5.0]);
    let turned = Fit::read(&turned.to_string(), &head, &here(), &shipped())
        .expect_err("there is nothing between")
        .to_string();
    assert!(turned.contains("damaged"), "{turned}");
    let few = Fit::new("linear", head, here(), Machine::NOMINAL, &shipped(), &examples()[..5])
        .expect_err("too few")
        .to_string();
    assert!(few.contains("5 kernels with times are too few"), "{few}");
}

#[test]
fn kernels_of_a_model_that_is_held_out_are_in_no_other_either() {
    // All kernels occur in both models, so without one model nothing is left to learn from.
    let mut both = examples()[..100].to_vec();
    both.extend(both.clone().into_iter().map(|one| Example { model: "other".to_owned(), ..one }));
    let fit =
        Fit::new("linear", Vec::new(), here(), Machine::NOMINAL, &shipped(), &both).expect("it is fitted");
    assert_eq!(fit.held_out, []);
}
