//! Sizes in buckets: the size of a dimension is rounded up to one of a few sizes, so that few plans serve all sizes.
//!
//! An input that is too short along the dimension is filled with copies of its last slice, and the outputs are cut back.
//! That is harmless only if no element of an output that is kept depends on the copies. [`prove`] shows it by comparing
//! the model as it is imported for the true size with the model for the size of the bucket: they must have the same
//! operators, and wherever a shape differs, the operator must keep the positions along that axis apart.

use crate::attr::Attr;
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::tensor::{Tensor, TensorType};

/// What a kind of operator does along an axis whose size differs.
enum Kind {
    /// An element of the result is computed from the elements at its own position, with broadcasting.
    Elementwise,
    /// A matrix product: it mixes along the columns of the first operand and the rows of the second one.
    Product,
    /// Axes change their order.
    Transpose,
    /// The same elements in another shape.
    Reshape,
    /// It mixes along the axes of an attribute.
    Along(&'static str),
    /// It mixes along the axis of an attribute and all axes after it.
    From(&'static str),
    /// It mixes along all axes of the first operand except these.
    Except(&'static [usize]),
    /// A convolution.
    Convolution,
    /// A part of the operand.
    Slice,
    /// Slices at the positions that the second operand has.
    Gather,
    /// Elements are added around the operand.
    Pad,
}

/// The operators that keep positions apart along some axes, each with the kind that says along which. All others are
/// taken to mix everything.
const KINDS: &[(&str, Kind)] = &[
    ("where", Kind::Elementwise),
    ("cast", Kind::Elementwise),
    ("cast-narrow", Kind::Elementwise),
    ("not", Kind::Elementwise),
    ("isnan", Kind::Elementwise),
    ("map", Kind::Elementwise),
    ("expand", Kind::Elementwise),
    ("matmul", Kind::Product),
    ("transpose", Kind::Transpose),
    ("reshape", Kind::Reshape),
    ("softmax", Kind::Along("axis")),
    ("log-softmax", Kind::Along("axis")),
    ("concat", Kind::Along("axis")),
    ("gather-elements", Kind::Along("axis")),
    ("reduce-sum", Kind::Along("axes")),
    ("reduce-mean", Kind::Along("axes")),
    ("reduce-max", Kind::Along("axes")),
    ("reduce-min", Kind::Along("axes")),
    ("reduce-prod", Kind::Along("axes")),
    ("arg-max", Kind::Along("axis")),
    ("arg-min", Kind::Along("axis")),
    ("layer-norm", Kind::From("axis")),
    ("batch-norm", Kind::Except(&[0, 2, 3, 4])),
    ("instance-norm", Kind::Except(&[0])),
    ("lrn", Kind::Except(&[0, 2, 3])),
    ("max-pool", Kind::Except(&[0, 1])),
    ("avg-pool", Kind::Except(&[0, 1])),
    ("conv", Kind::Convolution),
    ("slice", Kind::Slice),
    ("gather", Kind::Gather),
    ("pad", Kind::Pad),
];

/// A true size, and the size of its bucket.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub small: usize,
    pub large: usize,
}

/// Proves that the elements of the outputs at positions before the true size do not depend on what an input has behind
/// it. Returns the axes along which each output is cut back.
///
/// # Errors
/// The first operator for which there is no proof.
pub(super) fn prove(small: &Graph, large: &Graph, sizes: Sizes) -> Result<Vec<Vec<usize>>, String> {
    if small.len() != large.len() || small.outputs().len() != large.outputs().len() {
        return Err("the model has other operators for other sizes".to_owned());
    }
    let mut differing: Vec<Vec<usize>> = Vec::with_capacity(small.len());
    for ((id, one), (_, other)) in small.nodes().zip(large.nodes()) {
        if one.op != other.op || one.inputs != other.inputs {
            return Err(format!("at `{}` the model has other operators for other sizes", one.name));
        }
        let axes = axes(&one.ty, &other.ty, sizes)
            .ok_or_else(|| format!("`{}` ({}) is {} and {}", one.name, one.op, one.ty, other.ty))?;
        let pair = Pair { id, one, other, small, large, differing: &differing, axes: &axes, sizes };
        pair.check().map_err(|why| format!("`{}` ({}) {why}", one.name, one.op))?;
        differing.push(axes);
    }
    let outputs = small.outputs().zip(large.outputs()).map(|((_, one), (_, other))| (one, other));
    outputs
        .map(|(one, other)| match one == other {
            true => Ok(differing[one.index()].clone()),
            false => Err("the model has other outputs for other sizes".to_owned()),
        })
        .collect()
}

/// Returns the axes along which two types differ; `None` if they differ in another way than by these sizes.
pub(super) fn axes(one: &TensorType, other: &TensorType, sizes: Sizes) -> Option<Vec<usize>> {
    if one.dtype != other.dtype || one.shape.rank() != other.shape.rank() {
        return None;
    }
    let axes: Vec<usize> =
        (0..one.shape.rank()).filter(|axis| one.shape[*axis] != other.shape[*axis]).collect();
    let expected = |axis: &usize| one.shape[*axis] == sizes.small && other.shape[*axis] == sizes.large;
    axes.iter().all(expected).then_some(axes)
}

/// A node as it is imported for the two sizes.
struct Pair<'a> {
    id: NodeId,
    one: &'a Node,
    other: &'a Node,
    small: &'a Graph,
    large: &'a Graph,
    /// The differing axes of all nodes before.
    differing: &'a [Vec<usize>],
    /// The differing axes of the result.
    axes: &'a [usize],
    sizes: Sizes,
}

impl Pair<'_> {
    fn check(&self) -> Result<(), String> {
        if self.one.op == INPUT {
            return Ok(());
        }
        if self.one.op == CONST {
            return self.constant();
        }
        let free = match self.one.op.name {
            "reshape" | "expand" => Some("shape"),
            "slice" => Some("sizes"),
            _ => None,
        };
        if self.one.attrs.iter().count() != self.other.attrs.iter().count() {
            return Err("has attributes that change with the size".to_owned());
        }
        for ((name, value), (_, other)) in self.one.attrs.iter().zip(self.other.attrs.iter()) {
            if value != other && free != Some(name) {
                return Err(format!("has an attribute `{name}` that changes with the size"));
            }
        }
        let apart = self.axes.is_empty() && (0..self.one.inputs.len()).all(|at| self.of(at).is_empty());
        if apart {
            return Ok(());
        }
        let row = KINDS.iter().find(|(name, _)| *name == self.one.op.name).map(|(_, kind)| kind);
        let kind = row.or(self.one.op.flags.elementwise.then_some(&Kind::Elementwise));
        let mixes = || Err("may mix positions along the dimension".to_owned());
        kind.map_or_else(mixes, |kind| self.keeps_apart(kind))
    }

