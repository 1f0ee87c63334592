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
    /// A recurrent layer: it mixes along everything but the sequences of a batch.
    Recurrent,
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
    ("lstm", Kind::Recurrent),
    ("gru", Kind::Recurrent),
    ("rnn", Kind::Recurrent),
];

/// A true size, and the size of its bucket.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub small: usize,
    pub large: usize,
}

/// An axis whose size differs: it has the positions of the dimension, `outer` times one after another, and `inner` elements
/// for each. Both are 1 unless axes were joined: of `f32[16,3,32]` as `f32[48,32]`, with 3 for the dimension, `outer` is 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Differing {
    axis: usize,
    outer: usize,
    inner: usize,
}

impl Differing {
    /// The dimension itself.
    const fn alone(axis: usize) -> Self {
        Self { axis, outer: 1, inner: 1 }
    }

    const fn is_alone(self) -> bool {
        self.outer == 1 && self.inner == 1
    }

    /// The same elements at another axis.
    const fn at(self, axis: usize) -> Self {
        Self { axis, ..self }
    }
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
    let mut differing: Vec<Vec<Differing>> = Vec::with_capacity(small.len());
    for ((id, one), (_, other)) in small.nodes().zip(large.nodes()) {
        if one.op != other.op || one.inputs != other.inputs {
            return Err(format!("at `{}` the model has other operators for other sizes", one.name));
        }
        let factors = factors(&one.ty, &other.ty, sizes)
            .ok_or_else(|| format!("`{}` ({}) is {} and {}", one.name, one.op, one.ty, other.ty))?;
        let pair = Pair { id, one, other, small, large, differing: &differing, factors: &factors, sizes };
        let own = pair.check().map_err(|why| format!("`{}` ({}) {why}", one.name, one.op))?;
        differing.push(own);
    }
    let outputs = small.outputs().zip(large.outputs()).map(|((_, one), (_, other))| (one, other));
    let cut = |(one, other): (NodeId, NodeId)| {
        if one != other {
            return Err("the model has other outputs for other sizes".to_owned());
        }
        let own = &differing[one.index()];
        match own.iter().all(|one| one.is_alone()) {
            true => Ok(own.iter().map(|one| one.axis).collect()),
            false => Err(format!("the output `{}` has the dimension joined with others", small[one].name)),
        }
    };
    outputs.map(cut).collect()
}

/// Returns the axes along which two types differ, each with the number of elements for each position of the dimension; `None`
/// if they differ in another way.
fn factors(one: &TensorType, other: &TensorType, sizes: Sizes) -> Option<Vec<(usize, usize)>> {
    if one.dtype != other.dtype || one.shape.rank() != other.shape.rank() {
        return None;
    }
    let differs = |axis: &usize| one.shape[*axis] != other.shape[*axis];
    let factor = |axis: usize| {
        let factor = one.shape[axis].checked_div(sizes.small)?;
        let fits = factor * sizes.small == one.shape[axis] && factor * sizes.large == other.shape[axis];
        fits.then_some((axis, factor))
    };
    (0..one.shape.rank()).filter(differs).map(factor).collect()
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
    differing: &'a [Vec<Differing>],
    /// The differing axes of the result, each with the elements for each position.
    factors: &'a [(usize, usize)],
    sizes: Sizes,
}

