//! Tests of convolutions of unusual shapes against the reference evaluations of their ops.

use crate::check::{Random, assert_close, padding, run, verify};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::backend::Call;
use ovolo::op::winograd;
use ovolo::tensor::{DType, Tensor, TensorType};

/// The sums are up to some tens, and transforms in single precision keep five to six digits of them.
const TOLERANCE: f64 = 1e-3;

/// The sizes of a convolution to test.
struct Shape {
    batch: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    image: [usize; 2],
    kernel: [usize; 2],
    pads: [i64; 4],
    strides: [i64; 2],
    dilations: [i64; 2],
}

const PLAIN: Shape = Shape {
    batch: 1,
    channels: 16,
    outputs: 16,
    groups: 1,
    image: [8, 9],
    kernel: [3, 3],
    pads: [1, 1, 1, 1],
    strides: [1, 1],
    dilations: [1, 1],
};

impl Shape {
    fn attrs(&self) -> Attrs {
        Attrs::new()
            .ints("pads", &self.pads)
            .ints("strides", &self.strides)
            .ints("dilations", &self.dilations)
            .int("groups", i64::try_from(self.groups).unwrap())
    }

    /// Returns the input, the weights and the bias.
    fn operands(&self, random: &mut Random) -> [Tensor; 3] {
        let [height, width] = self.image;
        let [rows, columns] = self.kernel;
        [
            random.f32([self.batch, self.channels, height, width]),
            random.f32([self.outputs, self.channels / self.groups, rows, columns]),
            random.f32([self.outputs]),
        ]
    }
}

/// Returns post chains, each with the shapes of its extra operands (that of `result`, or one value per channel).
fn chains(result: &TensorType) -> Vec<(Attr, Vec<Vec<usize>>)> {
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let gate = |bounds: [f64; 2]| Step { op: "gate".into(), parameters: bounds.map(Float).to_vec() };
    let whole = result.shape.to_vec();
    let channel = vec![1, whole[1], 1, 1];
    vec![
        (Attr::Post(Vec::new()), Vec::new()),
        (Attr::Post(vec![step("relu")]), Vec::new()),
        (Attr::Post(vec![step("add"), step("relu")]), vec![whole.clone()]),
        (Attr::Post(vec![gate([0.0, f64::INFINITY])]), vec![whole.clone()]),
        (
            Attr::Post(vec![step("add"), step("relu"), gate([-0.5, 0.5]), step("mul")]),
            vec![whole.clone(), whole.clone(), channel.clone()],
        ),
        (Attr::Post(vec![step("sigmoid"), step("mul"), step("add")]), vec![channel, whole]),
    ]
}

/// Puts infinities and a NaN into some channels and pixels of an input, if it has enough elements.
fn spoil(x: &mut Tensor) {
    let values = x.elements_mut::<f32>();
    let count = values.len();
    let places = [(1, f32::INFINITY), (3, f32::NEG_INFINITY), (6, f32::NAN)];
    for (eighth, value) in places.into_iter().filter(|_| count >= 64) {
        values[count * eighth / 8 + 5] = value;
    }
}

/// Checks a convolution op with weights prepared by `ready`, with every post chain, and with inputs that are not
/// finite.
fn check(
    op: &'static str,
    shape: &Shape,
    attrs: &Attrs,
    layouts: (&str, &str),
    ready: &dyn Fn(&Tensor) -> Tensor,
) {
    check_one(op, shape, attrs, layouts, ready, false);
    // Where Winograd's and Strassen's algorithms give NaN depends on the order of their sums.
    if !op.ends_with("winograd") && !op.ends_with("strassen") {
        check_one(op, shape, attrs, layouts, ready, true);
    }
}

