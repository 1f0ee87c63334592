//! Pooling, and the windows that pooling and convolution share.

use super::volume::{self, Pool, max_positions};
use super::window::Window;
use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::{Refusal, call::signed};
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    entry("AveragePool", 1, 1, average_pool),
    entry("MaxPool", 1, 1, max_pool),
    entry("GlobalAveragePool", 1, 1, |call| global(call, "reduce-mean")),
    entry("GlobalMaxPool", 1, 1, |call| global(call, "reduce-max")),
];

fn max_pool(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    if !matches!(x.ty.dtype, DType::U8 | DType::I8) {
        return max_of(call, &x);
    }
    // Integers of 8 bits are floats exactly.
    let to = |dtype| Attrs::new().with("to", Attr::DType(dtype));
    let float = call.helper("float", "cast", to(DType::F32), &[&x])?;
    let mut results = max_of(call, &float)?;
    results[0] = call.helper("integers", "cast", to(x.ty.dtype), &[&results[0]])?;
    Ok(results)
}

fn max_of(call: &mut Call<'_>, x: &ImportedValue) -> Results {
    call.ignore(&["storage_order"]); // It affects only the second result.
    let x = x.clone();
    if call.node.output.get(1).is_some_and(|name| !name.is_empty()) {
        // The largest elements are gathered from their positions.
        let positions = max_positions(call, &x)?;
        let (count, dims) = (positions.ty.shape.count(), positions.dims().to_vec());
        if call.int("storage_order", 0)? == 0 {
            let elements = call.reshape(Some("elements"), &x, &[x.ty.shape.count()])?;
            let flat = call.reshape(Some("flat-positions"), &positions, &[count])?;
            let found = call.helper("found", "gather", Attrs::new().int("axis", 0), &[&elements, &flat])?;
            return Ok(vec![call.reshape(None, &found, &dims)?, positions]);
        }
        let windows = volume::axes(call, &x, None)?;
        let mut results = volume::pool(call, &x, &windows, Pool::Max)?;
        results.push(positions);
        return Ok(results);
    }
    if x.rank() > 4 {
        let windows = volume::axes(call, &x, None)?;
        return volume::pool(call, &x, &windows, Pool::Max);
    }
    let window = Window::read(call, &x, None)?;
    let flat = x.rank() == 3;
    let x = if flat { window.lift(call, "image", &x)? } else { x };
    // Padding is never the largest value, so rounding up can be expressed as more padding.
    let end: Vec<i64> = window.end.iter().zip(&window.extra).map(|(end, extra)| end + extra).collect();
    let attrs = Attrs::new()
        .ints("kernel", &window.kernel)
        .ints("strides", &window.strides)
        .ints("pads", &[&window.begin[..], &end].concat())
        .ints("dilations", &window.dilations);
    window.finish(call, flat, "max-pool", attrs, &[&x])
}

fn average_pool(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let include = call.flag("count_include_pad", false)?;
    let dilated =
        call.ints("dilations")?.is_some_and(|dilations| dilations.iter().any(|dilation| *dilation != 1));
    if x.rank() > 4 || dilated {
        let windows = volume::axes(call, &x, None)?;
        return volume::pool(call, &x, &windows, Pool::Mean { padding: include });
    }
    let window = Window::read(call, &x, None)?;
    let flat = x.rank() == 3;
    let x = if flat { window.lift(call, "image", &x)? } else { x };
    let attrs = Attrs::new()
        .ints("kernel", &window.kernel)
        .ints("strides", &window.strides)
        .ints("pads", &window.pads())
        .int("count-include-pad", i64::from(include))
        .ints("ceil-extra", &window.extra);
    window.finish(call, flat, "avg-pool", attrs, &[&x])
}

fn global(call: &mut Call<'_>, op: &str) -> Results {
    let x = call.input(0)?;
    if x.rank() < 3 {
        return Err(Refusal::other("it needs at least one dimension beside batch and channels"));
    }
    let axes = signed(&(2..x.rank()).collect::<Vec<_>>());
    Ok(vec![call.result(op, Attrs::new().ints("axes", &axes).int("keepdims", 1), &[&x])?])
}
