//! Samplers of convolutions and pools.

use super::super::palette::divisors;
use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::winograd::{Axis, FORMS, sizes};
use ovolo::tensor::{DType, TensorType};

/// A window along the rows or the columns.
struct Window {
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

/// The largest kernel, stride, dilation or padding that numbers in guards can cause.
const LONGEST: usize = 16;

impl Window {
    fn draw(ask: &mut Ask<'_>, axis: usize, kernel: Option<usize>) -> Self {
        let entry = |ask: &Ask<'_>, name: &str, at: usize| ask.list(name).and_then(|l| l.get(at).copied());
        let wishes: Vec<usize> = ask.palette.wishes.iter().copied().filter(|wish| *wish <= LONGEST).collect();
        let mut draw = |name: &str, at: usize, from: &[usize]| {
            let settled = entry(ask, name, at);
            let plain = ask.palette.default(ask.rng);
            settled.unwrap_or_else(|| match plain {
                true => from[0],
                false if !wishes.is_empty() && ask.rng.percent(40) => ask.rng.pick(&wishes),
                false => ask.rng.pick(from),
            })
        };
        Self {
            kernel: kernel.unwrap_or_else(|| draw("kernel", axis, &[1, 2, 3, 1])),
            stride: draw("strides", axis, &[1, 1, 2, 3]),
            dilation: draw("dilations", axis, &[1, 1, 2]),
            before: draw("pads", axis, &[0, 0, 1, 2]),
            after: draw("pads", axis + 2, &[0, 0, 1, 2]),
        }
    }

    /// Returns an input size that gives `outputs` outputs, if there is one.
    fn input(&self, outputs: usize, slack: usize) -> usize {
        let reach = (outputs.max(1) - 1) * self.stride + (self.kernel.max(1) - 1) * self.dilation + 1;
        (reach + slack % self.stride.max(1)).saturating_sub(self.before + self.after).max(1)
    }
}

/// The attributes of two windows that the op declares.
fn attributes(ask: &Ask<'_>, windows: &[Window; 2]) -> Attrs {
    let list = |values: Vec<usize>| {
        Attr::Ints(values.into_iter().map(|one| i64::try_from(one).unwrap_or(0)).collect())
    };
    let [rows, columns] = windows;
    let all = [
        ("kernel", list(vec![rows.kernel, columns.kernel])),
        ("strides", list(vec![rows.stride, columns.stride])),
        ("dilations", list(vec![rows.dilation, columns.dilation])),
        ("pads", list(vec![rows.before, columns.before, rows.after, columns.after])),
    ];
    all.into_iter()
        .filter(|(name, _)| ask.op.attr(name).is_some())
        .fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value))
}

/// The wanted result's shape if it is an image, or a random image's.
fn image(ask: &mut Ask<'_>) -> [usize; 4] {
    match &ask.wish.shape[..] {
        [n, c, h, w] => [*n, *c, *h, *w],
        _ => [
            ask.rng.pick(&[1, 2]),
            ask.rng.pick(&ask.palette.channels),
            ask.rng.pick(&ask.palette.spatial),
            ask.rng.pick(&ask.palette.spatial),
        ],
    }
}

fn four(ty: &TensorType) -> Option<[usize; 4]> {
    <[usize; 4]>::try_from(&ty.shape[..]).ok()
}