fn check_one(
    op: &'static str,
    shape: &Shape,
    attrs: &Attrs,
    layouts: (&str, &str),
    ready: &dyn Fn(&Tensor) -> Tensor,
    spoiled: bool,
) {
    let mut random = Random::new(21);
    let [mut x, w, bias] = shape.operands(&mut random);
    if spoiled {
        spoil(&mut x);
    }
    let conv = crate::fixture::ops().get("conv").unwrap();
    let logical = conv.complete(shape.attrs());
    let result = conv.result(&logical, &[x.ty(), w.ty(), bias.ty()]).unwrap();
    let (packed, weights) = (x.to_layout(&layouts.0.parse().unwrap()), ready(&w));
    for (post, extras) in chains(&result) {
        let extras: Vec<Tensor> = extras.into_iter().map(|dims| random.f32(dims)).collect();
        let blocked: Vec<Tensor> =
            extras.iter().map(|extra| extra.to_layout(&layouts.1.parse().unwrap())).collect();
        let mut operands = vec![&packed, &weights, &bias];
        operands.extend(&blocked);
        let attrs = crate::fixture::ops().get(op).unwrap().complete(attrs.clone().with("post", post.clone()));
        let contract = verify(op, &attrs, &operands, TOLERANCE);
        assert_ne!(contract.implementation, "reference", "{op}{attrs} {}", x.ty());
        // The lowered op must agree with the logical op.
        let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
        let definition = crate::fixture::ops().get(op).unwrap();
        let ty = definition.result(&attrs, &types).unwrap();
        let got = definition.evaluate(&attrs, &operands, &ty);
        let mut plain = vec![&x, &w, &bias];
        plain.extend(&extras);
        let want = conv.evaluate(&logical.clone().with("post", post), &plain, &result);
        assert_close(op, &got.to_layout(&ovolo::tensor::Layout::PLAIN), &want, TOLERANCE);
    }
}

/// Tests of kernels whose channels are in blocks. They take the size of a block.
macro_rules! in_blocks {
    ($($test:ident),* $(,)?) => {
        /// Blocks of 8, for which every processor has kernels.
        mod blocks_of_8 {
            $(#[test]
            fn $test() {
                super::$test(8);
            })*
        }

        /// The tests by their names, for the sizes of blocks that not every processor has.
        #[allow(dead_code)]
        pub const IN_BLOCKS: &[(&str, fn(usize))] = &[$((stringify!($test), $test)),*];
    };
}

in_blocks! {
    winograd_agrees_with_the_reference,
    strassen_agrees_with_the_reference,
    direct_agrees_with_the_reference,
    depthwise_agrees_with_the_reference,
    pointwise_depthwise_agrees_with_the_reference,
    narrow_groups_agree_with_the_reference,
    first_convolutions_agree_with_the_reference,
    padding_is_zero_where_the_input_is_not_finite,
    winograds_padding_is_zero_where_the_input_is_not_finite,
}

fn packed(layout: &str) -> impl Fn(&Tensor) -> Tensor + use<> {
    let layout: ovolo::tensor::Layout = layout.parse().unwrap();
    move |w| w.to_layout(&layout)
}

fn winograd_agrees_with_the_reference(block: usize) {
    let shapes = [
        PLAIN,
        Shape { channels: 1, outputs: 3, image: [5, 4], ..PLAIN },
        Shape { channels: 17, outputs: 33, image: [7, 13], pads: [0, 0, 0, 0], ..PLAIN },
        Shape { channels: 33, outputs: 17, image: [1, 1], ..PLAIN },
        Shape { batch: 3, channels: 3, outputs: 40, image: [6, 11], pads: [2, 0, 1, 3], ..PLAIN },
        Shape { channels: 16, outputs: 49, image: [3, 30], pads: [0, 5, 0, 6], ..PLAIN },
        // This shape has enough tiles for every thread to take its own chunks.
        Shape { channels: 20, outputs: 18, image: [61, 63], ..PLAIN },
        Shape { batch: 0, ..PLAIN },
        Shape { channels: 0, ..PLAIN },
        Shape { outputs: 0, ..PLAIN },
    ];
    for shape in &shapes {
        for form in winograd::FORMS {
            let (taps, tile) = (form.map(|axis| axis.taps), form.map(|axis| axis.tile));
            let (kernel, tile) = (winograd::sizes(taps), winograd::sizes(tile));
            let shape = &Shape { kernel: taps, ..*shape };
            // Some filters are larger than some padded images.
            let fits = |axis: usize| {
                let padded = shape.image[axis] as i64 + shape.pads[axis] + shape.pads[axis + 2];
                padded >= kernel[axis]
            };
            if !fits(0) || !fits(1) {
                continue;
            }
            let ready = |w: &Tensor| {
                let definition = crate::fixture::ops().get("winograd-weights").unwrap();
                let attrs = Attrs::new().ints("tile", &tile);
                let ty = definition.result(&attrs, &[w.ty()]).unwrap();
                let u = definition.evaluate(&attrs, &[w], &ty);
                u.to_layout(&format!("Cab{block}c").parse().unwrap())
            };
            let attrs = Attrs::new().ints("pads", &shape.pads).ints("kernel", &kernel).ints("tile", &tile);
            let layout = format!("nChw{block}c");
            check("native.conv-winograd", shape, &attrs, (&layout, &layout), &ready);
        }
    }
}

