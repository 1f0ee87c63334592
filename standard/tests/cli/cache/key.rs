//! Tests the key: everything that can change the result is in it, and each change alone leads to another
//! entry.

use crate::cache::fixture::{digits, filled, folder, key, origin, outputs, request, same};
use crate::common;
use ovolo::cache::{Cache, Key, Kind, Miss, Request};
use ovolo::cost::pricing::ByPrices;
use ovolo::cost::{Machine, Noise};
use ovolo::error::Source;
use ovolo::extract::{Exact, GreedyDag, Limits};
use ovolo::memory::Limit;
use ovolo::onnx::MissingWeights;
use ovolo::onnx::proto::{ModelProto, StringStringEntryProto};
use ovolo::pass::pricing::pricings;
use ovolo::tensor::Device;
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The fields of a request before those of its passes.
const REQUEST: [&str; 11] = [
    "model",
    "external data",
    "dims",
    "missing weights",
    "pipeline",
    "cost model",
    "precision",
    "assumptions",
    "unroll",
    "calibration",
    "threads",
];

/// The fields after those of the passes, without those of rule files.
const BUILD: [&str; 7] =
    ["rules", "format", "ovolo", "build", "processor", "instruction sets", "backend native"];

/// The passes of the requests, by their names and kinds.
const PASSES: [(&str, &str); 5] = [
    ("fuse", "Rewrite"),
    ("axes", "Rewrite"),
    ("lower", "Rewrite"),
    ("extract", "Extract"),
    ("plan", "Plan"),
];

/// Fields of passes that no pipeline sets, and those that stand in place of the setting `extractor`.
const BESIDE: [&str; 5] = [
    "extract.extractor.exact.beam",
    "extract.extractor.exact.options",
    "extract.extractor.exact.states",
    "extract.extractor.exact.work",
    "extract.noise",
];

/// The fields of a key whose pipeline has one backend, without the fields of rule files.
fn fields() -> Vec<String> {
    let mut fields: Vec<String> = REQUEST.iter().map(ToString::to_string).collect();
    for (name, kind) in PASSES {
        let kind = common::registry().catalog().passes.get(kind).unwrap();
        let mut own: Vec<String> = kind.fields().iter().map(|field| format!("{name}.{field}")).collect();
        own.retain(|field| field != "extract.extractor");
        own.extend(
            BESIDE.iter().filter(|field| field.split('.').next() == Some(name)).map(ToString::to_string),
        );
        own.sort_unstable();
        fields.extend(own);
    }
    fields.extend(BUILD.iter().map(ToString::to_string));
    fields
}

fn missed(cache: &Cache, key: &Key) {
    assert_eq!(cache.find(key, None).err(), Some(Miss::Absent), "{key:?}");
}

/// The fields in which two requests differ.
fn changed(one: &Request, other: &Request) -> Vec<String> {
    key(one).differences(&key(other)).into_iter().map(|difference| difference.field).collect()
}

#[test]
fn each_field_changed_alone_is_another_entry() {
    let request = request(&digits());
    let (cache, mut session) = filled(&folder("fields"), &request);
    let key = key(&request);
    let (files, others): (Vec<&str>, Vec<&str>) =
        key.fields().map(|(name, _)| name).partition(|name| name.starts_with("rules "));
    assert_eq!(others, fields());
    assert_eq!(files, request.rules.iter().map(|(name, _)| format!("rules {name}")).collect::<Vec<_>>());
    let expected = outputs(&mut session);
    for (name, value) in key.fields() {
        let other = key.clone().with(name, format!("{value} and more"));
        missed(&cache, &other);
        missed(&cache, &key.clone().with(name, ""));
        let differences = key.differences(&other);
        assert_eq!(differences.len(), 1);
        let difference = &differences[0];
        assert_eq!((difference.field.as_str(), difference.here.as_deref()), (name, Some(value)));
    }
    let more = key.clone().with("one more", "");
    missed(&cache, &more);
    // A missing field differs from an empty one.
    let sides = |one: &Key, other: &Key| {
        let found = one.differences(other).swap_remove(0);
        (found.field, found.here, found.there)
    };
    assert_eq!(sides(&key, &more), ("one more".into(), None, Some(String::new())));
    assert_eq!(sides(&more, &key), ("one more".into(), Some(String::new()), None));
    assert!(same(&outputs(&mut cache.find(&key, None).unwrap()), &expected));
}

