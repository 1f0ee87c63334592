//! The definitions of ops, which do not depend on rules, costs or backends.
//!
//! An [`OpDef`] names an op, its operands and attributes, infers the type of its result, has a reference
//! evaluation, and says how much work it is. A *logical* op has no kernel; a *lowered* op has the name of its
//! backend in its own (`native.conv-direct`) and computes exactly what its logical op computes, in the layouts that
//! it declares.

pub mod attention;
mod bits;
mod broadcast;
mod cast;
mod declaration;
mod demand;
mod device;
mod draw;
pub(crate) mod einsum;
mod elementwise;
mod embed;
mod error;
pub mod forest;
mod function;
mod grad;
mod gradient;
mod handle;
pub mod image;
mod independence;
mod integer;
mod kernel;
pub(crate) mod law;
mod layout;
mod levels;
mod lookup;
mod lowered;
mod matmul;
mod narrow;
mod normalize;
mod ops;
pub mod pointwise;
mod pool_gradient;
mod positions;
pub mod post;
pub mod recurrent;
mod reduce;
mod requantize;
pub mod resize;
mod sample;
mod scatter;
mod select;
mod shape;
mod sort;
mod spectrum;
mod squeeze;
pub mod strassen;
mod suppress;
mod table;
mod text;
pub mod transposed;
pub mod tree;
mod window;
pub mod winograd;

pub(crate) use demand::{Demand, Unmet};
use demand::{DemandOf, Elements};
use draw::SampleOf;
pub use draw::{Draw, Sample, Values};
pub use elementwise::scalar;
pub use error::OpError;
pub(crate) use function::op as of_function;
pub use handle::{CONST, INPUT, Op};
pub(crate) use independence::Axes;
pub use independence::Independence;
pub use kernel::{ALIGN, Args, Call, Contract, Kernel, KernelChoice, REFERENCE, WIDENED};
pub use lowered::LowerError;
pub use lowered::{Attributes, Check, Fallback, Form, Layouts, Lowered, Lowering, Made, Own, Reference};
pub use ops::Ops;

use crate::attr::{Attr, AttrKind, Attrs};
use crate::scalar::Function;
use crate::tensor::{Family, Tensor, TensorType};

/// How many operands an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// This many, and one more for each binary step of the attribute `post`.
    Post(usize),
    /// At least this many.
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
    /// Its default value; `None` if the attribute must be written.
    pub default: Option<Attr>,
    /// What it means, in one line.
    pub doc: &'static str,
}

impl AttrDef {
    /// Returns the declaration of an attribute.
    pub const fn new(name: &'static str, kind: AttrKind, default: Option<Attr>, doc: &'static str) -> Self {
        Self { name, kind, default, doc }
    }

    /// Declares the attribute `post`.
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// Unary or binary, element by element, with broadcasting. Those that compute a function of the scalar tables
    /// ([`Flags::function`]) may be steps of a post chain.
    pub elementwise: bool,
    /// Takes operands in any layout, the same for all of them, and gives its result in that layout.
    pub layout_agnostic: bool,
    /// Takes operands in sparse layouts as well. A lowered op takes them where one of its forms has such a layout.
    pub sparse: bool,
    /// Binary, and the same with its operands swapped: patterns match it in both orders.
    pub commutative: bool,
    /// Unary, and operands of one type that are different have different results.
    pub injective: bool,
    /// Copies its operand between the memories of the host and of a device of this family. Its own inference says
    /// where both lie. All other ops have their operands and their result in one memory.
    pub transfer: Option<Family>,
    /// Rounds where another way to compute the same result does not, for example since it multiplies by factors
    /// that are not powers of two.
    pub inexact: bool,
    /// The function that the op applies to each element, and by whose formula it is evaluated.
    pub function: Option<Function>,
    /// Along which axes positions are independent of each other.
    pub independence: Independence,
    /// What the elements of an operand must be, beside its type. It is checked before each step of the op.
    pub demands: Option<DemandOf>,
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
    /// Infers the type of the result from operands that lie in the memory where the op takes them. Callers use
    /// [`OpDef::result`].
    pub infer: Infer,
    /// The reference evaluation on the host. Callers use [`OpDef::evaluate`].
    pub eval: Eval,
    /// Floating-point operations of one evaluation.
    pub flops: Flops,
    /// Draws attributes and operands that fit, for verifiers and tests. With `None`, verifiers give operands the type of the
    /// result, or draw them by rules of their own for ovolo's ops. Samples of a lowered op are those of its logical op.
    pub sample: Option<SampleOf>,
    /// The declaration of a lowered op; `None` for a logical op.
    pub lowered: Option<Lowered>,
}