fn strassen_agrees_with_the_reference(block: usize) {
    let pointwise = Shape { kernel: [1, 1], pads: [0; 4], ..PLAIN };
    let shapes = [
        Shape { channels: 32, outputs: 32, ..pointwise },
        // Here the number of pixels is odd, and the halves divide an image.
        Shape { batch: 3, channels: 64, outputs: 96, image: [3, 5], ..pointwise },
        Shape { channels: 32, outputs: 160, image: [1, 1], ..pointwise },
        // Here the channels are in two parts, and the second part is smaller.
        Shape { channels: 1056, outputs: 64, image: [3, 5], ..pointwise },
        // Here there are several bands of pixels.
        Shape { channels: 96, outputs: 64, image: [23, 37], ..pointwise },
        Shape { batch: 0, channels: 32, outputs: 32, ..pointwise },
    ];
    for shape in &shapes {
        let ready = |w: &Tensor| strassen_weights(w).to_layout(&format!("Cab{block}c").parse().unwrap());
        let layout = format!("nChw{block}c");
        check("native.conv-strassen", shape, &Attrs::new(), (&layout, &layout), &ready);
    }
}

fn strassen_weights(w: &Tensor) -> Tensor {
    let definition = crate::fixture::ops().get("strassen-weights").unwrap();
    let ty = definition.result(&Attrs::new(), &[w.ty()]).unwrap();
    definition.evaluate(&Attrs::new(), &[w], &ty)
}

fn direct_agrees_with_the_reference(block: usize) {
    let shapes = [
        PLAIN,
        Shape { channels: 1, outputs: 3, image: [5, 4], strides: [2, 1], ..PLAIN },
        Shape { batch: 2, channels: 17, outputs: 33, kernel: [1, 1], pads: [0; 4], image: [7, 13], ..PLAIN },
        Shape { channels: 33, outputs: 17, kernel: [5, 2], dilations: [1, 3], image: [9, 31], ..PLAIN },
        Shape { channels: 64, outputs: 32, groups: 2, strides: [2, 2], image: [15, 20], ..PLAIN },
    ];
    for shape in &shapes {
        let layout = format!("nChw{block}c");
        let ready = packed(&format!("OIhw{block}i{block}o"));
        check("native.conv-direct", shape, &shape.attrs(), (&layout, &layout), &ready);
    }
}

fn depthwise_agrees_with_the_reference(block: usize) {
    let shapes = [
        Shape { channels: 17, outputs: 17, groups: 17, image: [9, 30], ..PLAIN },
        Shape { batch: 2, channels: 3, outputs: 3, groups: 3, strides: [2, 2], image: [11, 35], ..PLAIN },
        Shape {
            channels: 19,
            outputs: 19,
            groups: 19,
            kernel: [7, 7],
            strides: [2, 2],
            pads: [3, 3, 2, 4],
            image: [12, 43],
            ..PLAIN
        },
        Shape {
            channels: 33,
            outputs: 33,
            groups: 33,
            kernel: [5, 5],
            pads: [2, 4, 1, 0],
            dilations: [1, 2],
            image: [8, 21],
            ..PLAIN
        },
    ];
    for shape in &shapes {
        let layout = format!("nChw{block}c");
        let ready = packed(&format!("Oihw{block}o"));
        check("native.conv-depthwise", shape, &shape.attrs(), (&layout, &layout), &ready);
    }
}

