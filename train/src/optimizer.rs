//! Optimisers: graphs of one parameter, its gradient and its state, from a table.

use super::builder::Builder;
use super::error::TrainError;
use ovolo::error::{Diagnostics, Source, suggestion};
use ovolo::graph::{Graph, INPUT, NodeId, text};
use ovolo::op::Ops;
use ovolo::tensor::TensorType;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The name of the table in messages.
const NAME: &str = "train/ops/optimizers.ron";
/// The text of the table.
const TEXT: &str = include_str!("../ops/optimizers.ron");

/// How parameters change with their gradients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    /// The name.
    pub name: String,
    /// Numbers that a user may change, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// The names of what is kept beside each parameter, in its type.
    #[serde(default)]
    pub state: Vec<String>,
    /// A graph in text form, without the lines of its inputs and of the settings.
    body: String,
}

/// The next values of one parameter.
pub(crate) struct Next {
    /// The parameter.
    pub parameter: NodeId,
    /// Its states, in the order of the optimiser.
    pub state: Vec<NodeId>,
}

/// What a body computes with.
#[derive(Clone)]
pub(crate) struct Given<'a> {
    /// The name of the parameter.
    pub name: &'a str,
    /// The parameter.
    pub parameter: NodeId,
    /// Its gradient.
    pub gradient: NodeId,
    /// The learning rate.
    pub rate: NodeId,
    /// The number of the step, from 1.
    pub step: NodeId,
    /// Its states, in the order of the optimiser.
    pub state: &'a [NodeId],
}

impl Optimizer {
    /// Returns the optimisers of the table, in order.
    ///
    /// # Errors
    /// The table has mistakes.
    pub fn all() -> Result<Vec<Self>, TrainError> {
        Self::read(NAME, TEXT)
    }

    /// Reads a table of optimisers.
    ///
    /// # Errors
    /// Where the text is no such table.
    pub fn read(name: &str, text: &str) -> Result<Vec<Self>, TrainError> {
        ron::from_str(text).map_err(|why| TrainError::Data { file: name.to_owned(), why: why.to_string() })
    }

    /// Returns the optimiser of this name, with some settings in place of its own.
    ///
    /// # Errors
    /// There is no such optimiser or setting.
    pub fn find(name: &str, settings: &BTreeMap<String, f64>) -> Result<Self, TrainError> {
        let all = Self::all()?;
        let unknown = |kind: &'static str, name: &str, known: Vec<&str>| TrainError::Unknown {
            kind,
            name: name.to_owned(),
            help: match suggestion(name, known.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("there are {}", known.join(", ")),
            },
        };
        let mut own =
            all.iter().find(|one| one.name == name).cloned().ok_or_else(|| {
                unknown("optimiser", name, all.iter().map(|one| one.name.as_str()).collect())
            })?;
        for (setting, value) in settings {
            match own.settings.get_mut(setting) {
                Some(own) => *own = *value,
                None => {
                    return Err(unknown(
                        "setting",
                        setting,
                        own.settings.keys().map(String::as_str).collect(),
                    ));
                }
            }
        }
        Ok(own)
    }

    /// Adds the next values of a parameter to a graph.
    ///
    /// # Errors
    /// The body is no graph, or does not return each of them in the parameter's type.
    pub(crate) fn apply(
        &self,
        ops: &Ops,
        builder: &mut Builder<'_>,
        given: &Given<'_>,
    ) -> Result<Next, TrainError> {
        let ty = builder.graph()[given.parameter].ty.clone();
        let body = self.parse(ops, &ty).map_err(TrainError::Table)?;
        let mut ids: Vec<NodeId> = Vec::with_capacity(body.len());
        for (id, node) in body.nodes() {
            let inputs = node.inputs.iter().map(|input| ids[input.index()]).collect();
            ids.push(match (&*node.name, body.constant(id)) {
                ("parameter", _) if node.op == INPUT => given.parameter,
                ("gradient", _) if node.op == INPUT => given.gradient,
                ("rate", _) if node.op == INPUT => given.rate,
                ("step", _) if node.op == INPUT => given.step,
                (name, _) if node.op == INPUT => {
                    let state = self.state.iter().zip(given.state).find(|(own, _)| *own == name);
                    state.map(|(_, id)| *id).ok_or_else(|| TrainError::Data {
                        file: NAME.to_owned(),
                        why: format!(
                            "optimiser `{}` has an input `{name}`, which is no state of it",
                            self.name
                        ),
                    })?
                }
                (_, Some(value)) if value.ty().shape.rank() == 0 => {
                    builder.number(value.to_f64().first().copied().unwrap_or(f64::NAN))
                }
                (name, Some(value)) => builder.constant(&format!("{}.{name}", self.name), value.clone()),
                (name, None) => {
                    // What all parameters share is called after the optimiser.
                    let own = if node.ty.shape.rank() == 0 { self.name.as_str() } else { given.name };
                    let name = format!("{own}.next.{name}");
                    builder.op(&name, node.op, (*node.attrs).clone(), inputs)?
                }
            });
        }
        let result = |name: &str| {
            let found = body.outputs().find(|(output, _)| ***output == *name).map(|(_, id)| ids[id.index()]);
            found.filter(|id| builder.graph()[*id].ty == ty).ok_or_else(|| TrainError::Data {
                file: NAME.to_owned(),
                why: format!("optimiser `{}` returns no `{name}` of the parameter's type", self.name),
            })
        };
        Ok(Next {
            parameter: result("parameter")?,
            state: self.state.iter().map(|name| result(name)).collect::<Result<_, _>>()?,
        })
    }

    /// Reads the body for parameters of a type.
    fn parse(&self, ops: &Ops, ty: &TensorType) -> Result<Graph, Diagnostics> {
        let mut text =
            format!("graph {} {{\nrate: f32[] = input\nstep: f32[] = input\n", text::quote(&self.name));
        for name in ["parameter", "gradient"].into_iter().chain(self.state.iter().map(String::as_str)) {
            let _ = writeln!(text, "{}: {ty} = input", text::quote(name));
        }
        for (name, value) in &self.settings {
            let _ = writeln!(text, "{}: f32[] = const [{value:?}]", text::quote(name));
        }
        text.push_str(&self.body);
        text.push_str("\n}\n");
        text::parse_source(
            ops,
            &Source::new(format!("{NAME}: {}", self.name), text),
            &text::Constants::none(),
        )
    }
}
