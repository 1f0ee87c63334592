//! Dropout in training: elements are zero by chance, and the others larger, so that the mean stays.
//!
//! Which elements are dropped follows from the state `dropout-seed`, from the name of the value and from the position of
//! the element alone, by a generator that counts: SplitMix64 (Steele, Lea and Flood, 2014), whose `n`-th number is a hash
//! of `seed + n * step`. The seed grows by one with each step of training, so a resumed training drops the same elements.

use super::builder::Builder;
use super::error::TrainError;
use super::network::{Network, matches};
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, NodeId};
use ovolo::op::Ops;
use ovolo::tensor::{DType, Shape, Tensor, TensorType};
use std::collections::BTreeMap;

/// The input of a step that decides which elements are dropped.
pub(crate) const SEED: &str = "dropout-seed";
/// The distance between the states of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// SplitMix64's shifts and factors. Its last shift is left out, since it leaves the upper half of a number as it is.
const ROUNDS: [(u64, u64); 2] = [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)];

/// Where elements are dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dropout {
    /// Whether the model's own `Dropout` nodes drop elements, each with its ratio.
    pub own: bool,
    /// Patterns of the names of further values, in which `*` stands for any characters, each with the share that is dropped:
    /// at least 0, and less than 1.
    pub after: Vec<(String, f64)>,
}

impl Dropout {
    /// Reads `PATTERN=RATIO`.
    ///
    /// # Errors
    /// The text has another form, or the ratio is out of range.
    pub fn parse(text: &str) -> Result<(String, f64), TrainError> {
        let parsed = text
            .rsplit_once('=')
            .and_then(|(pattern, ratio)| Some((pattern.to_owned(), ratio.parse::<f64>().ok()?)));
        parsed.filter(|(_, ratio)| is_share(*ratio)).ok_or_else(|| no_share(text))
    }
}

fn is_share(ratio: f64) -> bool {
    (0.0..1.0).contains(&ratio)
}

fn no_share(text: &str) -> TrainError {
    TrainError::Unknown {
        kind: "dropout",
        name: text.to_owned(),
        help: "write PATTERN=RATIO, with a ratio of at least 0 and less than 1, such as 'hidden*=0.1'"
            .to_owned(),
    }
}

/// A graph in which elements are dropped, without outputs.
pub(crate) struct Dropped {
    /// The graph.
    pub graph: Graph,
    /// For each node of the graph before, its node here.
    pub ids: Vec<NodeId>,
    /// The seed, if elements are dropped.
    pub seed: Option<NodeId>,
}

/// Drops elements. `marks` are inputs of a truth value, each with a ratio: a choice between a value and itself by such an
/// input is where that value drops elements.
///
/// # Errors
/// A pattern matches no value, or a value is not of float32.
pub(crate) fn in_training(
    ops: &Ops,
    graph: &Graph,
    network: &Network,
    marks: &[(String, f64)],
    dropout: &Dropout,
) -> Result<Dropped, TrainError> {
    let marks: BTreeMap<NodeId, f64> =
        marks.iter().filter_map(|(name, ratio)| Some((graph.find(name)?, *ratio))).collect();
    if let Some((pattern, ratio)) = dropout.after.iter().find(|(_, ratio)| !is_share(*ratio)) {
        return Err(no_share(&format!("{pattern}={ratio}")));
    }
    let named =
        |pattern: &str| graph.nodes().any(|(_, node)| !node.op.is_leaf() && matches(pattern, &node.name));
    if let Some((pattern, _)) = dropout.after.iter().find(|(pattern, _)| !named(pattern)) {
        return Err(TrainError::Unknown {
            kind: "value for --dropout",
            name: pattern.clone(),
            help: format!("`ovolo dump {} --after import` lists the values", network.name()),
        });
    }
    let mut masks = Masks { builder: Builder::new(ops, Graph::new()), seed: None, words: BTreeMap::new() };
    let mut ids: Vec<Option<NodeId>> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let inputs: Vec<NodeId> = node.inputs.iter().filter_map(|input| ids[input.index()]).collect();
        let mark = node.inputs.first().and_then(|input| marks.get(input));
        ids.push(match (graph.constant(id), mark) {
            (Some(value), _) => Some(masks.builder.constant(&node.name, value.clone())),
            (None, _) if marks.contains_key(&id) => None,
            (None, _) if node.op.is_leaf() => Some(masks.builder.input(&node.name, node.ty.clone())),
            // The mark has no value here, so the first one is that of the operand.
            (None, Some(ratio)) => Some(masks.drop(inputs[0], *ratio, &node.name, &node.name)?),
            (None, None) => {
                let copy = masks.builder.copy(node, inputs);
                let ratio = dropout.after.iter().find(|(pattern, _)| matches(pattern, &node.name));
                Some(match ratio {
                    Some((_, ratio)) => {
                        masks.drop(copy, *ratio, &node.name, &format!("{}.dropped", node.name))?
                    }
                    None => copy,
                })
            }
        });
    }
    let seed = masks.seed;
    let graph = masks.builder.into_graph();
    // Only marks have no node, and nothing but a choice reads one.
    let any = graph.nodes().next().map(|(id, _)| id);
    let ids = ids.into_iter().filter_map(|id| id.or(any)).collect();
    Ok(Dropped { graph, ids, seed })
}

