//! Tests what parts are said to be worth.
#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::graph::text;
use ovolo_proof::ablate::{self, By, Case, Measured, NoProgram, Row};

/// Returns the rows of a graph by the pipeline `native`.
fn rows(graph: &str, by: By) -> Vec<Row> {
    let mut options = common::options(1);
    let graph = text::parse(common::ops(), graph).unwrap();
    let measured = ablate::measure(&graph, &mut options, by, &mut |_, _, _| {}).unwrap();
    ablate::rows(&[Case { name: "case".to_owned(), measured }])
}

fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}

/// A convolution and a chain after it, which one kernel computes.
const CONV: &str = "graph {
    x: f32[1,16,32,32] = input
    w: f32[16,16,3,3] = const ~1
    b: f32[16] = const ~2
    c = conv(x, w, b) {pads: [1,1,1,1]}
    y = relu(c)
    return y
}";

#[test]
fn a_kernel_of_the_best_plan_is_worth_what_the_next_plan_costs_more() {
    let rows = rows(CONV, By::Kernel);
    let conv = rows.iter().find(|row| row.used > 0 && row.name.contains("conv")).unwrap();
    assert_eq!((conv.met, conv.wins), (1, 1));
    assert!(conv.gain.as_ref().is_some_and(|gain| gain.share > 0.0) || conv.needed.is_some(), "{conv:?}");
}

#[test]
fn a_kernel_that_does_not_occur_is_not_listed_and_one_that_is_not_chosen_wins_nowhere() {
    let rows = rows(CONV, By::Kernel);
    assert!(find(&rows, "native.matmul").is_none_or(|row| row.wins == 0));
    assert!(find(&rows, "native.softmax").is_none());
    let chain = find(&rows, "native.map").unwrap();
    assert_eq!((chain.used, chain.wins, &chain.gain, &chain.needed), (0, 0, &None, &None));
}

#[test]
fn the_only_kernel_for_an_op_is_needed() {
    let rows = rows("graph { x: f32[2,3] = input; y = softmax(x) {axis: 1}; return y }", By::Kernel);
    let softmax = find(&rows, "native.softmax").unwrap();
    assert_eq!((softmax.wins, softmax.needed.as_deref()), (1, Some("case")));
}

#[test]
fn a_file_is_all_its_rules_together() {
    let rows = rows(CONV, By::File);
    assert!(find(&rows, "native").unwrap().needed.is_some());
    assert!(find(&rows, "cuda").is_none());
}

#[test]
fn the_table_of_rules_agrees_with_the_costs_of_one_model() {
    let rows = rows(CONV, By::Rule);
    let mut options = common::options(1);
    let graph = text::parse(common::ops(), CONV).unwrap();
    let (whole, worths) = ablate::rules(&graph, &mut options, &mut |_, _, _| {}).unwrap();
    assert_eq!(rows.len(), worths.len());
    for worth in worths {
        let row = find(&rows, &worth.rule).unwrap();
        let more = worth.without.as_ref().map_or(true, |without| *without > whole * (1.0 + 1e-9));
        assert_eq!(row.wins == 1, more, "{}", worth.rule);
    }
}

#[test]
fn each_extractor_order_and_planner_is_measured() {
    let options = common::options(1);
    let catalog = options.registry.catalog();
    let known = [
        (
            By::Extractor,
            catalog.extractors.iter().filter(|(_, kind)| (kind.plain)().lacks().is_none()).count(),
        ),
        (By::Order, catalog.orders.len()),
        (By::Planner, catalog.planners.len()),
    ];
    for (by, count) in known {
        let rows = rows(CONV, by);
        assert_eq!(rows.len(), count, "{by}");
        assert!(rows.iter().any(|row| row.used == 1), "{by}");
        assert!(rows.iter().all(|row| row.seconds.is_some() == (by == By::Extractor)), "{by}");
    }
}

#[test]
fn rows_add_up_cases() {
    let one = |with: f64, without: Result<f64, NoProgram>| Measured {
        name: "part".to_owned(),
        used: true,
        with: Ok(with),
        without,
        seconds: None,
    };
    let case = |name: &str, measured| Case { name: name.to_owned(), measured: vec![measured] };
    let none = Err(NoProgram::Refused { why: "nothing runs".to_owned() });
    let rows = ablate::rows(&[
        case("a", one(1.0, Ok(1.0 + 1e-12))),
        case("b", one(2.0, Ok(3.0))),
        case("c", one(2.0, Ok(2.5))),
        case("d", one(2.0, none)),
    ]);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.met, row.used, row.wins, row.needed.as_deref()), (4, 4, 3, Some("d")));
    let gain = row.gain.as_ref().unwrap();
    assert_eq!((gain.case.as_str(), gain.share), ("b", 0.5));
    assert_eq!(row.loss, None);
}

#[test]
fn what_can_be_left_out_has_a_name() {
    for name in ["rule", "file", "kernel", "extractor", "order", "planner"] {
        assert_eq!(name.parse::<By>().unwrap().to_string(), name);
    }
    let wrong = "kernels".parse::<By>().unwrap_err();
    assert_eq!(wrong.to_string(), "`kernels` is none of rule, file, kernel, extractor, order, planner");
}
