//! Recurrent layers over whole sequences, divided between threads by directions and by sequences.
//!
//! There is no `gru`: for it, oneDNN 3.1 has only its reference implementation.

use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Desc, Direction, Library, PrimitiveDesc, Sequence};
use ovolo::op::recurrent::Cell;
use ovolo::op::recurrent::layer::Sizes;
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, Layout, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        layouts: Layouts::Forms(&[Form::new(
            &["plain", WEIGHTS, WEIGHTS, "plain", "plain", "plain"],
            "plain",
        )]),
        ..op!("onednn.lstm-layer", "lstm-layer", work)
    },
    Lowering {
        layouts: Layouts::Forms(&[Form::new(&["plain", WEIGHTS, WEIGHTS, "plain", "plain"], "plain")]),
        ..op!("onednn.rnn-layer", "rnn-layer", work)
    },
];

/// The layout of weights `[D, I, G, H]`: the only one for which the library has a kernel.
const WEIGHTS: &str = "acDb32d";
/// The same for one direction of one layer, `[1, 1, I, G, H]`, in the library's names.
const TAG: &str = "abdEc32e";

/// Divides a layer between threads.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let plain: Vec<TensorType> = call.inputs.iter().map(|ty| ty.with_layout(Layout::PLAIN)).collect();
    let cell = Cell::of_layer(call.op.meaning()).ok_or_else(|| OpError::kernel("the op is no layer"))?;
    let sizes = Sizes::new(cell, call.attrs, &plain.iter().collect::<Vec<_>>())?;
    let Sizes { steps, batch, features, directions, hidden, .. } = sizes;
    if call.inputs[0].dtype != DType::F32 {
        return Err(OpError::kernel("layers must be f32"));
    }
    if steps * batch * features * hidden == 0 {
        return Err(OpError::kernel("a dimension is 0"));
    }
    let operations = [steps, batch, directions, cell.gates(), hidden, features + hidden];
    let threads = threads(call, operations.into_iter().fold(1, usize::saturating_mul));
    // The library has a thread for each direction before sequences are divided.
    let parts = threads.div_ceil(directions).min(batch);
    let mut work = Work::new((directions * parts).min(threads));
    let mut known: Vec<((bool, usize), usize)> = Vec::new();
    let size = size_of::<f32>();
    for (direction, index) in (0..directions).flat_map(|direction| (0..parts).map(move |at| (direction, at)))
    {
        let rows = part(batch, parts, index, 1);
        let reversed = sizes.reverse || direction == 1;
        let variant = match known.iter().find(|(one, _)| *one == (reversed, rows.len())) {
            Some((_, variant)) => *variant,
            None => {
                let made = describe(library, &sizes, rows.len(), reversed)?;
                let mut args = vec![Arg::SRC, Arg::WEIGHTS, Arg::WEIGHTS_1, Arg::BIAS, Arg::SRC_1];
                args.extend([Arg::DST, Arg::DST_1, Arg::SCRATCH]);
                if cell == Cell::Lstm {
                    args.extend([Arg::SRC_2, Arg::DST_2]);
                }
                let variant = work.variant(choose(made, 0)?, args);
                known.push(((reversed, rows.len()), variant));
                variant
            }
        };
        let weights = |operand: usize| {
            let ty = call.inputs[operand];
            ArgPlace::Input(operand, ty.layout.offset(&ty.shape, &[direction, 0, 0, 0]) * size)
        };
        // The states of these sequences, and the same in the part `time` of the result.
        let state = (direction * batch + rows.start) * hidden * size;
        let result = |time: usize| ArgPlace::Output(time * directions * batch * hidden * size + state);
        let mut places = vec![
            ArgPlace::Input(0, rows.start * features * size),
            weights(1),
            weights(2),
            ArgPlace::Input(3, direction * cell.gates() * hidden * size),
            ArgPlace::Input(4, state),
            result(0),
            result(steps),
            ArgPlace::Scratch,
        ];
        if cell == Cell::Lstm {
            places.extend([ArgPlace::Input(5, state), result(steps + 1)]);
        }
        work.run(direction * parts + index, variant, places);
    }
    Ok(work)
}

/// Describes one direction of a layer for so many of its sequences.
fn describe(
    library: &'static Library,
    sizes: &Sizes,
    rows: usize,
    reversed: bool,
) -> Result<PrimitiveDesc, OpError> {
    let Sizes { cell, steps, batch, features, directions, hidden, .. } = *sizes;
    let data = desc::data_type(DType::F32)?;
    let strided = |shape: &[usize], strides: &[usize]| {
        Desc::strided(library, shape, data, strides).map_err(OpError::backend)
    };
    let plain = |shape: &[usize]| desc::shaped(library, shape, &Layout::PLAIN, data);
    let gates = cell.gates();
    let [w, r] =
        [features, hidden].map(|depth| desc::tagged(library, TAG, &[1, 1, depth, gates, hidden], data));
    let (w, r) = (w?, r?);
    let input = strided(&[steps, rows, features], &[batch * features, features, 1])?;
    let result = strided(&[steps, rows, hidden], &[directions * batch * hidden, hidden, 1])?;
    let (state, bias) = (plain(&[1, 1, rows, hidden])?, plain(&[1, 1, gates, hidden])?);
    let sequence = Sequence {
        direction: if reversed { Direction::Backward } else { Direction::Forward },
        input: &input,
        states: [&state, &state],
        weights: [&w, &r],
        bias: &bias,
        result: &result,
    };
    let attr = Attr::new(library).map_err(OpError::backend)?;
    match cell {
        Cell::Lstm => PrimitiveDesc::lstm(library, sequence, [&state, &state], &attr),
        _ => PrimitiveDesc::rnn(library, Algorithm::TANH, sequence, &attr),
    }
    .map_err(OpError::backend)
}
