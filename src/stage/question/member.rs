//! Programs of an e-graph that are not chosen for their price: every one of them must compute what the model does.

use crate::error::Error;
use crate::extract::{Extractor, GreedyTree};
use crate::stage::chosen::sources;
use crate::stage::{Chosen, Priced};
use std::sync::Arc;

impl Priced<'_> {
    /// A program of the e-graph: the one that a greedy extractor chooses where `price` gives each candidate its price,
    /// or by the prices as they are.
    ///
    /// # Errors
    /// No program can run.
    pub fn member(&self, price: Option<&mut dyn FnMut() -> f64>) -> Result<Chosen, Error> {
        let mut problem = self.pick.problem.clone();
        if let Some(price) = price {
            problem
                .classes
                .iter_mut()
                .flat_map(|class| &mut class.nodes)
                .for_each(|node| node.cost = price());
        }
        let extraction = GreedyTree.extract(&problem)?;
        let program = self.pick.build(&extraction);
        let sources = sources(&self.pick, &program);
        Ok(Chosen {
            extraction,
            objective: None,
            program: program.graph,
            sources,
            missing: self.pick.missing.clone(),
            model: Arc::clone(&self.model),
            target: self.target.clone(),
            within: None,
        })
    }
}
