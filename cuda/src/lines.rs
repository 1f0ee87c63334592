//! Kernels that compute each line of a tensor from the whole line: softmax and normalisation.
//!
//! Depending on the length of a line, a thread, a warp or a block computes it. If the elements fit into registers,
//! they are read once and kept there; longer lines are read again in each pass.

use super::expr::Leaf;
use super::kernel::{BLOCK, KernelJob, Launch, kernel};
use super::map::{self, WIDEST};
use super::scalar::{self, Scalar};
use super::space::{AccessKind, Group, Index, Space};
use super::write::{Reader, Writer};
use ovolo::tensor::DType;

/// The function that is applied to a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The exponentials divided by their sum.
    Softmax,
    /// The logarithm of the softmax.
    LogSoftmax,
    /// `(x - mean) / sqrt(variance + epsilon)`, times leaf 1, plus leaf 2. The value is epsilon.
    Norm(f64),
    /// `x / sqrt(mean of the squares + epsilon)`, times leaf 1. The value is epsilon.
    Rms(f64),
}

/// The computation of such a kernel.
pub(super) struct Lines {
    /// The sizes of all dimensions.
    pub sizes: Vec<usize>,
    /// The dimensions along a line.
    pub along: Vec<usize>,
    /// The data, and for a normalisation the scale, and possibly the bias.
    pub leaves: Vec<Leaf>,
    /// The function.
    pub kind: Kind,
    /// The type of the result, which has the layout of leaf 0.
    pub dtype: DType,
}

/// The number of lanes in a warp.
const LANES: usize = 32;
/// The largest number of elements of a line that a thread keeps in registers.
const MAX_KEPT: usize = 32;
/// The longest contiguous line that a single thread computes.
const MAX_SHORT: usize = 4;

/// How a kernel walks its lines.
struct Walk<'a> {
    reader: Reader<'a>,
    ty: Scalar,
    /// The number of threads that share a line.
    team: usize,
    /// The number of vectors per thread.
    turns: usize,
    /// Whether the elements stay in registers.
    kept: bool,
    length: usize,
}

impl Lines {
    /// Generates the job.
    ///
    /// # Errors
    /// If a size exceeds the limits of a grid.
    pub(super) fn job(&self) -> Result<KernelJob, String> {
        let others = (0..self.sizes.len()).filter(|dim| !self.along.contains(dim)).collect();
        let groups = vec![Group { dims: others }, Group { dims: self.along.clone() }];
        let space = Space { sizes: self.sizes.clone(), groups };
        let (lines, length) = (space.count(0), space.count(1));
        if lines == 0 || length == 0 {
            return Ok(KernelJob::default());
        }
        let index = Index::for_count(map::largest(&self.leaves, &space, lines * length) + 4 * BLOCK * WIDEST);
        let reader = |width: usize| Reader { leaves: &self.leaves, space: &space, index, group: 1, width };
        let neighbours = self.sizes.iter().enumerate().rev().find(|(_, size)| **size > 1);
        let neighbours = neighbours.is_none_or(|(dim, _)| self.along.contains(&dim));
        let team = match length {
            _ if !neighbours => 1,
            0..=MAX_SHORT => 1,
            _ if length <= LANES * MAX_KEPT => LANES,
            _ => BLOCK,
        };
        let mut width = if team == 1 { 1 } else { WIDEST / self.dtype.size() };
        while width > 1
            && (!length.is_multiple_of(width) || reader(width).access_kind(0) != AccessKind::Packed)
        {
            width /= 2;
        }
        let turns = (length / width).div_ceil(team);
        let ty = Scalar::from_dtype(self.dtype);
        let room = if ty == Scalar::Double { MAX_KEPT / 2 } else { MAX_KEPT };
        let walk = Walk { reader: reader(width), ty, team, turns, kept: turns * width <= room, length };

        let mut w = Writer::new();
        w.need(Some("combine"));
        if team > 1 {
            w.need(Some("across"));
        }
        let (name, n) = (index.name(), |value: usize| index.number(value));
        if team == BLOCK {
            w.line(&format!("__shared__ {} shared[{}];", ty.name(), BLOCK / LANES));
            w.line(&format!("const {name} o = blockIdx.x;"));
            w.line(&format!("const {name} lane = threadIdx.x;"));
        } else {
            let of = if team == 1 { "threadIdx.x".into() } else { format!("threadIdx.x / {}", n(team)) };
            w.line(&format!("const {name} o = ({name})blockIdx.x * {} + {of};", n(BLOCK / team)));
            w.open(&format!("if (o < {})", n(lines)));
            let lane = if team == 1 { n(0) } else { format!("threadIdx.x % {}", n(team)) };
            w.line(&format!("const {name} lane = {lane};"));
        }
        self.body(&mut w, &walk);
        if team != BLOCK {
            w.close();
        }
        let parameters = map::parameters(&self.leaves, self.dtype, &[]);
        let launch = Launch::line(lines.div_ceil(BLOCK / team))?;
        Ok(KernelJob { kernels: vec![kernel("lines", &parameters, w, launch)], ..KernelJob::default() })
    }

