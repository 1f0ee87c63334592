//! Operators of classical machine learning.

use crate::draft::{Draft, Known, float, floats, int, list, tensor, text, texts};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// Returns rows of finite numbers.
fn rows(draft: &mut Draft<'_>) -> Known {
    let dims = [1 + draft.rng.below(4), 1 + draft.rng.below(4)];
    draft.weights(DType::F32, &dims)
}

fn random(draft: &mut Draft<'_>, count: usize) -> Vec<f64> {
    (0..count).map(|_| f64::from((draft.rng.unit() * 4.0 - 2.0) as f32)).collect()
}

/// Operators that change each element, or each row.
pub(super) fn prepare(draft: &mut Draft<'_>) -> Option<()> {
    let x = rows(draft);
    let width = x.dims[1];
    let single = draft.rng.percent(30);
    match draft.rng.below(6) {
        0 => {
            let count = if single { 1 } else { width };
            let attributes =
                vec![floats("offset", &random(draft, count)), floats("scale", &random(draft, count))];
            draft.node("ai.onnx.ml.Scaler", &[&x.name], attributes, &[DType::F32])
        }
        1 => {
            let norm = text("norm", draft.rng.pick(&["MAX", "L1", "L2"]));
            draft.node("ai.onnx.ml.Normalizer", &[&x.name], vec![norm], &[DType::F32])
        }
        2 => {
            let threshold = float("threshold", draft.rng.pick(&[0.0, 0.5, -1.0]));
            draft.node("ai.onnx.ml.Binarizer", &[&x.name], vec![threshold], &[DType::F32])
        }
        3 => {
            let values: Vec<f64> =
                (0..x.count()).map(|_| draft.rng.pick(&[0.0, 1.0, f64::NAN, 2.5])).collect();
            let x = draft.add(Tensor::from_f64(DType::F32, x.dims.clone(), &values), false);
            draft.pool.pop();
            let count = if single { 1 } else { width };
            let attributes = vec![
                floats("imputed_value_floats", &random(draft, count)),
                float("replaced_value_float", draft.rng.pick(&[0.0, f64::NAN, 1.0])),
            ];
            draft.node("ai.onnx.ml.Imputer", &[&x.name], attributes, &[DType::F32])
        }
        4 => {
            let places: Vec<i64> =
                (0..1 + draft.rng.below(3)).map(|_| draft.rng.between(0, signed(width) - 1)).collect();
            let places = draft.hidden(Tensor::from_elements([1, places.len()], &places));
            draft.node("ai.onnx.ml.ArrayFeatureExtractor", &[&x.name, &places], Vec::new(), &[DType::F32])
        }
        _ => {
            let other = [x.dims[0], 1 + draft.rng.below(3)];
            let y = draft.weights(DType::F32, &other);
            let sizes = list("inputdimensions", &[signed(width), signed(other[1])]);
            draft.node("ai.onnx.ml.FeatureVectorizer", &[&x.name, &y.name], vec![sizes], &[DType::F32])
        }
    }
}