/// Input, weights and bias that fit together, with one group, several groups, or one per channel.
pub(super) fn conv(ask: &mut Ask<'_>) -> Option<Offer> {
    let [n, mut outputs, h, w] = image(ask);
    let x = ask.known(0).cloned();
    let weights = ask.known(1).cloned();
    if let Some(bias) = ask.known(2) {
        outputs = *bias.shape.first()?;
    }
    let kernel = weights.as_ref().map(four);
    let (mut groups, mut narrow);
    match (&x, kernel) {
        (Some(x), Some(weights)) => {
            let [o, i, ..] = weights?;
            (outputs, narrow) = (o, i);
            groups = four(x)?[1] / i.max(1);
        }
        (Some(x), None) => {
            let channels = four(x)?[1];
            groups = ask.int("groups").unwrap_or_else(|| grouping(ask, channels));
            narrow = channels / groups.max(1);
            if outputs % groups.max(1) != 0 {
                // Draw a number of filters for each group.
                outputs = groups * ask.rng.pick(&[1, 1, 2, 3]);
            }
        }
        (None, Some(weights)) => {
            let [o, i, ..] = weights?;
            (outputs, narrow) = (o, i);
            groups = ask.int("groups").unwrap_or_else(|| grouping(ask, o));
        }
        (None, None) => {
            groups = ask.int("groups").unwrap_or_else(|| grouping(ask, outputs));
            narrow = if groups == 1 {
                ask.rng.pick(&ask.palette.channels)
            } else {
                ask.rng.pick(&[1, 1, 2, 3, 4, 8, 16])
            };
            if groups > 1 && groups * narrow > 64 {
                narrow = 1;
            }
        }
    }
    groups = groups.max(1);
    narrow = narrow.max(1);
    let kernels = match kernel {
        Some(weights) => weights.map(|[_, _, kh, kw]| [Some(kh), Some(kw)])?,
        None => [None, None],
    };
    // Windows of size 1 and of 3 by 3 are special cases for many rules.
    let square = match ask.rng.below(10) {
        0 | 1 => Some(1),
        2 | 3 => Some(3),
        _ => None,
    };
    let windows = [0, 1].map(|axis| Window::draw(ask, axis, kernels[axis].or(square)));
    let slack = ask.rng.below(3);
    let dtype = [&x, &weights].into_iter().flatten().next().unwrap_or(ask.wish).dtype;
    let mut attrs = attributes(ask, &windows).int("groups", i64::try_from(groups).ok()?);
    let x_shape = match &x {
        Some(x) => x.shape.to_vec(),
        None => vec![n, groups * narrow, windows[0].input(h, slack), windows[1].input(w, slack)],
    };
    let w_shape = vec![outputs, narrow, windows[0].kernel, windows[1].kernel];
    let out = |axis: usize| {
        let window = &windows[axis];
        let padded = x_shape.get(2 + axis)? + window.before + window.after;
        Some(
            padded.checked_sub((window.kernel.checked_sub(1)?) * window.dilation + 1)? / window.stride.max(1)
                + 1,
        )
    };
    let result = TensorType::plain(dtype, vec![x_shape[0], outputs, out(0)?, out(1)?]);
    let (steps, extras) = ask.post(3, &result)?;
    attrs.set("post", Attr::Post(steps));
    let mut operands =
        vec![Wish::plain(dtype, x_shape), Wish::plain(dtype, w_shape), Wish::plain(dtype, vec![outputs])];
    operands.extend(extras);
    Some(Offer { attrs, operands })
}

/// Input, weights and bias of a transposed convolution that fit together.
pub(super) fn conv_transpose(ask: &mut Ask<'_>) -> Option<Offer> {
    let [n, mut outputs, h, w] = image(ask);
    let (x, weights) = (ask.known(0).cloned(), ask.known(1).cloned());
    if let Some(bias) = ask.known(2) {
        outputs = *bias.shape.first()?;
    }
    let groups = ask.int("groups").unwrap_or_else(|| grouping(ask, outputs)).max(1);
    let mut narrow = (outputs / groups).max(1);
    let mut inputs = groups * ask.rng.pick(&[1, 1, 2, 3, 8, 16]);
    let mut kernels = [None, None];
    if let Some(weights) = &weights {
        let [i, o, kh, kw] = four(weights)?;
        (inputs, narrow, kernels) = (i, o, [Some(kh), Some(kw)]);
    }
    if let Some(x) = &x {
        inputs = four(x)?[1];
    }
    let windows = [0, 1].map(|axis| Window::draw(ask, axis, kernels[axis]));
    let dtype = [&x, &weights].into_iter().flatten().next().unwrap_or(ask.wish).dtype;
    let added = windows.each_ref().map(|window| {
        let most = window.stride.max(window.dilation);
        if ask.palette.default(ask.rng) { 0 } else { ask.rng.below(most) }
    });
    let input = |axis: usize, wished: usize| {
        let window = &windows[axis];
        let reach = (window.kernel.max(1) - 1) * window.dilation + 1 + added[axis];
        (wished + window.before + window.after).saturating_sub(reach) / window.stride.max(1) + 1
    };
    let x_shape = match &x {
        Some(x) => x.shape.to_vec(),
        None => vec![n, inputs, input(0, h), input(1, w)],
    };
    let int = |value: usize| i64::try_from(value).unwrap_or(1);
    let attrs = attributes(ask, &windows).int("groups", int(groups)).ints("output-padding", &added.map(int));
    let operands = vec![
        Wish::plain(dtype, x_shape),
        Wish::plain(dtype, vec![inputs, narrow, windows[0].kernel, windows[1].kernel]),
        Wish::plain(dtype, vec![narrow * groups]),
    ];
    Some(Offer { attrs, operands })
}

