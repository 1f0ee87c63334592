//! Tests of `src/cost/process.rs`.

#[allow(dead_code)]
#[path = "../../../../src/cost/process.rs"]
pub mod source;

use ovolo::cost::{CostModel, FEATURES, FeatureValue, Machine, PriceList, PriceModel, Query, key};
use source::{Answer, AnswerError, Process};
use std::sync::Arc;

struct Parrot(&'static str);

impl Answer for Parrot {
    fn answer(&self, _: &str) -> Result<String, AnswerError> {
        Ok(self.0.to_owned())
    }
}

#[test]
fn answers_are_seconds_or_nothing() {
    let ask = |answer| {
        Process::new(
            &Machine::NOMINAL,
            Arc::new(PriceList::over_shipped(&[]).unwrap()),
            Arc::new(Parrot(answer)),
            false,
        )
        .ask("{}")
    };
    assert_eq!(ask("{\"seconds\": 2e-5}\n"), Ok(Some(2e-5)));
    assert_eq!(ask("{\"seconds\": null}"), Ok(None));
    for wrong in ["2e-5", "{\"seconds\": -1}", "{\"seconds\": \"1\"}", "", "{}"] {
        assert!(ask(wrong).is_err(), "{wrong}");
    }
    let misspelt = ask("{\"second\": 1e-6}").expect_err("`seconds` is not there");
    assert!(misspelt.contains("answered `{\"second\": 1e-6}`, which is not of the form"), "{misspelt}");
}

#[test]
fn a_batch_has_an_answer_for_each_kernel() {
    let ask = |answer| {
        let prices = Arc::new(PriceList::over_shipped(&[]).unwrap());
        let model = Process::new(&Machine::NOMINAL, prices, Arc::new(Parrot(answer)), true);
        model.ask_all(&["{}".to_owned(), "{}".to_owned()])
    };
    assert_eq!(ask("[{\"seconds\": 2e-5}, {\"seconds\": null}]\n"), Ok(vec![Some(2e-5), None]));
    let few = ask("[{\"seconds\": 2e-5}]").expect_err("one answer is absent");
    assert!(few.contains("a batch of 2 kernels with 1 answers"), "{few}");
    let negative = ask("[{\"seconds\": 0}, {\"seconds\": -1}]").expect_err("a time is negative");
    assert!(negative.contains("answer 1 of a batch"), "{negative}");
    for wrong in ["{\"seconds\": 1}", "[{}, {}]", ""] {
        assert!(ask(wrong).is_err(), "{wrong}");
    }
}
