//! Picks one program among all in the e-graph, by a cost model.

use super::pipeline::Extract as Settings;
use super::{Context, Pass, PassReport, State};
use crate::cost;
use crate::egraph::EGraph;
use crate::error::Error;
use crate::extract::{self, Extractor};

/// The extraction.
pub(super) struct Extract(pub Settings);

impl Pass for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let Settings { extractor, cost, limits } = &self.0;
        let setting = |what: &str, name: &str, known: Vec<&str>| {
            Error::setting(format!("there is no {what} `{name}`: there are {}", known.join(", ")))
        };
        let model = cost::find(cost, &context.machine, context.measured.as_ref()).map_err(Error::setting)?;
        let known = extract::find(extractor).ok_or_else(|| {
            setting("extractor", extractor, extract::EXTRACTORS.iter().map(|one| one.name()).collect())
        })?;
        let exact = extract::Exact { limits: *limits };
        let extractor: &dyn Extractor = if known.name() == exact.name() { &exact } else { known };
        let egraph = state.egraph.take().unwrap_or_else(|| EGraph::new(&state.graph));
        let contracts = |call: &crate::contract::Call<'_>| context.contract(call);
        let pick = egraph.problem(&*model, context.threads, &contracts);
        if let Some(first) = pick.unpriced.first() {
            return Err(Error::setting(format!(
                "the cost model `{cost}` has no price for {} kernel(s): run `ovolo tune MODEL`; the first is {first}",
                pick.unpriced.len()
            )));
        }
        if let Some(obstacle) = pick.obstacle() {
            return Err(obstacle.into());
        }
        let extraction =
            extractor.extract(&pick.problem).map_err(|error| Error::Extract(error.to_string()))?;
        let program = pick.build(&extraction);
        let missing = pick.missing;
        state.graph = program.graph;
        state.rules = program
            .rules
            .iter()
            .map(|chain| {
                chain.iter().map(|rule| format!("{} ({}:{})", rule.name, rule.file, rule.line)).collect()
            })
            .collect();
        let report = PassReport::Extract {
            extractor: extractor.name().to_owned(),
            cost_model: model.name().to_owned(),
            extraction,
            missing,
        };
        state.cost = Some(model);
        Ok(report)
    }
}