/// Everything that a crate of the program decides is part of the key.
#[test]
fn the_key_has_the_build_of_each_crate() {
    let key = request(&digits()).key(&ovolo_standard::registry()).unwrap();
    let builds: Vec<(&str, &str)> =
        key.get("build").unwrap().split(", ").map(|one| one.split_once(' ').unwrap()).collect();
    assert!(builds.iter().all(|(_, build)| build.len() == 16), "{builds:?}");
    let mut ours = BTreeSet::new();
    for package in ["standard", "cli", "native"] {
        let manifest = std::fs::read_to_string(common::root().join(package).join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
        let dependencies = dependencies.lines().take_while(|line| !line.is_empty());
        let names = dependencies.filter_map(|line| line.split_once(".workspace").map(|(name, _)| name));
        ours.extend(names.filter(|name| name.starts_with("ovolo")).map(str::to_owned));
    }
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let mut named: Vec<&str> = builds.iter().map(|(name, _)| *name).collect();
    named.sort_unstable();
    assert_eq!(named, ours);
}

#[test]
fn an_entry_under_another_key_s_name_is_not_taken() {
    let at = folder("renamed");
    let request = request(&digits());
    let (cache, _) = filled(&at, &request);
    let key = key(&request);
    let other = key.clone().with("build", "another");
    let names = [&key, &other].map(|key| at.join("plans").join(key.fingerprint().to_string()));
    std::fs::copy(&names[0], &names[1]).unwrap();
    let miss = cache.find(&other, None).err().unwrap();
    assert_eq!(miss.to_string(), "it is damaged: it has the name of another entry");
    assert!(!names[1].exists() && names[0].exists());
}

#[test]
fn each_setting_changes_its_own_field() {
    let base = request(&digits());
    let with = |change: &dyn Fn(&mut Request)| {
        let mut other = base.clone();
        change(&mut other);
        changed(&base, &other)
    };
    let extract = |change: fn(&mut ovolo::pass::Extract)| {
        with(&|request| change(request.pipeline.extract_mut().unwrap()))
    };
    assert_eq!(with(&|request| *request.dims.get_mut("N").unwrap() = 3), ["dims"]);
    assert_eq!(with(&|request| request.missing_weights = MissingWeights::Seeded), ["missing weights"]);
    assert_eq!(with(&|request| request.threads = 2), ["threads"]);
    assert_eq!(with(&|request| request.pipeline.precision = ovolo::rule::Precision::Bf16), ["precision"]);
    assert_eq!(with(&|request| request.pipeline.assume.clear()), ["assumptions"]);
    assert_eq!(with(&|request| request.pipeline.unroll = 64), ["unroll"]);
    assert_eq!(with(&|request| request.pipeline.name.push('2')), ["pipeline"]);
    let without_plan = with(&|request| drop(request.pipeline.passes.pop()));
    assert_eq!(without_plan, ["pipeline", "plan.limits", "plan.order", "plan.planner"]);
    let phase = |change: fn(&mut ovolo::pass::Rewrite)| {
        with(&|request| change(request.pipeline.passes_mut().nth(2).unwrap()))
    };
    assert_eq!(phase(|settings| drop(settings.rules.pop())), ["lower.rules"]);
    assert_eq!(phase(|settings| settings.rounds += 1), ["lower.rounds"]);
    assert_eq!(phase(|settings| settings.nodes += 1), ["lower.nodes"]);
    assert_eq!(phase(|settings| settings.nodes_per_op += 1), ["lower.nodes_per_op"]);
    assert_eq!(phase(|settings| settings.rules[0].span.start += 1), [""; 0], "its path changes nothing");
    let limits = |change: fn(&mut Limits)| {
        with(&|request| {
            let mut exact = Exact::DEFAULT;
            change(&mut exact.limits);
            request.pipeline.extract_mut().unwrap().extractor = Arc::new(exact);
        })
    };
    assert_eq!(limits(|limits| limits.states += 1), ["extract.extractor.exact.states"]);
    assert_eq!(limits(|limits| limits.beam += 1), ["extract.extractor.exact.beam"]);
    assert_eq!(limits(|limits| limits.work += 1), ["extract.extractor.exact.work"]);
    assert_eq!(limits(|limits| limits.options += 1), ["extract.extractor.exact.options"]);
    assert_eq!(extract(|settings| settings.memory = 0.5), ["extract.memory"]);
    assert_eq!(extract(|settings| settings.further_forms = 0.5), ["extract.further_forms"]);
    let noise = extract(|settings| settings.noise = Some(Noise::draw(1, 2)));
    assert_eq!(noise, ["extract.noise", "extract.noise.seed", "extract.noise.spread"]);
    let greedy = extract(|settings| settings.extractor = Arc::new(GreedyDag));
    assert!(greedy.iter().any(|field| field == "extract.extractor"), "{greedy:?}");
    let prices = |text: &str| {
        let files = vec![Source::new("a", text)];
        with(&|request| {
            let cost = ByPrices { files: files.clone() };
            request.pipeline.extract_mut().unwrap().cost = Arc::new(cost);
        })
    };
    let changed_cost = ["cost model", "calibration", "extract.cost", "extract.cost.prices.files"];
    assert_eq!(prices("b"), changed_cost);
    let roofline = extract(|settings| settings.price_by("roofline", pricings()).unwrap());
    assert_eq!(roofline, ["cost model", "calibration", "extract.cost"]);
    let plan = |change: fn(&mut ovolo::pass::PlanMemory)| {
        with(&|request| change(request.pipeline.plan_mut().unwrap()))
    };
    assert_eq!(plan(|settings| settings.order = "given".into()), ["plan.order"]);
    assert_eq!(plan(|settings| settings.planner = "best".into()), ["plan.planner"]);
    assert_eq!(plan(|settings| settings.limits = Limit::host(1 << 20)), ["plan.limits", "plan.limits.host"]);
    let device = Limit::default().with(Device::Accelerator(ovolo_cuda::FAMILY, 0), 1 << 20);
    assert_eq!(
        with(&|request| request.pipeline.plan_mut().unwrap().limits = device.clone()),
        ["plan.limits", "plan.limits.cuda:0"]
    );
    let backends = with(&|request| request.pipeline.backends.push("onednn".into()));
    assert_eq!(backends, ["backend onednn"]);
    for file in 0..base.rules.len() {
        let field = format!("rules {}", base.rules[file].0);
        assert_eq!(with(&|request| request.rules[file].1.push('\n')), [field]);
    }
    let name = base.rules[0].0.clone();
    let files =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("rules {name}")).collect() };
    let all = |mut list: Vec<String>| {
        list.insert(0, "rules".to_owned());
        list
    };
    let mut renamed = with(&|request| request.rules[0].0.push('2'));
    renamed.sort();
    assert_eq!(renamed, all(files(&[&name, &format!("{name}2")])));
    assert_eq!(with(&|request| request.rules.swap(0, 1)), ["rules"]);
    let last = base.rules.last().unwrap().0.clone();
    assert_eq!(with(&|request| drop(request.rules.pop())), all(files(&[&last])));
    let twice = with(&|request| request.rules.push((name.clone(), "other".into())));
    assert_eq!(twice, all(files(&[&format!("{name} (1 before)")])));
}

