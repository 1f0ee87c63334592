//! Tests the pages of `explain --html` and `bench --html`, as files and as a headless browser renders them.
//!
//! The browser's output is compared with that of `dump` and `explain --json` for the same model.
//! `OVOLO_BROWSER` names a browser other than Chromium.
#![allow(clippy::unwrap_used)]

pub mod browser;
pub mod dom;

use browser::{browser, drawn};
use dom::Dom;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a folder for one test.
fn folder(name: &str) -> PathBuf {
    crate::common::folder(&format!("report/{name}"))
}

fn ovolo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .current_dir(crate::common::root())
        .args(arguments)
        .args(["--cost", "flops", "--threads", "2"])
        .env("OVOLO_PIPELINE", "native")
        .output()
        .unwrap()
}

/// Runs a command and returns what it prints.
fn printed(arguments: &[&str]) -> String {
    let output = ovolo(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const DIGITS: [&str; 3] = ["examples/digits/digits.onnx", "--dim", "N=1"];
const SQUEEZENET: [&str; 2] = ["tests/models/squeezenet1_1.onnx", "--seeded-weights"];
const BERT: [&str; 2] = ["tests/models/bert_base.onnx", "--seeded-weights"];

pub fn a_page_is_one_file_without_requests_and_the_same_each_time() {
    let at = folder("file");
    let page = |name: &str| {
        let file = at.join(name);
        let said = printed(&[&["explain"], &DIGITS[..], &["--html", file.to_str().unwrap()]].concat());
        assert!(said.contains(name) && said.ends_with(" bytes\n"), "{said}");
        std::fs::read_to_string(file).unwrap()
    };
    let text = page("a.html");
    assert_eq!(text, page("b.html"));
    assert_eq!(text.matches("://").count(), 1, "the SVG namespace is the only address");
    assert_eq!(text.matches("'http://www.w3.org/2000/svg'").count(), 1);
    assert!(text.contains("default-src 'none'"));
    for word in ["src=", "@import", "url(", "import(", "fetch("] {
        assert!(!text.contains(word), "`{word}` would cause a request");
    }
    let left: Vec<_> = std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

pub fn a_page_that_cannot_be_written_is_refused_at_once() {
    let at = folder("refused");
    let inside = at.join("no/such/page.html");
    let refused = [
        (at.as_path(), "is a directory"),
        (&inside, "no/such does not exist"),
        (Path::new("/dev/null"), "exists and is not a regular file"),
    ];
    for (file, why) in refused {
        let file = file.to_str().unwrap();
        for command in [&["explain"][..], &["bench", "--profile"]] {
            let output = ovolo(&[command, &DIGITS[..], &["--html", file]].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("--html {file}: ")) && said.contains(why), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    let alone = ovolo(&[&["bench"], &DIGITS[..], &["--html", "page.html"]].concat());
    assert_eq!(alone.status.code(), Some(2), "--html of `bench` needs --profile");
    let page = at.join("page.html");
    for other in ["--memory-curve", "--runner-up", "--json"] {
        let two = ovolo(&[&["explain"], &DIGITS[..], &[other, "--html", page.to_str().unwrap()]].concat());
        assert_eq!(two.status.code(), Some(2), "{other} is no part of a page");
    }
    assert!(!page.exists());
}

/// Returns the names of a graph's nodes that depend on an input, without the inputs, and the number of
/// inputs.
fn computed(graph: &Value) -> (Vec<String>, usize) {
    let mut varying: HashSet<&str> = HashSet::new();
    let (mut names, mut inputs) = (Vec::new(), 0);
    for node in graph["nodes"].as_array().unwrap() {
        let name = node["name"].as_str().unwrap();
        let from_input =
            node["inputs"].as_array().unwrap().iter().any(|i| varying.contains(i.as_str().unwrap()));
        if node["op"] == "input" {
            inputs += 1;
        } else if from_input {
            names.push(name.to_owned());
        } else {
            continue;
        }
        varying.insert(name);
    }
    (names, inputs)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Checks every picture of a model's page against the output of the other commands.
fn pictures(name: &str, model: &[&str]) {
    let browser = browser().unwrap();
    let file = folder(name).join("page.html");
    printed(&[&["explain"], model, &["--html", file.to_str().unwrap()]].concat());
    let dom = drawn(&browser, &file, "");
    let json = |arguments: &[&str]| -> Value {
        let (command, rest) = arguments.split_first().unwrap();
        serde_json::from_str(&printed(&[&[*command], model, rest].concat())).unwrap()
    };
    let plan = json(&["explain", "--json"]);
    graphs(&dom, &json(&["dump", "--after", "import", "--format", "json"]), &plan);
    program(&dom, &json(&["dump", "--after", "extract", "--format", "json"]), &plan);
    memory(&dom, &plan);
    let runner_ups = printed(&[&["explain"], model, &["--runner-up", "--json"]].concat());
    costs(&dom, &plan, &runner_ups);
    selection(&drawn(&browser, &file, "#step=2"));
    keyboard(&browser, &file);
}

/// A plan with a device has a picture of each memory.
pub fn each_device_has_a_picture_of_its_memory() {
    let browser = browser().unwrap();
    let page = folder("devices").join("page.html");
    let model = [&DIGITS[..], &["--pipeline", "cuda"]].concat();
    printed(&[&["explain"], &model[..], &["--html", page.to_str().unwrap()]].concat());
    let plan: Value =
        serde_json::from_str(&printed(&[&["explain"], &model[..], &["--json"]].concat())).unwrap();
    let dom = drawn(&browser, &page, "#step=2");
    let buffers = plan["buffers"].as_array().unwrap();
    for (id, device, arena) in [
        ("buffers", Value::Null, &plan["arena"]),
        ("buffers-1", "cuda:0".into(), &plan["devices"][0]["arena"]),
    ] {
        let steps = plan["steps"].as_array().unwrap().len();
        assert_eq!(dom.id(id).get("viewBox").unwrap(), format!("0 0 {} {arena}", steps + 1));
        let drawn =
            dom.children(dom.id(id)).filter(|one| one.classes().any(|class| class == "buffer")).count();
        assert_eq!(drawn, buffers.iter().filter(|buffer| buffer["device"] == device).count(), "{id}");
    }
    selection(&dom);
    // A link whose fragment is invalid.
    let dom = drawn(&browser, &page, "#step=x%");
    assert!(dom.text("errors").is_empty(), "{}", dom.text("errors"));
}

pub fn the_pictures_of_squeezenet_are_complete() {
    pictures("squeezenet", &SQUEEZENET);
}

pub fn the_pictures_of_bert_are_complete() {
    pictures("bert", &BERT);
}

/// Returns the boxes of one graph with kinds and the names in the tooltips, and checks that none overlap.
fn boxes<'a>(dom: &'a Dom, graph: &'a str) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    let mut places: Vec<[f64; 4]> = Vec::new();
    for group in dom.within(graph).filter(|element| element.classes().next() == Some("box")) {
        let kind = group.classes().nth(1).unwrap();
        let inside: Vec<_> = dom.children(group).collect();
        let title = inside.iter().find(|child| child.tag == "title").unwrap();
        found.push((kind, title.text.lines().next().unwrap().to_owned()));
        let shape = inside.iter().find(|child| child.classes().any(|class| class == "fill")).unwrap();
        let moved = group.get("transform").unwrap().trim_start_matches("translate(").trim_end_matches(')');
        let (x, y) = moved.split_once(' ').unwrap();
        let size = |name: &str| shape.get(name).unwrap().parse::<f64>().unwrap();
        places.push([x.parse().unwrap(), y.parse().unwrap(), size("width"), size("height")]);
    }
    for (at, a) in places.iter().enumerate() {
        for b in &places[..at] {
            let apart =
                (0..2).any(|axis| a[axis] + a[axis + 2] <= b[axis] || b[axis] + b[axis + 2] <= a[axis]);
            assert!(apart, "two boxes of {graph} overlap: {a:?}, {b:?}");
        }
    }
    found
}

fn named<'a>(boxes: &'a [(&str, String)], kinds: &[&str]) -> Vec<&'a str> {
    let mut names: Vec<&str> =
        boxes.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

fn graphs(dom: &Dom, imported: &Value, plan: &Value) {
    let shown = boxes(dom, "imported");
    let (names, inputs) = computed(imported);
    assert_eq!(named(&shown, &["node"]), sorted(names));
    assert_eq!(named(&shown, &["input"]).len(), inputs);
    assert_eq!(named(&shown, &["output"]).len(), imported["outputs"].as_array().unwrap().len());
    let steps: Vec<String> = plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(named(&boxes(dom, "plan"), &["step"]), sorted(steps));
}

fn program(dom: &Dom, program: &Value, plan: &Value) {
    let shown = boxes(dom, "plan");
    let (names, inputs) = computed(program);
    assert_eq!(named(&shown, &["step", "view"]), sorted(names));
    assert_eq!(named(&shown, &["input"]).len(), inputs);
    // The box of each step has the colours of its backend and its layout.
    let edges = |class: &str, of: &str| {
        let drawn = dom.within("plan").filter(|element| element.classes().any(|one| one == class)).count();
        assert_eq!(drawn, plan["steps"].as_array().unwrap().len(), "{of}");
    };
    edges("stripe", "backend");
    edges("edge", "layout");
}

/// Checks the rectangles, in steps and bytes: every buffer has one, none overlap, and every value is in one.
fn memory(dom: &Dom, plan: &Value) {
    let (arena, bound) = (number(&plan["arena"]), number(&plan["lower_bound"]));
    let steps = plan["steps"].as_array().unwrap();
    let canvas = dom.id("buffers");
    assert_eq!(canvas.get("viewBox").unwrap(), format!("0 0 {} {arena}", steps.len() + 1));
    let rectangles: Vec<[u64; 4]> = dom
        .children(canvas)
        .filter(|element| element.classes().any(|class| class == "buffer"))
        .map(|element| ["x", "y", "width", "height"].map(|name| element.get(name).unwrap().parse().unwrap()))
        .collect();
    let overlap = |a: &[u64; 4], b: &[u64; 4]| {
        (0..2).all(|axis| a[axis] < b[axis] + b[axis + 2] && b[axis] < a[axis] + a[axis + 2])
    };
    for (at, a) in rectangles.iter().enumerate() {
        assert!(a[0] + a[2] <= steps.len() as u64 + 1 && a[1] + a[3] <= arena, "{a:?} is outside");
        assert!(a[2] > 0 && a[3] > 0, "{a:?} is empty");
        assert!(rectangles[..at].iter().all(|b| !overlap(a, b)), "{a:?} overlaps");
    }
    let planned: BTreeSet<[u64; 4]> = plan["buffers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|buffer| {
            let [offset, size, lower, upper] =
                ["offset", "size", "lower", "upper"].map(|name| number(&buffer[name]));
            [lower, arena - offset - size, upper - lower, size]
        })
        .collect();
    assert_eq!(rectangles.len(), planned.len());
    assert_eq!(BTreeSet::from_iter(rectangles.iter().copied()), planned);
    let live = |step: u64| -> u64 {
        rectangles.iter().filter(|r| r[0] <= step && step < r[0] + r[2]).map(|r| r[3]).sum()
    };
    assert_eq!((0..=steps.len() as u64).map(live).max(), Some(bound));

    // Everything that a step reads, writes or uses as scratch is in one rectangle at that step.
    let holder = |step: usize, offset: u64| {
        let step = step as u64;
        rectangles.iter().position(|r| {
            let from = arena - r[1] - r[3];
            r[0] <= step && step < r[0] + r[2] && from <= offset && offset < from + r[3]
        })
    };
    let mut used = HashSet::new();
    for (at, step) in steps.iter().enumerate() {
        let mut places: Vec<u64> = step["operands"]
            .as_array()
            .unwrap()
            .iter()
            .chain([&step["output"]])
            .filter_map(|place| place.as_str().unwrap().strip_prefix('@')?.parse().ok())
            .collect();
        if number(&step["scratch"]) > 0 {
            places.push(number(&step["scratch_offset"]));
        }
        for offset in places {
            used.insert(
                holder(at, offset).unwrap_or_else(|| panic!("step {at}: no rectangle is at {offset}")),
            );
        }
    }
    assert_eq!(used.len(), rectangles.len(), "every rectangle holds something");
    names(dom, steps);
    let notes = |class: &str| dom.within("memory").any(|element| element.classes().any(|one| one == class));
    assert!(notes("peak") && notes("bound"));
}

/// The tooltip of each rectangle names all its contents, with steps and bytes.
fn names(dom: &Dom, steps: &[Value]) {
    let known: HashSet<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    let mut told = HashSet::new();
    for title in dom.within("buffers").filter(|element| element.tag == "title") {
        for line in title.text.lines() {
            match line.strip_prefix("scratch of ") {
                Some(name) => assert!(known.contains(name), "{line}"),
                None => told.extend(line.rsplit_once(" (step ").map(|(name, _)| name)),
            }
        }
    }
    let computed = |step: &&Value| step["output"].as_str().unwrap().starts_with('@');
    let all: HashSet<&str> = steps.iter().filter(computed).map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(told, all);
}

/// Checks that each step has a row, and each runner-up its margin.
fn costs(dom: &Dom, plan: &Value, runner_ups: &str) {
    let steps = plan["steps"].as_array().unwrap();
    let rows: BTreeSet<&str> = dom
        .within("costs")
        .filter(|element| element.tag == "tr")
        .filter_map(|row| row.get("data-shows"))
        .collect();
    assert_eq!(rows.len(), steps.len());
    let bars = |class: &str| {
        dom.within("costs")
            .filter(|element| element.tag == "i" && element.classes().next() == Some(class))
            .count()
    };
    assert_eq!(bars("cost"), steps.len());
    assert_eq!(bars("margin"), runner_ups.lines().count());
    // A bar beyond the scale is cut off there, and does not cover the next column.
    for bar in dom.within("costs").filter(|element| element.tag == "i" && element.get("style").is_some()) {
        let style = bar.get("style").unwrap();
        let share =
            |name: &str| -> Option<f64> { style.split(name).nth(1)?.split('%').next()?.trim().parse().ok() };
        if let (Some(left), Some(width)) = (share("left:"), share("width:")) {
            assert!(left + width <= 100.01, "{style}");
        }
    }
    for line in runner_ups.lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let sum = |list: &Value| -> f64 {
            list.as_array().unwrap().iter().map(|change| change["seconds"].as_f64().unwrap()).sum()
        };
        let margin = one["margin"].as_f64().unwrap();
        assert!((sum(&one["adds"]) - sum(&one["drops"]) - margin).abs() < 1e-9, "{one}");
    }
}

/// `#step=2` selects one step in every picture.
fn selection(dom: &Dom) {
    let lit = |panel: &str, tag: &str| {
        dom.within(panel)
            .filter(|element| element.tag == tag && element.classes().any(|class| class == "lit"))
            .count()
    };
    assert_eq!((lit("plan", "g"), lit("costs", "tr")), (1, 1));
    assert!(lit("imported", "g") >= 1 && lit("memory", "rect") >= 1);
    assert!(dom.within("details").any(|element| element.tag == "dt" && element.text == "step 2"));
}

/// Arrow keys go from step to step, the search finds steps, the colours can be changed.
fn keyboard(browser: &str, file: &Path) {
    let page = std::fs::read_to_string(file).unwrap();
    let driven = |acts: &str| {
        let copy = file.with_file_name("driven.html");
        let text = page.replacen("</body>", &format!("<script>{{ {acts} }}</script></body>"), 1);
        std::fs::write(&copy, text).unwrap();
        drawn(browser, &copy, "")
    };
    let selected = |dom: &Dom| -> Vec<String> {
        dom.within("plan")
            .filter(|element| element.tag == "g" && element.classes().any(|class| class == "lit"))
            .map(|element| element.get("data-shows").unwrap().to_owned())
            .collect()
    };
    let press =
        "const press = (key, at) => at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        const body = document.querySelector('#plan .scroll'), find = document.getElementById('find');";
    let down = format!("{press} press('ArrowDown', body); press('ArrowDown', body);");
    assert_eq!(selected(&driven(&down)), ["step 1"]);
    assert!(selected(&driven(&format!("{down} press('Escape', body);"))).is_empty());
    let last =
        format!("{press} find.value = data.steps.at(-1).name; find.dispatchEvent(new Event('input'));");
    let dom = driven(&last);
    assert!(dom.text("found").starts_with("1 of "), "{}", dom.text("found"));
    assert_eq!(selected(&dom).len(), 1);
    let colour = "const by = document.getElementById('colour-by'); by.value = 'backend'; by.dispatchEvent(new Event('change'));";
    assert_eq!(driven(colour).all("html").next().unwrap().get("data-colour"), Some("backend"));
}

pub fn names_that_look_like_markup_are_shown_unchanged() {
    let browser = browser().unwrap();
    let at = folder("names");
    let name = "</script><script>fail(1)</script>{script}&amp;";
    let model = at.join("model.ovolo");
    let text = format!("graph {{ x: f32[2] = input; \"{name}\" = relu(x); return \"{name}\" }}");
    std::fs::write(&model, text).unwrap();
    let page = at.join("page.html");
    printed(&["explain", model.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    let dom = drawn(&browser, &page, "");
    assert_eq!(named(&boxes(&dom, "plan"), &["step"]), [name]);
}

pub fn a_model_without_steps_has_a_page_as_well() {
    let browser = browser().unwrap();
    let at = folder("empty");
    let model = at.join("model.ovolo");
    std::fs::write(&model, "graph { x: f32[2] = input; c: f32[1] = const [1.0]; return x; return c }")
        .unwrap();
    let page = at.join("page.html");
    printed(&["explain", model.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    let dom = drawn(&browser, &page, "");
    assert_eq!(named(&boxes(&dom, "plan"), &["input", "constant", "output"]).len(), 4);
}

pub fn the_page_of_a_profile_has_a_row_for_each_step_the_longest_first() {
    let browser = browser().unwrap();
    let page = folder("profile").join("page.html");
    let timed = ["--profile", "--seconds", "0.05", "--html", page.to_str().unwrap()];
    printed(&[&["bench"], &DIGITS[..], &timed].concat());
    let dom = drawn(&browser, &page, "");
    let plan: Value =
        serde_json::from_str(&printed(&[&["explain"], &DIGITS[..], &["--json"]].concat())).unwrap();
    let steps = plan["steps"].as_array().unwrap().len();
    let bars = |class: &str| -> Vec<f64> {
        dom.within("profile")
            .filter(|element| element.tag == "i" && element.classes().next() == Some(class))
            .map(|element| {
                let width = element.get("style").unwrap().split("width: ").nth(1).unwrap();
                width.trim_end_matches([';', '%']).parse().unwrap()
            })
            .collect()
    };
    assert_eq!([bars("cost").len(), bars("estimate").len(), bars("peak").len()], [steps; 3]);
    assert!(bars("cost").is_sorted_by(|a, b| a >= b));
    memory(&dom, &plan);
}
