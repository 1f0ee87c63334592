//! The post chain of a matrix product, applied to one piece at a time.

use crate::args::Shared;
use crate::broadcast::Broadcast;
use crate::chain::{Action, Area, apply};
use ovolo::backend::{Args, Call};
use ovolo::tensor::{Shape, TensorType};

/// The steps of a post chain, and how their extra operands broadcast to the result.
pub(super) struct Steps {
    /// The first extra operand.
    first: usize,
    /// The steps, each with the number of its extra operand if it is binary.
    steps: Vec<(Action, usize)>,
    extras: Vec<Extra>,
}

impl Steps {
    /// Creates the steps of a call of two factors. Returns `None` if an operand does not broadcast by rows.
    pub fn new(call: &Call<'_>) -> Option<Self> {
        Self::after(call, 2)
    }

    /// Creates the steps of a call whose extra operands begin with operand `first`. Returns `None` if one of them does not
    /// broadcast by rows.
    pub fn after(call: &Call<'_>, first: usize) -> Option<Self> {
        let actions = Action::chain(call.attrs.post()).ok()?;
        let extras: Option<Vec<_>> =
            call.inputs[first..].iter().map(|ty| Extra::new(call.output, ty)).collect();
        let mut next = 0;
        let steps = actions.into_iter().map(|action| {
            next += usize::from(action.binary);
            (action, next.saturating_sub(1))
        });
        Some(Self { first, steps: steps.collect(), extras: extras? })
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Applies the steps to a piece of the product, from the source of `area` to its target, which starts at a row
    /// and a column of the result. Without steps nothing happens.
    ///
    /// # Safety
    /// Source, target and extra operands must be in bounds.
    pub unsafe fn apply(&self, args: &Args<'_>, area: Area, row: usize, column: usize) {
        let rows = area.rows;
        for (index, (action, extra)) in self.steps.iter().enumerate() {
            // All steps except the last write to the buffer in which the piece was computed.
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
            let operand = Shared::<f32>::input(args, self.first + extra);
            let extra = &self.extras[*extra];
            // Each call handles as many rows as have a constant distance in the operand.
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
                // SAFETY: the rows are within the piece, and the operand broadcasts to the result.
                unsafe { apply(action, &area) };
                done += area.rows;
            }
        }
    }
}

/// An extra operand of the steps: loops that give its offset for a row of the result, and its stride along columns.
#[derive(Debug)]
struct Extra {
    /// Loops (rows, stride), outermost first.
    loops: Vec<(usize, usize)>,
    column: usize,
}

impl Extra {
    fn new(output: &TensorType, ty: &TensorType) -> Option<Self> {
        let columns = output.shape.last().copied()?;
        let column = usize::from(ty.shape.last().copied() == Some(columns) && columns > 1);
        // Without its last dimension the operand's strides are counted in its own rows.
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
