//! Kernels that compute each element of the result from elements of the operands: elementwise ops and trees of them,
//! copies, concatenations and gathers.

use super::expr::{Expr, Leaf, Node, parameter};
use super::kernel::{Argument, BLOCK, KernelJob, Launch, Parameter, kernel};
use super::scalar::{self, Scalar};
use super::space::{AccessKind, Index, Space};
use super::write::{Reader, Writer};
use ovolo::tensor::DType;

/// The number of bytes of the widest memory access.
pub(super) const WIDEST: usize = 16;
/// The number of vectors that a thread loads at the same time if there is enough work for all threads.
const VECTORS_IN_FLIGHT: usize = 4;
/// The number of blocks from which on there is enough work: a few for each multiprocessor of a large device.
const ENOUGH_BLOCKS: usize = 1024;

/// The computation of such a kernel.
pub(super) struct Map {
    /// The result's dimensions in the order of memory.
    pub sizes: Vec<usize>,
    /// The element type of the result.
    pub dtype: DType,
    /// The operands that are read.
    pub leaves: Vec<Leaf>,
    /// The computed expression.
    pub expr: Expr,
}

impl Map {
    /// Generates the job.
    ///
    /// # Errors
    /// If no kernel computes an op, or if a size exceeds the limits of a grid.
    pub(super) fn job(&self) -> Result<KernelJob, String> {
        let count: usize = self.sizes.iter().product();
        if count == 0 {
            return Ok(KernelJob::default());
        }
        let space = Space::whole(&self.sizes);
        let index =
            Index::for_count(largest(&self.leaves, &space, count) + 2 * BLOCK * VECTORS_IN_FLIGHT * WIDEST);
        let width = self.width(&space, index, count);
        let reader = Reader { leaves: &self.leaves, space: &space, index, group: 0, width };
        let vectors = count / width;
        let flight =
            if vectors.div_ceil(BLOCK * VECTORS_IN_FLIGHT) >= ENOUGH_BLOCKS { VECTORS_IN_FLIGHT } else { 1 };
        let rest = count % width;
        let places = vectors + usize::from(rest > 0);
        let blocks = places.div_ceil(BLOCK * flight);
        let n = |value: usize| index.number(value);
        let name = index.name();

        let mut w = Writer::new();
        let first = if flight == 1 {
            format!("({name})blockIdx.x * {} + threadIdx.x", n(BLOCK))
        } else {
            format!("({name})blockIdx.x * {} + threadIdx.x", n(BLOCK * flight))
        };
        w.line(&format!("const {name} first = {first};"));
        let packed: Vec<usize> = (0..self.leaves.len())
            .filter(|leaf| self.is_read(*leaf) && reader.access_kind(*leaf) == AccessKind::Packed)
            .collect();
        if flight > 1 {
            // All loads come before the first use, so that they are in flight at the same time.
            for &leaf in &packed {
                let ty = scalar::memory(self.leaves[leaf].dtype);
                w.line(&format!("Pack<{ty}, {width}> v{leaf}[{flight}];"));
            }
            if !packed.is_empty() {
                w.unrolled("u", flight);
                w.line(&format!("const {name} at = first + u * {};", n(BLOCK)));
                w.open(&format!("if (at < {})", n(vectors)));
                w.line(&format!("const {name} i = at * {};", n(width)));
                for &leaf in &packed {
                    let vector = reader.vector(&mut w, leaf, &["i"]);
                    w.line(&format!("v{leaf}[u] = {vector};"));
                }
                w.close();
                w.close();
            }
            w.unrolled("u", flight);
            w.line(&format!("const {name} at = first + u * {};", n(BLOCK)));
        } else {
            w.line(&format!("const {name} at = first;"));
        }
        w.open(&format!("if (at < {})", n(vectors)));
        self.vector(&mut w, &reader, &packed, flight)?;
        if rest > 0 {
            w.otherwise(&format!("else if (at == {})", n(vectors)));
            w.open(&format!("for ({name} i = {}; i < {}; ++i)", n(vectors * width), n(count)));
            let one = Reader { leaves: &self.leaves, space: &space, index, group: 0, width: 1 };
            let value = self.value(&mut w, &one, "i", &mut |_, _| None)?;
            w.line(&format!("out[i] = {value};"));
            w.close();
        }
        w.close();
        if flight > 1 {
            w.close();
        }
        let in_place = self.in_place(&space);
        let parameters = parameters(&self.leaves, self.dtype, &in_place);
        let kernel = kernel("map", &parameters, w, Launch::line(blocks)?);
        Ok(KernelJob { kernels: vec![kernel], scratch: 0, in_place })
    }

    /// Generates the computation of one vector of the result.
    fn vector(
        &self,
        w: &mut Writer,
        reader: &Reader<'_>,
        packed: &[usize],
        flight: usize,
    ) -> Result<(), String> {
        let (name, width) = (reader.index.name(), reader.width);
        if width == 1 {
            w.line(&format!("const {name} i = at;"));
            let value = self.value(w, reader, "i", &mut |_, _| None)?;
            w.line(&format!("out[i] = {value};"));
            return Ok(());
        }
        w.line(&format!("const {name} i = at * {};", reader.index.number(width)));
        let mut sources = vec![None; self.leaves.len()];
        for leaf in (0..self.leaves.len()).filter(|leaf| self.is_read(*leaf)) {
            let dtype = self.leaves[leaf].dtype;
            sources[leaf] = match reader.access_kind(leaf) {
                AccessKind::Packed if flight > 1 && packed.contains(&leaf) => {
                    Some(scalar::widened(dtype, &format!("v{leaf}[u].of[e]")))
                }
                AccessKind::Packed => {
                    Some(scalar::widened(dtype, &format!("{}.of[e]", reader.vector(w, leaf, &["i"]))))
                }
                AccessKind::Uniform => Some(reader.element(w, leaf, &["i"])),
                AccessKind::Scattered => None,
            };
        }
        w.need(Some("pack"));
        w.line(&format!("Pack<{}, {width}> result;", scalar::memory(self.dtype)));
        w.unrolled("e", width);
        w.line(&format!("const {name} k = i + e;"));
        let value = self.value(w, reader, "k", &mut |_, leaf| sources[leaf].clone())?;
        w.line(&format!("result.of[e] = {value};"));
        w.close();
        w.line("store(out + i, result);");
        Ok(())
    }