#[test]
fn speeds_count_to_the_last_bit_if_the_cost_model_uses_them() {
    let mut priced = request(&digits());
    let speeds = |cache: f64| Some(Machine { cache, ..Machine::NOMINAL });
    // The cost model `flops` does not use the machine's speeds.
    let other = Request { calibration: speeds(1e10), ..priced.clone() };
    assert_eq!(changed(&priced, &other), [""; 0]);
    priced.pipeline.extract_mut().unwrap().price_by("roofline", pricings()).unwrap();
    let with = |calibration| Request { calibration, ..priced.clone() };
    assert_eq!(changed(&with(speeds(1e10)), &with(speeds(1e10_f64.next_up()))), ["calibration"]);
    assert_eq!(changed(&with(None), &with(speeds(1e10))), ["calibration"]);
    assert_eq!(changed(&with(None), &with(None)), [""; 0]);
}

/// Returns a request for a changed copy of the model.
fn changed_model(at: &Path, change: impl FnOnce(&mut ModelProto)) -> Request {
    let mut model = ModelProto::decode(&std::fs::read(digits()).unwrap()[..]).unwrap();
    change(&mut model);
    std::fs::write(at, model.encode_to_vec()).unwrap();
    request(at)
}

#[test]
fn one_bit_of_a_weight_is_another_model_and_the_file_s_name_is_not() {
    let at = folder("bits");
    let same_model = changed_model(&at.join("a.onnx"), |_| {});
    let copy = changed_model(&at.join("b.onnx"), |_| {});
    assert_eq!(key(&same_model), key(&copy));
    let other = changed_model(&at.join("c.onnx"), |model| {
        let weight = model.graph.as_mut().unwrap().initializer.iter_mut().find(|one| one.raw_data.len() > 99);
        let weight = weight.unwrap();
        let mut bytes = weight.raw_data.to_vec();
        bytes[40] ^= 1;
        weight.raw_data = bytes.into();
    });
    assert_eq!(changed(&same_model, &other), ["model"]);
    let text = at.join("d.ovolo");
    std::fs::copy(&same_model.model, &text).unwrap();
    assert_eq!(changed(&same_model, &request(&text)), ["model"], "it would be read as text");
}