    /// Returns the differing axes of an operand.
    fn of(&self, operand: usize) -> &[usize] {
        &self.differing[self.one.inputs[operand].index()]
    }

    fn rank(&self, operand: usize) -> usize {
        self.small[self.one.inputs[operand]].ty.shape.rank()
    }

    fn keeps_apart(&self, kind: &Kind) -> Result<(), String> {
        let mixes = |axis: usize| Err(format!("mixes positions along axis {axis} of its operand"));
        let operands = 0..self.one.inputs.len();
        let others_whole = || match (1..self.one.inputs.len()).find(|at| !self.of(*at).is_empty()) {
            Some(at) => Err(format!("mixes positions along the dimension of operand {at}")),
            None => Ok(()),
        };
        match kind {
            Kind::Elementwise => operands.clone().try_for_each(|at| self.aligned(at, 0)),
            Kind::Product => {
                if self.one.inputs.len() != 2 {
                    return Err("has more than two operands".to_owned());
                }
                let (a, b) = (self.rank(0), self.rank(1));
                if self.of(0).contains(&(a - 1)) {
                    return mixes(a - 1);
                }
                if self.of(1).contains(&(b - 2)) {
                    return Err(format!("mixes positions along axis {} of its second operand", b - 2));
                }
                (0..2).try_for_each(|at| self.aligned(at, 2))
            }
            Kind::Transpose => Ok(()),
            Kind::Reshape => self.regrouped(),
            Kind::Along(name) => {
                let along: Vec<usize> = match self.one.attrs.get(name) {
                    Some(Attr::Int(axis)) => vec![*axis],
                    Some(Attr::Ints(axes)) => axes.to_vec(),
                    _ => return Err("may mix positions along the dimension".to_owned()),
                }
                .into_iter()
                .filter_map(|axis| usize::try_from(axis).ok())
                .collect();
                let mixed = operands.clone().flat_map(|at| self.of(at)).find(|axis| along.contains(axis));
                mixed.map_or(Ok(()), |axis| mixes(*axis))
            }
            Kind::From(name) => {
                let first = usize::try_from(self.one.attrs.expect_int(name)).unwrap_or(0);
                match self.of(0).iter().find(|axis| **axis >= first) {
                    Some(axis) => mixes(*axis),
                    None => others_whole(),
                }
            }
            Kind::Except(free) => match self.of(0).iter().find(|axis| !free.contains(axis)) {
                Some(axis) => mixes(*axis),
                None => others_whole(),
            },
            Kind::Convolution => {
                match self.of(0).iter().find(|axis| **axis == 1 || !self.pointwise(**axis)) {
                    Some(axis) => mixes(*axis),
                    None => others_whole(),
                }
            }
            Kind::Slice => {
                let (starts, steps) =
                    (self.one.attrs.expect_ints("starts"), self.one.attrs.expect_ints("steps"));
                match self.axes.iter().find(|axis| starts[**axis] != 0 || steps[**axis] != 1) {
                    Some(axis) => Err(format!("moves positions along axis {axis}")),
                    None => Ok(()), // Where the result does not differ, it has the same elements for both sizes.
                }
            }
            Kind::Gather => {
                let axis = usize::try_from(self.one.attrs.expect_int("axis")).unwrap_or(0);
                match self.of(0).contains(&axis) && !self.within() {
                    true => Err(format!("looks up positions along axis {axis} that are not known")),
                    false => Ok(()),
                }
            }
            Kind::Pad => {
                let pads = self.one.attrs.expect_ints("pads");
                let padded = |axis: &&usize| pads[**axis] != 0 || pads[self.rank(0) + **axis] != 0;
                self.of(0).iter().find(padded).map_or(Ok(()), |axis| Err(format!("pads axis {axis}")))
            }
        }
    }