/// Checks the fused op. `shape` describes the depthwise convolution, which has `outputs` channels.
fn check_pointwise_depthwise(shape: &Shape, (raise, inner): (f32, &[Step]), block: usize) {
    let mut random = Random::new(5);
    let [height, width] = shape.image;
    let [rows, columns] = shape.kernel;
    let x = random.f32([shape.batch, shape.channels, height, width]);
    let w = random.f32([shape.outputs, shape.channels, 1, 1]);
    let b: Vec<f32> = random.f32([shape.outputs]).elements::<f32>().iter().map(|one| one + raise).collect();
    let b = Tensor::from_elements([shape.outputs], &b);
    let (v, c) = (random.f32([shape.outputs, 1, rows, columns]), random.f32([shape.outputs]));
    let definition = crate::fixture::ops().get("native.pointwise-depthwise").unwrap();
    let attrs = Attrs::new()
        .ints("pads", &shape.pads)
        .ints("strides", &shape.strides)
        .ints("dilations", &shape.dilations)
        .with("inner", Attr::Post(inner.to_vec()));
    let lay = |tensor: &Tensor, layout: String| tensor.to_layout(&layout.parse().unwrap());
    let blocked = |tensor: &Tensor| lay(tensor, format!("nChw{block}c"));
    let base =
        [blocked(&x), lay(&w, format!("OIhw{block}i{block}o")), b, lay(&v, format!("Oihw{block}o")), c];
    let attrs = definition.complete(attrs);
    let result = definition.result(&attrs, &base.each_ref().map(Tensor::ty)).unwrap();
    for (post, extras) in chains(&result) {
        let extras: Vec<Tensor> = extras.into_iter().map(|dims| blocked(&random.f32(dims))).collect();
        let operands: Vec<&Tensor> = base.iter().chain(&extras).collect();
        let attrs = attrs.clone().with("post", post);
        let contract = verify("native.pointwise-depthwise", &attrs, &operands, TOLERANCE);
        assert_ne!(contract.implementation, "reference", "{attrs}");
    }
}

#[test]
fn pointwise_depthwise_needs_blocked_channels() {
    let plain = |shape: &[usize]| TensorType::plain(DType::F32, shape.to_vec());
    let types =
        [plain(&[1, 8, 9, 9]), plain(&[16, 8, 1, 1]), plain(&[16]), plain(&[16, 1, 3, 3]), plain(&[16])];
    let inputs: Vec<&TensorType> = types.iter().collect();
    let op = crate::fixture::ops().get("native.pointwise-depthwise").unwrap();
    let attrs = op.complete(Attrs::new());
    let output = plain(&[1, 16, 7, 7]);
    let call = Call { op, attrs: &attrs, inputs: &inputs, output: &output, threads: 2 };
    assert_eq!(call.contract().unwrap().implementation, "reference");
}

fn pointwise_depthwise_agrees_with_the_reference(block: usize) {
    let step = |op: &'static str, parameters: &[f64]| Step {
        op: op.into(),
        parameters: parameters.iter().map(|value| Float(*value)).collect(),
    };
    let inners = [
        (0.0, vec![]),
        (0.0, vec![step("clip", &[0.0, 6.0])]),
        (0.0, vec![step("silu", &[])]),
        // The logarithm turns the padding's zeros into minus infinity, and multiplying that by zero gives NaN. All
        // sums are above -134, so `raise` makes them positive.
        (200.0, vec![step("log", &[])]),
    ];
    let shapes = [
        Shape { channels: 5, outputs: 17, image: [9, 30], ..PLAIN },
        Shape { batch: 2, channels: 33, outputs: 3, strides: [2, 2], image: [11, 35], ..PLAIN },
        // Here there are enough rows for tasks that compute some of them twice.
        Shape { channels: 16, outputs: 40, image: [70, 13], ..PLAIN },
        Shape { channels: 3, outputs: 16, strides: [3, 1], image: [41, 8], kernel: [2, 3], ..PLAIN },
        Shape {
            channels: 8,
            outputs: 33,
            kernel: [5, 5],
            pads: [2, 4, 1, 0],
            dilations: [1, 2],
            image: [40, 21],
            ..PLAIN
        },
        // Here some rows are computed from padding only.
        Shape { outputs: 20, kernel: [3, 1], pads: [4, 0, 5, 0], dilations: [2, 1], image: [2, 6], ..PLAIN },
        Shape { batch: 0, ..PLAIN },
    ];
    for shape in &shapes {
        inners.iter().for_each(|(raise, inner)| check_pointwise_depthwise(shape, (*raise, inner), block));
    }
}