/// Infers the type of a result, or says which attribute or operand is wrong. All attributes are set, and there are
/// as many operands as the op takes.
pub type Infer = fn(&Attrs, &[&TensorType]) -> Result<TensorType, OpError>;

/// Evaluates an op for reference, for operands and a result that [`Infer`] accepted. Accumulates in `f64`.
pub(crate) type Eval = fn(&Attrs, &[&Tensor], &TensorType) -> Tensor;

/// Counts the floating-point operations of one evaluation, a multiply-add as two.
pub(crate) type Flops = fn(&Attrs, &[&TensorType], &TensorType) -> f64;

impl OpDef {
    /// Returns the type of the result.
    ///
    /// # Errors
    /// Which operand or attribute is wrong and why; also an operand that is not in the memory where the op takes
    /// it.
    pub fn result(&self, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
        device::infer(self, attrs, types)
    }

    /// Evaluates the op for reference, accumulating in `f64`. The operands and the type of the result are those
    /// that [`OpDef::result`] accepted.
    pub fn evaluate(&self, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
        device::eval(self, attrs, operands, ty)
    }

    /// Returns the work of one evaluation.
    pub fn work(&self, attrs: &Attrs, inputs: &[&TensorType], output: &TensorType) -> Work {
        #[allow(clippy::cast_precision_loss)]
        let bytes = inputs.iter().map(|ty| ty.bytes() as f64).sum::<f64>() + output.bytes() as f64;
        Work { flops: (self.flops)(attrs, inputs, output), bytes }
    }

    /// Evaluates operands on the host, by the formula of the op's function or by the op's own code.
    fn reference(&self, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
        let result = match self.flags.function {
            Some(function) => function::eval(function, attrs, operands, ty),
            None => (self.eval)(attrs, operands, ty),
        };
        // Whoever reads the value relies on its size: a mistake in the definition must not go further. Floats may be
        // wider, since rules are verified in `f64`.
        let (got, float) = (result.ty(), result.ty().dtype.is_float() && ty.dtype.is_float());
        assert!(
            got.shape == ty.shape && got.layout == ty.layout && (float || got.dtype == ty.dtype),
            "`{}` is evaluated to {got}, and its definition infers {ty}",
            self.name
        );
        result
    }

    /// Returns the declaration of an attribute.
    pub fn attr(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().find(|def| def.name == name)
    }

    /// Adds the defaults of attributes that are not written, so that equal nodes are equal terms.
    pub fn complete(&self, mut attrs: Attrs) -> Attrs {
        for def in &self.attrs {
            if let (None, Some(default)) = (attrs.get(def.name), &def.default) {
                attrs.set(def.name, default.clone());
            }
        }
        attrs
    }

    /// Returns along which axes the op keeps positions independent.
    pub fn independence(&self) -> Independence {
        match self.flags {
            Flags { elementwise: true, independence: Independence::Unknown, .. } => {
                Independence::Along(independence::broadcast)
            }
            Flags { independence, .. } => independence,
        }
    }

