//! Lowered ops: what backends have kernels for. Each means what its logical op means, in the
//! layouts it names.

use super::{
    Op, OpDef, attr, cublaslt, cudnn, matmul, pointwise, post, reduce, resize, shape, sizes, squeeze,
    strassen, transposed, window, winograd,
};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Layout, TensorType};

/// Logical ops that the native backend runs as they are.
const NATIVE: &[&str] = &[
    "relu",
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "log",
    "sqrt",
    "neg",
    "abs",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "sign",
    "softplus",
    "softsign",
    "sin",
    "cos",
    "silu",
    "gelu",
    "gelu-tanh",
    "hard-swish",
    "mish",
    "leaky-relu",
    "elu",
    "hard-sigmoid",
    "clip",
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "min",
    "max",
    "mod",
    "equal",
    "greater",
    "less",
    "greater-equal",
    "less-equal",
    "and",
    "or",
    "xor",
    "not",
    "isnan",
    "where",
    "cast",
    "map",
    "matmul",
    "conv",
    "conv-transpose",
    "softmax",
    "log-softmax",
    "layer-norm",
    "batch-norm",
    "instance-norm",
    "lrn",
    "reduce-sum",
    "reduce-max",
    "reduce-min",
    "reduce-prod",
    "arg-max",
    "arg-min",
    "reshape",
    "transpose",
    "slice",
    "gather",
    "gather-elements",
    "expand",
    "pad",
    "attention",
    "pack",
    "unpack",
    "reorder",
];

/// Logical ops that the backend `cuda` has as they are, all operands on the device, beside those of [`NATIVE`]
/// but `reorder` and `conv-transpose`.
const CUDA: &[&str] =
    &["max-pool", "avg-pool", "reduce-mean", "concat", "grad", "tree", "upload", "download"];

/// Logical ops that oneDNN runs as they are.
const ONEDNN: &[&str] = &[
    "matmul",
    "softmax",
    "log-softmax",
    "layer-norm",
    "map",
    "pack",
    "unpack",
    "reorder",
    "reduce-sum",
    "reduce-max",
    "reduce-min",
    "reduce-prod",
];