/// A resized image.
pub(super) fn resize(ask: &mut Ask<'_>) -> Option<Offer> {
    let [n, c, h, w] = image(ask);
    let x = match ask.known(0) {
        Some(known) => four(known)?,
        None => [n, c, ask.rng.pick(&ask.palette.spatial), ask.rng.pick(&ask.palette.spatial)],
    };
    let mut attrs = Attrs::new();
    attrs.set("sizes", Attr::Ints(vec![i64::try_from(h).ok()?, i64::try_from(w).ok()?]));
    let coordinates =
        ["half-pixel", "half-pixel-symmetric", "pytorch-half-pixel", "align-corners", "asymmetric"];
    for (name, values) in [
        ("mode", &["nearest", "linear", "cubic"][..]),
        ("coordinates", &coordinates[..]),
        ("rounding", &["prefer-floor", "prefer-ceil", "floor", "ceil"][..]),
    ] {
        attrs.set(name, Attr::Str(ask.rng.pick(values).into()));
    }
    for (name, input, output) in [("row-scale", x[2], h), ("column-scale", x[3], w)] {
        // Sizes are rounded from a scale, so draw a scale that rounds to them.
        #[allow(clippy::cast_precision_loss)]
        let scale = (output as f64 + ask.rng.pick(&[0.0, 0.25, 0.5])) / input.max(1) as f64;
        attrs = attrs.float(name, if ask.palette.default(ask.rng) { 0.0 } else { scale });
    }
    let coefficient = if ask.palette.default(ask.rng) { -0.75 } else { -0.5 };
    attrs = attrs.float("cubic-coefficient", coefficient);
    for name in ["exclude-outside", "antialias"] {
        attrs = attrs.int(name, i64::from(ask.flag(name)));
    }
    let dtype = if ask.wish.dtype.is_float() { ask.wish.dtype } else { DType::F32 };
    Some(Offer { attrs, operands: vec![Wish::plain(dtype, x.to_vec())] })
}

/// An input, the weights of a 1x1 convolution, and a filter for each of its outputs.
pub(super) fn pointwise_depthwise(ask: &mut Ask<'_>) -> Option<Offer> {
    let [mut n, mut outputs, h, w] = image(ask);
    let known = |operand: usize| ask.known(operand).and_then(four);
    let (x, weights, filters) = (known(0), known(1), known(3));
    let bias = [2, 4].into_iter().find_map(|operand| ask.known(operand)?.shape.first().copied());
    if let Some(count) = weights.or(filters).map(|shape| shape[0]).or(bias) {
        outputs = count;
    }
    let channels = weights.map(|shape| shape[1]).or(x.map(|shape| shape[1]));
    let channels = channels.unwrap_or_else(|| ask.rng.pick(&ask.palette.channels));
    let windows = [0, 1].map(|axis| Window::draw(ask, axis, filters.map(|shape| shape[2 + axis])));
    let slack = ask.rng.below(3);
    let mut sizes = [windows[0].input(h, slack), windows[1].input(w, slack)];
    if let Some([images, _, rows, columns]) = x {
        (n, sizes) = (images, [rows, columns]);
    }
    let out = |axis: usize| {
        let window = &windows[axis];
        let padded = sizes[axis] + window.before + window.after;
        let reach = window.kernel.checked_sub(1)? * window.dilation + 1;
        Some(padded.checked_sub(reach)? / window.stride.max(1) + 1)
    };
    let dtype = [0, 1, 3].into_iter().find_map(|operand| ask.known(operand)).unwrap_or(ask.wish).dtype;
    let result = TensorType::plain(dtype, vec![n, outputs, out(0)?, out(1)?]);
    let inner = ask.unary("inner");
    let (steps, extras) = ask.post(5, &result)?;
    let attrs = attributes(ask, &windows).with("inner", Attr::Post(inner)).with("post", Attr::Post(steps));
    let mut operands = vec![
        Wish::plain(dtype, vec![n, channels, sizes[0], sizes[1]]),
        Wish::plain(dtype, vec![outputs, channels, 1, 1]),
        Wish::plain(dtype, vec![outputs]),
        Wish::plain(dtype, vec![outputs, 1, windows[0].kernel, windows[1].kernel]),
        Wish::plain(dtype, vec![outputs]),
    ];
    operands.extend(extras);
    Some(Offer { attrs, operands })
}

