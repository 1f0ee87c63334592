//! Steps on the result of a product, piece by piece.

use crate::args::Shared;
use crate::broadcast::Broadcast;
use crate::chain::{Action, Area, apply};
use ovolo::backend::{Args, Call};
use ovolo::tensor::{Shape, TensorType};

/// The steps of a product, and how their extra operands, 2 and after, meet the result.
pub(super) struct Steps {
    /// Each with the extra operand of a binary one.
    steps: Vec<(Action, usize)>,
    extras: Vec<Extra>,
}

impl Steps {
    /// The steps of a call; `None` where an operand does not broadcast by rows.
    pub fn new(call: &Call<'_>) -> Option<Self> {
        let actions = Action::chain(call.attrs.post()).ok()?;
        let extras: Option<Vec<_>> = call.inputs[2..].iter().map(|ty| Extra::new(call.output, ty)).collect();
        let mut next = 0;
        let steps = actions.into_iter().map(|action| {
            next += usize::from(action.binary);
            (action, next.saturating_sub(1))
        });
        Some(Self { steps: steps.collect(), extras: extras? })
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Takes a piece of the product through the steps, from the source of `area` to its target, which begins
    /// at a row and a column of the result. Without steps nothing is done.
    ///
    /// # Safety
    /// Source, target and extra operands are in bounds.
    pub unsafe fn apply(&self, args: &Args<'_>, area: Area, row: usize, column: usize) {
        let rows = area.rows;
        for (index, (action, extra)) in self.steps.iter().enumerate() {
            // All steps but the last stay where the piece was computed.
            let (target, target_row) = if index + 1 == self.steps.len() {
                (area.target, area.target_row)
            } else {
                (area.source.cast_mut(), area.source_row)
            };
            let mut area = Area { target, target_row, ..area };
            if !action.binary {
                // SAFETY: the piece is in bounds.
                unsafe { apply(action, &area) };
                continue;
            }
            let operand = Shared::<f32>::input(args, 2 + extra);
            let extra = &self.extras[*extra];
            // As many rows at a time as the operand has a fixed step for.
            let (period, step) = *extra.loops.last().unwrap_or(&(1, 0));
            (area.extra_row, area.extra_column) = (step, extra.column);
            let source = area.source;
            let mut done = 0;
            while done < rows {
                let at = row + done;
                area.rows = (period - at % period).min(rows - done);
                area.source = source.wrapping_add(done * area.source_row);
                area.target = target.wrapping_add(done * target_row);
                area.extra = operand.at(extra.offset(at) + column * extra.column);
                // SAFETY: the rows are of the piece; the operand broadcasts to the result.
                unsafe { apply(action, &area) };
                done += area.rows;
            }
        }
    }
}

/// An extra operand of the steps: its offset for each row of the result, and a step along columns.
#[derive(Debug)]
struct Extra {
    /// (rows, step) loops, outermost first.
    loops: Vec<(usize, usize)>,
    column: usize,
}

impl Extra {
    fn new(output: &TensorType, ty: &TensorType) -> Option<Self> {
        let columns = output.shape.last().copied()?;
        let column = usize::from(ty.shape.last().copied() == Some(columns) && columns > 1);
        // Without its last dimension the operand steps by whole rows of its own.
        let outer = |ty: &TensorType| TensorType {
            shape: Shape::new(&ty.shape[..ty.shape.rank().saturating_sub(1)]),
            ..ty.clone()
        };
        let width = if column == 1 { columns } else { 1 };
        let broadcast = Broadcast::new(&outer(output), [&outer(ty)])?;
        let mut loops: Vec<_> =
            broadcast.outer().iter().map(|(count, [step])| (*count, step * width)).collect();
        loops.push((broadcast.length, broadcast.strides[0] * width));
        Some(Self { loops, column })
    }

    fn offset(&self, row: usize) -> usize {
        let mut rest = row;
        let mut offset = 0;
        for (count, step) in self.loops.iter().rev() {
            offset += rest % count * step;
            rest /= count;
        }
        offset
    }
}
