//! Tests of `src/cost/price.rs`.

use crate::common;
use crate::units::fixture;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::cost::{CostModel, Machine, PriceList, PriceModel, Query};
use ovolo::error::Source;
use ovolo::op::{Call, Contract};
use ovolo::tensor::{DType, TensorType};
use std::sync::Arc;

/// The model of a list at the nominal speeds.
fn nominal(list: PriceList) -> PriceModel {
    PriceModel::new("nominal", Machine::NOMINAL, Arc::new(list))
}

/// Returns the seconds of an elementwise kernel with 6000 elements, at the nominal speeds.
fn seconds(list: PriceList, op: &str, attrs: &Attrs) -> Option<f64> {
    let op = fixture::ops().get(op).expect("the op exists");
    let ty = TensorType::plain(DType::F32, [6000]);
    let call = Call { op, attrs, inputs: &[&ty], output: &ty, threads: 2 };
    let contract = Contract { implementation: "plain".to_owned(), ..Contract::default() };
    nominal(list).seconds(&Query { call, constant: &[false], contract: &contract })
}

fn relu(list: PriceList) -> Option<f64> {
    seconds(list, "gpu.relu", &Attrs::new())
}

fn shipped() -> PriceList {
    PriceList::over_shipped(&[]).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn over(text: &str) -> PriceList {
    PriceList::over_shipped(&[Source::new("mine.ron", text)]).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mistakes(text: &str) -> String {
    PriceList::over_shipped(&[Source::new("mine.ron", text)]).expect_err("it has mistakes").to_string()
}

/// Every program contains the list, and reads it when it first prices a kernel.
#[test]
fn the_fitted_corrections_take_at_most_a_mebibyte() {
    let file = common::root().join("costs/fitted.ron");
    let bytes = std::fs::metadata(file).expect("the file exists").len();
    assert!(bytes > 0 && bytes <= 1 << 20, "{bytes} bytes");
}

#[test]
fn a_kernel_without_functions_takes_its_traffic_a_quarter_of_its_arithmetic_and_a_start() {
    let traffic = 2.0 * 24_000.0 / 6.0e10;
    let arithmetic = 6000.0 / (2.0e11 * 0.10);
    let seconds = relu(shipped()).expect("it has a price");
    assert!((seconds - (1.0e-6 + traffic + 0.25 * arithmetic)).abs() < 1e-15, "{seconds}");
    assert!((nominal(shipped()).copy(6000) - (1.0e-6 + 12_000.0 / 6.0e10)).abs() < 1e-18);
}

#[test]
fn functions_of_all_steps_are_counted() {
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let attrs = Attrs::new().with("post", Attr::Post(vec![step("exp"), step("tanh"), step("relu")]));
    let operations = |op| {
        // With this list, the seconds of a kernel are the value of the word.
        seconds(over(r#"Prices(define: {"seconds": "function_operations"})"#), op, &attrs)
    };
    assert_eq!(operations("map"), Some(6000.0 * (25.0 + 59.0)));
    assert_eq!(operations("gelu"), Some(6000.0 * (93.0 + 25.0 + 59.0)));
}

/// The last file that applies to the op and has a fitting case decides.
#[test]
fn a_file_replaces_single_prices_of_those_below() {
    let shipped = relu(shipped());
    let mine =
        over(r#"Prices(ops: "gpu.*", define: {"seconds": [Case(op: "gpu.relu", value: "2 * start")]})"#);
    assert_eq!(relu(mine), Some(2.0e-6));
    let other = over(r#"Prices(ops: "gpu.*", define: {"seconds": [Case(op: "gpu.add", value: 1)]})"#);
    assert_eq!(relu(other), shipped);
    let foreign = over(r#"Prices(ops: "mine.*", define: {"seconds": 1})"#);
    assert_eq!(relu(foreign), shipped);
    let unfit = over(r#"Prices(define: {"seconds": [Case(when: "elements(out) > 6000", value: 1)]})"#);
    assert_eq!(relu(unfit), shipped);
    // A word of a lower file uses the definitions of a higher one.
    let faster = over(r#"Prices(define: {"traffic": 0, "share": "1 / 0"})"#);
    assert_eq!(relu(faster), Some(1.0e-6));
}

#[test]
fn expressions_mean_what_they_say() {
    let value = |expression: &str| {
        let list = over(&format!(
            r#"Prices(define: {{"seconds": "({expression}) + 0 * twice(0, 0)", "twice(x, y)": "2 * x + y"}})"#
        ));
        relu(list).unwrap_or_else(|| panic!("`{expression}` has no value"))
    };
    for (expression, expected) in [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("2 ^ 3 ^ 0 + -1", 1.0),
        ("max(1, 3, 2) - min(1, 3, 2)", 2.0),
        ("1 < 2 and not 2 < 1 or 0", 1.0),
        ("if(dim(out, 0) == 6000, 7, 8)", 7.0),
        ("if(lanes >= 17, 7, 8)", 8.0),
        ("index(6, 1, 0, 6, 7) + index(9, 1, 2)", 2.0),
        ("round_up(17, 16) + ceil(0.2) + floor(1.9) + abs(0 - 3)", 37.0),
        ("each_operand(1, bytes_of(operand) + constant(operand) + aliased(operand))", 24_001.0),
        ("attr(groups, 3) + attr(groups)", 3.0),
        ("own(winograd_products)", 0.0),
        ("twice(threads, 1)", 5.0),
        ("plain(in0) + block(out, 0) + nth(out, 0) + blocked_by(out, 8)", 2.0),
        ("round_up(exp(log(5)) + sqrt(16) + log2(8) - 0.5, 1)", 12.0),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let terms = "0 + ".repeat(100_000);
    assert_eq!(value(&format!("{terms}1")), 1.0);
}

#[test]
fn a_price_that_is_no_time_is_no_price() {
    for expression in ["0 - 1", "1 / 0", "0 / 0", "dim(in7, 0)"] {
        assert_eq!(
            relu(over(&format!(r#"Prices(define: {{"seconds": "{expression}"}})"#))),
            None,
            "{expression}"
        );
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = mistakes(
        r#"Prices(
    define: {
        "share": "flop / 2",
        "filling(a, b)": "a",
        "seconds": [
            Case(opp: "native.*", value: 1),
            Case(op: "native.*"),
            Case(value: "sqrt(2, 3)"),
        ],
        "peak": 1,
        "other": "dim(in0) + filled(3)",
    },
)"#,
    );
    for expected in [
        "mine.ron:3:19",
        "did you mean `flops`?",
        "`filling` has 1 parameters elsewhere, and 2 here",
        "did you mean `op`?",
        "`Case` lacks the field `value`",
        "`sqrt` takes 1 argument, not 2",
        "`peak` has a meaning already",
        "`dim` takes 2 arguments, not 1",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn mistakes_within_expressions_are_reported() {
    for (definitions, message) in [
        (r#""seconds": "1 + (2""#, "`)` is missing here"),
        (r#""seconds": "1 2""#, "`2` follows the end"),
        (r#""seconds": "1 + op""#, "`op` is text, not a number"),
        (r#""seconds": "bytes_of(operand)""#, "`operand` has no meaning here"),
        (r#""seconds": "filling""#, "`filling` takes arguments"),
        (r#""seconds": "functions_of(functions)""#, "did you mean `function`?"),
        (r#""a": "b", "b": "a", "seconds": "a""#, "`a` is defined by itself: a, b, a"),
        (r#""copy(size)": "flops""#, "a copy is no kernel"),
        (r#""seconds": true"#, "a definition is an expression or a list of cases"),
        (r#""seconds": "panels""#, "`panels` is defined for the ops of costs/native.ron only"),
    ] {
        let text = mistakes(&format!("Prices(define: {{{definitions}}})"));
        assert!(text.contains(message), "{definitions}:\n{text}");
    }
    let deep = format!("Prices(define: {{\"seconds\": \"{}1{}\"}})", "(".repeat(5000), ")".repeat(5000));
    assert!(mistakes(&deep).contains("nested too deeply"));
}
