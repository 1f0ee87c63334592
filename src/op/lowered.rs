//! Lowered ops: what a backend declares together with a kernel, and what follows from that.
//!
//! A [`Lowering`] names the logical op that a kernel computes, the layouts in which it takes its operands, what it
//! makes of operands ahead of time, and the kernel. The inference of the result's type, the reference evaluation,
//! samples for verifiers and the operands of tests follow from that.

use super::{
    Arity, AttrDef, Call, Contract, Draw, Eval, Flops, Independence, Kernel, KernelChoice, Op, OpDef,
    OpError, post,
};
use crate::attr::Attrs;
use crate::table::{Duplicate, Unknown};
use crate::tensor::{Family, Layout, Tensor, TensorType};

/// Returns the contract of a call's kernel, or why there is no kernel.
pub type ContractOf = fn(&Call<'_>) -> Result<Contract, OpError>;

/// Returns what a call's kernel decides for itself.
pub type ChoicesOf = fn(&Call<'_>) -> Vec<KernelChoice>;

/// Makes a call's kernel.
pub type KernelOf = fn(&Call<'_>) -> Result<Box<dyn Kernel>, OpError>;

/// Checks conditions on operands beyond their layouts and those of the logical op. The last argument is the type of
/// the result.
pub type Check = fn(&Attrs, &[&TensorType], &TensorType) -> Result<(), OpError>;

/// The declaration of a lowered op, which is written beside its kernel.
///
/// ```
/// use ovolo::op::{Form, Layouts, Lowering};
/// # use ovolo::op::{Call, Contract, Kernel, OpError};
/// # fn contract(_: &Call<'_>) -> Result<Contract, OpError> { Err(OpError::kernel("an example")) }
/// # fn kernel(_: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> { Err(OpError::kernel("an example")) }
/// const MAX_POOL: Lowering = Lowering {
///     layouts: Layouts::Forms(&[Form::same("plain"), Form::same("nhwc")]),
///     ..Lowering::new("mine.max-pool", "max-pool", contract, kernel)
/// };
/// ```
#[derive(Clone, Copy)]
pub struct Lowering {
    /// The name: the backend's, a dot, and the op's own.
    pub name: &'static str,
    /// The logical op that it computes, by name.
    pub of: &'static str,
    /// What it computes, in one line; `None` if the line of the logical op says it.
    pub doc: Option<&'static str>,
    /// How many operands it takes; `None` for as many as the logical op.
    pub arity: Option<Arity>,
    /// Its attributes.
    pub attributes: Attributes,
    /// The layouts in which it takes its operands and gives its result.
    pub layouts: Layouts,
    /// Further conditions on operands.
    pub check: Option<Check>,
    /// Operands that another op makes once from operands of the logical op, such as packed weights.
    pub makes: &'static [Made],
    /// Its reference evaluation, on the host in the default layout.
    pub reference: Reference,
    /// Its floating-point operations; `None` for those of the logical op.
    pub flops: Option<Flops>,
    /// The contract of its kernel for a call.
    pub contract: ContractOf,
    /// Its kernel for a call.
    pub kernel: KernelOf,
    /// What the kernel decides for itself for a call, apart from what contract and attributes say.
    pub choices: ChoicesOf,
    /// Kernels for calls that its own kernel does not take; `None` if such calls are refused.
    pub fallback: Option<&'static Fallback>,
    /// Features for cost models, in addition to those of every op.
    pub features: &'static [Own],
    /// The instruction sets for which it has separate code, by the backend's names; empty if the same code serves
    /// all of them.
    pub instruction_sets: &'static [&'static str],
    /// The family of devices in whose memory its operands and its result lie; `None` for the host.
    pub device: Option<Family>,
}

impl Lowering {
    /// Declares a lowered op that takes what its logical op takes.
    pub const fn new(name: &'static str, of: &'static str, contract: ContractOf, kernel: KernelOf) -> Self {
        Self {
            name,
            of,
            doc: None,
            arity: None,
            attributes: Attributes::OfLogical,
            layouts: Layouts::AsLogical,
            check: None,
            makes: &[],
            reference: Reference::OfLogical,
            flops: None,
            contract,
            kernel,
            choices: |_| Vec::new(),
            fallback: None,
            features: &[],
            instruction_sets: &[],
            device: None,
        }
    }
}

/// The attributes of a lowered op.
#[derive(Clone, Copy)]
pub enum Attributes {
    /// Those of the logical op.
    OfLogical,
    /// Those of the logical op, and further ones.
    Also(fn() -> Vec<AttrDef>),
    /// These alone. Attributes of the logical op that are not among them have their defaults.
    Only(fn() -> Vec<AttrDef>),
}

/// The reference evaluation of a lowered op, which takes its operands in the default layout.
#[derive(Clone, Copy)]
pub enum Reference {
    /// That of the logical op.
    OfLogical,
    /// That of the logical op, applied to what this function makes of the operands.
    Prepared(fn(&Attrs, &[&Tensor]) -> Vec<Tensor>),
    /// A function of its own.
    Own(Eval),
}

/// The layouts in which a lowered op takes its operands and gives its result.
#[derive(Clone, Copy)]
pub enum Layouts {
    /// Those that the logical op takes.
    AsLogical,
    /// One of these forms.
    Forms(&'static [Form]),
    /// A function infers the type of the result from the operands.
    Typed {
        /// The type of the result, or what is wrong with the operands.
        infer: fn(&Lowered, &Attrs, &[&TensorType]) -> Result<TensorType, OpError>,
        /// Some of the forms that it takes, for samplers.
        samples: &'static [Form],
    },
}

/// Layouts of the operands and of the result, by their names. Operands that are not listed, and those of a post
/// chain, have the layout of the result. A sparse layout stands for those with the same blocks, whatever number of them is
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The layouts of the operands.
    pub operands: &'static [&'static str],
    /// The layout of the result.
    pub result: &'static str,
}

impl Form {
    /// Makes a form in which all operands and the result have one layout.
    pub const fn same(layout: &'static str) -> Self {
        Self { operands: &[], result: layout }
    }

    /// Makes a form from the layouts of the operands and of the result.
    pub const fn new(operands: &'static [&'static str], result: &'static str) -> Self {
        Self { operands, result }
    }

    /// Returns the layout of an operand.
    pub fn operand(&self, at: usize) -> &'static str {
        self.operands.get(at).copied().unwrap_or(self.result)
    }
}

