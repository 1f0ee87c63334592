//! Mutants that are not caught, grouped by the reason: they are not wrong, or no instance shows it.

/// A reason why mutants are not caught, and the mutants to which it applies.
pub type Reason = (&'static str, &'static [&'static str]);

/// Wrong mutants that no instance tells from the rule.
pub const MISSED: &[Reason] = &[
    (
        "instances are too small for sums that 32 bits do not hold",
        &[
            "conv-of-levels-u8: without at-most(product(without(shape-of(?w), 0)), 33025)",
            "matmul-of-levels: without at-most(dim(?w, -2), 33025)",
            "mean-of-levels: without at-most(mul(dim(?x, 2), dim(?x, 3)), 8000000)",
            "windows-mean-of-levels: without at-most(product(?k), 8000000)",
        ],
    ),
    (
        "no instance draws a scale so large that its levels overflow",
        &["quantize-of-dequantize: without less(scalar-of(?s), 1e30)"],
    ),
    (
        "no constant is drawn that is infinite or NaN",
        &["weights-to-blocks-of-i4: without finite(?w)", "weights-to-i8: without finite(?w)"],
    ),
];

/// The reasons why the others are not wrong.
pub const EQUIVALENT: &[Reason] = &[
    (
        "without the attribute, the rule gives what it was given",
        &["drop-nan-as-zero-without-mask: left 0: any nan_as_zero of attention"],
    ),
    (
        "without the attribute, rows without keys are NaN, which rules that assume finite numbers need not keep",
        &["zero-rows-without-keys-2: left 0: any nan_as_zero of attention"],
    ),
    (
        "the mask is clipped to finite numbers before, so no row is without keys",
        &[
            "round-attention-bf16: right 0: nan_as_zero of attention: 0 is 1",
            "round-attention-f16: right 0: nan_as_zero of attention: 0 is 1",
        ],
    ),
    (
        "a product of elements is a product of matrices of one element, and only takes longer",
        &["einsum-by-matmul-as-result: without einsum-has-matrices(?e)"],
    ),
    (
        "a product of any number of operands may be split anywhere: the number only bounds how much the e-graph grows",
        &[
            "split-one-off-einsum: without less(1, add(count(?p), count(?q)))",
            "split-one-off-einsum: without at-most(add(count(?p), count(?q)), 3)",
            "split-two-off-einsum: without equal(add(count(?p), add(count(?q), count(?r))), 2)",
            "split-last-off-einsum: without less(1, count(?p))",
            "split-one-off-einsum: without less(0, count(?q))",
        ],
    ),
    (
        "a part that is the whole is the whole by another rule: the guard only bounds how much the e-graph grows",
        &[
            "slice-of-matmul-in-heads: without not-equal(?s, ?r)",
            "slice-of-vector-in-heads: without not-equal(?s, ?r)",
        ],
    ),
    (
        "adjacent columns are a product with these columns as well: the guard leaves them to another rule",
        &["slice-of-vector-in-heads: without any(equal(length(?r), 3), equal(at(?s, 2), at(?r, 2)))"],
    ),
    (
        "the mean of (x - mean)(x - c) is the variance for any number c that a row has",
        &[
            "fuse-layer-norm: left 0: reduce-mean is reduce-max (3)",
            "fuse-layer-norm: left 0: reduce-mean is reduce-max (4)",
            "fuse-layer-norm: left 0: sub is add (2)",
            "fuse-layer-norm: left 0: sub is add (3)",
        ],
    ),
    // What the change lets through cannot be typed, or the change has no effect there.
    (
        "a window of one element has nothing to dilate",
        &[
            "enlarge-kernel-1x1: left 0: any dilations of conv",
            "fuse-pointwise-depthwise: left 0: any dilations of conv",
            "merge-convs: left 0: any dilations of conv",
            "merge-convs: left 1: any dilations of conv",
            "fuse-squeeze-excite: left 0: any dilations of conv",
            "fuse-squeeze-excite: left 0: any dilations of conv (2)",
        ],
    ),
    (
        "an image of one element has one window",
        &[
            "fuse-squeeze-excite: left 0: any strides of conv",
            "fuse-squeeze-excite: left 0: any strides of conv (2)",
        ],
    ),
    (
        "the convolution has no type if the means lose their axes",
        &["fuse-squeeze-excite: left 0: any keepdims of reduce-mean"],
    ),
    (
        "the weights have the same type, so the other convolution, which has one group, fixes the input's channels",
        &[
            "merge-convs: left 0: any groups of conv",
            "merge-convs: left 1: any groups of conv",
            "merge-filters: left 0: any groups of conv",
            "merge-filters: left 1: any groups of conv",
        ],
    ),
    (
        "with several groups the weights have too few channels for the input, and typing refuses them",
        &[
            "fuse-pointwise-depthwise: left 0: any groups of conv",
            "split-conv-filters: left 0: any groups of conv",
            "split-conv-sum: left 0: any groups of conv",
            "winograd-7x1-nChw8c: left 0: any groups of conv",
            "fuse-squeeze-excite: left 0: any groups of conv",
            "fuse-squeeze-excite: left 0: any groups of conv (2)",
            "patches-as-rows: left 0: any groups of conv",
            "patches-of-pixels-as-rows: left 0: any groups of conv",
        ],
    ),
    (
        "a sum is the same in any order",
        &[
            "fuse-embedding-and-two: right 0: operands 4 and 5 of embed swapped",
            "fuse-embedding-sum: right 0: operands 5 and 6 of embed swapped",
        ],
    ),
    (
        "a convolution of 1x1 is such a product as well, which other rules say",
        &[
            "patches-as-rows: without less(1, product(?s))",
            "patches-of-pixels-as-rows: without less(1, product(?s))",
        ],
    ),
    (
        "windows of one row are the last axis already, and with more rows the product has no type",
        &["patches-of-pixels-as-rows: right 0: no reshape (2)"],
    ),
    (
        "an operand of another shape has another number of elements, and its reshape has no type",
        &["map-residual-before-reshape: without shape-is(?e, ?s)"],
    ),
    (
        "an operand that fits the shape before the reshape as well has the same place in both",
        &["map-residual-before-reshape: right 0: no reshape (2)"],
    ),
    ("integers are clipped like floats", &["max-number: without is-f32-or-16-bit(?x)"]),
    (
        "that a quotient is rounded once matters to models with levels, and not to one quotient",
        &["divide-by-multiplying: without not(scalar(?x))"],
    ),
    (
        "a transpose that moves no axis is a reshape too, and another rule drops it",
        &["transpose-of-ones: without not(identity-perm(?p))"],
    ),
    (
        "a cast to 8 bits saturates, and drops what is after the point",
        &[
            "write-out-quantize-i8: right 0: max of clip dropped",
            "write-out-quantize-i8: right 0: max of clip: 255.0 is 286.875",
            "write-out-quantize-i8: right 0: min of clip dropped",
            "write-out-quantize-i8: right 0: min of clip: 0.0 is 0.125",
            "write-out-quantize-i8: right 0: no clip",
            "write-out-quantize-u8: right 0: max of clip dropped",
            "write-out-quantize-u8: right 0: max of clip: 255.0 is 286.875",
            "write-out-quantize-u8: right 0: min of clip dropped",
            "write-out-quantize-u8: right 0: min of clip: 0.0 is 0.125",
            "write-out-quantize-u8: right 0: no clip",
        ],
    ),
    (
        "the size from which a product pays is a question of cost",
        &[
            "strassen-conv-nChw8c: without at-most(64, dim(?w, 0))",
            "strassen-conv-nChw8c: without at-most(64, dim(?w, 1))",
            "strassen-matmul-Cab8c: without at-most(64, dim(?b, 0))",
            "strassen-matmul-Cab8c: without at-most(64, dim(?b, 1))",
            "strassen-matmul-Cab8c: without at-most(mul(64, dim(?b, 0)), product(shape-of(?a)))",
        ],
    ),
    ("the op accepts one group only", &["pack-first-conv-nChw8c: left 0: any groups of conv"]),
    (
        "joined along another axis, the parts have the number of channels that the weights have for both",
        &["split-conv-groups: left 0: any axis of concat", "split-conv-sum: left 0: any axis of concat"],
    ),
    (
        "the biases have one axis, so the filters can only be joined along the first one",
        &[
            "split-conv-filters: left 0: any axis of concat",
            "split-conv-filters: left 0: any axis of concat (2)",
        ],
    ),
    (
        "if both sides have types, the parts of one are as wide as those of the other",
        &[
            "add-of-concats: without same-shape(?a, ?b)",
            "add-of-concats: without same-shape(?c, ?d)",
            "div-of-concats: without same-shape(?a, ?b)",
            "div-of-concats: without same-shape(?c, ?d)",
        ],
    ),
    (
        "has a type only for one element along the axis, where the step does not matter",
        &[
            "merge-batches: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-batches: right 1: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-convs: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-convs: right 1: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-filters: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-filters: right 1: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "merge-rows: right 0: steps of slice: [1,1] is [1,2]",
            "merge-rows: right 1: steps of slice: [1,1] is [1,2]",
            "split-conv-groups: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "split-conv-groups: right 0: steps of slice: [1,1,1,1] is [1,1,1,2] (2)",
            "split-conv-groups: right 0: steps of slice: [1] is [2] (2)",
            "split-conv-sum: right 0: steps of slice: [1,1,1,1] is [1,1,1,2]",
            "split-conv-sum: right 0: steps of slice: [1,1,1,1] is [1,1,1,2] (2)",
        ],
    ),
    (
        "without padding, counting the padding changes nothing",
        &["pool-by-conv-unpadded: left 0: any count-include-pad of avg-pool"],
    ),
    (
        "the guard excludes images without channels, which are not drawn because there is nothing to compare",
        &[
            "pool-by-conv-padded: without less(0, dim(?x, 1))",
            "pool-by-conv-unpadded: without less(0, dim(?x, 1))",
        ],
    ),
    (
        "has a type only for one image with one channel and the size of the window: a sum of products whose \
         factors may be swapped",
        &["pool-by-conv-unpadded: right 0: operands 0 and 1 of conv swapped"],
    ),
    ("addition is commutative", &["map-add: right 0: operands 0 and 1 of map swapped"]),
    // The law holds without the guard, which limits growth or cost.
    (
        "holds for any divisor; the guard only avoids inverting large constants",
        &["divide-by-multiplying: without scalar(?s)"],
    ),
    (
        "real numbers have no ends; the guard keeps a constant within the range of its type",
        &[
            "divide-by-multiplying: without reciprocal-holds(?s)",
            "join-scales: without product-holds(?s, ?t)",
        ],
    ),
    (
        "holds for factors that cancel as well; the guard keeps the e-graph from growing without end",
        &[
            "join-scales: without any(less(mul(scalar-of(?s), scalar-of(?t)), 0.999999), less(1.000001, \
             mul(scalar-of(?s), scalar-of(?t))))",
            "join-scales: without not(value-is(?s, 1.0))",
            "join-scales: without not(value-is(?t, 1.0))",
        ],
    ),
    (
        "multiplication is associative; the guard only limits cost",
        &["join-scales: without scalar(?s)", "join-scales: without scalar(?t)"],
    ),
    (
        "holds for operands that broadcast as well; the guard only limits the growth of the e-graph",
        &[
            "distribute-matmul-left: without same-type(?b, ?c)",
            "distribute-matmul-right: without same-type(?a, ?b)",
            "distribute-mul: without same-type(?x, ?y)",
            "distribute-mul: without same-type(?x, ?z)",
            "reassociate-add: without same-type(?x, ?y)",
            "reassociate-add: without same-type(?y, ?z)",
            "reassociate-mul: without same-type(?x, ?y)",
            "reassociate-mul: without same-type(?y, ?z)",
        ],
    ),
    (
        "a border of zeros changes no filter, whatever its size; the guard only selects sizes that may pay",
        &[
            "enlarge-kernel-1x1: without equal(dim(?w, 2), 1)",
            "enlarge-kernel-1x1: without equal(dim(?w, 3), 1)",
            "enlarge-kernel-3x1: without equal(dim(?w, 2), 3)",
            "enlarge-kernel-3x1: without equal(dim(?w, 3), 1)",
        ],
    ),
    (
        "widening is exact for any groups, and typing refuses groups that do not divide; the guards only limit cost",
        &[
            "halve-groups: without divisible(?g, 2)",
            "widen-groups-8: without less(1, dim(?w, 1))",
            "widen-groups-8: without divisible(div(8, 2), dim(?w, 1))",
            "widen-groups-8: without divisible(div(mul(dim(?w, 0), 8), dim(?x, 1)), 8)",
            "widen-groups-of-levels-64: without divisible(div(mul(dim(?w, 0), 64), dim(?x, 1)), 64)",
        ],
    ),
    (
        "the slice is all of its operand: one element, or every element",
        &[
            "gather-of-one-from-the-end: right 0: no slice",
            "slice-of-reshape: right 0: no slice",
            "weight-gradient-of-one-pixel: right 0: no slice",
        ],
    ),
    (
        "holds for several rows as well; with one row the slices are views",
        &["merge-matmuls: without equal(product(shape-of(?x)), dim(?x, -1))"],
    ),
    (
        "the function has no parameters, so there is no attribute to drop",
        &[
            "lower-add-native: right 0: other attributes of native.add dropped",
            "lower-shift-right-cuda: right 0: other attributes of cuda.shift-right dropped",
            "lower-atanh-cuda: right 0: other attributes of cuda.atanh dropped",
            "lower-atanh-native: right 0: other attributes of native.atanh dropped",
            "lower-softplus-native: right 0: other attributes of native.softplus dropped",
        ],
    ),
    (
        "the op means the same for every type; the guard only leaves the types of chains to chains",
        &[
            "lower-atanh-cuda: without not(is-f32-or-16-bit(?x))",
            "lower-atanh-native: without not(is-f32-or-16-bit(?x))",
            "lower-softplus-native: without not(is-f32-or-16-bit(?x))",
        ],
    ),
    (
        "holds for any convolution; the guard only avoids candidates without a kernel",
        &[
            "onednn-bf16-conv-nhwc: without is-dtype(?x, bf16)",
            "onednn-bf16-first-conv: without at-most(dim(?x, 1), 4)",
            "onednn-bf16-first-conv: without is-dtype(?x, bf16)",
            "onednn-depthwise-conv-nhwc: without equal(?g, dim(?x, 1))",
            "onednn-first-conv-nChw8c: without at-most(dim(?x, 1), 4)",
            "onednn-narrow-conv: without equal(dim(?w, 1), 4)",
        ],
    ),
    // Recurrent layers in steps, and parts of concatenations.
    (
        "a layer may be divided after any step, also after none",
        &[
            "halve-backward-lstm: let k: 0 is 1",
            "halve-backward-lstm: let k: 2 is 3",
            "halve-backward-rnn: let k: 0 is 1",
            "halve-backward-rnn: let k: 2 is 3",
            "halve-lstm: let k: 0 is 1",
            "halve-lstm: let k: 2 is 3",
            "halve-rnn: let k: 0 is 1",
            "halve-rnn: let k: 2 is 3",
        ],
    ),
    (
        "the number of steps is limited for the sake of the e-graph's size",
        &[
            "halve-backward-lstm: without at-most(dim(?x, 0), 8)",
            "halve-backward-rnn: without at-most(dim(?x, 0), 8)",
            "halve-lstm: without at-most(dim(?x, 0), 8)",
            "halve-rnn: without at-most(dim(?x, 0), 8)",
            "split-directions-of-rnn: without at-most(dim(?x, 0), 8)",
        ],
    ),
    (
        "the first step of the chain is commutative",
        &[
            "write-out-gru: right 0: operands 0 and 1 of map swapped (2)",
            "write-out-gru: right 0: operands 0 and 1 of map swapped (3)",
            "write-out-gru: right 0: operands 0 and 1 of map swapped (4)",
            "write-out-gru: right 0: operands 0 and 1 of map swapped (5)",
            "write-out-linear-gru: right 0: operands 0 and 1 of map swapped (2)",
            "write-out-linear-gru: right 0: operands 0 and 1 of map swapped (3)",
            "write-out-lstm: right 0: operands 0 and 1 of map swapped (3)",
            "write-out-rnn: right 0: operands 0 and 1 of map swapped",
        ],
    ),
    (
        "a layer with one gate is typed so only if it has one unit, whose axis may change places with that of the gate",
        &[
            "onednn-rnn-without-bias: right 0: no transpose (2)",
            "onednn-rnn-without-bias: right 0: perm of transpose: [0,3,1,2] is [0,3,2,1]",
            "onednn-rnn-without-bias: right 0: perm of transpose: [1,0,2,3] is [1,0,3,2]",
        ],
    ),
    (
        "the product has one more axis of size 1, which the last reshape removes",
        &["write-out-rnn: right 0: no reshape (2)"],
    ),
    (
        "typing refuses a part that ends after the operand",
        &[
            "slice-of-concat: without at-most(add(at(?b, ?n), at(?s, ?n)), add(size-along(?a, ?n), dim(?x, ?n)))",
        ],
    ),
    (
        "a value may be reshaped before or after any cast",
        &[
            "reshape-before-cast-bf16: without is-dtype(?x, bf16)",
            "reshape-before-cast-f16: without is-dtype(?x, f16)",
        ],
    ),
    (
        "a mean in another type is the same; only the kernels are for these",
        &["lower-avg-pool-cuda-nhwc: without is-f32-or-16-bit(?x)"],
    ),
    (
        "levels of other types, and chains that begin with other integers, are the same; there is a rule for each type so that \
         instances of it are drawn",
        &[
            "requantize-layer-norm-of-u8: without is-dtype(?q, u8)",
            "requantize-layer-norm-u8: without is-dtype(?z, u8)",
            "requantize-map-u8: without is-dtype(?z, u8)",
            "requantize-sums-u8: without is-dtype(?x, i32)",
            "requantize-sums-u8: without is-dtype(?z, u8)",
            "requantize-u8-u8: without is-dtype(?q, u8)",
            "requantize-u8-u8: without is-dtype(?x, u8)",
            "requantize-u8-u8: without is-dtype(?z, u8)",
        ],
    ),
    (
        "a convolution in groups means the same with packed weights; only the fast kernel is for one group, or for groups that fill panels",
        &[
            "couple-conv-requantize-native: without any(equal(?g, 1), divisible(dim(?w, 0), mul(?g, 16)))",
            "pack-conv-integer-native: left 0: any groups of conv-integer",
            "pack-conv-requantize-native: without any(equal(?g, 1), divisible(dim(?w, 0), mul(?g, 16)))",
            "pack-conv-requantize-native: without any(equal(?g, 1), divisible(dim(?w, 1), 4))",
            "pack-first-conv-requantize-native: left 0: any groups of conv-requantize",
        ],
    ),
    (
        "the sum is over one image: with several, the product has no place in the result's shape",
        &["weight-gradient-of-one-pixel: right 0: no reduce-sum"],
    ),
    (
        "the kernel reads images in either layout, and only the price decides between them",
        &[
            "pack-conv-requantize-native: right 0: no pack",
            "pack-weight-gradient-nChw8c: right 0: no pack",
            "pack-first-conv-requantize-native: without less(dim(?x, 1), 4)",
        ],
    ),
    (
        "the sums are the same: the library says that it has no kernel for such groups, types or layouts",
        &[
            "onednn-conv-integer-AcdB16a4b: left 0: any groups of conv-integer",
            "onednn-conv-integer-AcdB16a4b: right 0: no pack (2)",
            "onednn-conv-integer-AcdB16a4b: without is-dtype(?w, i8)",
            "onednn-matmul-integer: right 0: no pack",
            "onednn-matmul-integer: without is-dtype(?b, i8)",
        ],
    ),
    (
        "maxima and concatenations of all types are the same with channels innermost; other rules are for floats",
        &[
            "pack-concat-of-levels-native: without any(is-dtype(?x, u8), is-dtype(?x, i8))",
            "pack-max-pool-i8-native: without is-dtype(?x, i8)",
            "pack-max-pool-u8-native: without is-dtype(?x, u8)",
        ],
    ),
    (
        "a scale and a zero point of rank 0 are as good; they get a rank so that they can be packed with the other operands",
        &[
            "requantize-alone: right 0: no reshape",
            "requantize-alone: right 0: no reshape (2)",
            "requantize-u8-u8: right 0: no reshape",
            "requantize-u8-u8: right 0: no reshape (2)",
            "requantize-with-levels: right 0: no reshape",
            "requantize-with-levels: right 0: no reshape (2)",
        ],
    ),
    (
        "one scale and one zero point mean the same for each output; the form is for rules that ask for it",
        &[
            "scales-for-each-output: right 0: no expand",
            "scales-for-each-output: right 0: no expand (2)",
            "scales-for-each-output: right 0: shape of expand: 0 is 1",
            "scales-for-each-output: right 0: shape of expand: 0 is 1 (2)",
            "zero-points-for-each-scale: right 0: no expand",
        ],
    ),
    (
        "zero points of one dimension or none are so already",
        &["requantize-matmul-as-conv: right 0: no reshape (4)"],
    ),
    (
        "typing refuses the biases of several groups",
        &["conv-transpose-of-levels-by-phases-by-channel: left 0: any groups of conv-transpose"],
    ),
    (
        "unit strides have one phase; the guard leaves them to another rule",
        &["conv-transpose-of-levels-by-phases-by-channel: without less(1, product(?d))"],
    ),
    (
        "a guard leaves scales and zero points with one for each channel",
        &[
            "conv-transpose-of-levels-by-phases-by-channel: right 0: no expand (2)",
            "conv-transpose-of-levels-by-phases-by-channel: right 0: no expand (4)",
        ],
    ),
    (
        "typing refuses scales and zero points that are neither one for each channel nor one for all of them",
        &[
            "conv-transpose-of-levels-by-phases-by-channel: without shape-is(?q, list(1, dim(?w, 1), 1, 1))",
            "conv-transpose-of-levels-by-phases-by-channel: without shape-is(?t, list(1, dim(?w, 1), 1, 1))",
        ],
    ),
    (
        "a cast to integers drops the fraction",
        &[
            "weights-to-blocks-of-i4: right 0: 0 is 0.125",
            "windows-mean-of-levels: right 0: 0 is 0.125",
            "windows-mean-of-levels: right 0: 1 is 1.125",
        ],
    ),
    (
        "a factor of one element is as good; it has one for each channel so that the chain is a product by channel",
        &["windows-mean-of-levels: right 0: no expand (2)"],
    ),
    (
        "the guard leaves windows without dilation alone, which is the default",
        &["dequantize-after-max-pool: right 0: dilations of max-pool dropped"],
    ),
    (
        "narrow values are exact in a wider type, and the rule's precision allows the rounding of the result",
        &[
            "round-layer-norm-bf16: left 0: any to of cast (2)",
            "round-layer-norm-f16: left 0: any to of cast (2)",
        ],
    ),
    (
        "with other strides the right side has the same type only where there is one window along each axis",
        &[
            "gate-before-max-pool-gradient: right 0: strides of max-pool dropped",
            "gate-before-max-pool-gradient: right 0: strides of max-pool-gradient dropped",
        ],
    ),
    (
        "the number only has to be larger than zero, and far below any weight",
        &[
            "weights-to-blocks-of-i4: right 0: 0.000000000000000000000000000001 is 0.0000000000000000000000000000011250000000000001",
            "weights-to-i8: right 0: 0.000000000000000000000000000001 is 0.0000000000000000000000000000011250000000000001",
        ],
    ),
    (
        "the right side has a type only where all rows share a scale: where there are 32 of them, or where there is one",
        &[
            "weights-to-blocks-of-i4: right 0: rows-per-scale of matmul-narrow dropped",
            "weights-to-i8: right 0: no reduce-max",
        ],
    ),
    (
        "levels that are joined already are bytes, and levels of 4 bits have no type as joined ones",
        &[
            "join-signed-levels: left 0: any per-byte of matmul-narrow",
            "join-unsigned-levels: left 0: any per-byte of matmul-narrow",
        ],
    ),
    (
        "joined levels have as many rows as they had only where there is one, which lies in the low bits of its byte",
        &[
            "join-signed-levels: right 0: per-byte of matmul-narrow dropped",
            "join-unsigned-levels: right 0: per-byte of matmul-narrow dropped",
        ],
    ),
    (
        "zero points that are not in panels are as good; the kernel is for those that are",
        &["pack-joined-weights-with-scales-and-points-native: right 0: no pack (3)"],
    ),
    (
        "weights of other narrow types are read as well; there is a rule for each type that the kernel is for",
        &["read-bf16: without is-dtype(?w, bf16)"],
    ),
    (
        "a single scale is that of all columns, and no other scales have a type",
        &["read-levels-by-column: without shape-is(?s, list(1, dim(?w, 1)))"],
    ),
    (
        "the right side has no type where the change lets more through",
        &[
            "conv-of-levels-u8: without is-dtype(?q, u8)",
            "dequantize-by-channel-after-reshape: without less(0, length(?r))",
            "join-signed-levels: left 0: any to of cast",
            "read-bf16: left 0: any to of cast",
            "slice-of-conv: left 0: any groups of conv",
            "slice-of-conv: right 0: no slice",
            "take-rows-by-positions-of-another-shape: left 0: any batch-dims of gather-nd",
        ],
    ),
];
