//! Sizes in buckets: the size of a dimension is rounded up to one of a few sizes, so that few plans serve all sizes.
//!
//! An input that is too short along the dimension is filled with copies of its last slice, and the outputs are cut back.
//! That is harmless only if no element of an output that is kept depends on the copies. [`prove`] shows it by comparing
//! the model as it is imported for the true size with the model for the size of the bucket: they must have the same
//! operators, and wherever a shape differs, the operator must keep the positions along that axis independent, which its
//! declaration says ([`Independence`]).

use crate::attr::Attr;
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::{Axes, Independence};
use crate::tensor::{Tensor, TensorType};

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
        if self.one.attrs.iter().count() != self.other.attrs.iter().count() {
            return Err("has attributes that change with the size".to_owned());
        }
        for ((name, value), (_, other)) in self.one.attrs.iter().zip(self.other.attrs.iter()) {
            let states_shape = is_shape(value, self.one) && is_shape(other, self.other);
            if value != other && !states_shape {
                return Err(format!("has an attribute `{name}` that changes with the size"));
            }
        }
        let apart = self.factors.is_empty() && (0..self.one.inputs.len()).all(|at| self.of(at).is_empty());
        if apart {
            return Ok(Vec::new());
        }
        let (axes, selects) = match self.one.op.independence() {
            Independence::Unknown => return Err("may mix positions along the dimension".to_owned()),
            Independence::RowMajor => return self.regrouped(),
            Independence::Along(axes) => (axes, false),
            Independence::Selecting(axes) => (axes, true),
        };
        let axes = self.axes(axes)?;
        self.keeps_apart(&axes, selects)?;
        self.factors.iter().map(|(axis, factor)| self.origin(&axes, *axis, *factor)).collect()
    }

    /// Returns the differing axes of a result, in which nothing may be joined with the dimension.
    fn alone(&self) -> Result<Vec<Differing>, String> {
        match self.factors.iter().all(|(_, factor)| *factor == 1) {
            true => Ok(self.factors.iter().map(|(axis, _)| Differing::alone(*axis)).collect()),
            false => Err("has an axis whose size is a multiple of the dimension".to_owned()),
        }
    }

    /// Returns the axes of the result that those of the operands become, which must be the same for both sizes.
    fn axes(&self, axes: Axes) -> Result<Vec<Vec<Option<usize>>>, String> {
        let of = |graph: &Graph, node: &Node| {
            let types: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
            axes(&node.attrs, &types, &node.ty)
        };
        let (one, other) = (of(self.small, self.one), of(self.large, self.other));
        if one == other { Ok(one) } else { Err("mixes other axes for other sizes".to_owned()) }
    }

    /// Returns what is at a differing axis of the result, by the axes of the operands that become it.
    fn origin(&self, axes: &[Vec<Option<usize>>], axis: usize, factor: usize) -> Result<Differing, String> {
        let becomes = |at: usize, own: &Differing| place(axes, at, own.axis) == Some(axis);
        let sources =
            (0..self.one.inputs.len()).flat_map(|at| self.of(at).iter().filter(move |own| becomes(at, own)));
        let mut found = sources.map(|own| own.at(axis));
        let joined = Err("has an axis in which the dimension is joined with others".to_owned());
        match found.next() {
            Some(first) if first.outer * first.inner == factor && found.all(|other| other == first) => {
                Ok(first)
            }
            None if factor == 1 => Ok(Differing::alone(axis)),
            _ => joined,
        }
    }

    /// Checks that no position of the result that is kept depends on another one of an operand.
    fn keeps_apart(&self, axes: &[Vec<Option<usize>>], selects: bool) -> Result<(), String> {
        for at in 0..self.one.inputs.len() {
            for own in self.of(at) {
                let axis = own.axis;
                match place(axes, at, axis) {
                    Some(place) if self.factors.iter().any(|(differs, _)| *differs == place) => {}
                    // The result has the same first positions for both sizes.
                    Some(place) if own.is_alone() && self.one.ty.shape[place] <= self.sizes.small => {}
                    Some(_) if !own.is_alone() => {
                        let why = "in which the dimension is joined with others";
                        return Err(format!("cuts axis {axis} of operand {at}, {why}"));
                    }
                    Some(_) => {
                        return Err(format!("broadcasts axis {axis} of operand {at} for one size only"));
                    }
                    None if selects && at == 0 && own.is_alone() => match self.selects_within() {
                        true => {}
                        false => {
                            return Err(format!("looks up positions along axis {axis} that are not known"));
                        }
                    },
                    None => return Err(format!("mixes positions along axis {axis} of operand {at}")),
                }
            }
        }
        Ok(())
    }

    /// Returns the differing axes of an operand.
    fn of(&self, operand: usize) -> &[Differing] {
        &self.differing[self.one.inputs[operand].index()]
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

    /// Whether an op that selects positions of its first operand reads none behind the true size. Positions that are
    /// attributes are the same for both sizes, and fit the true one.
    fn selects_within(&self) -> bool {
        let Some(positions) = self.one.inputs.get(1) else { return true };
        let positions = self.small.constant(*positions).and_then(Tensor::to_i64);
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

/// Returns the axis of the result that an axis of an operand becomes.
fn place(axes: &[Vec<Option<usize>>], operand: usize, axis: usize) -> Option<usize> {
    *axes.get(operand)?.get(axis)?
}

/// Whether an attribute has the sizes of a node's result.
fn is_shape(value: &Attr, node: &Node) -> bool {
    let size = |(one, size): (&i64, &usize)| usize::try_from(*one) == Ok(*size);
    match value {
        Attr::Ints(list) => {
            list.len() == node.ty.shape.rank() && list.iter().zip(node.ty.shape.iter()).all(size)
        }
        _ => false,
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
