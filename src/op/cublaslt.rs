//! The op that cuBLASLt has kernels for: a matrix product on a device.

use super::{Flags, Op, OpDef, attr, matmul, tf32};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, TensorType};

/// Element types that the library multiplies.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];

/// The lowered form of `matmul`.
pub(super) fn lowered(matmul: Op) -> Vec<OpDef> {
    let mut attrs = matmul.attrs.clone();
    let int = |name, default, doc| attr(name, AttrKind::Int, Some(Attr::Int(default)), doc);
    attrs.extend([
        int(
            "algorithm",
            0,
            "which of the algorithms that the library names for the product, the best guess first",
        ),
        int("workspace", 4, "MiB of scratch that the algorithm may take"),
        tf32::attribute(),
    ]);
    vec![OpDef {
        name: "cublaslt.matmul",
        doc: matmul.doc,
        arity: matmul.arity,
        attrs,
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval: |attrs, operands, ty| {
            matmul::eval(attrs, &tf32::rounded(attrs, operands).iter().collect::<Vec<_>>(), ty)
        },
        flops: matmul.flops,
        logical: Some(matmul),
    }]
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let result = matmul::infer(attrs, types)?;
    if !TYPES.contains(&result.dtype) {
        return Err(format!(
            "the operands are {} and {}: it takes f32, f16, bf16 and f64",
            types[0], types[1]
        ));
    }
    tf32::check(attrs, result.dtype)?;
    for name in ["algorithm", "workspace"] {
        let value = attrs.expect_int(name);
        if !(0..1 << 16).contains(&value) {
            return Err(format!("attribute `{name}` is {value}, not between 0 and 65535"));
        }
    }
    Ok(result)
}