/// The lowered forms of these logical ops.
pub(super) fn ops(logical: &[Op]) -> Vec<OpDef> {
    let find =
        |name: &str| *logical.iter().find(|def| def.name == name).expect("lowered ops have a logical op");
    let lower = |name: &'static str, of: &str| {
        let def = find(of);
        OpDef {
            name,
            doc: def.doc,
            arity: def.arity,
            attrs: def.attrs.clone(),
            flags: super::Flags { lowered: true, elementwise: false, commutative: false, ..def.flags },
            infer: def.infer,
            eval: def.eval,
            flops: def.flops,
            logical: Some(def),
        }
    };
    // Names live as long as the registry, which is built once.
    let mut ops: Vec<OpDef> =
        NATIVE.iter().map(|name| lower(Box::leak(format!("native.{name}").into_boxed_str()), name)).collect();
    let cuda = NATIVE.iter().filter(|name| !["reorder", "conv-transpose"].contains(name)).chain(CUDA);
    ops.extend(cuda.map(|name| lower(Box::leak(format!("cuda.{name}").into_boxed_str()), name)));
    ops.extend(ONEDNN.iter().map(|name| lower(Box::leak(format!("onednn.{name}").into_boxed_str()), name)));
    macro_rules! blocked {
        ($name:literal, $of:literal, $infer:expr) => {
            ops.push(OpDef { infer: $infer, ..lower($name, $of) })
        };
    }
    blocked!("native.conv-direct", "conv", |attrs, types| {
        let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1).max(1);
        let block = types[0].layout.block(1);
        let [outputs, inputs] = [0, 1].map(|axis| types[1].shape.get(axis).copied().unwrap_or(0));
        if groups > 1 && (inputs % block != 0 || outputs / groups % block != 0) {
            return Err(format!("{groups} groups of {inputs} channels do not fill blocks of {block}"));
        }
        conv(attrs, types, &[("nChw16c", "OIhw16i16o"), ("nChw8c", "OIhw8i8o")])
    });
    blocked!("native.conv-depthwise", "conv", |attrs, types| {
        let filters = (types[1].shape.first(), types[1].shape.get(1));
        if filters != (types[0].shape.get(1), Some(&1)) {
            return Err(format!(
                "weights {} for {}: depthwise takes one filter a channel",
                types[1], types[0]
            ));
        }
        conv(attrs, types, &[("nChw16c", "Oihw16o"), ("nChw8c", "Oihw8o")])
    });
    blocked!("native.conv-narrow", "conv", |attrs, types| {
        let width = types[1].shape.get(1).copied().unwrap_or(0);
        if ![2, 4].contains(&width) || types[1].shape.first() != types[0].shape.get(1) {
            return Err(format!(
                "weights {} for {}: it takes as many outputs as inputs, in groups of 2 or 4",
                types[1], types[0]
            ));
        }
        conv(attrs, types, &[("nChw16c", "Ohwi16o"), ("nChw8c", "Ohwi8o")])
    });
    blocked!("native.pointwise-depthwise", "pointwise-depthwise", infer_pointwise);
    blocked!("native.squeeze-excite", "squeeze-excite", infer_squeeze);
    blocked!("native.conv-nhwc", "conv", |attrs, types| {
        let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1).max(1);
        let outputs = types[1].shape.first().copied().unwrap_or(0);
        if groups > 1 && outputs / groups % types[1].layout.block(0) != 0 {
            return Err(format!("{outputs} outputs of {groups} groups do not fill panels of 32"));
        }
        conv(attrs, types, &[("nhwc", "Ohwi32o")])
    });
    blocked!("native.conv-first", "conv", infer_first);
    blocked!("native.matmul-packed", "matmul", infer_packed);
    blocked!("native.max-pool", "max-pool", |attrs, types| pool(types)
        .and_then(|()| window::infer_pool(attrs, types)));
    blocked!("native.avg-pool", "avg-pool", |attrs, types| pool(types)
        .and_then(|()| window::infer_pool(attrs, types)));
    blocked!("native.reduce-mean", "reduce-mean", |attrs, types| {
        pool(types)?;
        infer_mean(attrs, types)
    });
    blocked!("native.concat", "concat", infer_concat);
    blocked!("native.resize", "resize", |attrs, types| pool(types)
        .and_then(|()| resize::infer(attrs, types)));
    blocked!("onednn.matmul-packed", "matmul", |attrs, types| {
        let types = with_plain(types, 1);
        matmul::infer(attrs, &types.iter().collect::<Vec<_>>())
    });
    blocked!("onednn.max-pool", "max-pool", window::infer_pool);
    blocked!("onednn.avg-pool", "avg-pool", window::infer_pool);
    blocked!("onednn.reduce-mean", "reduce-mean", infer_mean);
    blocked!("onednn.resize", "resize", resize::infer);
    blocked!("onednn.conv-transpose", "conv-transpose", |attrs, types| Ok(
        transposed::infer(attrs, types)?.with_layout(types[0].layout.clone())
    ));
    blocked!("onednn.concat", "concat", infer_concat);
    blocked!("onednn.conv", "conv", infer_free);
    if let Some(conv) = ops.last_mut() {
        conv.attrs.extend([
            attr("layout", AttrKind::Layout, Some(Attr::Layout(Layout::PLAIN)), "the layout of the result"),
            attr(
                "sum",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "which binary step, counted from 1, adds to its operand where that lies; 0: none",
            ),
            attr(
                "implementation",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "which of the library's implementations",
            ),
        ]);
    }
    ops.extend(winograd::lowered(find("conv")));
    ops.extend(strassen::lowered(find("matmul"), find("conv")));
    ops.extend(cublaslt::lowered(find("matmul")));
    ops.extend(cudnn::lowered(find("conv"), find("attention")));
    ops
}

