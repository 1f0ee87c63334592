//! Reductions over any axes, with expressions before and after.
//!
//! If the innermost dimension is reduced, a thread, a warp or a block computes an element of the result, depending on
//! the number of elements to reduce. If the innermost dimension is kept, neighbouring threads compute neighbouring
//! elements, and eight rows of threads share the reduction. If there are too few blocks for a device, the reduction
//! is divided into parts, and a second kernel reduces the parts from scratch memory. There are no atomic operations,
//! so all runs give the same bits.

use super::expr::{Expr, Leaf, SCRATCH};
use super::kernel::{Argument, BLOCK, KernelJob, KernelSource, Launch, Parameter, kernel};
use super::map::{self, WIDEST};
use super::scalar::{self, Scalar};
use super::space::{Access, AccessKind, Group, Index, Space};
use super::write::{Reader, Writer};
use ovolo::tensor::DType;

/// How two values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    Sum,
    Product,
    Least,
    Most,
}

impl Combine {
    /// Returns the name of the struct in the prelude.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Product => "Product",
            Self::Least => "Least",
            Self::Most => "Most",
        }
    }

    /// Returns the result of a reduction of no elements.
    pub(super) const fn neutral(self) -> f64 {
        match self {
            Self::Sum => 0.0,
            Self::Product => 1.0,
            Self::Least => f64::INFINITY,
            Self::Most => f64::NEG_INFINITY,
        }
    }
}

/// Returns the type in which elements are combined: `f32` for 16-bit floats, and `i64` for integers.
pub(super) const fn combined(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        _ => DType::I64,
    }
}

/// The number of lanes in a warp, and of rows in a block that share a column.
const LANES: usize = 32;
const ROWS: usize = 8;
/// The largest numbers of elements that a thread and a warp reduce; a block reduces more.
const FOR_THREAD: usize = 8;
const FOR_WARP: usize = 2048;
/// The number of blocks that keep a large device busy.
const BUSY_BLOCKS: usize = 264;

/// The computation of such a kernel.
#[derive(Clone)]
pub(super) struct Reduce {
    /// The dimensions in the order of the operands' memory.
    pub sizes: Vec<usize>,
    /// For each dimension, whether it is reduced.
    pub reduced: Vec<bool>,
    /// The operands that are read.
    pub leaves: Vec<Leaf>,
    /// The expression that is reduced.
    pub before: Expr,
    /// How values are combined.
    pub combine: Combine,
    /// The stored expression, which can use the reduced value and leaves along the kept dimensions.
    pub after: Expr,
    /// The type of the result.
    pub dtype: DType,
}

/// The target of one kernel of a reduction.
enum Target {
    Result,
    /// Some parts for each element, each with the same number of vectors.
    Parts {
        parts: usize,
        share: usize,
    },
}

/// The groups of the kept and of the reduced dimensions.
const KEPT: usize = 0;
const REDUCED: usize = 1;

impl Reduce {
    /// Generates the job.
    ///
    /// # Errors
    /// If no kernel computes an op, or if a size exceeds the limits of a grid.
    pub(super) fn job(&self) -> Result<KernelJob, String> {
        let space = self.space();
        let (kept, reduced) = (space.count(KEPT), space.count(REDUCED));
        if kept == 0 {
            return Ok(KernelJob::default());
        }
        let along = self.sizes.iter().zip(&self.reduced).rev().find(|(size, _)| **size != 1);
        let row = along.is_none_or(|(_, reduced)| *reduced);
        let width = self.width(&space, if row { REDUCED } else { KEPT });
        let units = if row { reduced / width } else { reduced };
        let blocks = if !row {
            (kept / width).div_ceil(LANES)
        } else if reduced > FOR_WARP {
            kept
        } else {
            0
        };
        let least = if row { 8 * BLOCK } else { 16 * ROWS };
        let parts = (2 * BUSY_BLOCKS).checked_div(blocks).map_or(1, |most| (units / least).min(most).max(1));
        if parts < 2 || blocks >= BUSY_BLOCKS {
            return Ok(KernelJob {
                kernels: vec![self.kernel(&space, row, width, &Target::Result)?],
                ..KernelJob::default()
            });
        }
        let share = units.div_ceil(parts);
        let parts = units.div_ceil(share);
        let first = self.kernel(&space, row, width, &Target::Parts { parts, share })?;
        let ty = combined(self.before.dtype);
        // The second kernel reads the scratch memory as its operand, and the other leaves as before.
        let mut rest = self.clone();
        let mut strides = vec![0; self.sizes.len() + 1];
        let mut step = parts as i64;
        for (dim, size) in self.sizes.iter().enumerate().rev() {
            if !self.reduced[dim] {
                strides[dim] = step;
                step *= *size as i64;
            }
        }
        strides[self.sizes.len()] = 1;
        rest.sizes = self.sizes.iter().zip(&self.reduced).map(|(n, r)| if *r { 1 } else { *n }).collect();
        rest.sizes.push(parts);
        rest.reduced.push(true);
        rest.leaves.push(Leaf::new(SCRATCH, ty, Access::strided(0, strides)));
        rest.before = Expr::load(&rest.leaves, rest.leaves.len() - 1);
        let space = rest.space();
        let width = rest.width(&space, REDUCED);
        let second = rest.kernel(&space, true, width, &Target::Result)?;
        Ok(KernelJob {
            kernels: vec![first, second],
            scratch: kept * parts * ty.size(),
            in_place: Vec::new(),
        })
    }