    /// Checks that an operand differs along the axes of the result that it broadcasts to, except for its last `last`
    /// axes and those of the result.
    fn aligned(&self, operand: usize, last: usize) -> Result<(), String> {
        let (rank, whole) = (self.rank(operand), self.one.ty.shape.rank());
        let ty = &self.small[self.one.inputs[operand]].ty;
        for axis in 0..rank.saturating_sub(last) {
            let differs = self.of(operand).contains(&axis);
            let result = self.axes.contains(&(axis + whole - rank));
            if differs != result && (differs || ty.shape[axis] != 1) {
                return Err(format!("broadcasts axis {axis} of operand {operand} for one size only"));
            }
        }
        Ok(())
    }

    /// Checks that a reshape keeps the differing axes, with as many elements before, between and behind them.
    fn regrouped(&self) -> Result<(), String> {
        let groups = |ty: &TensorType, differing: &[usize]| {
            let mut groups = vec![1_usize];
            for axis in 0..ty.shape.rank() {
                match differing.contains(&axis) {
                    true => groups.push(1),
                    false => *groups.last_mut().unwrap_or(&mut 1) *= ty.shape[axis],
                }
            }
            groups
        };
        let operand = &self.small[self.one.inputs[0]].ty;
        match groups(operand, self.of(0)) == groups(&self.one.ty, self.axes) {
            true => Ok(()),
            false => Err("joins the dimension with others, or splits it".to_owned()),
        }
    }

    /// Whether the windows of a convolution have one element along an axis, and are one element apart.
    fn pointwise(&self, axis: usize) -> bool {
        if axis == 0 {
            return true;
        }
        let weights = &self.small[self.one.inputs[1]].ty.shape;
        let (strides, pads) = (self.one.attrs.expect_ints("strides"), self.one.attrs.expect_ints("pads"));
        let (at, spatial) = (axis - 2, pads.len() / 2);
        weights.get(axis) == Some(&1)
            && strides.get(at) == Some(&1)
            && pads.get(at) == Some(&0)
            && pads.get(at + spatial) == Some(&0)
    }

    /// Whether the second operand has constant positions before the true size.
    fn within(&self) -> bool {
        let positions = self.small.constant(self.one.inputs[1]).and_then(Tensor::to_i64);
        let before = |at: &i64| usize::try_from(*at).is_ok_and(|at| at < self.sizes.small);
        positions.is_some_and(|list| list.iter().all(before))
    }

    /// Checks that a constant is the same for both sizes, or is the beginning of the other one.
    fn constant(&self) -> Result<(), String> {
        let (Some(one), Some(other)) = (self.small.constant(self.id), self.large.constant(self.id)) else {
            return Err("is a constant without a value".to_owned());
        };
        let begins = |other: Tensor| {
            one.identity() == other.identity() || one.taken().bytes() == other.taken().bytes()
        };
        let begun =
            self.axes.iter().fold(other.clone(), |part, axis| resized(&part, *axis, self.sizes.small));
        if begins(begun) { Ok(()) } else { Err("has elements that change with the size".to_owned()) }
    }
}

/// Copies a tensor to another size along an axis: the first slices, and copies of the last one if there are too few.
pub(super) fn resized(tensor: &Tensor, axis: usize, size: usize) -> Tensor {
    let shape = &tensor.ty().shape;
    let mut dims = shape.to_vec();
    let before = dims[axis];
    dims[axis] = size;
    let mut result = Tensor::zeros(TensorType { shape: dims.into(), ..tensor.ty().clone() });
    let inner = shape[axis + 1..].iter().product::<usize>() * tensor.ty().dtype.size();
    if inner == 0 || before == 0 {
        return result;
    }
    let source = tensor.bytes();
    for (outer, block) in result.bytes_mut().chunks_exact_mut(inner * size).enumerate() {
        for (at, slice) in block.chunks_exact_mut(inner).enumerate() {
            let from = (outer * before + at.min(before - 1)) * inner;
            slice.copy_from_slice(&source[from..from + inner]);
        }
    }
    result
}