fn narrow_groups_agree_with_the_reference(block: usize) {
    let shapes = [
        Shape { channels: 20, outputs: 20, groups: 10, image: [9, 30], ..PLAIN },
        Shape { batch: 2, channels: 36, outputs: 36, groups: 9, image: [7, 23], ..PLAIN },
        Shape { channels: 32, outputs: 32, groups: 8, strides: [2, 2], image: [11, 35], ..PLAIN },
        Shape { channels: 34, outputs: 34, groups: 17, pads: [0, 2, 1, 0], image: [5, 28], ..PLAIN },
        Shape { channels: 40, outputs: 40, groups: 20, strides: [1, 2], image: [5, 41], ..PLAIN },
        Shape {
            channels: 12,
            outputs: 12,
            groups: 3,
            kernel: [2, 5],
            dilations: [1, 2],
            image: [8, 21],
            ..PLAIN
        },
    ];
    for shape in &shapes {
        let layout = format!("nChw{block}c");
        let ready = packed(&format!("Ohwi{block}o"));
        check("native.conv-narrow", shape, &shape.attrs(), (&layout, &layout), &ready);
    }
}

fn first_convolutions_agree_with_the_reference(block: usize) {
    let shapes = [
        Shape { channels: 3, outputs: 33, image: [9, 30], ..PLAIN },
        Shape { channels: 1, outputs: 3, kernel: [5, 4], image: [12, 61], ..PLAIN },
        Shape {
            batch: 2,
            channels: 3,
            outputs: 64,
            kernel: [7, 7],
            pads: [3; 4],
            strides: [2, 2],
            image: [23, 37],
            ..PLAIN
        },
        Shape {
            channels: 4,
            outputs: 17,
            pads: [0, 2, 1, 0],
            dilations: [2, 1],
            strides: [1, 3],
            image: [8, 50],
            ..PLAIN
        },
    ];
    for shape in &shapes {
        let ready = packed(&format!("Ohwi{block}o"));
        check("native.conv-first", shape, &shape.attrs(), ("plain", &format!("nChw{block}c")), &ready);
    }
}

#[test]
fn nhwc_agrees_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { channels: 1, outputs: 3, image: [5, 4], strides: [2, 1], ..PLAIN },
        Shape { batch: 2, channels: 17, outputs: 33, kernel: [1, 1], pads: [0; 4], image: [7, 13], ..PLAIN },
        Shape { channels: 33, outputs: 17, kernel: [5, 2], dilations: [1, 3], image: [9, 31], ..PLAIN },
        Shape { channels: 34, outputs: 64, groups: 2, strides: [2, 2], image: [15, 20], ..PLAIN },
        Shape { channels: 8, outputs: 40, strides: [1, 3], pads: [0, 4, 2, 7], image: [9, 40], ..PLAIN },
        Shape { channels: 520, outputs: 70, image: [4, 3], ..PLAIN },
        Shape { batch: 0, ..PLAIN },
    ];
    for shape in &shapes {
        check("native.conv-nhwc", shape, &shape.attrs(), ("nhwc", "nhwc"), &packed("Ohwi32o"));
    }
}