    fn space(&self) -> Space {
        let of = |reduced: bool| Group {
            dims: (0..self.sizes.len()).filter(|dim| self.reduced[*dim] == reduced).collect(),
        };
        Space { sizes: self.sizes.clone(), groups: vec![of(false), of(true)] }
    }

    /// Returns the number of elements in a vector along a group.
    fn width(&self, space: &Space, group: usize) -> usize {
        let count = space.count(group);
        let index = Index::Wide;
        let mut width = WIDEST / 2;
        while width > 1 {
            let reader = Reader { leaves: &self.leaves, space, index, group, width };
            let read = (0..self.leaves.len()).filter(|leaf| map::reads(&self.before, *leaf));
            let (mut packed, mut fits) = (false, count.is_multiple_of(width) && count > 0);
            for leaf in read {
                if reader.access_kind(leaf) == AccessKind::Packed {
                    packed = true;
                    fits &= self.leaves[leaf].dtype.size() * width <= WIDEST;
                }
            }
            if packed && fits {
                return width;
            }
            width /= 2;
        }
        1
    }

    fn kernel(
        &self,
        space: &Space,
        row: bool,
        width: usize,
        target: &Target,
    ) -> Result<KernelSource, String> {
        let (kept, reduced) = (space.count(KEPT), space.count(REDUCED));
        let group = if row { REDUCED } else { KEPT };
        let reach = map::largest(&self.leaves, space, kept.max(reduced)) + BLOCK * WIDEST * 2;
        let index = Index::for_count(reach);
        let reader = Reader { leaves: &self.leaves, space, index, group, width };
        let mut w = Writer::new();
        w.need(Some("combine"));
        let launch = if row {
            self.rows(&mut w, &reader, kept, reduced, target)?
        } else {
            self.columns(&mut w, &reader, kept, reduced, target)?
        };
        let ty = combined(self.before.dtype);
        let (dtype, argument, read): (_, _, &Expr) = match target {
            Target::Result => (self.dtype, Argument::Output, &self.after),
            Target::Parts { .. } => (ty, Argument::Scratch, &self.before),
        };
        let used: Vec<Leaf> = (0..self.leaves.len())
            .filter(|leaf| map::reads(&self.before, *leaf) || map::reads(read, *leaf))
            .flat_map(|leaf| {
                let picked = self.leaves[leaf].picked.as_ref().map(|picked| self.leaves[picked.leaf].clone());
                std::iter::once(self.leaves[leaf].clone()).chain(picked)
            })
            .collect();
        let mut parameters: Vec<Parameter> = map::parameters(&used, dtype, &[]);
        for parameter in &mut parameters {
            match parameter.argument {
                Argument::Input(SCRATCH) => parameter.argument = Argument::Scratch,
                Argument::Output => parameter.argument = argument,
                _ => {}
            }
        }
        Ok(kernel("reduce", &parameters, w, launch))
    }