/// Operators on labels.
pub(super) fn label(draft: &mut Draft<'_>) -> Option<()> {
    let dims = [1 + draft.rng.below(3), 1 + draft.rng.below(3)];
    let count = dims[0] * dims[1];
    let words: Vec<&str> = (0..count).map(|_| draft.rng.pick(&["a", "b", "c", "other"])).collect();
    let numbers: Vec<i64> = (0..count).map(|_| draft.rng.between(0, 4)).collect();
    let text_leaf = draft.texts(&dims, &words).name;
    let number_leaf = draft.add(Tensor::from_elements(dims, &numbers), false).name;
    draft.pool.pop();
    let cats = || [texts("cats_strings", &["a", "b", "c"]), list("cats_int64s", &[3, 1, 2])];
    match draft.rng.below(5) {
        0 => {
            let zeros = int("zeros", 1);
            let (x, attributes) = if draft.rng.percent(50) {
                (text_leaf, vec![texts("cats_strings", &["a", "b", "c"]), zeros])
            } else {
                (number_leaf, vec![list("cats_int64s", &[3, 1, 2]), zeros])
            };
            draft.node("ai.onnx.ml.OneHotEncoder", &[&x], attributes, &[DType::F32])
        }
        1 => {
            let mut attributes = cats().to_vec();
            let forward = draft.rng.percent(50);
            attributes.extend([text("default_string", "none"), int("default_int64", -7)]);
            let (x, result) = if forward { (text_leaf, DType::I64) } else { (number_leaf, DType::Text) };
            draft.node("ai.onnx.ml.CategoryMapper", &[&x], attributes, &[result])
        }
        _ if draft.model.version("ai.onnx.ml") < 2 => {
            let attributes = vec![
                texts("classes_strings", &["a", "b", "c"]),
                text("default_string", "none"),
                int("default_int64", -7),
            ];
            let (x, result) =
                if draft.rng.percent(50) { (text_leaf, DType::I64) } else { (number_leaf, DType::Text) };
            draft.node("ai.onnx.ml.LabelEncoder", &[&x], attributes, &[result])
        }
        2 => {
            let attributes = vec![
                texts("keys_strings", &["a", "b", "c"]),
                list("values_int64s", &[10, -2, 7]),
                int("default_int64", -7),
            ];
            draft.node("ai.onnx.ml.LabelEncoder", &[&text_leaf], attributes, &[DType::I64])
        }
        3 => {
            let attributes = vec![
                list("keys_int64s", &[0, 1, 3]),
                texts("values_strings", &["x", "", "z"]),
                text("default_string", "none"),
            ];
            draft.node("ai.onnx.ml.LabelEncoder", &[&number_leaf], attributes, &[DType::Text])
        }
        _ => {
            let attributes = vec![
                list("keys_int64s", &[0, 1, 3]),
                floats("values_floats", &[0.5, -1.0, 2.0]),
                float("default_float", 9.0),
            ];
            draft.node("ai.onnx.ml.LabelEncoder", &[&number_leaf], attributes, &[DType::F32])
        }
    }
}

/// Linear models.
pub(super) fn linear(draft: &mut Draft<'_>) -> Option<()> {
    let x = rows(draft);
    let width = x.dims[1];
    if draft.rng.percent(40) {
        let targets = 1 + draft.rng.below(3);
        let mut attributes =
            vec![floats("coefficients", &random(draft, targets * width)), int("targets", signed(targets))];
        if draft.rng.percent(70) {
            attributes.push(floats("intercepts", &random(draft, targets)));
        }
        return draft.node("ai.onnx.ml.LinearRegressor", &[&x.name], attributes, &[DType::F32]);
    }
    let classes = 3 + draft.rng.below(2);
    let mut attributes = vec![
        floats("coefficients", &random(draft, classes * width)),
        floats("intercepts", &random(draft, classes)),
        text("post_transform", draft.rng.pick(&["NONE", "LOGISTIC", "SOFTMAX"])),
    ];
    let labels = ["a", "b", "c", "d"];
    let result = if draft.rng.percent(50) {
        attributes.push(texts("classlabels_strings", &labels[..classes]));
        DType::Text
    } else {
        attributes.push(list("classlabels_ints", &[4, 0, -2, 9][..classes]));
        DType::I64
    };
    draft.node("ai.onnx.ml.LinearClassifier", &[&x.name], attributes, &[result, DType::F32])
}

