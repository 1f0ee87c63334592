//! E-graphs as files in the JSON form of the crate `egraph-serialize`, which other extractors read and write.
//!
//! Reading a text gives a [`Named`] problem, and writing does the reverse. A node is a candidate with a unique id, an
//! op that is only shown, its class, and a cost. The cost is 1 if it is not given, and `null` for a node that cannot
//! be run, because that crate writes infinity so. Children name any node of the class that is read. `subsumed` nodes
//! are not extracted. The rank of a candidate is its position in the file. All mistakes of a file are reported at
//! once, each with its node and a remedy.

use super::canonical::runnable;
use super::{Candidate, Class, ClassId, ExtractError, Extraction, Problem};
use rustc_hash::FxHashMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Write};
use std::marker::PhantomData;

/// A problem with the names of its classes and nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// The problem.
    pub problem: Problem,
    /// The id of each class.
    pub classes: Vec<String>,
    /// The description of each class's type, if there is one.
    pub types: Vec<Option<String>>,
    /// For each class its candidates.
    pub nodes: Vec<Vec<Label>>,
}

/// The name of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The unique id.
    pub id: String,
    /// The op, which is only shown.
    pub op: String,
}

/// The reason why a text is not an e-graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It is not JSON, or JSON of another form.
    #[error(
        "{0}\n  help: the form is that of the crate egraph-serialize: {{\"nodes\": {{\"ID\": {{\"op\": \"f\", \
         \"children\": [\"ID\"], \"eclass\": \"CLASS\", \"cost\": 1.0}}}}, \"root_eclasses\": [\"CLASS\"]}}"
    )]
    Form(String),
    /// It names nodes or classes that do not exist, or has invalid costs.
    #[error("{}", .0.join("\nerror: "))]
    Mistakes(Vec<String>),
}

/// The number of mistakes that are reported one by one; of further mistakes only the number is reported.
const TOLD: usize = 10;

/// A file may have comments and the like beside the e-graph.
#[derive(Deserialize)]
struct File {
    nodes: Entries<Node>,
    #[serde(default)]
    root_eclasses: Vec<String>,
    #[serde(default)]
    class_data: Option<Entries<ClassData>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    op: String,
    #[serde(default)]
    children: Vec<String>,
    eclass: String,
    #[serde(default = "one")]
    cost: Option<f64>,
    #[serde(default)]
    subsumed: bool,
}

/// Other programs may keep more of a class than its type.
#[derive(Deserialize)]
struct ClassData {
    #[serde(default, rename = "type")]
    ty: Option<String>,
}

#[allow(clippy::unnecessary_wraps)] // A cost that is not said is one; one that is `null` is none.
fn one() -> Option<f64> {
    Some(1.0)
}

/// The entries of an object in their order. A key may occur several times.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Entries<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object with a key for each id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

impl Named {
    /// Reads an e-graph from a text.
    ///
    /// # Errors
    /// [`FormatError`]: the text is not JSON of the right form, or it contains mistakes, of which all are listed.
    pub fn read(text: &str) -> Result<Self, FormatError> {
        let file: File = serde_json::from_str(text).map_err(|error| FormatError::Form(error.to_string()))?;
        let mut named = Self::default();
        let mut mistakes = Vec::new();
        let mut class_of: FxHashMap<&str, ClassId> = FxHashMap::default();
        let mut node_of: FxHashMap<&str, ClassId> = FxHashMap::default();
        for (id, node) in &file.nodes.0 {
            let next = ClassId(named.classes.len() as u32);
            let class = *class_of.entry(node.eclass.as_str()).or_insert(next);
            if class == next {
                named.classes.push(node.eclass.clone());
                named.types.push(None);
                named.nodes.push(Vec::new());
                named.problem.classes.push(Class::default());
            }
            if node_of.insert(id.as_str(), class).is_some() {
                mistakes.push(format!("node `{id}` is there twice: give every node an id of its own"));
            }
        }
        for (rank, (id, node)) in file.nodes.0.iter().enumerate() {
            let cost = match node.cost {
                Some(_) if node.subsumed => f64::INFINITY,
                Some(cost) => cost,
                None => f64::INFINITY,
            };
            if cost < 0.0 {
                mistakes.push(format!(
                    "node `{id}` costs {cost}: a cost is zero or more, or null for what cannot be run"
                ));
            }
            let mut children = Vec::with_capacity(node.children.len());
            for child in &node.children {
                match node_of.get(child.as_str()) {
                    Some(class) => children.push(*class),
                    None if class_of.contains_key(child.as_str()) => mistakes.push(format!(
                        "node `{id}` has the child `{child}`, which is a class: name a node of it"
                    )),
                    None => mistakes.push(format!(
                        "node `{id}` has the child `{child}`, which is not a node: add it, or take it from `children`"
                    )),
                }
            }
            let class = class_of[node.eclass.as_str()].index();
            named.nodes[class].push(Label { id: id.clone(), op: node.op.clone() });
            named.problem.classes[class].nodes.push(Candidate { cost, children, rank: rank as u32 });
        }
        if file.root_eclasses.is_empty() {
            mistakes
                .push("there are no `root_eclasses`: name the classes that are to be extracted".to_owned());
        }
        for root in &file.root_eclasses {
            match class_of.get(root.as_str()) {
                Some(class) => named.problem.roots.push(*class),
                None if node_of.contains_key(root.as_str()) => {
                    mistakes.push(format!("`root_eclasses` has `{root}`, which is a node: name its class"));
                }
                None => mistakes.push(format!("`root_eclasses` has `{root}`, of which there is no node")),
            }
        }
        for (class, data) in file.class_data.map(|entries| entries.0).unwrap_or_default() {
            if let Some(class) = class_of.get(class.as_str()) {
                named.types[class.index()] = data.ty;
            }
        }
        if mistakes.is_empty() {
            return Ok(named);
        }
        let more = mistakes.len().saturating_sub(TOLD);
        mistakes.truncate(TOLD);
        if more > 0 {
            mistakes.push(format!("and {more} more mistakes"));
        }
        Err(FormatError::Mistakes(mistakes))
    }

