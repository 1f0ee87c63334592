//! Softmax and layer normalisation, divided between threads by rows.

use super::work::{ArgPlace, Work, choose, part, threads};
use super::{Call, desc, op};
use onednn_sys::{Algorithm, Arg, Attr, Desc, Library, PrimitiveDesc};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    op!("onednn.softmax", "softmax", softmax),
    op!("onednn.log-softmax", "log-softmax", softmax),
    op!("onednn.layer-norm", "layer-norm", layer_norm),
];

/// Returns the number of rows and the elements of a row. A row consists of the axes from `axis` to the last.
fn rows(call: &Call<'_>, axis: usize) -> Result<(usize, usize), OpError> {
    let shape = &call.output.shape;
    if !call.output.layout.is_plain() || shape.count() == 0 {
        return Err(OpError::kernel(format!(
            "the result is {}: it must be in the default layout",
            call.output
        )));
    }
    Ok((shape[..axis].iter().product(), shape[axis..].iter().product()))
}

/// Divides the rows between threads; `make` creates the primitive for a number of rows and its descriptor.
fn by_rows(
    library: &'static Library,
    call: &Call<'_>,
    (count, width): (usize, usize),
    more: &[(Arg, ArgPlace)],
    make: impl Fn(&Desc, usize) -> Result<PrimitiveDesc, OpError>,
) -> Result<Work, OpError> {
    let data = desc::data_type(call.output.dtype)?;
    let threads = threads(call, 4 * call.output.shape.count());
    let mut work = Work::new(threads);
    work.in_place = vec![0];
    let mut known: Vec<(usize, usize)> = Vec::new();
    for thread in 0..threads {
        let some = part(count, threads, thread, 1);
        if some.is_empty() {
            continue;
        }
        let variant = match known.iter().find(|(size, _)| *size == some.len()) {
            Some((_, variant)) => *variant,
            None => {
                let rows = desc::shaped(library, &[some.len(), width], &Default::default(), data)?;
                let mut args = vec![Arg::SRC, Arg::DST, Arg::SCRATCH];
                args.extend(more.iter().map(|(arg, _)| *arg));
                let variant = work.variant(choose(make(&rows, some.len())?, 0)?, args);
                known.push((some.len(), variant));
                variant
            }
        };
        let at = some.start * width * call.output.dtype.size();
        let mut places = vec![ArgPlace::Input(0, at), ArgPlace::Output(at), ArgPlace::Scratch];
        places.extend(more.iter().map(|(_, place)| *place));
        work.run(thread, variant, places);
    }
    Ok(work)
}

/// Divides a softmax or a log-softmax between threads.
pub(super) fn softmax(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
    if axis + 1 != call.output.shape.rank() {
        return Err(OpError::kernel("the axis must be the last one"));
    }
    let algorithm = match call.op.name {
        "onednn.softmax" => Algorithm::SOFTMAX_ACCURATE,
        _ => Algorithm::SOFTMAX_LOG,
    };
    by_rows(library, call, rows(call, axis)?, &[], |rows, _| {
        let attr = Attr::new(library).map_err(OpError::backend)?;
        PrimitiveDesc::softmax(library, algorithm, [rows, rows], 1, &attr).map_err(OpError::backend)
    })
}

/// Divides a layer normalisation between threads.
pub(super) fn layer_norm(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
    let rows = rows(call, axis)?;
    #[allow(clippy::cast_possible_truncation)]
    let epsilon = call.attrs.expect_float("epsilon") as f32;
    if call.output.dtype != DType::F32 {
        return Err(OpError::kernel("scale and shift must be f32"));
    }
    if call.inputs[1..].iter().any(|ty| ty.shape.count() != rows.1 || !ty.layout.is_plain()) {
        return Err(OpError::kernel("scale and shift must have one value for each element of a row"));
    }
    let more = [(Arg::SCALE, ArgPlace::Input(1, 0)), (Arg::SHIFT, ArgPlace::Input(2, 0))];
    by_rows(library, call, rows, &more, |rows, count| {
        let attr = Attr::new(library).map_err(OpError::backend)?;
        let statistics =
            desc::shaped(library, &[count], &Default::default(), desc::data_type(call.output.dtype)?)?;
        PrimitiveDesc::layer_normalization(library, [rows, rows, &statistics], epsilon, &attr)
            .map_err(OpError::backend)
    })
}
