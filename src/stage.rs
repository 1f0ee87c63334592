//! The stages of a compilation as types. Each stage has its own data, and answers some questions.
//!
//! | stage | owns | answers |
//! |---|---|---|
//! | [`Imported`] | the verified graph | |
//! | [`Saturated`] | the e-graph, and what each phase of rewriting did | [growth](Saturated::growth), [rules that changed something](Saturated::applied), [why a rule did not](Saturated::why_not), [features of its kernels](Saturated::features) |
//! | [`Priced`] | the price of every kernel | [the problem as a file](Priced::named), [members](Priced::member), [time against memory](Priced::curve), [runners-up](Priced::runner_ups), [what if](Priced::what_if), [without an op](Priced::without) |
//! | [`Chosen`] | one program, its cost with a bound, and where its nodes came from | [rules on the way](Chosen::rules) |
//! | [`Planned`] | the plan of that program | |
//!
//! A stage is made from the previous one and from values: rules, a cost model, an extractor, a memory planner. The
//! passes of a pipeline look these values up by name, and make the same stages from them.
//!
//! ```
//! use ovolo::cost::{Machine, PriceModel};
//! use ovolo::egraph::Limits;
//! use ovolo::graph::text;
//! use ovolo::stage::{Choice, Imported, Target};
//! # let mut registry = ovolo::registry::Registry::new();
//! # ovolo_native::register(&mut registry)?;
//! # let rules = registry.rule_set()?.select(&["native".to_owned(), "fuse".to_owned()])?;
//! let graph = text::parse(registry.ops(), "graph { x: f32[8] = input; y = relu(x); return y }")?;
//! let mut saturated = Imported::new(graph)?.saturate();
//! saturated.grow("lower", &rules, Limits { rounds: 8, nodes: 1000 }, &|| std::time::Duration::ZERO)?;
//! assert!(!saturated.applied().is_empty());
//! let target = Target { threads: 1, backends: ["native".to_owned()].into() };
//! let priced = saturated.price(Box::new(PriceModel::shipped("flops", Machine::NOMINAL)), &target)?;
//! let choice = Choice::default();
//! let planned = priced.choose(&choice)?.plan(&choice.planning)?;
//! assert!(planned.chosen.extraction.proven);
//! assert_eq!(planned.plan.steps.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chosen;
mod forms;
mod imported;
mod objective;
mod planned;
mod planning;
mod priced;
mod question;
mod recorder;
mod saturated;
mod search;
mod target;

pub use chosen::Chosen;
pub use imported::Imported;
pub(crate) use objective::Objective;
pub use planned::Planned;
pub use planning::Planning;
pub(crate) use priced::estimates;
pub use priced::{Choice, Priced};
pub use question::{Curve, Point, Scale, Supposed};
pub use recorder::PricedKernel;
pub use saturated::{Phase, Saturated};
pub use target::Target;