    /// Returns the text, one line for each node. Nodes that cannot be run are left out, because a child is named by a
    /// node.
    pub fn to_json(&self) -> String {
        let runs = runnable(&self.problem);
        let usable = |node: &Candidate| {
            node.cost < f64::INFINITY && node.children.iter().all(|child| runs[child.index()])
        };
        // The node by which the readers of a class name that class.
        let first: Vec<Option<&str>> = self
            .problem
            .classes
            .iter()
            .zip(&self.nodes)
            .map(|(class, labels)| {
                let place = class.nodes.iter().position(usable)?;
                Some(labels[place].id.as_str())
            })
            .collect();
        let mut lines = Vec::new();
        for ((class, labels), name) in self.problem.classes.iter().zip(&self.nodes).zip(&self.classes) {
            for (node, label) in class.nodes.iter().zip(labels).filter(|(node, _)| usable(node)) {
                let children: Vec<&str> =
                    node.children.iter().filter_map(|child| first[child.index()]).collect();
                lines.push(format!(
                    "{}: {{\"op\": {}, \"children\": {}, \"eclass\": {}, \"cost\": {}}}",
                    quoted(&label.id),
                    quoted(&label.op),
                    serde_json::json!(children),
                    quoted(name),
                    serde_json::json!(node.cost)
                ));
            }
        }
        let roots: Vec<&str> =
            self.problem.roots.iter().map(|root| self.classes[root.index()].as_str()).collect();
        let mut text = format!("{{\"nodes\": {{\n{}\n}},\n", lines.join(",\n"));
        let _ = write!(text, "\"root_eclasses\": {},\n\"class_data\": {{", serde_json::json!(roots));
        let typed = self.classes.iter().zip(&self.types).zip(&first);
        let types: Vec<String> = typed
            .filter_map(|((class, ty), first)| {
                let ty = ty.as_ref().filter(|_| first.is_some())?;
                Some(format!("\n{}: {{\"type\": {}}}", quoted(class), quoted(ty)))
            })
            .collect();
        let _ = write!(text, "{}\n}}}}\n", types.join(","));
        text
    }

    /// Describes why there is no extraction, with the ids of the file.
    pub fn words(&self, error: &ExtractError) -> String {
        match error {
            ExtractError::NothingRuns { root, missing } if root == missing => format!(
                "no node of the root class `{}` can be computed: each one cannot be run, as its cost is null, or depends \
                 on the class itself; add a node of finite cost there",
                self.classes[root.index()],
            ),
            ExtractError::NothingRuns { root, missing } => format!(
                "no nodes that can be run compute the root class `{}`: each of its nodes depends on the class `{}`, \
                 whose nodes cannot be run or depend on it again; add a node of finite cost there",
                self.classes[root.index()],
                self.classes[missing.index()]
            ),
            ExtractError::TooDear { class } => format!(
                "the costs are too large to be added: at the class `{}` their sum is beyond {:e}; write null for \
                 what cannot be run",
                self.classes[class.index()],
                f64::MAX
            ),
            error => error.to_string(),
        }
    }

    /// Returns the ids of the chosen nodes, each with the id of its class.
    pub fn choices(&self, extraction: &Extraction) -> Vec<(&str, &str)> {
        let chosen = extraction.choice.iter().enumerate();
        chosen
            .filter_map(|(class, place)| {
                let label = &self.nodes[class][(*place)? as usize];
                Some((self.classes[class].as_str(), label.id.as_str()))
            })
            .collect()
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