/// A convolution whose input and weights are in one of these pairs of layouts.
fn conv(attrs: &Attrs, types: &[&TensorType], pairs: &[(&str, &str)]) -> Result<TensorType, String> {
    let (x, w) = (types[0].layout.to_string(), types[1].layout.to_string());
    if !pairs.contains(&(x.as_str(), w.as_str())) {
        let known: Vec<String> = pairs.iter().map(|(x, w)| format!("{x} with {w}")).collect();
        return Err(format!("input {x} with weights {w}: it takes {}", known.join(" or ")));
    }
    let result = window::infer_conv(attrs, types)?.with_layout(types[0].layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}

fn infer_pointwise(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let layouts = [0, 1, 3].map(|operand| types[operand].layout.to_string());
    match layouts.each_ref().map(String::as_str) {
        ["nChw16c", "OIhw16i16o", "Oihw16o"] | ["nChw8c", "OIhw8i8o", "Oihw8o"] => {}
        [x, w, v] => {
            return Err(format!(
                "input {x} with weights {w} and {v}: it takes nChw16c with OIhw16i16o and Oihw16o, or nChw8c with OIhw8i8o and Oihw8o"
            ));
        }
    }
    let result = pointwise::infer(attrs, types)?.with_layout(types[0].layout.clone());
    post::check(attrs.post(), &types[5..], &result)?;
    Ok(result)
}

fn infer_squeeze(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let layouts = [0, 1, 3].map(|operand| types[operand].layout.to_string());
    match layouts.each_ref().map(String::as_str) {
        ["nChw16c", "Oihw16o", "Oihw16o"] | ["nChw8c", "Oihw8o", "Oihw8o"] => {}
        [x, w, v] => {
            return Err(format!(
                "input {x} with weights {w} and {v}: it takes nChw16c with Oihw16o, or nChw8c with Oihw8o"
            ));
        }
    }
    Ok(squeeze::infer(attrs, types)?.with_layout(types[0].layout.clone()))
}

fn infer_first(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let layout = match types[1].layout.to_string().as_str() {
        "Ohwi16o" => "nChw16c",
        "Ohwi8o" => "nChw8c",
        other => return Err(format!("weights in {other}: it takes Ohwi16o or Ohwi8o")),
    };
    if !types[0].layout.is_plain() || types[0].shape.get(1).is_none_or(|channels| *channels > 4) {
        return Err(format!("operand 0 is {}: it takes up to 4 channels in the default layout", types[0]));
    }
    if attrs.expect_int("groups") != 1 {
        return Err("it takes one group".into());
    }
    let result = window::infer_conv(attrs, types)?.with_layout(layout.parse()?);
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}

/// A convolution in any layouts: which of them have a kernel, the library says.
fn infer_free(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let layout = attrs.expect_layout("layout");
    if layout.rank().is_some_and(|rank| rank != 4) {
        return Err(format!("attribute `layout` is {layout}, not that of an image"));
    }
    let result = window::infer_conv(attrs, types)?.with_layout(layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    let sum = attrs.expect_int("sum");
    if sum == 0 {
        return Ok(result);
    }
    let mut extras = attrs.post().iter().filter(|step| post::is_binary(step)).zip(&types[3..]);
    match usize::try_from(sum).ok().and_then(|sum| extras.nth(sum - 1)) {
        Some((step, ty)) if step.op == "add" && **ty == result => Ok(result),
        Some((step, ty)) => Err(format!(
            "attribute `sum` names step `{}` with {ty}: it adds an operand of the result's type, {result}",
            step.op
        )),
        None => Err(format!("attribute `sum` is {sum}, and there is no such binary step")),
    }
}

/// A mean, which in other layouts than the default is over rows and columns, and keeps the axes.
fn infer_mean(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let spatial = attrs.expect_int("keepdims") != 0 && sizes(attrs, "axes")? == [2, 3];
    if !types[0].layout.is_plain() && !spatial {
        return Err(format!(
            "operand 0 is {}: in that layout only axes [2,3] are reduced, and kept",
            types[0]
        ));
    }
    reduce::infer(attrs, types)
}

/// The types with one operand in the default layout.
fn with_plain(types: &[&TensorType], operand: usize) -> Vec<TensorType> {
    let mut types: Vec<TensorType> = types.iter().map(|ty| (*ty).clone()).collect();
    types[operand] = types[operand].with_layout(Layout::PLAIN);
    types
}

fn infer_packed(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    if types[1].layout.to_string() != "Ba32b" {
        return Err(format!("operand 1 is {}, not in panels of 32 columns (Ba32b)", types[1]));
    }
    let types = with_plain(types, 1);
    matmul::infer(attrs, &types.iter().collect::<Vec<_>>())
}

fn pool(types: &[&TensorType]) -> Result<(), String> {
    match types[0].layout.to_string().as_str() {
        "plain" | "nChw16c" | "nChw8c" | "nhwc" => Ok(()),
        other => Err(format!("operand 0 is in layout {other}: it takes nchw, nChw16c, nChw8c or nhwc")),
    }
}

fn infer_concat(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let layout = &types[0].layout;
    for (operand, ty) in types.iter().enumerate() {
        if ty.layout != *layout {
            return Err(format!("operand {operand} is {ty}, operand 0 {}", types[0]));
        }
        if !layout.is_plain()
            && (attrs.expect_int("axis") != 1 || ty.shape.get(1).is_none_or(|c| c % layout.block(1) != 0))
        {
            return Err(format!(
                "operand {operand} is {ty}: its channels do not fill the blocks of {layout}"
            ));
        }
    }
    Ok(shape::infer_concat(attrs, types)?.with_layout(layout.clone()))
}
