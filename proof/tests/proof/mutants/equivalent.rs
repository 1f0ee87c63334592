//! Mutants that are not caught, by the reason why they are no wrong rules.

/// A reason, and the mutants that it explains.
pub type Reason = (&'static str, &'static [&'static str]);

/// All of them.
pub const EQUIVALENT: &[Reason] = &[
    // What the change lets through cannot be typed, or is no change there.
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
        "of means without their axes a convolution cannot be typed",
        &["fuse-squeeze-excite: left 0: any keepdims of reduce-mean"],
    ),
    (
        "with weights of one type, the other convolution, of one group, says how many channels the input has",
        &[
            "merge-convs: left 0: any groups of conv",
            "merge-convs: left 1: any groups of conv",
            "merge-filters: left 0: any groups of conv",
            "merge-filters: left 1: any groups of conv",
        ],
    ),
    (
        "of several groups the weights have too few channels for the input, and typing refuses them",
        &[
            "fuse-pointwise-depthwise: left 0: any groups of conv",
            "split-conv-filters: left 0: any groups of conv",
            "split-conv-sum: left 0: any groups of conv",
            "winograd-7x1-nChw8c: left 0: any groups of conv",
            "fuse-squeeze-excite: left 0: any groups of conv",
            "fuse-squeeze-excite: left 0: any groups of conv (2)",
        ],
    ),
    (
        "how far rounding to f16 moves attention by large scores shows in less than one of 200 instances",
        &["round-attention-f16: without at-most(?s, 0.25)", "round-attention-f16: without less(0.0, ?s)"],
    ),
    (
        "how large a product has to be is a matter of its price",
        &[
            "strassen-conv-nChw8c: without at-most(64, dim(?w, 0))",
            "strassen-conv-nChw8c: without at-most(64, dim(?w, 1))",
            "strassen-matmul-Cab8c: without at-most(64, dim(?b, 0))",
            "strassen-matmul-Cab8c: without at-most(64, dim(?b, 1))",
            "strassen-matmul-Cab8c: without at-most(mul(64, dim(?b, 0)), product(shape-of(?a)))",
        ],
    ),
    ("the op takes one group and refuses others", &["pack-first-conv-nChw8c: left 0: any groups of conv"]),
    (
        "side by side in another axis, the parts have as many channels as the weights were for both",
        &["split-conv-groups: left 0: any axis of concat", "split-conv-sum: left 0: any axis of concat"],
    ),
    (
        "the vectors, which have one axis, say that the filters are side by side",
        &[
            "split-conv-filters: left 0: any axis of concat",
            "split-conv-filters: left 0: any axis of concat (2)",
        ],
    ),
    (
        "where both are typed, the parts of the one are as wide as those of the other",
        &[
            "add-of-concats: without same-shape(?a, ?b)",
            "add-of-concats: without same-shape(?c, ?d)",
            "div-of-concats: without same-shape(?a, ?b)",
            "div-of-concats: without same-shape(?c, ?d)",
        ],
    ),
    (
        "typed only for one element along the axis, whose step is not taken",
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
        "where nothing is padded, no padding is counted",
        &["pool-by-conv-unpadded: left 0: any count-include-pad of avg-pool"],
    ),
    (
        "the guard is for images without a channel, which are not drawn: there is nothing to compare",
        &[
            "pool-by-conv-padded: without less(0, dim(?x, 1))",
            "pool-by-conv-unpadded: without less(0, dim(?x, 1))",
        ],
    ),
    (
        "typed only for one image of one channel that is as large as the window: one sum of products, whose \
         factors may be swapped",
        &["pool-by-conv-unpadded: right 0: operands 0 and 1 of conv swapped"],
    ),
    ("addition is commutative", &["map-add: right 0: operands 0 and 1 of map swapped"]),
    // The law holds without the guard, which is there for growth or cost.
    (
        "true of any divisor; the guard keeps large constants from being inverted",
        &["divide-by-multiplying: without scalar(?s)"],
    ),
    (
        "multiplication is associative; the guard is for cost",
        &["join-scales: without scalar(?s)", "join-scales: without scalar(?t)"],
    ),
    (
        "true of operands that broadcast as well; the guard keeps the e-graph from growing by them",
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
        "a border of zeros changes no kernel, whatever its size; the guard says which are worth it",
        &[
            "enlarge-kernel-1x1: without equal(dim(?w, 2), 1)",
            "enlarge-kernel-1x1: without equal(dim(?w, 3), 1)",
            "enlarge-kernel-3x1: without equal(dim(?w, 2), 3)",
            "enlarge-kernel-3x1: without equal(dim(?w, 3), 1)",
        ],
    ),
    (
        "widening is exact whatever the groups, and refused where they do not divide; the guards are for cost",
        &[
            "halve-groups: without divisible(?g, 2)",
            "widen-groups-8: without less(1, dim(?w, 1))",
            "widen-groups-8: without less(dim(?w, 1), 8)",
            "widen-groups-8: without divisible(8, dim(?w, 1))",
            "widen-groups-8: without divisible(div(mul(dim(?w, 0), 8), dim(?x, 1)), 8)",
        ],
    ),
    (
        "of one element or whole, the part is all there is",
        &["gather-of-one-from-the-end: right 0: no slice", "slice-of-reshape: right 0: no slice"],
    ),
    (
        "true of many rows as well; of one row the slices are views",
        &["merge-matmuls: without equal(product(shape-of(?x)), dim(?x, -1))"],
    ),
    (
        "true of any convolution: it keeps candidates away that have no kernel",
        &[
            "onednn-bf16-conv-nhwc: without is-dtype(?x, bf16)",
            "onednn-bf16-first-conv: without at-most(dim(?x, 1), 4)",
            "onednn-bf16-first-conv: without is-dtype(?x, bf16)",
            "onednn-depthwise-conv-nhwc: without equal(?g, dim(?x, 1))",
            "onednn-first-conv-nChw8c: without at-most(dim(?x, 1), 4)",
            "onednn-narrow-conv: without equal(dim(?w, 1), 4)",
        ],
    ),
];