#[test]
fn depthwise_nhwc_agrees_with_the_reference() {
    let same = |channels| Shape { channels, outputs: channels, groups: channels, ..PLAIN };
    let square = |size: usize, pad| Shape { kernel: [size; 2], pads: [pad; 4], ..same(40) };
    let shapes = [
        Shape { image: [9, 30], ..same(17) },
        Shape { batch: 2, strides: [2, 2], image: [11, 35], ..same(3) },
        Shape { pads: [2, 4, 1, 0], dilations: [1, 2], image: [8, 21], ..square(5, 2) },
        // The windows that have code of their own, with images of one tile, several tiles, and less than a tile.
        Shape { image: [7, 7], ..square(7, 3) },
        Shape { image: [9, 26], ..square(7, 3) },
        Shape { image: [3, 2], ..square(7, 3) },
        Shape { image: [6, 20], ..square(5, 2) },
        Shape { image: [17, 33], strides: [2, 2], ..square(5, 2) },
        Shape { image: [13, 43], strides: [2, 2], ..square(7, 3) },
        Shape { image: [12, 5], strides: [1, 2], pads: [0, 1, 2, 0], ..square(3, 1) },
        // One column lies in memory as one row, and some pixels read nothing but padding.
        Shape { kernel: [3, 1], pads: [1, 0, 1, 0], image: [19, 1], ..same(130) },
        Shape { pads: [4, 5, 6, 7], image: [2, 3], ..same(16) },
        Shape { kernel: [7, 7], pads: [3; 4], image: [14, 14], batch: 3, ..same(200) },
        Shape { batch: 0, ..same(16) },
    ];
    for shape in &shapes {
        let ready = packed("Oihw16o");
        check("native.conv-depthwise-nhwc", shape, &shape.attrs(), ("nhwc", "nhwc"), &ready);
    }
}

#[test]
fn plain_agrees_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { channels: 1, outputs: 3, image: [5, 4], strides: [2, 1], ..PLAIN },
        Shape { batch: 2, channels: 17, outputs: 33, kernel: [1, 1], pads: [0; 4], image: [7, 13], ..PLAIN },
        Shape { channels: 33, outputs: 17, kernel: [5, 2], dilations: [1, 3], image: [9, 31], ..PLAIN },
        Shape { channels: 66, outputs: 9, groups: 3, strides: [2, 2], image: [15, 20], ..PLAIN },
        Shape {
            channels: 5,
            outputs: 10,
            groups: 5,
            strides: [1, 3],
            pads: [0, 4, 2, 7],
            image: [9, 40],
            ..PLAIN
        },
        Shape { channels: 70, outputs: 40, image: [19, 23], ..PLAIN },
        Shape { batch: 0, ..PLAIN },
    ];
    for shape in &shapes {
        check("native.conv", shape, &shape.attrs(), ("plain", "plain"), &packed("plain"));
    }
}

/// Runs a kernel that makes blocked channels of an input that is not finite, of which some channels are padding, and
/// checks that its padding is zero. Returns the result, and what the op's own evaluation gives.
fn spoiled(op: &'static str, attrs: Attrs, operands: &[&Tensor]) -> (Tensor, Tensor) {
    let definition = crate::fixture::ops().get(op).unwrap();
    let attrs = definition.complete(attrs);
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let ty = definition.result(&attrs, &types).unwrap();
    let (contract, result) = run(op, &attrs, operands, &ty, 2, None);
    assert_ne!(contract.implementation, "reference", "{op}{attrs}");
    assert_eq!(padding(&result), None, "{op}{attrs}: the padding is not zero");
    (result, definition.evaluate(&attrs, operands, &ty))
}

