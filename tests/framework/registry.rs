//! Tests two registries in one process: one with its own op, kernel, guard, cost model, extractor and pass,
//! the other without them.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use ovolo::backend::{Args, Backend, Kernel};
use ovolo::compile::{self, Options};
use ovolo::cost::{CostModel, Given, Pricing, PricingError, Query, pricing};
use ovolo::error::Error;
use ovolo::extract::{self, Claim, Exact, ExtractError, Extraction, Extractor, Problem};
use ovolo::graph::text;
use ovolo::op::{Arity, Call, Contract, Flags, Lowering, OpDef, OpError};
use ovolo::pass::pipeline::Pipeline;
use ovolo::pass::{self, Context, Pass, PassReport, State};
use ovolo::registry::{Registry, RegistryError};
use ovolo::rule::{Kind, RuleSet, Value, Word};
use ovolo::session::Session;
use ovolo::setting;
use ovolo::tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The op `fold`: `x + FACTOR * x`. The factor distinguishes registries that give the name different
/// meanings.
fn fold<const FACTOR: u8>() -> OpDef {
    OpDef {
        name: "fold",
        doc: "a multiple of the operand, and the operand",
        arity: Arity::Exactly(1),
        attrs: Vec::new(),
        flags: Flags::default(),
        infer: |_, types| Ok(types[0].clone()),
        eval: |_, operands, ty| {
            let values: Vec<f64> = operands[0].to_f64().iter().map(|x| x + f64::from(FACTOR) * x).collect();
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, ty| 2.0 * ty.shape.count() as f64,
        sample: None,
        lowered: None,
    }
}

struct Folded<const FACTOR: u8>;

// SAFETY: the kernel reads its operand and writes its result, each as many elements as the type says, and nothing else.
unsafe impl<const FACTOR: u8> Backend for Folded<FACTOR> {
    fn name(&self) -> &'static str {
        "mine"
    }

    fn ops(&self) -> Vec<Lowering> {
        let contract = |call: &Call<'_>| match call.output.dtype {
            DType::F32 => Ok(Contract { implementation: "plain".into(), ..Contract::default() }),
            other => Err(OpError::kernel(format!("no kernel for {other}"))),
        };
        vec![Lowering::new("mine.fold", "fold", contract, |call| {
            Ok(Box::new(Plain::<FACTOR>(call.output.shape.count())))
        })]
    }
}

struct Plain<const FACTOR: u8>(usize);

impl<const FACTOR: u8> Kernel for Plain<FACTOR> {
    unsafe fn run(&self, args: &Args<'_>) {
        for at in 0..self.0 {
            // SAFETY: the caller's promise: the operand and the result each have this many elements of f32.
            unsafe {
                let x = args.inputs[0].cast::<f32>().add(at).read();
                args.output.cast::<f32>().add(at).write(x + f32::from(FACTOR) * x);
            }
        }
    }
}

/// The pricing that makes [`Flat`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ByFlat;

impl Pricing for ByFlat {
    fn name(&self) -> &str {
        "flat"
    }

    fn model(&self, _: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        Ok(Box::new(Flat))
    }
}

/// A cost model in which every kernel takes a microsecond.
struct Flat;

impl CostModel for Flat {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn seconds(&self, _: &Query<'_>) -> Option<f64> {
        Some(1e-6)
    }

    fn copy(&self, _: usize) -> f64 {
        1e-6
    }
}

/// The extractor `exact` under another name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Other;

impl Extractor for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    fn claim(&self) -> Claim {
        Exact::DEFAULT.claim()
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        Exact::DEFAULT.extract(problem)
    }
}

/// Counts e-nodes, and refuses an e-graph with more than `most`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Census {
    most: usize,
}

impl Pass for Census {
    fn name(&self) -> &str {
        "census"
    }

    fn run(&self, state: State, _: &Context<'_>) -> Result<(State, PassReport), Error> {
        let nodes = state.egraph().map_or(0, |egraph| egraph.nodes());
        match nodes <= self.most {
            true => Ok((state, PassReport::Custom(format!("{nodes} e-nodes")))),
            false => Err(Error::other(format!("{nodes} e-nodes are more than {}", self.most))),
        }
    }
}

const RULES: &str = r#"[
    Rule(name: "lower-fold", from: "(fold ?x)", to: "(mine.fold ?x)", when: ["is-even(?x, 0)"]),
]"#;