    /// Generates the value of an element, in the type in which it is stored.
    fn value(
        &self,
        w: &mut Writer,
        reader: &Reader<'_>,
        position: &str,
        source: &mut dyn FnMut(&mut Writer, usize) -> Option<String>,
    ) -> Result<String, String> {
        let mut load = |w: &mut Writer, leaf: usize| match source(w, leaf) {
            Some(text) => w.value(Scalar::from_dtype(self.leaves[leaf].dtype).name(), &text),
            None => reader.element(w, leaf, &[position]),
        };
        let mut inside = |w: &mut Writer, leaf: usize| reader.inside(w, leaf, &[position]);
        let value = w.expression(&self.expr, &mut load, &mut inside, "")?;
        w.need(scalar::prelude(self.dtype));
        Ok(scalar::narrowed(self.dtype, &value))
    }

    /// Returns the number of elements in a vector: as many of the largest contiguous type as the widest access holds.
    fn width(&self, space: &Space, index: Index, count: usize) -> usize {
        let mut width = WIDEST / self.dtype.size().max(2);
        while width > 1 {
            let reader = Reader { leaves: &self.leaves, space, index, group: 0, width };
            let fits = self.leaves.iter().enumerate().all(|(leaf, it)| {
                reader.access_kind(leaf) != AccessKind::Packed || it.dtype.size() * width <= WIDEST
            });
            if fits && count >= width {
                break;
            }
            width /= 2;
        }
        width
    }

    /// Returns whether the expression reads a leaf's elements; other leaves only provide positions or conditions.
    fn is_read(&self, leaf: usize) -> bool {
        reads(&self.expr, leaf)
    }

    /// Returns the operands whose elements are read only by the thread that writes the same position. A leaf that
    /// reads the same operand elsewhere excludes it.
    fn in_place(&self, space: &Space) -> Vec<usize> {
        let same_place = |leaf: &Leaf| {
            leaf.picked.is_none()
                && leaf.bounds.is_empty()
                && space.offset(&leaf.access, &["i"], Index::Narrow) == "i"
        };
        let fits = |leaf: &&Leaf| leaf.dtype.size() == self.dtype.size() && same_place(leaf);
        let alone = |leaf: &&Leaf| {
            let others = self.leaves.iter().filter(|other| other.operand != leaf.operand || *other != *leaf);
            others.into_iter().all(|other| other.dtype != leaf.dtype || same_place(other))
        };
        let mut operands: Vec<usize> =
            self.leaves.iter().filter(fits).filter(alone).map(|leaf| leaf.operand).collect();
        operands.sort_unstable();
        operands.dedup();
        operands
    }
}

/// Returns whether an expression reads a leaf's elements.
pub(super) fn reads(expr: &Expr, leaf: usize) -> bool {
    match &expr.node {
        Node::Load(one) => *one == leaf,
        Node::Inside(_) | Node::Given | Node::Number(_) => false,
        Node::Not(x) | Node::IsNan(x) | Node::Cast(x) => reads(x, leaf),
        Node::Own(_, _, operands) | Node::Formula(_, operands) => operands.iter().any(|x| reads(x, leaf)),
        Node::Binary(_, a, b) => reads(a, leaf) || reads(b, leaf),
        Node::Select(a, b, c) => reads(a, leaf) || reads(b, leaf) || reads(c, leaf),
    }
}

/// Returns the largest position or offset that a kernel computes, and at least `count`.
pub(super) fn largest(leaves: &[Leaf], space: &Space, count: usize) -> usize {
    let reach = |leaf: &Leaf| {
        let parts = leaf.access.parts.iter().map(|part| {
            let steps = space.sizes[part.dim].saturating_sub(1) / part.divide;
            let steps = if part.modulo > 0 { steps.min(part.modulo - 1) } else { steps };
            usize::try_from(part.stride.unsigned_abs()).unwrap_or(usize::MAX).saturating_mul(steps)
        });
        let picked = leaf.picked.as_ref().map_or(0, |picked| picked.size.saturating_mul(picked.stride));
        let offset = usize::try_from(leaf.access.offset.unsigned_abs()).unwrap_or(usize::MAX);
        parts.fold(offset.saturating_add(picked), usize::saturating_add)
    };
    leaves.iter().map(reach).fold(count, usize::max)
}

/// Returns the parameters of a kernel: each operand once, then the result.
pub(super) fn parameters(leaves: &[Leaf], dtype: DType, in_place: &[usize]) -> Vec<Parameter> {
    let mut list: Vec<Parameter> = Vec::new();
    let mut operands: Vec<(usize, DType)> = leaves.iter().map(|leaf| (leaf.operand, leaf.dtype)).collect();
    operands.sort_unstable();
    operands.dedup();
    for (operand, dtype) in operands {
        list.push(Parameter {
            name: parameter(operand),
            dtype,
            argument: Argument::Input(operand),
            apart: !in_place.contains(&operand),
        });
    }
    list.push(Parameter {
        name: "out".to_owned(),
        dtype,
        argument: Argument::Output,
        apart: in_place.is_empty(),
    });
    list
}
