//! Ensembles of decision trees.

use super::{Transform, add_columns, best, cast, labels, many_classes, rows, two_classes};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::operator::{Call, ImportedValue, Operator, Results, entry};
use crate::tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

pub(in crate::onnx::operator) const TABLE: &[Operator] = &[
    entry("ai.onnx.ml.TreeEnsembleClassifier", 1, 1, classifier),
    entry("ai.onnx.ml.TreeEnsembleRegressor", 1, 1, regressor),
    entry("ai.onnx.ml.TreeEnsemble", 1, 1, ensemble),
];

/// The number of the comparison `==` among modes.
const EQUAL: i32 = 4;
/// The names of comparisons, by their numbers.
const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// What a leaf adds to a column.
#[derive(Clone, Copy)]
struct Entry {
    column: i64,
    weight: f64,
}

/// Trees as `tree-ensemble` takes them.
#[derive(Default)]
struct Forest {
    links: Vec<i32>,
    values: Vec<f64>,
    roots: Vec<i32>,
    targets: Vec<i32>,
    weights: Vec<f64>,
}

fn small(number: impl TryInto<i32>) -> Result<i32, Refusal> {
    number.try_into().map_err(|_| Refusal::other("its trees have more than 2147483647 nodes or entries"))
}

impl Forest {
    fn node(&mut self, links: [i32; 4], value: f64) {
        self.links.extend(links);
        self.values.push(value);
    }

    /// Adds a leaf with its entries.
    fn leaf(&mut self, entries: &[Entry], columns: usize) -> Result<(), Refusal> {
        let first = small(self.targets.len())?;
        for entry in entries {
            if usize::try_from(entry.column).is_ok_and(|column| column < columns) {
                self.targets.push(small(entry.column)?);
                self.weights.push(entry.weight);
            } else {
                let column = entry.column;
                return Err(Refusal::other(format!("a leaf names the column {column} of {columns}")));
            }
        }
        let end = small(self.targets.len())?;
        self.node([-1, 0, first, end], 0.0);
        Ok(())
    }