    fn body(&self, w: &mut Writer, walk: &Walk<'_>) {
        let ty = walk.ty;
        let n = |value: f64| ty.number(value);
        let f = |name: &str| if ty == Scalar::Float { format!("{name}f") } else { name.to_owned() };
        if walk.kept {
            w.line(&format!("{} x[{}];", ty.name(), walk.turns * walk.reader.width));
            let norm = matches!(self.kind, Kind::Norm(_) | Kind::Rms(_));
            let empty = if norm { 0.0 } else { f64::NEG_INFINITY };
            self.read(w, walk, &n(empty));
        }
        let length = n(walk.length as f64);
        let total = |w: &mut Writer, name: &str, op: &str, start: f64, term: &str| {
            w.line(&format!("{} {name} = {};", ty.name(), n(start)));
            self.each(w, walk, |w, _| w.line(&format!("{name} = {op}::of({name}, {term});")));
            match walk.team {
                1 => {}
                LANES => w.line(&format!("{name} = across_warp<{op}>({name});")),
                _ => w.line(&format!("{name} = across_block<{op}, {}>({name}, shared);", BLOCK / LANES)),
            }
        };
        let exp = format!("{}(value - most)", f("exp"));
        match self.kind {
            Kind::Softmax | Kind::LogSoftmax => {
                total(w, "most", "Most", f64::NEG_INFINITY, "value");
                total(w, "sum", "Sum", 0.0, &exp);
                let result = if self.kind == Kind::Softmax {
                    format!("{exp} / sum")
                } else {
                    w.line(&format!("sum = {}(sum);", f("log")));
                    "value - most - sum".to_owned()
                };
                self.write(w, walk, |_, _, _| result.clone());
            }
            Kind::Norm(epsilon) => {
                total(w, "mean", "Sum", 0.0, "value");
                w.line(&format!("mean /= {length};"));
                total(w, "spread", "Sum", 0.0, "(value - mean) * (value - mean)");
                let root = format!("{}(spread / {length} + {})", f("sqrt"), n(epsilon));
                w.line(&format!("const {} scale = {} / {root};", ty.name(), n(1.0)));
                self.write(w, walk, |w, reader, at| {
                    let positions = ["o", at];
                    let factor = reader.element(w, 1, &positions);
                    let bias = reader.element(w, 2, &positions);
                    format!("(value - mean) * scale * {factor} + {bias}")
                });
            }
            Kind::Rms(epsilon) => {
                total(w, "squares", "Sum", 0.0, "value * value");
                let root = format!("{}(squares / {length} + {})", f("sqrt"), n(epsilon));
                w.line(&format!("const {} scale = {} / {root};", ty.name(), n(1.0)));
                self.write(w, walk, |w, reader, at| {
                    let factor = reader.element(w, 1, &["o", at]);
                    format!("value * scale * {factor}")
                });
            }
        }
    }

