//! The division of an elementwise kernel into blocks that stay in the cache.

use super::args::{part, tasks};
use super::broadcast::Broadcast;
use ovolo::team::Team;

/// The largest number of operands of a kernel, including the first.
pub const OPERANDS: usize = 8;
/// The elements of an area, which a task keeps in the first-level cache between steps.
pub const AREA: usize = 1024;

/// The part of the result that one pass of a chain computes.
pub struct Block {
    /// The first element in the result.
    pub first: usize,
    /// The first element in each operand.
    pub offsets: [usize; OPERANDS],
    /// The distance between rows of each operand, in elements.
    pub row_strides: [usize; OPERANDS],
    /// The number of rows.
    pub rows: usize,
    /// The elements of a row.
    pub columns: usize,
}

impl Block {
    /// Calls `visit` for all blocks of the loops. The threads of the team share them. No block has more elements than
    /// [`AREA`].
    pub fn all(loops: &Broadcast<OPERANDS>, team: &Team, visit: impl Fn(&Self) + Sync) {
        let outer = loops.outer();
        if loops.count() == 0 {
            return;
        }
        // Several short rows are computed at a time.
        let grouped = loops.length <= AREA / 4 && !outer.is_empty();
        let (rows, row_strides) = if grouped { outer[outer.len() - 1] } else { (1, [0; OPERANDS]) };
        let group = if grouped { (AREA / loops.length).min(rows) } else { 1 };
        let groups = rows.div_ceil(group);
        let width = if grouped { loops.length } else { AREA.min(loops.length) };
        let widths = loops.length.div_ceil(width).max(1);
        let repeats = loops.rows() / rows;
        let total = repeats * groups * widths;
        let parts = tasks(loops.count(), total, team.threads());
        let skip = usize::from(grouped);
        team.run(parts, |index| {
            for at in part(total, parts, index, 1) {
                let (repeat, rest) = (at / (groups * widths), at % (groups * widths));
                let (row, column) = (rest / widths * group, rest % widths * width);
                let mut offsets = loops.offsets(repeat, skip);
                for (n, offset) in offsets.iter_mut().enumerate() {
                    *offset += row * row_strides[n] + column * loops.strides[n];
                }
                visit(&Self {
                    first: (repeat * rows + row) * loops.length + column,
                    offsets,
                    row_strides,
                    rows: group.min(rows - row),
                    columns: width.min(loops.length - column),
                });
            }
        });
    }
}