    /// Returns the columns for which a leaf has an entry.
    fn used(&self) -> Vec<i32> {
        let mut used = self.targets.clone();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns whether every row has an entry in each column: of each column, a tree has entries in all its leaves.
    fn covers(&self, columns: usize) -> bool {
        let nodes = |root: &i32| {
            let start = usize::try_from(*root).unwrap_or(0);
            let later = self.roots.iter().filter(|other| *other > root).min();
            start..later.map_or(self.values.len(), |end| usize::try_from(*end).unwrap_or(0))
        };
        let has = |node: usize, column: usize| {
            let [feature, _, first, end] = [0, 1, 2, 3].map(|part| self.links[node * 4 + part]);
            let entries = usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
            feature >= 0 || self.targets[entries].iter().any(|target| usize::try_from(*target) == Ok(column))
        };
        (0..columns).all(|column| self.roots.iter().any(|root| nodes(root).all(|node| has(node, column))))
    }

    /// Makes the node of the op.
    fn scores(
        self,
        call: &mut Call<'_>,
        x: &ImportedValue,
        columns: usize,
        aggregate: i64,
        absent: f64,
    ) -> Result<ImportedValue, Refusal> {
        let features = x.dims()[1];
        let tested = self.links.chunks_exact(4).map(|links| links[0]).max().unwrap_or(-1);
        if usize::try_from(tested).is_ok_and(|tested| tested >= features) {
            return Err(Refusal::other(format!(
                "a node tests the feature {tested}, and rows have {features}"
            )));
        }
        let dtype = x.ty.dtype;
        let nodes = self.values.len();
        let operands = [
            ("nodes", Tensor::from_elements([nodes, 4], &self.links)),
            ("values", Tensor::from_f64(dtype, [nodes], &self.values)),
            ("roots", Tensor::from_elements([self.roots.len()], &self.roots)),
            ("targets", Tensor::from_elements([self.targets.len()], &self.targets)),
            ("weights", Tensor::from_f64(dtype, [self.weights.len()], &self.weights)),
        ];
        let operands = operands.map(|(name, tensor)| call.constant(name, tensor));
        let inputs: Vec<&ImportedValue> = std::iter::once(x).chain(&operands).collect();
        let columns = i64::try_from(columns).unwrap_or(i64::MAX);
        let attrs = Attrs::new().int("columns", columns).int("aggregate", aggregate).float("absent", absent);
        call.helper("votes", "tree-ensemble", attrs, &inputs)
    }
}

/// Returns numbers that are given as floats or as a tensor.
fn numbers(
    call: &mut Call<'_>,
    floats: &'static str,
    tensor: &'static str,
) -> Result<Option<Vec<f64>>, Refusal> {
    if let Some(tensor) = call.tensor(tensor)? {
        return Ok(Some(tensor.to_f64()));
    }
    Ok(call.floats(floats)?.map(|list| list.iter().copied().map(f64::from).collect()))
}

/// Reads the nodes of the operators before `TreeEnsemble`, which name nodes by numbers in trees.
fn read(
    call: &mut Call<'_>,
    columns: usize,
    entries: &FxHashMap<(i64, i64), Vec<Entry>>,
) -> Result<Forest, Refusal> {
    call.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
    let values = numbers(call, "nodes_values", "nodes_values_as_tensor")?.unwrap_or_default();
    let [trees, ids, features, yes, no] = [
        call.ints("nodes_treeids")?,
        call.ints("nodes_nodeids")?,
        call.ints("nodes_featureids")?,
        call.ints("nodes_truenodeids")?,
        call.ints("nodes_falsenodeids")?,
    ]
    .map(Option::unwrap_or_default);
    let modes = call.texts("nodes_modes")?.unwrap_or_default();
    let missing = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let count = trees.len();
    let lengths = [ids.len(), features.len(), yes.len(), no.len(), modes.len(), values.len()];
    if lengths.iter().any(|length| *length != count) || !(missing.is_empty() || missing.len() == count) {
        return Err(Refusal::other(format!(
            "its lists of nodes have different lengths: {count}, {lengths:?}"
        )));
    }
    let mut places = FxHashMap::default();
    for at in 0..count {
        if places.insert((trees[at], ids[at]), at).is_some() {
            return Err(Refusal::other(format!("tree {} has two nodes {}", trees[at], ids[at])));
        }
    }
    let mut forest = Forest::default();
    let mut child = vec![false; count];
    for at in 0..count {
        if modes[at] == "LEAF" {
            let none = Vec::new();
            forest.leaf(entries.get(&(trees[at], ids[at])).unwrap_or(&none), columns)?;
            continue;
        }
        let mode = MODES.iter().position(|mode| *mode == modes[at]);
        let mode = mode.ok_or_else(|| Refusal::other(format!("a node has the mode `{}`", modes[at])))?;
        let tracks = missing.get(at).is_some_and(|tracks| *tracks != 0);
        let mut next = |id: i64| {
            let place = places.get(&(trees[at], id)).copied();
            let place =
                place.ok_or_else(|| Refusal::other(format!("tree {} has no node {id}", trees[at])))?;
            child[place] = true;
            small(place)
        };
        let links =
            [small(features[at])?, small(mode)? * 2 + i32::from(tracks), next(yes[at])?, next(no[at])?];
        forest.node(links, values[at]);
    }
    let roots = (0..count).filter(|at| !child[*at]).map(small);
    forest.roots = roots.collect::<Result<_, _>>()?;
    Ok(forest)
}

/// Reads the entries of leaves, which are named by tree and node.
fn entries(
    call: &mut Call<'_>,
    lists: [&'static str; 3],
    weights: [&'static str; 2],
) -> Result<FxHashMap<(i64, i64), Vec<Entry>>, Refusal> {
    let weights = numbers(call, weights[0], weights[1])?.unwrap_or_default();
    let [trees, nodes, columns] =
        [call.ints(lists[0])?, call.ints(lists[1])?, call.ints(lists[2])?].map(Option::unwrap_or_default);
    if [trees.len(), nodes.len(), columns.len()].iter().any(|length| *length != weights.len()) {
        return Err(Refusal::other("its lists of entries of leaves have different lengths"));
    }
    let mut map: FxHashMap<(i64, i64), Vec<Entry>> = FxHashMap::default();
    for at in 0..weights.len() {
        let entry = Entry { column: columns[at], weight: weights[at] };
        map.entry((trees[at], nodes[at])).or_default().push(entry);
    }
    Ok(map)
}

/// Returns the numbers that are added to scores.
#[allow(clippy::cast_possible_truncation)]
fn base(call: &mut Call<'_>) -> Result<Vec<f32>, Refusal> {
    let base = numbers(call, "base_values", "base_values_as_tensor")?.unwrap_or_default();
    Ok(base.into_iter().map(|number| number as f32).collect())
}

fn aggregate(name: &str) -> Result<i64, Refusal> {
    match name {
        "SUM" => Ok(0),
        "AVERAGE" => Ok(1),
        "MIN" => Ok(2),
        "MAX" => Ok(3),
        other => Err(Refusal::attribute("aggregate_function", format!("is `{other}`"))),
    }
}

fn regressor(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let columns = usize::try_from(call.int("n_targets", 1)?).unwrap_or(0);
    let entries = entries(
        call,
        ["target_treeids", "target_nodeids", "target_ids"],
        ["target_weights", "target_weights_as_tensor"],
    )?;
    let forest = read(call, columns, &entries)?;
    let aggregate = aggregate(call.text("aggregate_function", "SUM")?)?;
    let base = base(call)?;
    if !base.is_empty() && base.len() != columns {
        return Err(Refusal::other(format!("it has {} base values for {columns} targets", base.len())));
    }
    let transform = Transform::read(call)?;
    let scores = forest.scores(call, &x, columns, aggregate, 0.0)?;
    let scores = add_columns(call, &scores, "base", &base)?;
    let scores = transform.apply(call, &scores)?;
    Ok(vec![cast(call, "prediction", &scores, DType::F32)?])
}

fn classifier(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let labels = labels(call)?;
    let columns = labels.ty().shape.count();
    let entries = entries(
        call,
        ["class_treeids", "class_nodeids", "class_ids"],
        ["class_weights", "class_weights_as_tensor"],
    )?;
    let forest = read(call, columns, &entries)?;
    let base = base(call)?;
    let transform = Transform::read(call)?;
    if !base.is_empty() && base.len() != columns && base.len() != 1 {
        return Err(Refusal::other(format!("it has {} base values for {columns} classes", base.len())));
    }
    let (used, positive) = (forest.used(), forest.weights.iter().all(|weight| *weight >= 0.0));
    // Two classes may share one score, which is the first column's: the second label stands for a score above a half
    // if all weights are positive, so that they are probabilities, and above 0 if not.
    let threshold = if positive { 0.5 } else { 0.0 };
    if columns == 2 && used == [0] && base.len() < 2 {
        let score = forest.scores(call, &x, 1, 0, 0.0)?;
        let score = add_columns(call, &score, "base", &base)?;
        return two_classes(call, &score, labels, threshold, transform, positive);
    }
    if base.len() == 1 && columns > 1 {
        return Err(Refusal::other(format!("it has 1 base value for {columns} classes")));
    }
    if columns == 2 && used == [1] && base.is_empty() {
        let scores = forest.scores(call, &x, 2, 0, 0.0)?;
        let attrs = Attrs::new().ints("starts", &[0, 1]).ints("sizes", &[super::dims_of(&x)[0], 1]);
        let score = call.helper("second", "slice", attrs.ints("steps", &[1, 1]), &[&scores])?;
        let label = two_classes(call, &score, labels, threshold, Transform::None, positive)?;
        let scores = transform.apply(call, &scores)?;
        return Ok(vec![label[0].clone(), cast(call, "scores-f32", &scores, DType::F32)?]);
    }
    if base.is_empty() && !forest.covers(columns) {
        // A class without an entry is not the best one, and its score is 0.
        let votes = forest.scores(call, &x, columns, 0, f64::NEG_INFINITY)?;
        let label = best(call, &votes, labels)?;
        let none = call.scalar("none", votes.ty.dtype, f64::NEG_INFINITY);
        let absent = call.helper("absent", "equal", Attrs::new(), &[&votes, &none])?;
        let zero = call.scalar("no-vote", votes.ty.dtype, 0.0);
        let scores = call.helper("given-votes", "where", Attrs::new(), &[&absent, &zero, &votes])?;
        let scores = transform.apply(call, &scores)?;
        return Ok(vec![label, cast(call, "scores-f32", &scores, DType::F32)?]);
    }
    let scores = forest.scores(call, &x, columns, 0, 0.0)?;
    let scores = add_columns(call, &scores, "base", &base)?;
    many_classes(call, &scores, labels, transform)
}

/// The nodes of `TreeEnsemble`, which name each other by their positions in the lists of inner nodes and of leaves.
struct Positions<'a> {
    modes: Vec<i64>,
    values: Vec<f64>,
    features: &'a [i64],
    missing: &'a [i64],
    /// Where a test leads, and whether that is a leaf, if it holds and if it fails.
    next: [(&'a [i64], &'a [i64]); 2],
    /// The sets of members, in the order of their nodes.
    members: Vec<Vec<f64>>,
}

fn ensemble(call: &mut Call<'_>) -> Results {
    let x = rows(call)?;
    let columns = usize::try_from(call.int("n_targets", 1)?).unwrap_or(0);
    call.ignore(&["nodes_hitrates"]);
    let list = |tensor: Option<Tensor>| tensor.map(|tensor| tensor.to_f64());
    let values = list(call.tensor("nodes_splits")?).unwrap_or_default();
    let modes = call.tensor("nodes_modes")?.and_then(|modes| modes.to_i64()).unwrap_or_default();
    let weights = list(call.tensor("leaf_weights")?).unwrap_or_default();
    let members = list(call.tensor("membership_values")?).unwrap_or_default();
    let [roots, features, missing, targets] = [
        call.ints("tree_roots")?,
        call.ints("nodes_featureids")?,
        call.ints("nodes_missing_value_tracks_true")?,
        call.ints("leaf_targetids")?,
    ]
    .map(Option::unwrap_or_default);
    let yes = (call.ints("nodes_truenodeids")?, call.ints("nodes_trueleafs")?);
    let no = (call.ints("nodes_falsenodeids")?, call.ints("nodes_falseleafs")?);
    let next = [yes, no].map(|(ids, leafs)| (ids.unwrap_or_default(), leafs.unwrap_or_default()));
    let count = modes.len();
    let lengths = next.iter().flat_map(|(ids, leafs)| [ids.len(), leafs.len()]);
    let lengths: Vec<usize> = lengths.chain([values.len(), features.len()]).collect();
    if lengths.iter().any(|length| *length != count) || !(missing.is_empty() || missing.len() == count) {
        return Err(Refusal::other(format!(
            "its lists of nodes have different lengths: {count}, {lengths:?}"
        )));
    }
    if targets.len() != weights.len() {
        return Err(Refusal::other("its leaves have not as many weights as targets"));
    }
    let members = members.split(|member| member.is_nan()).map(<[f64]>::to_vec).collect();
    let nodes = Positions { modes, values, features, missing, next, members };
    let mut forest = nodes.forest(roots, targets.len())?;
    for (column, weight) in targets.iter().zip(&weights) {
        if !usize::try_from(*column).is_ok_and(|column| column < columns) {
            return Err(Refusal::other(format!("a leaf names the column {column} of {columns}")));
        }
        forest.targets.push(small(*column)?);
        forest.weights.push(*weight);
    }
    let aggregate = match call.int("aggregate_function", 1)? {
        // The numbers of the standard: average, sum, minimum, maximum.
        0 => 1,
        1 => 0,
        kind @ (2 | 3) => kind,
        other => return Err(Refusal::attribute("aggregate_function", format!("is {other}, not 0 to 3"))),
    };
    let names = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];
    let transform = call.int("post_transform", 0)?;
    let transform =
        usize::try_from(transform).ok().and_then(|at| names.get(at)).copied().unwrap_or("unknown");
    let transform = Transform::named(transform)?;
    let scores = forest.scores(call, &x, columns, aggregate, 0.0)?;
    let wanted = call.input(0)?.ty.dtype;
    let scores = transform.apply(call, &scores)?;
    Ok(vec![cast(call, "prediction", &scores, wanted)?])
}

impl Positions<'_> {
    /// Returns the nodes, with a leaf for each entry. A test of membership is a chain of tests of equality.
    fn forest(&self, roots: &[i64], leaves: usize) -> Result<Forest, Refusal> {
        let member = 6;
        let mut first = Vec::with_capacity(self.modes.len());
        let (mut total, mut sets) = (0_usize, self.members.iter());
        let mut set = Vec::with_capacity(self.modes.len());
        for mode in &self.modes {
            first.push(total);
            let one = if *mode == member { sets.next().map(Vec::as_slice).unwrap_or_default() } else { &[] };
            total += one.len().max(1);
            set.push(one);
        }
        let leaf = |at: i64| {
            usize::try_from(at)
                .ok()
                .filter(|at| *at < leaves)
                .ok_or_else(|| Refusal::other(format!("a node leads to the leaf {at} of {leaves}")))
        };
        let place =
            |at: i64, is_leaf: i64| -> Result<i32, Refusal> {
                if is_leaf != 0 {
                    return small(total + leaf(at)?);
                }
                let node = usize::try_from(at).ok().and_then(|at| first.get(at)).copied();
                small(node.ok_or_else(|| {
                    Refusal::other(format!("a node leads to the node {at}, which is absent"))
                })?)
            };
        let mut forest = Forest::default();
        for (at, mode) in self.modes.iter().enumerate() {
            let [yes, no] = [0, 1].map(|side| place(self.next[side].0[at], self.next[side].1[at]));
            let (yes, no) = (yes?, no?);
            let tracks = i32::from(self.missing.get(at).is_some_and(|tracks| *tracks != 0));
            let feature = small(self.features[at])?;
            if *mode != member {
                if !(0..member).contains(mode) {
                    return Err(Refusal::other(format!("a node has the mode {mode}, not 0 to 6")));
                }
                forest.node([feature, small(*mode)? * 2 + tracks, yes, no], self.values[at]);
                continue;
            }
            for (number, value) in set[at].iter().enumerate() {
                let last = number + 1 == set[at].len();
                let other = if last { no } else { small(first[at] + number + 1)? };
                forest.node([feature, EQUAL * 2 + tracks, yes, other], *value);
            }
            if set[at].is_empty() {
                // Nothing is a member of an empty set.
                forest.node([feature, EQUAL * 2 + tracks, no, no], 0.0);
            }
        }
        for entry in 0..leaves {
            forest.node([-1, 0, small(entry)?, small(entry + 1)?], 0.0);
        }
        for root in roots {
            // A tree of one leaf is written as a node whose both sides are that leaf.
            forest.roots.push(place(*root, 0)?);
        }
        Ok(forest)
    }
}
