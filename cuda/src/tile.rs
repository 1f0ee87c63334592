//! Copies in which neighbours of the result lie apart in the operand: transposes, `pack` and `unpack`.
//!
//! A block reads a square along the operand's neighbours, and writes it along the result's, through shared
//! memory: both sides are read and written in whole lines.

use super::expr::Leaf;
use super::kernel::{BLOCK, Job, Launch, kernel};
use super::map;
use super::scalar;
use super::space::{Access, Group, Index, Part, Space};
use super::write::{Reader, Writer};
use ovolo::tensor::DType;

/// The side of a square, and its rows that a block has threads for.
const SIDE: usize = 32;
const ROWS: usize = BLOCK / SIDE;
/// Fewer neighbours than that are not worth a square.
const LEAST: usize = 8;

/// What such a kernel computes: leaf 0 in another order.
pub(super) struct Tile {
    /// The result's dimensions as they lie in memory.
    pub sizes: Vec<usize>,
    /// What is copied.
    pub leaf: Leaf,
    /// The type of its elements.
    pub dtype: DType,
}

impl Tile {
    /// The job, or nothing where no square is worth it.
    ///
    /// # Errors
    /// A size that no grid has.
    pub(super) fn job(&self) -> Result<Option<Job>, String> {
        let Some((sizes, leaf)) = self.merged() else { return Ok(None) };
        let stride =
            |dim: usize| leaf.access.parts.iter().find(|part| part.dim == dim).map_or(0, |p| p.stride);
        let last = sizes.len() - 1;
        let Some(inner) = (0..last).find(|dim| stride(*dim) == 1) else { return Ok(None) };
        if sizes[last] < LEAST || sizes[inner] < LEAST || stride(last) == 1 || stride(last) == 0 {
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
        // One more in a row, so that a column is in as many banks as it has elements.
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
        Ok(Some(Job { kernels: vec![kernel("tile", &parameters, w, launch)], ..Job::default() }))
    }

    /// The dimensions without those of one element, neighbours that are neighbours in the operand too made
    /// one; `None` where its offset is no sum of strides, or comes from memory.
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
