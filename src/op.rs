//! What every operator means, independent of rules, costs and backends.
//!
//! An [`OpDef`] names an op, its operands and attributes, infers the type of its result, evaluates
//! it for reference, and says how much work it is. A *logical* op has no kernel; a *lowered* op
//! carries its backend in its name (`native.conv-direct`) and means exactly what its logical op
//! means, in the layouts it names.

mod attention;
mod binary;
mod broadcast;
mod declaration;
mod device;
mod elementwise;
mod error;
mod function;
mod grad;
mod handle;
pub mod image;
mod kernel;
pub(crate) mod law;
mod layout;
mod lowered;
mod matmul;
mod normalize;
mod ops;
pub mod pointwise;
pub mod post;
mod reduce;
pub mod resize;
mod shape;
mod squeeze;
mod step;
pub mod strassen;
pub mod transposed;
pub mod tree;
mod window;
pub mod winograd;

pub use declaration::{attr_errors, operand_count};
pub use elementwise::scalar;
pub use error::OpError;
pub use handle::{CONST, INPUT, Op};
pub use kernel::{ALIGN, Args, Call, Choice, Contract, Kernel, REFERENCE, WIDENED};
pub use lowered::{
    Attributes, Check, ChoicesOf, Draw, Fallback, Form, Layouts, Lowered, Lowering, Made, Own, Reference,
    Sample,
};
pub use lowered::{ContractOf, FallbackContract, FallbackKernel, KernelOf, LowerError};
pub use ops::Ops;

use crate::attr::{Attr, AttrKind, Attrs};
use crate::scalar::Function;
use crate::tensor::{Family, Tensor, TensorType};

/// How many operands an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly so many.
    Exactly(usize),
    /// So many, and one more for each binary step of the attribute `post`.
    Post(usize),
    /// At least so many.
    AtLeast(usize),
    /// At least the first number, at most the second: the last ones are optional.
    Between(usize, usize),
}

/// The declaration of one attribute.
#[derive(Clone, Debug)]
pub struct AttrDef {
    /// Its name, in kebab case.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: AttrKind,
    /// Its value where it is not written; `None` where it must be.
    pub default: Option<Attr>,
    /// What it means, in one line.
    pub doc: &'static str,
}

impl AttrDef {
    /// The declaration of an attribute.
    pub const fn new(name: &'static str, kind: AttrKind, default: Option<Attr>, doc: &'static str) -> Self {
        Self { name, kind, default, doc }
    }

    /// The declaration of the attribute `post`.
    pub fn post() -> Self {
        let doc = "steps on each element of the result before it is stored";
        Self::new("post", AttrKind::Post, Some(Attr::Post(Vec::new())), doc)
    }
}

/// Work of one evaluation, for cost models.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations (a multiply-add is two).
    pub flops: f64,
    /// Bytes read and written, each operand and the result once.
    pub bytes: f64,
}

/// Properties that rules and passes ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Unary or binary, element by element, with broadcasting: may appear as a step of a post chain.
    pub elementwise: bool,
    /// Takes operands in any layout (all of the same) and gives its result in that layout.
    pub layout_agnostic: bool,
    /// Binary, and the same with its operands swapped: patterns match it in both orders.
    pub commutative: bool,
    /// Unary, and equal results come only from equal operands, if these are of one type.
    pub injective: bool,
    /// Copies its operand between the memories of the host and of a device of this family, and says itself where both
    /// lie. All other ops have their operands and their result in one memory.
    pub transfer: Option<Family>,
    /// Rounds what another way to compute the same would not: by factors that are no powers of two.
    pub inexact: bool,
    /// The function of one number that it is, by whose formula it is evaluated.
    pub function: Option<Function>,
}

/// Everything ovolo knows of an op.
pub struct OpDef {
    /// The name, in kebab case; a lowered op's begins with its backend and a dot.
    pub name: &'static str,
    /// What it computes, in one line.
    pub doc: &'static str,
    /// How many operands it takes.
    pub arity: Arity,
    /// Its attributes.
    pub attrs: Vec<AttrDef>,
    /// Properties.
    pub flags: Flags,
    /// The type of the result, operands being where the op takes them. Ask [`OpDef::result`].
    pub infer: Infer,
    /// The reference evaluation on the host. Ask [`OpDef::evaluate`].
    pub eval: Eval,
    /// Floating-point operations of one evaluation.
    pub flops: Flops,
    /// What an op has that a backend runs; `None` for a logical op.
    pub lowered: Option<Lowered>,
}

/// Infers the type of a result from the attributes, all of them set, and as many operands as the op takes; or says
/// what is wrong with which of them.
pub type Infer = fn(&Attrs, &[&TensorType]) -> Result<TensorType, OpError>;

/// Evaluates an op for reference, for operands and a result that [`Infer`] accepted. Accumulates in `f64`.
pub type Eval = fn(&Attrs, &[&Tensor], &TensorType) -> Tensor;

/// Counts the floating-point operations of one evaluation, a multiply-add as two.
pub type Flops = fn(&Attrs, &[&TensorType], &TensorType) -> f64;