/// Support vector machines.
pub(super) fn vectors(draft: &mut Draft<'_>) -> Option<()> {
    let x = rows(draft);
    let width = x.dims[1];
    let supports = 1 + draft.rng.below(4);
    let kernel = draft.rng.pick(&["LINEAR", "POLY", "RBF", "SIGMOID"]);
    let common = |draft: &mut Draft<'_>, supports: usize| {
        vec![
            text("kernel_type", kernel),
            floats("kernel_params", &[0.5, 0.25, 2.0]),
            floats("support_vectors", &random(draft, supports * width)),
        ]
    };
    if draft.rng.percent(50) {
        let mut attributes = common(draft, supports);
        attributes.extend([
            floats("coefficients", &random(draft, supports)),
            floats("rho", &random(draft, 1)),
            int("n_supports", signed(supports)),
        ]);
        return draft.node("ai.onnx.ml.SVMRegressor", &[&x.name], attributes, &[DType::F32]);
    }
    let classes = 3;
    let each: Vec<i64> = (0..classes).map(|_| draft.rng.between(1, 2)).collect();
    let supports = usize::try_from(each.iter().sum::<i64>()).unwrap_or(0);
    let mut attributes = common(draft, supports);
    attributes.extend([
        floats("coefficients", &random(draft, supports * (classes - 1))),
        floats("rho", &random(draft, classes * (classes - 1) / 2)),
        list("vectors_per_class", &each),
        list("classlabels_ints", &[0, 1, 2]),
    ]);
    draft.node("ai.onnx.ml.SVMClassifier", &[&x.name], attributes, &[DType::I64, DType::F32])
}

/// The nodes of some trees, each node before those below it.
#[derive(Default)]
struct Forest {
    tree: Vec<i64>,
    node: Vec<i64>,
    feature: Vec<i64>,
    value: Vec<f64>,
    mode: Vec<&'static str>,
    on_true: Vec<i64>,
    on_false: Vec<i64>,
    missing: Vec<i64>,
}

const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// Adds a node and those below it; returns its number in its tree.
fn grow(
    draft: &mut Draft<'_>,
    forest: &mut Forest,
    tree: i64,
    width: usize,
    depth: usize,
    mode: &'static str,
) -> i64 {
    let number = signed(forest.tree.iter().filter(|&&other| other == tree).count());
    let at = forest.tree.len();
    let leaf = depth == 0 || draft.rng.percent(20);
    forest.tree.push(tree);
    forest.node.push(number);
    forest.feature.push(if leaf { 0 } else { signed(draft.rng.below(width)) });
    forest.value.push(if leaf { 0.0 } else { draft.rng.pick(&[0.0, 0.5, -0.5, 1.0, -1.25]) });
    forest.mode.push(if leaf { "LEAF" } else { mode });
    forest.missing.push(if leaf { 0 } else { draft.rng.between(0, 1) });
    forest.on_true.push(0);
    forest.on_false.push(0);
    if !leaf {
        forest.on_true[at] = grow(draft, forest, tree, width, depth - 1, mode);
        forest.on_false[at] = grow(draft, forest, tree, width, depth - 1, mode);
    }
    number
}

/// An ensemble of stumps in the form that version 5 of the domain brought.
fn stumps(draft: &mut Draft<'_>, x: &Known) -> Option<()> {
    let count = 1 + draft.rng.below(3);
    let targets = draft.rng.between(1, 2);
    let modes: Vec<u8> = (0..count).map(|_| u8::try_from(draft.rng.below(6)).unwrap_or(0)).collect();
    let splits: Vec<f64> = (0..count).map(|_| draft.rng.pick(&[0.0, 0.5, -0.5, 1.0])).collect();
    let features: Vec<i64> = (0..count).map(|_| draft.rng.between(0, signed(x.dims[1]) - 1)).collect();
    let all: Vec<i64> = (0..signed(count)).collect();
    let yes: Vec<i64> = all.iter().map(|at| 2 * at).collect();
    let no: Vec<i64> = all.iter().map(|at| 2 * at + 1).collect();
    let leaves: Vec<i64> = (0..2 * count).map(|_| draft.rng.between(0, targets - 1)).collect();
    let weights = random(draft, 2 * count);
    let floating =
        |name: &str, values: &[f64]| tensor(name, &Tensor::from_f64(DType::F32, [values.len()], values));
    let attributes = vec![
        list("tree_roots", &all),
        list("nodes_featureids", &features),
        floating("nodes_splits", &splits),
        tensor("nodes_modes", &Tensor::from_elements([count], &modes)),
        list("nodes_truenodeids", &yes),
        list("nodes_falsenodeids", &no),
        list("nodes_trueleafs", &vec![1; count]),
        list("nodes_falseleafs", &vec![1; count]),
        list("leaf_targetids", &leaves),
        floating("leaf_weights", &weights),
        int("n_targets", targets),
        int("aggregate_function", 1),
        int("post_transform", 0),
    ];
    draft.node("ai.onnx.ml.TreeEnsemble", &[&x.name], attributes, &[DType::F32])
}