/// An image, and weights that reduce its channels and expand them again.
pub(super) fn squeeze_excite(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = ask.known(0).and_then(four).unwrap_or_else(|| image(ask));
    let known = |operand: usize| ask.known(operand).and_then(four);
    let hidden = known(1).map(|shape| shape[0]).or(known(3).map(|shape| shape[1]));
    let hidden = hidden.or(ask.known(2).and_then(|ty| ty.shape.first().copied()));
    let channels = shape[1];
    let hidden = hidden.unwrap_or_else(|| ask.rng.pick(&ask.palette.channels));
    let dtype = [0, 1, 3].into_iter().find_map(|operand| ask.known(operand)).unwrap_or(ask.wish).dtype;
    let steps = |steps| Attr::Post(steps);
    let attrs = Attrs::new().with("inner", steps(ask.unary("inner"))).with("gate", steps(ask.unary("gate")));
    Some(Offer {
        attrs,
        operands: vec![
            Wish::plain(dtype, shape.to_vec()),
            Wish::plain(dtype, vec![hidden, channels, 1, 1]),
            Wish::plain(dtype, vec![hidden]),
            Wish::plain(dtype, vec![channels, hidden, 1, 1]),
            Wish::plain(dtype, vec![channels]),
        ],
    })
}

/// Draws a number of groups that divides the channels: one, one per channel, or any.
fn grouping(ask: &mut Ask<'_>, channels: usize) -> usize {
    let divisors = divisors(channels);
    match ask.rng.below(10) {
        0..=4 => 1,
        5 | 6 => channels.max(1),
        _ => ask.rng.pick(&divisors),
    }
}

/// Grouped weights that give the wanted ones.
pub(super) fn widen_groups(ask: &mut Ask<'_>) -> Option<Offer> {
    let [o, i, h, w] = image(ask);
    let groups = ask.int("groups").unwrap_or_else(|| grouping(ask, o)).max(1);
    let into = ask.int("into").unwrap_or_else(|| grouping(ask, groups)).max(1);
    let narrow = (i * into / groups).max(1);
    let int = |value: usize| i64::try_from(value).unwrap_or(1);
    Some(Offer {
        attrs: Attrs::new().int("groups", int(groups)).int("into", int(into)),
        operands: vec![Wish::plain(ask.wish.dtype, vec![o, narrow, h, w])],
    })
}

/// Filters for the wanted Winograd tile.
pub(super) fn winograd_weights(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = ask.list("tile").and_then(|tile| Some([*tile.first()?, *tile.get(1)?]));
    let tile = |form: [Axis; 2]| form.map(|axis| axis.tile);
    let ways: Vec<_> =
        FORMS.into_iter().filter(|form| known.is_none_or(|known| known == tile(*form))).collect();
    if ways.is_empty() {
        return None;
    }
    let form = ask.rng.pick(&ways);
    let [rows, columns] = form.map(|axis| axis.taps);
    let (outputs, inputs) = match &ask.wish.shape[..] {
        [_, inputs, outputs] => (*outputs, *inputs),
        _ => (ask.rng.pick(&ask.palette.channels), ask.rng.pick(&ask.palette.channels)),
    };
    let operand = Wish::plain(DType::F32, vec![outputs, inputs, rows, columns]);
    Some(Offer { attrs: Attrs::new().ints("tile", &sizes(tile(form))), operands: vec![operand] })
}

/// An image and a pooling window.
pub(super) fn pool(ask: &mut Ask<'_>) -> Option<Offer> {
    let [n, c, h, w] = image(ask);
    let mut windows = [0, 1].map(|axis| Window::draw(ask, axis, None));
    // Windows with dilation and padding on both sides of a pixel may have no element at all.
    let open = ["kernel", "dilations", "pads"].iter().all(|name| ask.list(name).is_none());
    if open && ask.rng.percent(10) {
        windows[1] = Window { kernel: 2, dilation: 2, before: 1, after: 1, ..windows[1] };
    }
    let mut attrs = attributes(ask, &windows);
    if ask.op.attr("count-include-pad").is_some() {
        attrs.set("count-include-pad", Attr::Int(i64::from(ask.flag("count-include-pad"))));
        let extra =
            |ask: &mut Ask<'_>| if ask.palette.default(ask.rng) { 0 } else { ask.rng.below(2) as i64 };
        attrs.set("ceil-extra", Attr::Ints(vec![extra(ask), extra(ask)]));
    }
    let dtype = if ask.wish.dtype.is_float() { ask.wish.dtype } else { DType::F32 };
    let shape = match ask.known(0) {
        Some(known) => known.shape.to_vec(),
        None => vec![n, c, windows[0].input(h, 0), windows[1].input(w, 1)],
    };
    Some(Offer { attrs, operands: vec![Wish::plain(dtype, shape)] })
}