impl OpDef {
    /// The type of the result.
    ///
    /// # Errors
    /// What is wrong with which operand or attribute, and which operand is not where the op takes it.
    pub fn result(&self, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
        device::infer(self, attrs, types)
    }

    /// Reference evaluation (accumulates in `f64`); operands and result as [`OpDef::result`] says, which
    /// accepted them.
    pub fn evaluate(&self, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
        device::eval(self, attrs, operands, ty)
    }

    /// Work of one evaluation.
    pub fn work(&self, attrs: &Attrs, inputs: &[&TensorType], output: &TensorType) -> Work {
        #[allow(clippy::cast_precision_loss)]
        let bytes = inputs.iter().map(|ty| ty.bytes() as f64).sum::<f64>() + output.bytes() as f64;
        Work { flops: (self.flops)(attrs, inputs, output), bytes }
    }

    /// The reference evaluation of operands on the host, by the formula of a function or by the op's own code.
    fn reference(&self, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
        match self.flags.function {
            Some(function) => function::eval(function, attrs, operands[0], ty),
            None => (self.eval)(attrs, operands, ty),
        }
    }

    /// The declaration of an attribute.
    pub fn attr(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().find(|def| def.name == name)
    }

    /// The name without the backend's.
    pub fn own_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// The function of one number that it is; `None` for a lowered op.
    pub fn function(&self) -> Option<Function> {
        self.flags.function.filter(|_| self.lowered.is_none())
    }

    /// Whether a backend runs it.
    pub fn is_lowered(&self) -> bool {
        self.lowered.is_some()
    }

    /// The name of the logical op that it computes: its own, unless it is a lowered op.
    pub fn meaning(&self) -> &'static str {
        self.lowered.as_ref().map_or(self.name, |lowered| lowered.logical.name)
    }

    /// Whether results are rounded where the logical op's are not: see [`Flags::inexact`].
    pub fn is_inexact(&self) -> bool {
        let makers = self.lowered.iter().flat_map(|lowered| &lowered.makers);
        self.flags.inexact || makers.into_iter().any(|maker| maker.flags.inexact)
    }

    /// The name of the backend that has the kernel, for a lowered op.
    pub fn backend(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(backend, _)| backend)
    }

    /// The family of devices on which the kernel of a lowered op runs; `None` for the host. Copies to a device and
    /// from one run there.
    pub fn device(&self) -> Option<Family> {
        self.lowered.as_ref().and_then(|lowered| lowered.declaration.device)
    }
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpDef({})", self.name)
    }
}

/// The families of logical ops, each a list of definitions. A new op is one entry in one of them.
const LOGICAL: &[fn() -> Vec<OpDef>] = &[
    function::ops,
    binary::ops,
    elementwise::ops,
    tree::ops,
    matmul::ops,
    window::ops,
    transposed::ops,
    resize::ops,
    pointwise::ops,
    squeeze::ops,
    winograd::ops,
    strassen::ops,
    normalize::ops,
    reduce::ops,
    shape::ops,
    attention::ops,
    grad::ops,
    layout::ops,
];

/// An error unless every operand is in the default layout.
fn plain(types: &[&TensorType]) -> Result<(), OpError> {
    match types.iter().position(|ty| !ty.layout.is_plain()) {
        None => Ok(()),
        Some(operand) => Err(OpError::operand(operand, types[operand], ", not in the default layout")),
    }
}

/// An error unless an operand has this rank.
fn rank(types: &[&TensorType], operand: usize, rank: usize) -> Result<(), OpError> {
    let ty = types[operand];
    if ty.shape.rank() == rank {
        Ok(())
    } else {
        Err(OpError::operand(operand, ty, format!(", not of rank {rank}")))
    }
}

/// A dimension of a type as `f64`, for counts of work.
#[allow(clippy::cast_precision_loss)]
fn count(ty: &TensorType) -> f64 {
    ty.shape.count() as f64
}

/// An attribute that is a list of sizes or offsets; the error names it where one is negative.
fn sizes(attrs: &Attrs, name: &str) -> Result<Vec<usize>, OpError> {
    let convert = |value: &i64| {
        usize::try_from(*value)
            .map_err(|_| OpError::attribute(name, format!("holds {value}, which is negative")))
    };
    attrs.expect_ints(name).iter().map(convert).collect()
}

/// An axis of a shape of this rank.
fn axis(attrs: &Attrs, name: &str, rank: usize) -> Result<usize, OpError> {
    let value = attrs.expect_int(name);
    usize::try_from(value).ok().filter(|axis| *axis < rank).ok_or_else(|| {
        OpError::attribute(name, format!("is {value}, and the operand has {rank} dimension(s)"))
    })
}

/// The attributes of an op with the defaults of those not written, so that equal nodes are equal terms.
pub fn complete(op: Op, mut attrs: Attrs) -> Attrs {
    for def in &op.attrs {
        if let (None, Some(default)) = (attrs.get(def.name), &def.default) {
            attrs.set(def.name, default.clone());
        }
    }
    attrs
}