impl Pair<'_> {
    /// Checks the node, and returns the differing axes of its result.
    fn check(&self) -> Result<Vec<Differing>, String> {
        if self.one.op == INPUT {
            return self.alone();
        }
        if self.one.op == CONST {
            self.constant()?;
            return self.alone();
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
        let apart = self.factors.is_empty() && (0..self.one.inputs.len()).all(|at| self.of(at).is_empty());
        if apart {
            return Ok(Vec::new());
        }
        let row = KINDS.iter().find(|(name, _)| *name == self.one.op.name).map(|(_, kind)| kind);
        let kind = row.or(self.one.op.flags.elementwise.then_some(&Kind::Elementwise));
        let Some(kind) = kind else { return Err("may mix positions along the dimension".to_owned()) };
        match kind {
            Kind::Reshape => return self.regrouped(),
            Kind::Elementwise | Kind::Product | Kind::Transpose | Kind::From(_) => {}
            Kind::Along(_)
                if (0..self.one.inputs.len()).all(|at| self.rank(at) == self.one.ty.shape.rank()) => {}
            // The checks of other kinds compare the numbers of axes, which is not enough where axes are joined.
            _ if self.operands_are_alone() => {}
            _ => return Err("has an operand in which the dimension is joined with others".to_owned()),
        }
        self.keeps_apart(kind)?;
        self.factors.iter().map(|(axis, factor)| self.origin(kind, *axis, *factor)).collect()
    }

    /// Returns the differing axes of a result, in which nothing may be joined with the dimension.
    fn alone(&self) -> Result<Vec<Differing>, String> {
        match self.factors.iter().all(|(_, factor)| *factor == 1) {
            true => Ok(self.factors.iter().map(|(axis, _)| Differing::alone(*axis)).collect()),
            false => Err("has an axis whose size is a multiple of the dimension".to_owned()),
        }
    }

    /// Returns what is at a differing axis of the result, by the axes of the operands that become it.
    fn origin(&self, kind: &Kind, axis: usize, factor: usize) -> Result<Differing, String> {
        let whole = self.one.ty.shape.rank();
        let sources: Vec<(usize, usize)> = match kind {
            Kind::Product if axis + 1 == whole => {
                self.rank(1).checked_sub(1).map(|own| (1, own)).into_iter().collect()
            }
            Kind::Product if axis + 2 == whole => {
                self.rank(0).checked_sub(2).map(|own| (0, own)).into_iter().collect()
            }
            Kind::Elementwise | Kind::Product => (0..self.one.inputs.len())
                .filter_map(|at| Some((at, (axis + self.rank(at)).checked_sub(whole)?)))
                .collect(),
            Kind::From(_) => vec![(0, axis)],
            Kind::Along(_) => (0..self.one.inputs.len()).map(|at| (at, axis)).collect(),
            Kind::Transpose => {
                let from =
                    self.one.attrs.expect_ints("perm").get(axis).and_then(|from| (*from).try_into().ok());
                from.map(|from| (0, from)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let found = |(at, own): &(usize, usize)| self.of(*at).iter().find(|one| one.axis == *own);
        let mut found = sources.iter().filter_map(found).map(|one| one.at(axis));
        let joined = Err("has an axis in which the dimension is joined with others".to_owned());
        match found.next() {
            Some(first) if first.outer * first.inner == factor && found.all(|other| other == first) => {
                Ok(first)
            }
            None if factor == 1 => Ok(Differing::alone(axis)),
            _ => joined,
        }
    }

    fn operands_are_alone(&self) -> bool {
        (0..self.one.inputs.len()).all(|at| self.of(at).iter().all(|one| one.is_alone()))
    }

    /// Returns the differing axes of an operand.
    fn of(&self, operand: usize) -> &[Differing] {
        &self.differing[self.one.inputs[operand].index()]
    }

    /// Whether an operand differs along an axis.
    fn differs(&self, operand: usize, axis: usize) -> bool {
        self.of(operand).iter().any(|one| one.axis == axis)
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
                if self.differs(0, a - 1) {
                    return mixes(a - 1);
                }
                if self.differs(1, b - 2) {
                    return Err(format!("mixes positions along axis {} of its second operand", b - 2));
                }
                (0..2).try_for_each(|at| self.aligned(at, 2))
            }
            // Where axes come from is told by [`Pair::origin`] and [`Pair::regrouped`].
            Kind::Transpose | Kind::Reshape => Ok(()),
            Kind::Along(name) => {
                let along: Vec<usize> = match self.one.attrs.get(name) {
                    Some(Attr::Int(axis)) => vec![*axis],
                    Some(Attr::Ints(axes)) => axes.to_vec(),
                    _ => return Err("may mix positions along the dimension".to_owned()),
                }
                .into_iter()
                .filter_map(|axis| usize::try_from(axis).ok())
                .collect();
                let mixed = operands.clone().flat_map(|at| self.of(at)).find(|one| along.contains(&one.axis));
                mixed.map_or(Ok(()), |one| mixes(one.axis))
            }
            Kind::From(name) => {
                let first = usize::try_from(self.one.attrs.expect_int(name)).unwrap_or(0);
                match self.of(0).iter().find(|one| one.axis >= first) {
                    Some(one) => mixes(one.axis),
                    None => others_whole(),
                }
            }
            Kind::Except(free) => match self.of(0).iter().find(|one| !free.contains(&one.axis)) {
                Some(one) => mixes(one.axis),
                None => others_whole(),
            },
            Kind::Convolution => {
                match self.of(0).iter().find(|one| one.axis == 1 || !self.pointwise(one.axis)) {
                    Some(one) => mixes(one.axis),
                    None => others_whole(),
                }
            }
            Kind::Slice => {
                let (starts, steps) =
                    (self.one.attrs.expect_ints("starts"), self.one.attrs.expect_ints("steps"));
                match self.factors.iter().find(|(axis, _)| starts[*axis] != 0 || steps[*axis] != 1) {
                    Some((axis, _)) => Err(format!("moves positions along axis {axis}")),
                    None => Ok(()), // Where the result does not differ, it has the same elements for both sizes.
                }
            }
            Kind::Gather => {
                let axis = usize::try_from(self.one.attrs.expect_int("axis")).unwrap_or(0);
                match self.differs(0, axis) && !self.within() {
                    true => Err(format!("looks up positions along axis {axis} that are not known")),
                    false => Ok(()),
                }
            }
            Kind::Pad => {
                let pads = self.one.attrs.expect_ints("pads");
                let padded = |one: &&Differing| pads[one.axis] != 0 || pads[self.rank(0) + one.axis] != 0;
                self.of(0).iter().find(padded).map_or(Ok(()), |one| Err(format!("pads axis {}", one.axis)))
            }
            Kind::Recurrent => {
                if self.one.attrs.get("rounded") == Some(&Attr::Int(1)) {
                    return Err("rounds the states of all sequences by one scale".to_owned());
                }
                // Products of the inputs are x[S,B,D,H], states [D,B,H] and lengths [B]; weights have no sequences.
                let batch = |at: usize| match (at, self.rank(at)) {
                    (1, _) | (_, 2) => None,
                    (_, 1) => Some(0),
                    _ => Some(1),
                };
                let mixed = |at: usize| self.of(at).iter().find(|one| Some(one.axis) != batch(at));
                match operands.clone().find_map(|at| mixed(at).map(|one| (at, one.axis))) {
                    Some((at, axis)) => Err(format!("mixes positions along axis {axis} of operand {at}")),
                    None => Ok(()),
                }
            }
        }
    }

    /// Checks that an operand differs along the axes of the result that it broadcasts to, except for its last `last`
    /// axes and those of the result.
    fn aligned(&self, operand: usize, last: usize) -> Result<(), String> {
        let (rank, whole) = (self.rank(operand), self.one.ty.shape.rank());
        let ty = &self.small[self.one.inputs[operand]].ty;
        for axis in 0..rank.saturating_sub(last) {
            let differs = self.differs(operand, axis);
            let result = self.factors.iter().any(|(own, _)| *own == axis + whole - rank);
            if differs != result && (differs || ty.shape[axis] != 1) {
                return Err(format!("broadcasts axis {axis} of operand {operand} for one size only"));
            }
        }
        Ok(())
    }

    /// Returns the differing axes of a reshape: between the positions of the dimension there are as many elements as in its
    /// operand.
    fn regrouped(&self) -> Result<Vec<Differing>, String> {
        let operand = &self.small[self.one.inputs[0]].ty.shape;
        let mut groups = vec![1_usize];
        for axis in 0..operand.rank() {
            match self.of(0).iter().find(|one| one.axis == axis) {
                Some(one) => {
                    *groups.last_mut().unwrap_or(&mut 1) *= one.outer;
                    groups.push(one.inner);
                }
                None => *groups.last_mut().unwrap_or(&mut 1) *= operand[axis],
            }
        }
        let joins =
            || "joins the dimension with others, or splits it, so that no axis has its positions".to_owned();
        let shape = &self.one.ty.shape;
        let (mut found, mut groups, mut before) = (Vec::new(), groups.into_iter(), 1);
        for axis in 0..shape.rank() {
            let Some((_, factor)) = self.factors.iter().find(|(own, _)| *own == axis) else {
                before *= shape[axis];
                continue;
            };
            let group = groups.next().ok_or_else(joins)?;
            let outer = group.checked_div(before).filter(|outer| outer * before == group && *outer > 0);
            let outer = outer.filter(|outer| factor.is_multiple_of(*outer)).ok_or_else(joins)?;
            found.push(Differing { axis, outer, inner: factor / outer });
            before = factor / outer;
        }
        match groups.next() == Some(before) && groups.next().is_none() {
            true => Ok(found),
            false => Err(joins()),
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
        let begun = self
            .factors
            .iter()
            .fold(other.clone(), |part, (axis, _)| resized(&part, *axis, self.sizes.small));
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