/// Holds kernels that read a blocked value to their ops: they must give NaN where the ops do, and nowhere else.
fn check_readers(x: &Tensor, block: usize, random: &mut Random) {
    let channels = x.ty().shape[1];
    let lay = |tensor: Tensor, layout: String| tensor.to_layout(&layout.parse().unwrap());
    let step = |op: &'static str| Step { op: op.into(), parameters: Vec::new() };
    let bias = random.f32([channels]);
    let pads = || Attrs::new().ints("pads", &[1; 4]);
    let dense = lay(random.f32([channels, channels, 3, 3]), format!("OIhw{block}i{block}o"));
    let single = lay(random.f32([channels, 1, 3, 3]), format!("Oihw{block}o"));
    let one = lay(random.f32([channels, channels, 1, 1]), format!("OIhw{block}i{block}o"));
    let other = lay(random.f32(x.ty().shape.clone()), format!("nChw{block}c"));
    let chain = Attrs::new().with("post", Attr::Post(vec![step("relu"), step("add")]));
    let window = || Attrs::new().ints("kernel", &[2, 2]).ints("pads", &[1, 1, 0, 0]);
    for (op, attrs, operands) in [
        ("native.conv-direct", pads(), vec![x, &dense, &bias]),
        ("native.conv-depthwise", pads().int("groups", channels as i64), vec![x, &single, &bias]),
        ("native.pointwise-depthwise", pads(), vec![x, &one, &bias, &single, &bias]),
        ("native.map", chain, vec![x, &other]),
        ("native.relu", Attrs::new(), vec![x]),
        ("native.add", Attrs::new(), vec![x, &other]),
        ("native.max-pool", window(), vec![x]),
        ("native.avg-pool", window(), vec![x]),
        ("native.reduce-mean", Attrs::new().ints("axes", &[2, 3]).int("keepdims", 1), vec![x]),
        ("native.unpack", Attrs::new(), vec![x]),
    ] {
        verify(op, &crate::fixture::ops().get(op).unwrap().complete(attrs), &operands, TOLERANCE);
    }
}

fn padding_is_zero_where_the_input_is_not_finite(block: usize) {
    let mut random = Random::new(77);
    let lay = |tensor: &Tensor, layout: String| tensor.to_layout(&layout.parse().unwrap());
    let layout = format!("nChw{block}c");
    let some = |channels, groups| Shape { channels, groups, outputs: 20, image: [9, 40], ..PLAIN };
    for (op, shape, from, weights) in [
        ("native.conv-direct", some(20, 1), layout.clone(), format!("OIhw{block}i{block}o")),
        ("native.conv-first", some(3, 1), "plain".into(), format!("Ohwi{block}o")),
        ("native.conv-depthwise", some(20, 20), layout.clone(), format!("Oihw{block}o")),
        ("native.conv-narrow", some(20, 10), layout.clone(), format!("Ohwi{block}o")),
    ] {
        let [mut x, w, bias] = shape.operands(&mut random);
        spoil(&mut x);
        let (result, want) = spoiled(op, shape.attrs(), &[&lay(&x, from), &lay(&w, weights), &bias]);
        assert_close(op, &result, &want, TOLERANCE);
        check_readers(&result, block, &mut random);
    }
}

fn winograds_padding_is_zero_where_the_input_is_not_finite(block: usize) {
    let mut random = Random::new(78);
    for form in winograd::FORMS {
        let (kernel, tile) = (form.map(|axis| axis.taps), form.map(|axis| axis.tile));
        let shape = Shape { channels: 5, outputs: 20, image: [9, 40], kernel, ..PLAIN };
        let [mut x, w, bias] = shape.operands(&mut random);
        spoil(&mut x);
        let definition = crate::fixture::ops().get("winograd-weights").unwrap();
        let tiles = Attrs::new().ints("tile", &winograd::sizes(tile));
        let ty = definition.result(&tiles, &[w.ty()]).unwrap();
        let u = definition.evaluate(&tiles, &[&w], &ty).to_layout(&format!("Cab{block}c").parse().unwrap());
        let packed = x.to_layout(&format!("nChw{block}c").parse().unwrap());
        let attrs = tiles.ints("pads", &shape.pads).ints("kernel", &winograd::sizes(kernel));
        let (result, _) = spoiled("native.conv-winograd", attrs, &[&packed, &u, &bias]);
        check_readers(&result, block, &mut random);
        // What the convolution does not keep apart is not finite, and so are at most the tiles around it.
        let conv = crate::fixture::ops().get("conv").unwrap();
        let logical = conv.complete(shape.attrs());
        let ty = conv.result(&logical, &[x.ty(), w.ty(), bias.ty()]).unwrap();
        let want = conv.evaluate(&logical, &[&x, &w, &bias], &ty).to_f64();
        let got = result.to_f64();
        assert!(got.iter().any(|value| value.is_finite()), "{form:?}");
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            let near = !got.is_finite() || (got - want).abs() <= TOLERANCE * want.abs().max(1.0);
            assert!(
                near && (want.is_finite() || !got.is_finite()),
                "{form:?}: element {at} is {got}, not {want}"
            );
        }
    }
}