    /// Generates a kernel in which a thread, a warp or a block computes each element of the result.
    fn rows(
        &self,
        w: &mut Writer,
        reader: &Reader<'_>,
        kept: usize,
        reduced: usize,
        target: &Target,
    ) -> Result<Launch, String> {
        let (index, width) = (reader.index, reader.width);
        let (name, n) = (index.name(), |value: usize| index.number(value));
        let units = reduced / width;
        let team = match target {
            Target::Parts { .. } => BLOCK,
            Target::Result if units <= FOR_THREAD => 1,
            Target::Result if reduced <= FOR_WARP => LANES,
            Target::Result => BLOCK,
        };
        let ty = Scalar::from_dtype(combined(self.before.dtype)).name();
        let op = self.combine.name();
        if team == BLOCK {
            w.line(&format!("__shared__ {ty} shared[{}];", BLOCK / LANES));
            w.line(&format!("const {name} o = blockIdx.x;"));
        } else {
            let of = if team == 1 { "threadIdx.x".into() } else { format!("threadIdx.x / {}", n(team)) };
            w.line(&format!("const {name} o = ({name})blockIdx.x * {} + {of};", n(BLOCK / team)));
            w.open(&format!("if (o < {})", n(kept)));
        }
        let lane = match team {
            1 => n(0),
            BLOCK => "threadIdx.x".to_owned(),
            team => format!("threadIdx.x % {}", n(team)),
        };
        let lane = w.value(name, &lane);
        let (first, last) = match target {
            Target::Result => (lane.clone(), n(units)),
            Target::Parts { share, .. } => {
                let begin = w.value(name, &format!("({name})blockIdx.y * {}", n(*share)));
                let end = format!("{begin} + {0} < {1} ? {begin} + {0} : {1}", n(*share), n(units));
                (format!("{begin} + {lane}"), w.value(name, &end))
            }
        };
        self.start(w, width);
        if team == 1 {
            w.line("#pragma unroll");
        }
        w.open(&format!("for ({name} at = {first}; at < {last}; at += {})", n(team)));
        if width > 1 {
            w.line(&format!("const {name} j = at * {};", n(width)));
            self.take(w, reader, ["o", "j"])?;
        } else {
            self.take(w, reader, ["o", "at"])?;
        }
        w.close();
        w.line(&format!("{ty} total = sum[0];"));
        if width > 1 {
            w.line("#pragma unroll");
            w.line(&format!("for (int e = 1; e < {width}; ++e) total = {op}::of(total, sum[e]);"));
        }
        if team == LANES {
            w.need(Some("across"));
            w.line(&format!("total = across_warp<{op}>(total);"));
        } else if team == BLOCK {
            w.need(Some("across"));
            w.line(&format!("total = across_block<{op}, {}>(total, shared);", BLOCK / LANES));
        }
        if team > 1 {
            w.open(&format!("if ({lane} == {})", n(0)));
        }
        match target {
            Target::Result => self.finish(w, reader, "o", "total")?,
            Target::Parts { parts, .. } => w.line(&format!("out[o * {} + blockIdx.y] = total;", n(*parts))),
        }
        if team > 1 {
            w.close();
        }
        if team != BLOCK {
            w.close();
        }
        match target {
            Target::Parts { parts, .. } => Launch::plane(kept, *parts, [BLOCK, 1]),
            Target::Result => Launch::line(kept.div_ceil(BLOCK / team)),
        }
    }

