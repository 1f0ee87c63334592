//! `tree-ensemble`: sums, means or limits of what decision trees say about rows of features.

use super::independence::batch;
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain, rank};
use crate::attr::{Attr, AttrKind, Attrs, Float};
use crate::tensor::{DType, Tensor, TensorType};

/// The numbers of a node in the second operand: what it tests, how, and where it leads.
///
/// A leaf has the feature -1; its last two numbers are the first of its entries and the end of them.
pub const LINKS: usize = 4;

/// How the entries of leaves are joined, by the attribute `aggregate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The sum of all entries.
    Sum,
    /// The sum, divided by the number of trees.
    Average,
    /// The least entry.
    Min,
    /// The largest entry.
    Max,
}

impl Aggregate {
    /// Returns the aggregate of an op's attributes; `None` if the number means none.
    pub fn of(attrs: &Attrs) -> Option<Self> {
        match attrs.expect_int("aggregate") {
            0 => Some(Self::Sum),
            1 => Some(Self::Average),
            2 => Some(Self::Min),
            3 => Some(Self::Max),
            _ => None,
        }
    }
}

/// Returns whether a node's test holds. The mode is twice the number of a comparison, from 0 on: `<=`, `<`, `>=`, `>`,
/// `==`, `!=`; it is odd if the test also holds for NaN.
pub fn holds<T: PartialOrd>(mode: i32, feature: T, value: T) -> bool {
    #[allow(clippy::eq_op)]
    let missing = feature != feature;
    if missing && mode % 2 == 1 {
        return true;
    }
    match mode / 2 {
        0 => feature <= value,
        1 => feature < value,
        2 => feature >= value,
        3 => feature > value,
        4 => feature == value,
        _ => feature != value,
    }
}

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "tree-ensemble",
        doc: "decision trees for rows x[N,F]: operands 1 and 2 are the nodes, as a feature (-1: a leaf), a mode, and \
              the nodes where the test holds and fails (a leaf: its entries), and what the feature is compared with; \
              operand 3 is the roots; operands 4 and 5 are the entries, as columns of the result and numbers",
        arity: Arity::Exactly(6),
        attrs: vec![
            AttrDef::new("columns", AttrKind::Int, None, "the number of columns of the result"),
            AttrDef::new(
                "aggregate",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "how the entries of a column are joined; 0: sum, 1: sum divided by the number of trees, 2: least, 3: largest",
            ),
            AttrDef::new(
                "absent",
                AttrKind::Float,
                Some(Attr::Float(Float(0.0))),
                "the number in a column for which no leaf has an entry",
            ),
        ],
        flags: Flags::independent(batch),
        infer,
        eval,
        flops: |_, types, output| count(types[3]) * count(output) * 16.0,
        sample: Some(draw_forest),
        lowered: None,
    }]
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    for (operand, wanted) in [(0, 2), (1, 2), (2, 1), (3, 1), (4, 1), (5, 1)] {
        rank(types, operand, wanted)?;
    }
    let number = types[0].dtype;
    if !matches!(number, DType::F32 | DType::F64) {
        return Err(OpError::operand(0, types[0], ", neither f32 nor f64"));
    }
    for operand in [2, 5] {
        if types[operand].dtype != number {
            return Err(OpError::operand(
                operand,
                types[operand],
                format!(", not {number} like the features"),
            ));
        }
    }
    for operand in [1, 3, 4] {
        if types[operand].dtype != DType::I32 {
            return Err(OpError::operand(operand, types[operand], ", not i32"));
        }
    }
    if types[1].shape[1] != LINKS || types[1].shape[0] != types[2].shape[0] {
        return Err(OpError::operands(format!("nodes {} do not fit their values {}", types[1], types[2])));
    }
    if types[4].shape != types[5].shape {
        return Err(OpError::operands(format!("entries {} do not fit their columns {}", types[5], types[4])));
    }
    if Aggregate::of(attrs).is_none() {
        return Err(OpError::attribute("aggregate", "is not a number from 0 to 3"));
    }
    let columns = usize::try_from(attrs.expect_int("columns")).ok().filter(|columns| *columns > 0);
    let columns = columns.ok_or_else(|| OpError::attribute("columns", "is less than 1"))?;
    Ok(TensorType::plain(number, [types[0].shape[0], columns]))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [x, values, weights] = [0, 2, 5].map(|at| operands[at].to_f64());
    let [links, roots, targets] = [1, 3, 4].map(|at| operands[at].elements::<i32>());
    let features = operands[0].ty().shape[1];
    let columns = ty.shape[1];
    let aggregate = Aggregate::of(attrs).unwrap_or(Aggregate::Sum);
    let mut result = Vec::with_capacity(ty.shape.count());
    for row in 0..ty.shape[0] {
        let mut totals: Vec<Option<f64>> = vec![None; columns];
        for root in roots {
            let leaf = leaf(links, *root, weights.len(), |feature, mode, node| {
                feature < features && holds(mode, x[row * features + feature], values[node])
            });
            for entry in leaf {
                let Some(total) = usize::try_from(targets[entry]).ok().and_then(|at| totals.get_mut(at))
                else {
                    continue;
                };
                let weight = weights[entry];
                *total = Some(match (*total, aggregate) {
                    (None, _) => weight,
                    (Some(total), Aggregate::Sum | Aggregate::Average) => total + weight,
                    (Some(total), Aggregate::Min) => total.min(weight),
                    (Some(total), Aggregate::Max) => total.max(weight),
                });
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let share = if aggregate == Aggregate::Average { roots.len() as f64 } else { 1.0 };
        let absent = attrs.expect_float("absent");
        result.extend(totals.into_iter().map(|total| total.map_or(absent, |total| total / share)));
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Follows a tree from its root, and returns the range of its leaf's entries, of which there are `entries` in all. It is
/// empty if the nodes are no tree, so that a leaf is not reached.
pub fn leaf(
    links: &[i32],
    root: i32,
    entries: usize,
    mut test: impl FnMut(usize, i32, usize) -> bool,
) -> std::ops::Range<usize> {
    let mut at = root;
    let nodes = links.len() / LINKS;
    for _ in 0..nodes {
        let Some(node) = usize::try_from(at).ok().filter(|node| *node < nodes) else { return 0..0 };
        let [feature, mode, yes, no] = [0, 1, 2, 3].map(|part| links[node * LINKS + part]);
        let Ok(feature) = usize::try_from(feature) else {
            let bound = |entry: i32| usize::try_from(entry).unwrap_or(0).min(entries);
            return bound(yes)..bound(no);
        };
        at = if test(feature, mode, node) { yes } else { no };
    }
    0..0
}

/// Draws rows and nodes. The nodes are seldom those of trees, which the op allows.
fn draw_forest(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.pick(&[DType::F32, DType::F64]);
    let [rows, features, nodes, roots, entries] = [0; 5].map(|_| draw.small());
    let attrs = Attrs::new().size("columns", draw.small()).size("aggregate", draw.below(4));
    let whole = |dims: Vec<usize>| TensorType::plain(DType::I32, dims);
    Some(Sample::new(
        attrs.float("absent", 0.0),
        vec![
            TensorType::plain(dtype, vec![rows, features]),
            whole(vec![nodes, 4]),
            TensorType::plain(dtype, vec![nodes]),
            whole(vec![roots]),
            whole(vec![entries]),
            TensorType::plain(dtype, vec![entries]),
        ],
    ))
}
