//! Tests corrections of the price list: planted factors are found again, files are read as they were written, and the
//! shipped corrections follow from the shipped tables.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;

use ovolo::cost::PriceList;
use ovolo::error::Source;
use ovolo_tune::correct::{Corrections, TimesTable, without_each_model, without_each_table};
use std::path::{Path, PathBuf};

/// The first line of a table.
const HEAD: &str = "model,call,op,implementation,roofline,lanes,threads,operands,flops,bytes_in,bytes_const,constants,bytes_out,\
                    scratch,padding_in,padding_out,elements,out_0,out_1,out_2,out_3,in_0,in_1,in_2,in_3,kernel_h,kernel_w,\
                    stride_h,pads,groups,post,plain(in0),plain(out),\"blocked_by(out, 8)\",function_operations,flops / bytes,seconds,within_plans";

/// A line: a kernel of these operations for which the price list says `estimate`, and that takes `seconds`.
fn line(model: &str, call: usize, implementation: &str, flops: f64, estimate: f64, seconds: f64) -> String {
    let rest = "100,100,100,100,0,0,0,100,1,16,1,1,1,16,1,1,1,1,1,0,1,0,0,0,0,0";
    format!(
        "{model},{call},native.conv-direct,{implementation},{estimate},8,2,2,{flops},{rest},{},{seconds},1\n",
        flops / 300.0
    )
}

fn write(folder: &Path, name: &str, lines: &[String]) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, format!("# a machine\n{HEAD}\n{}", lines.concat())).unwrap();
    file
}

/// Kernels of three models: those of a million operations or more take half of their estimate, others three times as
/// long.
fn planted(set: &str, scale: f64) -> Vec<String> {
    let kernels = (0..120_u32).map(|at| {
        let flops = 1000.0 * f64::from(at + 1) * f64::from(at + 1);
        let (model, factor) = (["a", "b", "c"][at as usize % 3], if flops < 1e6 { 3.0 } else { 0.5 });
        line(model, at as usize, &format!("direct-{set}"), flops, 1e-5, scale * factor * 1e-5)
    });
    kernels.collect()
}

#[test]
fn planted_factors_are_found_with_their_limit() {
    let folder = common::folder("correct-planted");
    let tables = [("one.csv", "avx2"), ("two.csv", "avx512")]
        .map(|(name, set)| TimesTable::read(&write(&folder, name, &planted(set, 1.0))).unwrap());
    let corrections = Corrections::new(&tables);
    assert_eq!(corrections.size(), (1, 2));
    for kernel in &tables[0].kernels {
        let right = kernel.seconds / kernel.estimate();
        let found = corrections.factor(kernel);
        assert!((found / right - 1.0).abs() < 0.06, "{found} for {right}");
    }
    let text = corrections.write("two tables");
    assert!(text.contains("\"direct*\"") && text.contains("\"if(flops / bytes < 3"), "{text}");
    for held in without_each_model(&tables).iter().chain(&without_each_table(&tables)) {
        let [before, after] = held.error.map(Option::unwrap);
        assert!(before > 0.6 && after < 0.06, "{held:?}");
    }
}

#[test]
fn a_table_that_is_slower_as_a_whole_is_no_regime() {
    let folder = common::folder("correct-slower");
    let kernels = |numbers: std::ops::Range<u32>, seconds: f64| -> Vec<String> {
        let one = |at: u32| {
            let flops = 1000.0 * f64::from(at + 1) * f64::from(at + 1);
            line(["a", "b", "c"][at as usize % 3], at as usize, "direct-avx2", flops, 1e-5, seconds)
        };
        numbers.map(one).collect()
    };
    // All kernels take as long as they should, but only the large ones are in the table of a machine that was slow.
    let tables = [("even.csv", kernels(0..120, 1e-5)), ("slow.csv", kernels(60..120, 3e-5))]
        .map(|(name, lines)| TimesTable::read(&write(&folder, name, &lines)).unwrap());
    let corrections = Corrections::new(&tables);
    let [small, large] = [0, 119].map(|at| corrections.factor(&tables[0].kernels[at]));
    // It is 1.73 where all times count alike. The factors of the tables are found step by step, so some of it is left.
    assert!(large / small < 1.35, "{small} and {large}");
}