    /// Generates a kernel in which neighbouring threads compute neighbouring elements, with several rows of threads.
    fn columns(
        &self,
        w: &mut Writer,
        reader: &Reader<'_>,
        kept: usize,
        reduced: usize,
        target: &Target,
    ) -> Result<Launch, String> {
        let (index, width) = (reader.index, reader.width);
        let (name, n) = (index.name(), |value: usize| index.number(value));
        let ty = Scalar::from_dtype(combined(self.before.dtype)).name();
        let op = self.combine.name();
        w.line(&format!("__shared__ {ty} shared[{ROWS}][{}];", LANES * width));
        let place = format!("(({name})blockIdx.x * {} + threadIdx.x) * {}", n(LANES), n(width));
        w.line(&format!("const {name} o = {place};"));
        let (first, last) = match target {
            Target::Result => ("threadIdx.y".to_owned(), n(reduced)),
            Target::Parts { share, .. } => {
                let begin = w.value(name, &format!("({name})blockIdx.y * {}", n(*share)));
                let end = format!("{begin} + {0} < {1} ? {begin} + {0} : {1}", n(*share), n(reduced));
                (format!("{begin} + threadIdx.y"), w.value(name, &end))
            }
        };
        self.start(w, width);
        w.open(&format!("if (o < {})", n(kept)));
        w.line("#pragma unroll 4");
        w.open(&format!("for ({name} j = {first}; j < {last}; j += {})", n(ROWS)));
        self.take(w, reader, ["o", "j"])?;
        w.close();
        w.close();
        w.line("#pragma unroll");
        w.line(&format!(
            "for (int e = 0; e < {width}; ++e) shared[threadIdx.y][threadIdx.x * {width}u + e] = sum[e];"
        ));
        w.line("__syncthreads();");
        w.open(&format!("if (threadIdx.y == 0u && o < {})", n(kept)));
        w.unrolled("e", width);
        w.line(&format!("{ty} total = shared[0][threadIdx.x * {width}u + e];"));
        w.line("#pragma unroll");
        w.line(&format!(
            "for (int row = 1; row < {ROWS}; ++row) total = {op}::of(total, shared[row][threadIdx.x * {width}u + e]);"
        ));
        w.line(&format!("const {name} k = o + e;"));
        match target {
            Target::Result => {
                let one = Reader { width: 1, ..*reader };
                self.finish(w, &one, "k", "total")?;
            }
            Target::Parts { parts, .. } => w.line(&format!("out[k * {} + blockIdx.y] = total;", n(*parts))),
        }
        w.close();
        w.close();
        let blocks = kept.div_ceil(LANES * width);
        let parts = if let Target::Parts { parts, .. } = target { *parts } else { 1 };
        Launch::plane(blocks, parts, [LANES, ROWS])
    }

    /// Starts the sums, one for each element of a vector.
    fn start(&self, w: &mut Writer, width: usize) {
        let ty = Scalar::from_dtype(combined(self.before.dtype));
        w.line(&format!("{} sum[{width}];", ty.name()));
        w.line("#pragma unroll");
        w.line(&format!("for (int e = 0; e < {width}; ++e) sum[e] = {};", ty.number(self.combine.neutral())));
    }

    /// Adds one vector to the sums.
    fn take(&self, w: &mut Writer, reader: &Reader<'_>, at: [&str; 2]) -> Result<(), String> {
        let width = reader.width;
        let mut sources = vec![None; self.leaves.len()];
        let read = (0..self.leaves.len()).filter(|leaf| map::reads(&self.before, *leaf));
        for leaf in read.filter(|_| width > 1) {
            let dtype = self.leaves[leaf].dtype;
            sources[leaf] = match reader.access_kind(leaf) {
                AccessKind::Packed => {
                    Some(scalar::widened(dtype, &format!("{}.of[e]", reader.vector(w, leaf, &at))))
                }
                AccessKind::Uniform => Some(reader.element(w, leaf, &at)),
                AccessKind::Scattered => None,
            };
        }
        let mut here = [at[0].to_owned(), at[1].to_owned()];
        if width > 1 {
            w.unrolled("e", width);
            w.line(&format!("const {} k = {} + e;", reader.index.name(), at[reader.group]));
            here[reader.group] = "k".to_owned();
        }
        let positions = [here[0].as_str(), here[1].as_str()];
        let mut load = |w: &mut Writer, leaf: usize| match &sources[leaf] {
            Some(text) => w.value(Scalar::from_dtype(self.leaves[leaf].dtype).name(), text),
            None => reader.element(w, leaf, &positions),
        };
        let mut inside = |w: &mut Writer, leaf: usize| reader.inside(w, leaf, &positions);
        let before = self.before.clone().cast(combined(self.before.dtype));
        let value = w.expression(&before, &mut load, &mut inside, "")?;
        let place = if width > 1 { "sum[e]" } else { "sum[0]" };
        w.line(&format!("{place} = {}::of({place}, {value});", self.combine.name()));
        if width > 1 {
            w.close();
        }
        Ok(())
    }

    /// Stores an element.
    fn finish(&self, w: &mut Writer, reader: &Reader<'_>, at: &str, total: &str) -> Result<(), String> {
        let zero = reader.index.number(0);
        let positions = [at, zero.as_str()];
        let mut load = |w: &mut Writer, leaf: usize| reader.element(w, leaf, &positions);
        let mut inside = |w: &mut Writer, leaf: usize| reader.inside(w, leaf, &positions);
        let value = w.expression(&self.after, &mut load, &mut inside, total)?;
        w.need(scalar::prelude(self.dtype));
        w.line(&format!("out[{at}] = {};", scalar::narrowed(self.dtype, &value)));
        Ok(())
    }
}
