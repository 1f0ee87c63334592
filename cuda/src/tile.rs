//! Copies in which the innermost dimensions of operand and result differ: transposes, `pack` and `unpack`.
//!
//! A block reads a square along the innermost dimension of the operand, and writes it along that of the result,
//! through shared memory. So both sides are accessed in whole cache lines.

use super::expr::Leaf;
use super::kernel::{BLOCK, KernelJob, Launch, kernel};
use super::map;
use super::scalar;
use super::space::{Access, Group, Index, Part, Space};
use super::write::{Reader, Writer};
use ovolo::tensor::DType;

/// The side of a square, and the number of its rows for which a block has threads.
const SIDE: usize = 32;
const ROWS: usize = BLOCK / SIDE;
/// The smallest size of both dimensions for which a square is used.
const MIN_SIDE: usize = 8;

/// The computation of such a kernel: leaf 0 in another order.
pub(super) struct Tile {
    /// The result's dimensions in the order of memory.
    pub sizes: Vec<usize>,
    /// The operand that is copied.
    pub leaf: Leaf,
    /// The element type.
    pub dtype: DType,
}

impl Tile {
    /// Generates the job; `None` if squares are not worth it.
    ///
    /// # Errors
    /// If a size exceeds the limits of a grid.
    pub(super) fn job(&self) -> Result<Option<KernelJob>, String> {
        let Some((sizes, leaf)) = self.merged() else { return Ok(None) };
        let stride =
            |dim: usize| leaf.access.parts.iter().find(|part| part.dim == dim).map_or(0, |p| p.stride);
        let last = sizes.len() - 1;
        let Some(inner) = (0..last).find(|dim| stride(*dim) == 1) else { return Ok(None) };
        if sizes[last] < MIN_SIDE || sizes[inner] < MIN_SIDE || stride(last) == 1 || stride(last) == 0 {
            return Ok(None);
        }
        let count: usize = sizes.iter().product();
        let others: Vec<usize> = (0..last).filter(|dim| *dim != inner).collect();
        let groups = vec![Group { dims: others }, Group { dims: vec![inner] }, Group { dims: vec![last] }];
        let space = Space { sizes: sizes.clone(), groups };
        let leaves = [leaf];
        let index = Index::for_count(map::largest(&leaves, &space, count) + SIDE * SIDE * 64);
        let reader = Reader { leaves: &leaves, space: &space, index, group: 2, width: 1 };
        let (name, n) = (index.name(), |value: usize| index.number(value));
        let [along, across] = [inner, last].map(|dim| sizes[dim].div_ceil(SIDE));
        let ty = scalar::memory(self.dtype);

        let mut w = Writer::new();
        w.need(scalar::prelude(self.dtype));
        // The extra element per row spreads the elements of a column over all banks.
        w.line(&format!("__shared__ {ty} square[{SIDE}][{}];", SIDE + 1));
        w.line(&format!("const {name} a = blockIdx.x % {} * {};", n(across), n(SIDE)));
        w.line(&format!("const {name} b = blockIdx.x / {} % {} * {};", n(across), n(along), n(SIDE)));
        w.line(&format!("const {name} o = blockIdx.x / {};", n(across * along)));
        w.unrolled("r", SIDE / ROWS);
        w.line(&format!("const {name} row = threadIdx.y + r * {};", n(ROWS)));
        w.line(&format!("const {name} y = a + row;"));
        w.line(&format!("const {name} x = b + threadIdx.x;"));
        w.open(&format!("if (y < {} && x < {})", n(sizes[last]), n(sizes[inner])));
        let value = reader.element(&mut w, 0, &["o", "x", "y"]);
        let stored = scalar::narrowed(self.dtype, &value);
        w.line(&format!("square[row][threadIdx.x] = {stored};"));
        w.close();
        w.close();
        w.line("__syncthreads();");
        w.unrolled("r", SIDE / ROWS);
        w.line(&format!("const {name} row = threadIdx.y + r * {};", n(ROWS)));
        w.line(&format!("const {name} x = b + row;"));
        w.line(&format!("const {name} y = a + threadIdx.x;"));
        w.open(&format!("if (y < {} && x < {})", n(sizes[last]), n(sizes[inner])));
        let mut behind = 1;
        let mut parts = Vec::new();
        for dim in (0..sizes.len()).rev() {
            parts.push(Part::whole(dim, behind));
            behind *= sizes[dim] as i64;
        }
        let at = space.offset(&Access { offset: 0, parts }, &["o", "x", "y"], index);
        w.line(&format!("out[{at}] = square[threadIdx.x][row];"));
        w.close();
        w.close();
        let parameters = map::parameters(&leaves, self.dtype, &[]);
        let blocks = space.count(0) * along * across;
        let launch = Launch::plane(blocks, 1, [SIDE, ROWS])?;
        Ok(Some(KernelJob { kernels: vec![kernel("tile", &parameters, w, launch)], ..KernelJob::default() }))
    }

    /// Returns the dimensions and the leaf after dimensions of size 1 are removed, and dimensions that are adjacent
    /// in result and operand are merged. Returns `None` if the leaf's offset is not a sum of strides, or is read from
    /// memory.
    fn merged(&self) -> Option<(Vec<usize>, Leaf)> {
        let simple = |access: &Access| access.parts.iter().all(|part| part.divide == 1 && part.modulo == 0);
        let bounds = self.leaf.bounds.iter().map(|bound| &bound.access);
        let all: Vec<&Access> = std::iter::once(&self.leaf.access).chain(bounds).collect();
        if self.leaf.picked.is_some() || !all.iter().all(|access| simple(access)) || self.sizes.contains(&0) {
            return None;
        }
        let strides = |access: &Access, dim: usize| -> i64 {
            access.parts.iter().filter(|part| part.dim == dim).map(|part| part.stride).sum()
        };
        let (mut sizes, mut kept): (Vec<usize>, Vec<Vec<i64>>) = (Vec::new(), Vec::new());
        for (dim, &size) in self.sizes.iter().enumerate().filter(|(_, size)| **size > 1) {
            let here: Vec<i64> = all.iter().map(|access| strides(access, dim)).collect();
            let joins = kept.last().is_some_and(|before: &Vec<i64>| {
                before.iter().zip(&here).all(|(before, here)| *before == here * size as i64)
            });
            match (joins, sizes.last_mut(), kept.last_mut()) {
                (true, Some(last), Some(before)) => {
                    *last *= size;
                    *before = here;
                }
                _ => {
                    sizes.push(size);
                    kept.push(here);
                }
            }
        }
        if sizes.len() < 2 {
            return None;
        }
        let access = |which: usize, old: &Access| {
            Access::strided(old.offset, kept.iter().map(|strides| strides[which]))
        };
        let mut leaf = self.leaf.clone();
        leaf.access = access(0, &self.leaf.access);
        for (which, bound) in leaf.bounds.iter_mut().enumerate() {
            bound.access = access(which + 1, &self.leaf.bounds[which].access);
        }
        Some((sizes, leaf))
    }
}