#[test]
fn a_kind_with_few_kernels_or_of_one_model_has_no_regimes() {
    let folder = common::folder("correct-few");
    let few = TimesTable::read(&write(&folder, "few.csv", &planted("avx2", 1.0)[..7])).unwrap();
    assert_eq!(Corrections::new(&[few]).size(), (0, 0));
    let one: Vec<String> = planted("avx2", 1.0).iter().map(|line| format!("d{}", &line[1..])).collect();
    let one = TimesTable::read(&write(&folder, "one.csv", &one)).unwrap();
    assert_eq!(Corrections::new(&[one]).size(), (1, 1));
}

#[test]
fn a_model_is_held_out_with_the_kernels_that_it_shares() {
    let folder = common::folder("correct-shared");
    // The kernels of `d` are those of the others, with times that only they have.
    let mut lines = planted("avx2", 1.0);
    let shared: Vec<String> = planted("avx2", 7.0).iter().map(|line| format!("d{}", &line[1..])).collect();
    lines.extend(shared);
    let table = TimesTable::read(&write(&folder, "one.csv", &lines)).unwrap();
    let held = without_each_model(&[table]);
    let d = held.iter().find(|held| held.name == "d").unwrap();
    assert_eq!(d.error[0], d.error[1], "nothing is left to learn from");
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let folder = common::folder("correct-table");
    let table = TimesTable::read(&write(&folder, "one.csv", &planted("avx2", 1.0))).unwrap();
    assert_eq!((table.name.as_str(), table.notes.as_slice()), ("one", &["a machine".to_owned()][..]));
    std::fs::write(folder.join("again.csv"), table.write()).unwrap();
    let again = TimesTable::read(&folder.join("again.csv")).unwrap();
    assert_eq!(again.write(), table.write());
    assert_eq!(again.kernels.len(), 120);
}

#[test]
fn other_files_are_refused_with_their_place() {
    let folder = common::folder("correct-wrong");
    let said = |file: &Path| TimesTable::read(file).unwrap_err().to_string();
    let file = write(&folder, "field.csv", &[line("a", 1, "direct-avx2", 1e3, 1e-6, f64::NAN)]);
    assert_eq!(said(&file), format!("{}:3: `NaN` is not a possible value of `seconds`", file.display()));
    let file = write(&folder, "zero.csv", &[line("a", 1, "direct-avx2", 1e3, 0.0, 1e-6)]);
    assert!(said(&file).ends_with(":3: `0` is not a possible value of `roofline`"), "{}", said(&file));
    let file = folder.join("columns.csv");
    std::fs::write(&file, "model,op\n").unwrap();
    assert!(said(&file).contains("it has `op` where `call` is expected"), "{}", said(&file));
    let file = folder.join("ragged.csv");
    std::fs::write(&file, format!("{HEAD}\na,b\n")).unwrap();
    assert!(said(&file).contains("ragged.csv: "), "{}", said(&file));
    assert!(said(&folder.join("absent.csv")).contains("absent.csv: "));
}

/// Reads all tables in a folder.
fn read_all(folder: &Path) -> Vec<TimesTable> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| TimesTable::read(file).unwrap()).collect()
}

#[test]
fn the_shipped_corrections_follow_from_the_shipped_tables() {
    let costs = common::root().join("costs");
    let tables = read_all(&costs.join("tables"));
    let shipped = std::fs::read_to_string(costs.join("fitted.ron")).unwrap();
    let corrections = Corrections::new(&tables);
    let fitted_on = PriceList::over_shipped(&[]).unwrap();
    let fitted_on = fitted_on.fitted_on().find(|(name, _)| *name == "costs/fitted.ron").unwrap().1.unwrap();
    let list = corrections.write(fitted_on);
    assert!(list == shipped, "run `ovolo costs fit costs/tables/*.csv --out costs/fitted.ron`");
    let source = Source::new("again.ron", &*list);
    PriceList::over_shipped(&[source]).unwrap();
    // They are worth having for networks that they do not know, if not for each of them, and for each machine.
    let models = without_each_model(&tables);
    let errors = |at: usize| models.iter().map(|held| held.error[at].unwrap()).sum::<f64>();
    assert!(models.len() > 20 && errors(1) < 0.6 * errors(0), "{models:?}");
    let closer = models.iter().filter(|held| held.error[1] < held.error[0]).count();
    assert!(closer * 10 >= models.len() * 9, "{closer} of {}", models.len());
    // The last ones are of an instruction set and a kind of processor that were not timed together for the fit.
    let others = read_all(&costs.join("held-out"));
    assert!(!others.is_empty());
    let held =
        without_each_table(&tables).into_iter().chain(others.iter().map(|table| corrections.quality(table)));
    for held in held {
        assert!(held.error[1].unwrap() < 0.8 * held.error[0].unwrap(), "{held:?}");
    }
}