#[test]
fn external_data_counts_byte_by_byte_and_when_it_is_missing() {
    let at = folder("external");
    let model = changed_model(&at.join("m.onnx"), |model| {
        let weights = &mut model.graph.as_mut().unwrap().initializer;
        let weight = weights.iter_mut().find(|one| one.raw_data.len() > 99).unwrap();
        std::fs::write(at.join("w.bin"), &weight.raw_data).unwrap();
        weight.raw_data = Vec::new().into();
        weight.data_location = 1;
        weight.external_data = vec![StringStringEntryProto { key: "location".into(), value: "w.bin".into() }];
    });
    let (cache, mut session) = filled(&at.join("cache"), &model);
    let (first, expected) = (key(&model), outputs(&mut session));
    assert!(same(&outputs(&mut cache.find(&first, None).unwrap()), &expected));
    let mut bytes = std::fs::read(at.join("w.bin")).unwrap();
    bytes[17] ^= 0x40;
    std::fs::write(at.join("w.bin"), &bytes).unwrap();
    let fields = |one: &Key, other: &Key| -> Vec<String> {
        one.differences(other).into_iter().map(|difference| difference.field).collect()
    };
    assert_eq!(fields(&first, &key(&model)), ["external data"]);
    missed(&cache, &key(&model));
    std::fs::remove_file(at.join("w.bin")).unwrap();
    assert_eq!(fields(&first, &key(&model)), ["external data"]);
    assert!(key(&model).get("external data").unwrap().contains("not there"));
}

#[test]
fn the_nearest_entry_is_the_one_with_the_fewest_differences() {
    let at = folder("nearest");
    let base = request(&digits());
    let (cache, session) = filled(&at, &base);
    let far = Request { dims: [("N".to_owned(), 7)].into(), threads: 3, ..base.clone() };
    cache.keep(&key(&far), &session, origin(&far)).unwrap();
    let asked = Request { dims: [("N".to_owned(), 5)].into(), ..base.clone() };
    let nearest = cache.nearest(&key(&asked)).unwrap();
    assert_eq!(nearest.item.name, key(&base).fingerprint().to_string());
    let fields: Vec<_> = nearest
        .differences
        .iter()
        .map(|one| (one.field.as_str(), one.there.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(fields, [("dims", "N=2")]);
    assert_eq!(cache.folder().list(Kind::Plan).len(), 2);
}