const PIPELINE: &str = r#"Pipeline(
    name: "mine",
    passes: [
        Rewrite(name: "lower", rules: ["lower-fold"]),
        Census(most: 100),
        Extract(extractor: "other", cost: "flat"),
        Plan(),
    ],
    backends: ["mine"],
)"#;

const MODEL: &str = "graph {\n  x: f32[4] = input\n  y = fold(x)\n  return y\n}";

fn with<const FACTOR: u8>() -> Arc<Registry> {
    let mut registry = Registry::new();
    registry.add_op(fold::<FACTOR>()).unwrap();
    registry.add_backend(Arc::new(Folded::<FACTOR>)).unwrap();
    let doc = "the operand's size along the axis is even";
    let even = Word::guard("is-even", doc, &[Kind::Operand, Kind::Integer], |arguments| {
        let (operand, axis) = (arguments.operand(0)?, arguments.int(1)?);
        let size = usize::try_from(axis).ok().and_then(|axis| operand.ty.shape.get(axis));
        match size {
            Some(size) if size % 2 == 0 => Ok(Value::yes()),
            _ => Err(format!("{} is not even", arguments.show(0)).into()),
        }
    });
    registry.add_word(even).unwrap();
    registry.add_pricing(pricing::kind::<ByFlat>()).unwrap();
    registry.add_extractor(extract::kind::<Other>()).unwrap();
    registry.add_pass("Census", pass::PassKind::with_settings::<Census>()).unwrap();
    registry.add_rules("rules/mine.ron", RULES).unwrap();
    registry.add_pipeline("passes/mine.ron", PIPELINE).unwrap();
    Arc::new(registry)
}

fn options(registry: &Arc<Registry>) -> Options {
    Options::new(registry, "mine").unwrap()
}

/// Runs the model with a registry on the operand `[1, 2, 3, 4]`.
fn run(registry: &Arc<Registry>) -> Vec<f64> {
    let graph = text::parse(registry.ops(), MODEL).unwrap();
    let compilation = compile::compile(graph, &options(registry)).unwrap();
    let census = compilation.stages.iter().find(|stage| stage.name == "census").unwrap();
    assert!(matches!(&census.report, Some(PassReport::Custom(text)) if text.ends_with(" e-nodes")));
    assert_eq!(compilation.plan.steps[0].op.name, "mine.fold");
    let mut session = Session::new(&compilation.program, compilation.plan, registry.backends()).unwrap();
    let x = Tensor::from_f64(DType::F32, [4], &[1.0, 2.0, 3.0, 4.0]);
    session.run(&[&x]).unwrap()[0].to_f64()
}

#[test]
fn registries_may_define_one_name_differently() {
    let (three, ten) = (with::<2>(), with::<9>());
    for _ in 0..2 {
        assert_eq!(run(&three), [3.0, 6.0, 9.0, 12.0]);
        assert_eq!(run(&ten), [10.0, 20.0, 30.0, 40.0]);
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&ten));
        assert_eq!(run(&three), [3.0, 6.0, 9.0, 12.0]);
        assert_eq!(other.join().unwrap(), [10.0, 20.0, 30.0, 40.0]);
    });
}

#[test]
fn additions_to_one_registry_are_absent_from_another() {
    let with = with::<2>();
    let without = common::registry();
    let unknown = text::parse(without.ops(), MODEL).unwrap_err().to_string();
    assert!(unknown.contains("fold"), "{unknown}");
    let unread = RuleSet::read(without.vocabulary(), &[("mine.ron", RULES)]).unwrap_err().to_string();
    assert!(unread.contains("fold") && unread.contains("is-even"), "{unread}");
    let refused = Pipeline::read(&without.scope(), "mine.ron", PIPELINE).unwrap_err().to_string();
    for name in ["Census", "other", "flat", "mine"] {
        assert!(refused.contains(&format!("`{name}` is not known")), "{name}: {refused}");
    }
    assert!(without.catalog().pricings.get("flat").is_none());
    assert!(with.ops().get("native.relu").is_none() && without.ops().get("native.relu").is_some());
}

#[test]
fn a_guard_of_a_registry_refuses_with_its_reason() {
    let registry = with::<2>();
    let graph = text::parse(registry.ops(), &MODEL.replace("[4]", "[5]")).unwrap();
    let error = compile::compile(graph, &options(&registry)).err().unwrap().to_string();
    assert!(error.contains("fold"), "{error}");
}

