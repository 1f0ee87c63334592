//! Selections as files: the chosen node of each e-class, by the names of the e-graph's file.
//!
//! The form is `{"choices": {"CLASS": "NODE"}}`, which `ovolo extract --json` prints and other extractors write. Further
//! fields are allowed. A class may be left out if nothing that is chosen reads it.

use super::{Label, Named, Problem};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The reason why a text is not a selection of an e-graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectionError {
    /// It is not JSON, or JSON of another form.
    #[error("{0}; the form is {{\"choices\": {{\"CLASS\": \"NODE\"}}}}, as `ovolo extract --json` prints it")]
    Form(String),
    /// It names a class that does not exist.
    #[error(
        "the e-graph has no class `{class}`: is the selection of this model, pipeline and number of threads?"
    )]
    UnknownClass {
        /// The class.
        class: String,
    },
    /// It names a node that its class does not have.
    #[error(
        "the class `{class}` has no node `{node}`{}: is the selection of this model, pipeline and number of threads?",
        .known.as_ref().map(|known| format!("; its nodes are {known}")).unwrap_or_default()
    )]
    UnknownNode {
        /// The class.
        class: String,
        /// The node.
        node: String,
        /// The first nodes of the class, if it has any.
        known: Option<String>,
    },
}

#[derive(Deserialize)]
struct File {
    choices: BTreeMap<String, String>,
}

/// The number of nodes that a message lists.
const LISTED: usize = 4;

impl Named {
    /// Names the classes of a problem `c0`, `c1`, …, and the nodes of each class `c0.0`, `c0.1`, …, as the file of a
    /// model's e-graph does.
    pub(crate) fn numbered(problem: &Problem) -> Self {
        let label = |class: usize, place: usize| {
            let id = format!("c{class}.{place}");
            Label { op: id.clone(), id }
        };
        let classes = problem.classes.iter().enumerate();
        let nodes =
            classes.map(|(class, nodes)| (0..nodes.nodes.len()).map(|place| label(class, place)).collect());
        Self {
            nodes: nodes.collect(),
            classes: (0..problem.classes.len()).map(|class| format!("c{class}")).collect(),
            types: vec![None; problem.classes.len()],
            problem: problem.clone(),
        }
    }

    /// Reads a selection: for each class the index of the chosen node; `None` for a class that is left out. Whether the
    /// selection is complete and not cyclic is not checked; [`Problem::cost`] does.
    ///
    /// # Errors
    /// If the text has another form, or names a class or a node that does not exist.
    pub(crate) fn selection(&self, text: &str) -> Result<Vec<Option<u32>>, SelectionError> {
        let file: File =
            serde_json::from_str(text).map_err(|error| SelectionError::Form(error.to_string()))?;
        let indices: FxHashMap<&str, usize> =
            self.classes.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let mut choice = vec![None; self.classes.len()];
        for (class, node) in file.choices {
            let Some(&at) = indices.get(class.as_str()) else {
                return Err(SelectionError::UnknownClass { class });
            };
            let labels = &self.nodes[at];
            let Some(place) = labels.iter().position(|label| label.id == node) else {
                let first: Vec<&str> = labels.iter().take(LISTED).map(|label| label.id.as_str()).collect();
                let more = if labels.len() > LISTED { ", …" } else { "" };
                let known = (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")));
                return Err(SelectionError::UnknownNode { class, node, known });
            };
            choice[at] = Some(place as u32);
        }
        Ok(choice)
    }
}