    /// Starts the loop over a thread's vectors. Returns whether it had to open a condition that the vector is within
    /// the line.
    fn turn(w: &mut Writer, walk: &Walk<'_>) -> bool {
        let Walk { reader, team, turns, length, .. } = walk;
        let (name, n) = (reader.index.name(), |value: usize| reader.index.number(value));
        if walk.kept {
            w.unrolled("c", *turns);
            w.line(&format!("const {name} j = (c * {} + lane) * {};", n(*team), n(reader.width)));
        } else {
            w.open(&format!(
                "for ({name} j = lane * {0}; j < {1}; j += {2})",
                n(reader.width),
                n(*length),
                n(team * reader.width)
            ));
        }
        let ragged = walk.kept && turns * team * reader.width > *length;
        if ragged {
            w.open(&format!("if (j < {})", n(*length)));
        }
        ragged
    }

    /// Reads a line into registers; registers past its end are set to `empty`.
    fn read(&self, w: &mut Writer, walk: &Walk<'_>, empty: &str) {
        let width = walk.reader.width;
        let ragged = Self::turn(w, walk);
        let value = self.load(w, walk);
        w.unrolled("e", width);
        w.line(&format!("x[c * {width}u + e] = {value};"));
        w.close();
        if ragged {
            w.otherwise("else");
            w.unrolled("e", width);
            w.line(&format!("x[c * {width}u + e] = {empty};"));
            w.close();
            w.close();
        }
        w.close();
    }

    /// Loads the vector at `j`. Returns the text of its element `e`.
    fn load(&self, w: &mut Writer, walk: &Walk<'_>) -> String {
        if walk.reader.width > 1 {
            let vector = walk.reader.vector(w, 0, &["o", "j"]);
            scalar::widened(self.leaves[0].dtype, &format!("{vector}.of[e]"))
        } else {
            walk.reader.element(w, 0, &["o", "j"])
        }
    }

    /// Generates a statement for each element of a line, which has the name `value` there.
    fn each(&self, w: &mut Writer, walk: &Walk<'_>, act: impl FnOnce(&mut Writer, &str)) {
        let width = walk.reader.width;
        let ragged = Self::turn(w, walk);
        let source = if walk.kept { format!("x[c * {width}u + e]") } else { self.load(w, walk) };
        w.unrolled("e", width);
        w.line(&format!("const {} value = {source};", walk.ty.name()));
        act(w, "e");
        w.close();
        if ragged {
            w.close();
        }
        w.close();
    }

    /// Generates the stores of each element of a line.
    fn write(
        &self,
        w: &mut Writer,
        walk: &Walk<'_>,
        result: impl FnOnce(&mut Writer, &Reader<'_>, &str) -> String,
    ) {
        let Reader { leaves, space, index, group, width } = walk.reader;
        let ragged = Self::turn(w, walk);
        let source = if walk.kept { format!("x[c * {width}u + e]") } else { self.load(w, walk) };
        w.need(scalar::prelude(self.dtype));
        let ty = scalar::memory(self.dtype);
        if width > 1 {
            w.need(Some("pack"));
            w.line(&format!("Pack<{ty}, {width}> result;"));
        }
        w.unrolled("e", width);
        w.line(&format!("const {} value = {source};", walk.ty.name()));
        w.line(&format!("const {} k = j + e;", index.name()));
        let one = Reader { leaves, space, index, group, width: 1 };
        let text = result(w, &one, "k");
        let stored = scalar::narrowed(self.dtype, &text);
        if width > 1 {
            w.line(&format!("result.of[e] = {stored};"));
            w.close();
            let at = space.offset(&leaves[0].access, &["o", "j"], index);
            w.line(&format!("store(out + ({at}), result);"));
        } else {
            let at = space.offset(&leaves[0].access, &["o", "k"], index);
            w.line(&format!("out[{at}] = {stored};"));
            w.close();
        }
        if ragged {
            w.close();
        }
        w.close();
    }
}