#[test]
fn settings_of_a_pass_are_its_own() {
    let registry = with::<2>();
    let wrong = PIPELINE.replace("most: 100", "least: 1");
    let refused = Pipeline::read(&registry.scope(), "mine.ron", &wrong).unwrap_err().to_string();
    assert!(refused.contains("`least`") && refused.contains("mine.ron:5"), "{refused}");
    let small = PIPELINE.replace("most: 100", "most: 1");
    let pipeline = Pipeline::read(&registry.scope(), "mine.ron", &small).unwrap();
    let graph = text::parse(registry.ops(), MODEL).unwrap();
    let error = compile::compile(graph, &Options { pipeline, ..options(&registry) }).err().unwrap();
    assert!(error.to_string().ends_with("e-nodes are more than 1"), "{error}");
}

#[test]
fn a_value_may_be_registered_that_no_file_can_write() {
    let mut registry = Registry::new();
    let value: Arc<dyn Extractor> = Arc::new(Other);
    registry.add_extractor(setting::Kind::of(Arc::clone(&value))).unwrap();
    let registered = registry.catalog().extractors.get("other").unwrap();
    assert!(Arc::ptr_eq(&(registered.plain)(), &value));
    let text = r#"Pipeline(passes: [Extract(extractor: Other(states: 1))])"#;
    let refused = Pipeline::read(&registry.scope(), "mine.ron", text).unwrap_err().to_string();
    assert!(refused.contains("it takes no settings from a file"), "{refused}");
}

#[test]
fn shipped_rules_are_left_out_only_if_their_ops_are_absent() {
    let written = |registry: &Registry| {
        let names = |text: &str| text.matches("Rule(").count();
        registry.rules().iter().map(|(_, text)| names(text)).sum::<usize>()
    };
    let (all, none) = (common::registry(), Registry::new());
    let lines: BTreeSet<_> =
        common::rules().rules().iter().map(|rule| (rule.file.clone(), rule.line)).collect();
    assert_eq!(lines.len(), written(all), "with all backends every shipped rule is read");
    let few = none.rule_set().unwrap();
    assert!(few.rules().len() > 100 && !few.rules().iter().any(|rule| rule.name.ends_with("-native")));
}

#[test]
fn a_name_may_be_registered_only_once() {
    let mut registry = Registry::new();
    registry.add_op(fold::<2>()).unwrap();
    let again = registry.add_op(fold::<3>()).err().unwrap();
    assert_eq!(again.to_string(), "there are two ops named `fold`: give one of them another name");
    assert!(matches!(
        registry.add_pass("Extract", pass::PassKind::with_settings::<Census>()),
        Err(RegistryError::Duplicate(_))
    ));
    let absent = Registry::new().add_backend(Arc::new(Folded::<2>)).err().unwrap();
    assert!(absent.to_string().contains("`mine.fold` cannot be lowered: there is no op `fold`"), "{absent}");
}

/// Chooses the same for every class.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stubborn(Option<u32>);

impl Extractor for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let mut found = Exact::DEFAULT.extract(problem)?;
        found.choice.fill(self.0);
        Ok(found)
    }
}

#[test]
fn a_choice_that_is_no_program_is_refused() {
    let graph =
        text::parse(common::ops(), "graph g {\n x: f32[2] = input\n y = relu(x)\n return y\n}").unwrap();
    for (choice, why) in [(None, "nothing is chosen"), (Some(999), "the choice is none of its candidates")] {
        let mut options = common::options(1);
        options.pipeline.extract_mut().unwrap().extractor = Arc::new(Stubborn(choice));
        let error = compile::compile(graph.clone(), &options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_number_of_threads_that_no_plan_runs_with_is_refused() {
    let graph =
        text::parse(common::ops(), "graph g {\n x: f32[2] = input\n y = relu(x)\n return y\n}").unwrap();
    for threads in [0, 1 << 40] {
        let error = compile::compile(graph.clone(), &common::options(threads)).unwrap_err();
        assert_eq!(error.to_string(), format!("a plan runs with 1 to 1024 threads, not {threads}"));
    }
}

#[test]
fn an_unknown_op_in_rules_of_another_crate_is_a_mistake() {
    for op in ["native.rellu", "absent.relu"] {
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).unwrap();
        let rule = format!(r#"[Rule(name: "lower-relu-again", from: "(relu ?x)", to: "({op} ?x)")]"#);
        registry.add_rules("rules/mine.ron", rule).unwrap();
        let error = registry.rule_set().unwrap_err().to_string();
        assert!(error.contains(&format!("op `{op}` is not known")), "{error}");
    }
}
