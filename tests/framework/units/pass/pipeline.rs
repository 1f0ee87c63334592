//! Tests of `src/pass/pipeline.rs`.

use ovolo::backend::Backend;
use ovolo::error::{Diagnostics, Error};
use ovolo::op::Lowering;
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::{Context, Pass, PassKind, PassReport, Rewrite, Scope, State};
use ovolo::registry::Registry;
use ovolo::ron::{Reader, Spanned};
use ovolo::rule::RuleSet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A pass that is not ovolo's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Count {
    of: Spanned<String>,
    #[serde(default)]
    most: Option<usize>,
}

impl Pass for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn check(&self, _: &Scope<'_>, reader: &mut Reader<'_>) {
        if !["nodes", "bytes"].contains(&self.of.as_str()) {
            let message = format!("thing to count `{}` is not known", *self.of);
            reader.mistake(message, self.of.span, "known are nodes, bytes");
        }
    }

    fn run(&self, _: State, _: &Context<'_>) -> Result<(State, PassReport), Error> {
        Err(Error::other("it is only read"))
    }
}

/// A backend without kernels.
struct NoKernels;

// SAFETY: the backend has no kernels.
unsafe impl Backend for NoKernels {
    fn name(&self) -> &'static str {
        "none"
    }

    fn ops(&self) -> Vec<Lowering> {
        Vec::new()
    }
}

fn read(passes: &str) -> Result<Pipeline, Diagnostics> {
    let mut registry = Registry::new();
    registry.add_pass("Count", PassKind::with_settings::<Count>()).unwrap();
    registry.add_backend(Arc::new(NoKernels)).unwrap();
    let scope = Scope { rules: None, ..registry.scope() };
    let text = format!("Pipeline(name: \"p\", passes: [{passes}], backends: [\"none\"])");
    Pipeline::read(&scope, "p.ron", &text)
}

#[test]
fn a_pass_from_outside_brings_its_settings() {
    let mut pipeline = read("Count(of: \"nodes\", most: 3), Extract(cost: \"flops\")").unwrap();
    assert_eq!(pipeline.passes_mut::<Count>().next().unwrap().most, Some(3));
    pipeline.passes_mut::<Count>().next().unwrap().most = None;
    let described = pipeline.passes[0].describe().unwrap();
    assert_eq!(described, serde_json::json!({"of": "nodes", "most": null}));
    let wrong = read("Count(of: \"edges\", mst: 3)").unwrap_err().to_string();
    assert!(wrong.contains("thing to count `edges` is not known"), "{wrong}");
    assert!(
        wrong.contains("`Count` has no field `mst`") && wrong.contains("did you mean `most`?"),
        "{wrong}"
    );
}

#[test]
fn a_rewrite_after_the_extraction_is_refused_with_its_place() {
    let wrong = read("Extract(), Rewrite(name: \"late\", rules: []), Plan()").unwrap_err().to_string();
    assert!(wrong.contains("`Rewrite` stands where a program has been chosen already"), "{wrong}");
    assert!(wrong.contains("p.ron:1") && wrong.contains("put `Rewrite(…)` before `Extract(…)`"), "{wrong}");
}

#[test]
fn a_copy_of_a_pipeline_keeps_its_settings() {
    let pipeline = read("Rewrite(name: \"r\", rules: [\"fuse\"]), Extract(memory: 0.5), Plan()").unwrap();
    let mut copy = pipeline.clone();
    copy.extract_mut().unwrap().memory = 2.0;
    copy.passes_mut::<Rewrite>().for_each(|rewrite| rewrite.rounds = 1);
    assert_eq!(pipeline.extract().unwrap().memory.to_bits(), 0.5_f64.to_bits());
    assert_eq!(pipeline.rewrites().next().unwrap().rounds, 8);
    assert_eq!(copy.rewrites().next().unwrap().rounds, 1);
}

#[test]
fn rules_that_assume_more_than_a_pipeline_are_left_out_of_files_and_refused_by_name() {
    let text = r#"[
        // It needs nothing.
        Rule(name: "plain", from: "(relu (relu ?x))", to: "(relu ?x)"),
        // It needs finite numbers.
        Rule(name: "bold", assume: ["finite"], from: "(mul ?x 0.0)", to: "(sub ?x ?x)"),
    ]"#;
    let alone = r#"[
        // It needs finite numbers as well.
        Rule(name: "only", assume: ["finite"], from: "(sub ?x ?x)", to: "(mul ?x (scalar {value: 0.0}))"),
    ]"#;
    let mut registry = Registry::new();
    registry.add_backend(Arc::new(NoKernels)).unwrap();
    let files = [("mine.ron", text), ("alone.ron", alone)];
    let rules = RuleSet::read(registry.vocabulary(), &files).unwrap_or_else(|found| panic!("{found}"));
    let selected = |names: &str, assume: &str| {
        let passes = format!("[Rewrite(name: \"r\", rules: [{names}]), Extract(), Plan()]");
        let text =
            format!("Pipeline(name: \"p\", passes: {passes}, backends: [\"none\"], assume: [{assume}])");
        let scope = Scope { rules: Some(&rules), ..registry.scope() };
        let pipeline = Pipeline::read(&scope, "p.ron", &text).map_err(|found| found.to_string())?;
        let phase = pipeline.rewrites().next().unwrap();
        let selected = pipeline.select(phase, &rules).map_err(|found| found.to_string())?;
        Ok::<_, String>(selected.iter().map(|rule| rule.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(selected("\"mine\"", "").unwrap(), ["plain"]);
    assert_eq!(selected("\"mine\", \"alone\"", "\"finite\"").unwrap(), ["plain", "bold", "only"]);
    let wrong = selected("\"bold\"", "").unwrap_err();
    assert!(wrong.contains("rule `bold` assumes \"finite\", and the pipeline does not"), "{wrong}");
    let wrong = selected("\"alone\"", "").unwrap_err();
    assert!(
        wrong.contains("each rule of `alone` assumes \"finite\"") && wrong.contains("p.ron:1"),
        "{wrong}"
    );
}