/// A graph that grows by masks.
struct Masks<'a> {
    builder: Builder<'a>,
    seed: Option<NodeId>,
    /// The constants of one integer, by its value.
    words: BTreeMap<u64, NodeId>,
}

impl Masks<'_> {
    /// Adds a value with a share of its elements dropped. `of` is the name that tells its elements from those of others, and
    /// `name` that of the result.
    fn drop(&mut self, x: NodeId, ratio: f64, of: &str, name: &str) -> Result<NodeId, TrainError> {
        let ty = self.builder.graph()[x].ty.clone();
        if ty.dtype != DType::F32 {
            return Err(TrainError::Op {
                what: name.to_owned(),
                op: "dropout",
                why: format!("it is of type {ty}, and elements of float32 alone are dropped"),
            });
        }
        if ratio == 0.0 || ty.shape.count() == 0 {
            return Ok(x);
        }
        let kept = self.kept(&ty.shape, ratio, of)?;
        let (factor, zero) = (self.builder.number(1.0 / (1.0 - ratio)), self.builder.number(0.0));
        let scaled = self.builder.named(&format!("{name}.scaled"), "mul", Attrs::new(), vec![x, factor])?;
        self.builder.named(name, "where", Attrs::new(), vec![kept, scaled, zero])
    }

    /// Adds the mask of the elements that are kept: those whose random number is at least the ratio.
    fn kept(&mut self, shape: &Shape, ratio: f64, of: &str) -> Result<NodeId, TrainError> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => *self.seed.insert(self.builder.input(SEED, seed_type())),
        };
        let hash = of.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // One sequence for each value and seed, which begins at a hash of both.
        let (salt, spread) = (self.word(hash), self.word(STEP));
        let begin = self.two(of, "begin", "bit-xor", [seed, salt])?;
        let begin = self.two(of, "begin", "mul", [begin, spread])?;
        let begin = self.mixed(of, begin)?;
        // The position of an element is a sum of two, so that no constant is as large as the value.
        let width = shape.last().copied().unwrap_or(1);
        let height = shape.count() / width;
        let rows =
            self.list(of, "rows", &[height, 1], |row| row.wrapping_mul(width as u64).wrapping_mul(STEP));
        let columns = self.list(of, "columns", &[1, width], |column| column.wrapping_mul(STEP));
        let rows = self.two(of, "rows", "add", [rows, begin])?;
        let states = self.two(of, "states", "add", [rows, columns])?;
        let numbers = self.mixed(of, states)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let least = (ratio * 2.0_f64.powi(64)) as u64;
        let least = self.word(least);
        let kept = self.two(of, "kept", "greater-equal", [numbers, least])?;
        let shape = Attrs::new().sizes("shape", shape);
        self.builder.named(&format!("{of}.kept"), "reshape", shape, vec![kept])
    }

    /// Adds the hashes of states.
    fn mixed(&mut self, of: &str, mut states: NodeId) -> Result<NodeId, TrainError> {
        for (places, factor) in ROUNDS {
            let (places, factor) = (self.word(places), self.word(factor));
            let moved = self.two(of, "mixed", "shift-right", [states, places])?;
            let joined = self.two(of, "mixed", "bit-xor", [states, moved])?;
            states = self.two(of, "mixed", "mul", [joined, factor])?;
        }
        Ok(states)
    }

    /// Adds a constant of one integer, or takes the one that there is.
    fn word(&mut self, value: u64) -> NodeId {
        let builder = &mut self.builder;
        let make = || builder.constant(&format!("word.{value:x}"), Tensor::scalar(value));
        *self.words.entry(value).or_insert_with(make)
    }

    /// Adds a constant of integers, each computed from its position.
    fn list(&mut self, of: &str, part: &str, shape: &[usize], make: impl Fn(u64) -> u64) -> NodeId {
        let all: Vec<u64> = (0..shape.iter().product::<usize>() as u64).map(make).collect();
        self.builder.constant(&format!("{of}.mask.{part}"), Tensor::from_elements(shape.to_vec(), &all))
    }

    fn two(&mut self, of: &str, part: &str, op: &str, inputs: [NodeId; 2]) -> Result<NodeId, TrainError> {
        self.builder.named(&format!("{of}.mask.{part}"), op, Attrs::new(), inputs.to_vec())
    }
}

/// Returns the type of the seed.
fn seed_type() -> TensorType {
    TensorType::plain(DType::U64, Vec::new())
}