/// Ensembles of trees.
pub(super) fn trees(draft: &mut Draft<'_>) -> Option<()> {
    let x = rows(draft);
    let width = x.dims[1];
    if draft.model.version("ai.onnx.ml") >= 5 && draft.rng.percent(40) {
        return stumps(draft, &x);
    }
    let mut forest = Forest::default();
    for tree in 0..draft.rng.between(1, 3) {
        let mode = draft.rng.pick(&MODES);
        let depth = 1 + draft.rng.below(3);
        grow(draft, &mut forest, tree, width, depth, mode);
    }
    let leaves: Vec<usize> = (0..forest.tree.len()).filter(|&at| forest.mode[at] == "LEAF").collect();
    let classes = draft.rng.percent(50);
    let columns = if classes { 3 } else { 1 + draft.rng.between(0, 2) };
    let (prefix, weights) = if classes { ("class", "class_weights") } else { ("target", "target_weights") };
    // Each leaf has a weight for each target: one without any has no base value in ONNX Runtime
    // (`docs/CONFORMANCE.md`).
    let each = if classes { 1 } else { usize::try_from(columns).unwrap_or(0) };
    let pick = |list: &[i64]| {
        leaves.iter().flat_map(|&at| std::iter::repeat_n(list[at], each)).collect::<Vec<i64>>()
    };
    let mut ids: Vec<i64> = leaves.iter().flat_map(|_| 0..columns).collect();
    if classes {
        ids = leaves.iter().map(|_| draft.rng.between(0, columns - 1)).collect();
    }
    let mut attributes = vec![
        list("nodes_treeids", &forest.tree),
        list("nodes_nodeids", &forest.node),
        list("nodes_featureids", &forest.feature),
        floats("nodes_values", &forest.value),
        texts("nodes_modes", &forest.mode),
        list("nodes_truenodeids", &forest.on_true),
        list("nodes_falsenodeids", &forest.on_false),
        list("nodes_missing_value_tracks_true", &forest.missing),
        list(&format!("{prefix}_treeids"), &pick(&forest.tree)),
        list(&format!("{prefix}_nodeids"), &pick(&forest.node)),
        list(&format!("{prefix}_ids"), &ids),
        floats(weights, &random(draft, ids.len())),
        text("post_transform", draft.rng.pick(&["NONE", "SOFTMAX", "LOGISTIC"])),
    ];
    if classes {
        attributes.push(list("classlabels_int64s", &[5, 0, -1]));
        let results = &[DType::I64, DType::F32];
        return draft.node("ai.onnx.ml.TreeEnsembleClassifier", &[&x.name], attributes, results);
    }
    if columns == 1 {
        // ONNX Runtime applies no transform to one target: `docs/CONFORMANCE.md`.
        attributes.pop();
    }
    let ways: &[&str] =
        if draft.model.version("ai.onnx.ml") < 3 { &["SUM"] } else { &["SUM", "AVERAGE", "MIN", "MAX"] };
    attributes.extend([
        text("aggregate_function", draft.rng.pick(ways)),
        int("n_targets", columns),
        floats("base_values", &random(draft, usize::try_from(columns).unwrap_or(0))),
    ]);
    draft.node("ai.onnx.ml.TreeEnsembleRegressor", &[&x.name], attributes, &[DType::F32])
}