    /// Returns the name without that of the backend.
    pub fn own_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Returns the function that the op applies to each element; `None` for a lowered op.
    pub fn function(&self) -> Option<Function> {
        self.flags.function.filter(|_| self.lowered.is_none())
    }

    /// Returns whether this is a lowered op.
    pub fn is_lowered(&self) -> bool {
        self.lowered.is_some()
    }

    /// Returns whether some of its operands may be in a sparse layout.
    fn takes_sparse(&self) -> bool {
        self.flags.sparse
            || self.flags.transfer.is_some()
            || self.lowered.as_ref().is_some_and(Lowered::takes_sparse)
    }

    /// Returns the name of the logical op that this op computes, which is its own unless it is a lowered op.
    pub fn meaning(&self) -> &'static str {
        self.lowered.as_ref().map_or(self.name, |lowered| lowered.logical.name)
    }

    /// Returns whether results are rounded where those of the logical op are not (see [`Flags::inexact`]).
    pub fn is_inexact(&self) -> bool {
        let makers = self.lowered.iter().flat_map(|lowered| &lowered.makers);
        self.flags.inexact || makers.into_iter().any(|maker| maker.flags.inexact)
    }

    /// Returns the name of the backend that has the kernel; `None` for a logical op.
    pub fn backend(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(backend, _)| backend)
    }

    /// Returns the family of devices on which the kernel of a lowered op runs; `None` for the host. Copies to and
    /// from a device run on that device.
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
    elementwise::ops,
    cast::ops,
    tree::ops,
    matmul::ops,
    narrow::ops,
    einsum::ops,
    integer::ops,
    requantize::ops,
    recurrent::ops,
    window::ops,
    transposed::ops,
    resize::ops,
    pointwise::ops,
    squeeze::ops,
    winograd::ops,
    strassen::ops,
    normalize::ops,
    levels::ops,
    embed::ops,
    reduce::ops,
    shape::ops,
    attention::ops,
    grad::ops,
    gradient::ops,
    pool_gradient::ops,
    layout::ops,
    scatter::ops,
    sort::ops,
    select::ops,
    sample::ops,
    spectrum::ops,
    suppress::ops,
    bits::ops,
    positions::ops,
    forest::ops,
    lookup::ops,
    table::ops,
    text::ops,
];

/// Checks that every operand is in the default layout.
fn plain(types: &[&TensorType]) -> Result<(), OpError> {
    match types.iter().position(|ty| !ty.layout.is_plain()) {
        None => Ok(()),
        Some(operand) => Err(OpError::operand(operand, types[operand], ", not in the default layout")),
    }
}

/// Checks that an operand has this rank.
fn rank(types: &[&TensorType], operand: usize, rank: usize) -> Result<(), OpError> {
    let ty = types[operand];
    if ty.shape.rank() == rank {
        Ok(())
    } else {
        Err(OpError::operand(operand, ty, format!(", not of rank {rank}")))
    }
}

/// Returns the number of elements of a type as `f64`, for counts of work.
#[allow(clippy::cast_precision_loss)]
fn count(ty: &TensorType) -> f64 {
    ty.shape.count() as f64
}

/// Returns an attribute that is a list of sizes or offsets. Negative numbers are errors.
fn sizes(attrs: &Attrs, name: &str) -> Result<Vec<usize>, OpError> {
    let convert = |value: &i64| {
        usize::try_from(*value)
            .map_err(|_| OpError::attribute(name, format!("holds {value}, which is negative")))
    };
    attrs.expect_ints(name).iter().map(convert).collect()
}

/// Returns an attribute that is an axis of a shape of this rank.
fn axis(attrs: &Attrs, name: &str, rank: usize) -> Result<usize, OpError> {
    let value = attrs.expect_int(name);
    usize::try_from(value).ok().filter(|axis| *axis < rank).ok_or_else(|| {
        OpError::attribute(name, format!("is {value}, and the operand has {rank} dimension(s)"))
    })
}