/// An operand that another op makes from the logical op's operand.
#[derive(Clone, Copy)]
pub struct Made {
    /// The operand.
    pub operand: usize,
    /// The logical op that makes it, by name.
    pub maker: &'static str,
    /// Returns the type of the logical op's operand and the maker's attributes, given the lowered op's attributes
    /// and the type of what was made, in the default layout. `None` if the maker cannot make such a value.
    pub source: fn(&Attrs, &TensorType) -> Option<(TensorType, Attrs)>,
    /// Draws what it may be made from: attributes of the lowered op, which include those of the maker, and the type of the
    /// logical op's operand.
    pub sample: fn(&mut dyn Draw) -> (Attrs, TensorType),
}

/// A feature of an op that its declaration gives to cost models.
#[derive(Clone, Copy)]
pub struct Own {
    /// Its name, in snake case.
    pub name: &'static str,
    /// What it is, with its unit.
    pub doc: &'static str,
    /// Its value for a call.
    pub value: fn(&Call<'_>) -> f64,
}

/// Returns a call's contract, given the function that returns the contract of the op's own kernel.
pub type FallbackContract = fn(&Call<'_>, ContractOf) -> Result<Contract, OpError>;

/// Makes a call's kernel, given the function that makes the op's own kernel.
pub type FallbackKernel = fn(&Call<'_>, KernelOf) -> Result<Box<dyn Kernel>, OpError>;

/// Kernels that take the place of the op's own kernel, for calls that it refuses or runs no faster.
#[derive(Clone, Copy)]
pub struct Fallback {
    /// The contract.
    pub contract: FallbackContract,
    /// The kernel.
    pub kernel: FallbackKernel,
}

/// What a lowered op has in addition to the definition that all ops have.
pub struct Lowered {
    /// The logical op that it computes.
    pub logical: Op,
    /// Its declaration.
    pub declaration: Lowering,
    /// The ops that make operands, in the order of the declaration.
    pub makers: Vec<Op>,
    /// Layouts of operands and of the result, in the order of the declaration's forms.
    forms: Vec<(Vec<Layout>, Layout)>,
}

/// A lowered op cannot be defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// The logical op, or an op that makes operands, is absent.
    #[error("`{op}` cannot be lowered: {source}")]
    Absent {
        /// The lowered op.
        op: &'static str,
        /// Which op is absent.
        source: Unknown,
    },
    /// A form names a layout that does not exist.
    #[error("`{op}` has a form with `{layout}`, which is not a layout")]
    Layout {
        /// The lowered op.
        op: &'static str,
        /// The text.
        layout: &'static str,
    },
    /// Another op already has the name.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
}

impl Lowering {
    /// Defines the op of this declaration.
    pub(super) fn define(&self, find: impl Fn(&str) -> Result<Op, Unknown>) -> Result<Op, LowerError> {
        let found = |name: &str| find(name).map_err(|source| LowerError::Absent { op: self.name, source });
        let logical = found(self.of)?;
        let makers = self.makes.iter().map(|made| found(made.maker)).collect::<Result<_, _>>()?;
        let forms = match self.layouts {
            Layouts::Forms(forms) => forms,
            Layouts::AsLogical | Layouts::Typed { .. } => &[],
        };
        let layout = |layout: &'static str| {
            layout.parse::<Layout>().map_err(|_| LowerError::Layout { op: self.name, layout })
        };
        let form = |form: &Form| {
            let operands = form.operands.iter().map(|name| layout(name)).collect::<Result<_, _>>()?;
            Ok::<_, LowerError>((operands, layout(form.result)?))
        };
        let forms = forms.iter().map(form).collect::<Result<_, _>>()?;
        let attrs = match self.attributes {
            Attributes::OfLogical => logical.attrs.clone(),
            Attributes::Also(more) => logical.attrs.iter().cloned().chain(more()).collect(),
            Attributes::Only(own) => own(),
        };
        Ok(Op::define(OpDef {
            name: self.name,
            doc: self.doc.unwrap_or(logical.doc),
            arity: self.arity.unwrap_or(logical.arity),
            attrs,
            flags: super::Flags {
                elementwise: false,
                commutative: false,
                independence: Independence::Unknown,
                ..logical.flags
            },
            infer: logical.infer,
            eval: logical.eval,
            flops: self.flops.unwrap_or(logical.flops),
            sample: None,
            lowered: Some(Lowered { logical, declaration: *self, makers, forms }),
        }))
    }
}

impl Lowered {
    /// Returns the attributes of the logical op that correspond to those of the lowered op.
    pub fn logical_attrs(&self, attrs: &Attrs) -> Attrs {
        let known = attrs.iter().filter(|(name, _)| self.logical.attr(name).is_some());
        self.logical
            .complete(known.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone())))
    }

    /// Returns how another op makes an operand, and that op; `None` if the operand is the logical op's own.
    pub fn made(&self, operand: usize) -> Option<(&Made, Op)> {
        let mut makes = self.declaration.makes.iter().zip(&self.makers);
        makes.find(|(made, _)| made.operand == operand).map(|(made, maker)| (made, *maker))
    }

    /// Returns the types of the logical op's operands, in the default layout, from which the lowered op's operands
    /// were made.
    ///
    /// # Errors
    /// An operand that its maker cannot make.
    pub(crate) fn sources(&self, attrs: &Attrs, types: &[&TensorType]) -> Result<Vec<TensorType>, OpError> {
        let mut sources: Vec<TensorType> = types.iter().map(|ty| ty.with_layout(Layout::PLAIN)).collect();
        for (made, maker) in self.declaration.makes.iter().zip(&self.makers) {
            let Some(ty) = sources.get_mut(made.operand) else { continue };
            let source = (made.source)(attrs, ty).filter(|(source, attrs)| {
                maker.result(&maker.complete(attrs.clone()), &[source]).as_ref() == Ok(ty)
            });
            let (source, _) = source.ok_or_else(|| {
                OpError::operand(
                    made.operand,
                    types[made.operand],
                    format!(": `{}` makes no such value", made.maker),
                )
            })?;
            *ty = source;
        }
        Ok(sources)
    }

    /// Returns the type of the logical op's result in the default layout, for operands in any layouts.
    ///
    /// # Errors
    /// What is wrong with the operands.
    pub fn logical_result(&self, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
        let sources = self.sources(attrs, types)?;
        let sources: Vec<&TensorType> = sources.iter().collect();
        match self.declaration.attributes {
            Attributes::Only(_) => (self.logical.infer)(&self.logical_attrs(attrs), &sources),
            Attributes::OfLogical | Attributes::Also(_) => (self.logical.infer)(attrs, &sources),
        }
    }

    /// Returns whether its reference evaluation is another computation than that of the logical op. For real numbers
    /// both give the same; rounding differs, and so does what becomes of infinities and NaN.
    pub fn has_own_reference(&self) -> bool {
        matches!(self.declaration.reference, Reference::Own(_))
    }

    /// Evaluates the op for reference, on the host in the default layout.
    pub(super) fn evaluate(&self, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
        match self.declaration.reference {
            Reference::OfLogical => self.logical.reference(attrs, operands, ty),
            Reference::Prepared(prepare) => {
                let prepared = prepare(attrs, operands);
                self.logical.reference(attrs, &prepared.iter().collect::<Vec<_>>(), ty)
            }
            Reference::Own(eval) => eval(attrs, operands, ty),
        }
    }

    /// Returns whether a form has an operand in a sparse layout, or the logical op takes such operands.
    pub(super) fn takes_sparse(&self) -> bool {
        let sparse = |layout: &Layout| layout.stored().is_some();
        self.logical.flags.sparse || self.forms.iter().any(|(operands, _)| operands.iter().any(sparse))
    }

    /// Infers the type of the result.
    pub(super) fn result(
        &self,
        arity: Arity,
        attrs: &Attrs,
        types: &[&TensorType],
    ) -> Result<TensorType, OpError> {
        let result = match self.declaration.layouts {
            Layouts::AsLogical => (self.logical.infer)(attrs, types)?,
            Layouts::Forms(_) => self.formed(arity, attrs, types)?,
            Layouts::Typed { infer, .. } => infer(self, attrs, types)?,
        };
        self.declaration.check.map_or(Ok(()), |check| check(attrs, types, &result))?;
        Ok(result)
    }

    fn formed(&self, arity: Arity, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
        let own = match arity {
            Arity::Exactly(count) | Arity::Post(count) => count.min(types.len()),
            Arity::AtLeast(_) | Arity::Between(..) => types.len(),
        };
        let fits = |(operands, result): &&(Vec<Layout>, Layout)| {
            let wanted = (0..own).map(|at| operands.get(at).unwrap_or(result));
            wanted.zip(types).all(|(layout, ty)| ty.layout.is_like(layout))
        };
        let Some((_, layout)) = self.forms.iter().find(fits) else {
            return Err(self.refusal(&types[..own]));
        };
        let result = self.logical_result(attrs, types)?.with_layout(layout.clone());
        if matches!(arity, Arity::Post(_)) {
            post::check(attrs.post(), &types[own..], &result)?;
        }
        Ok(result)
    }

    /// Returns the error of operands that fit none of the forms.
    fn refusal(&self, types: &[&TensorType]) -> OpError {
        let given: Vec<String> = types.iter().map(|ty| ty.layout.to_string()).collect();
        let form = |(operands, result): &(Vec<Layout>, Layout)| {
            let operands = (0..types.len()).map(|at| operands.get(at).unwrap_or(result).to_string());
            operands.collect::<Vec<_>>().join(", ")
        };
        let forms: Vec<String> = self.forms.iter().map(form).collect();
        OpError::operands(format!(
            "the layouts of the operands are {}: it takes {}",
            given.join(", "),
            forms.join("; or ")
        ))
    }
}
