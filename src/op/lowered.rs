//! Lowered ops: what a backend declares beside a kernel, and what follows from it.
//!
//! A [`Lowering`] names the logical op that a kernel computes, the layouts in which it takes its operands, what
//! it makes of operands ahead of time, and the kernel. The op's type, its reference evaluation, samples for
//! verifiers and the operands of tests follow from that.

use super::{
    Arity, AttrDef, Call, Choice, Contract, Eval, Flops, Kernel, Op, OpDef, OpError, complete, post,
};
use crate::attr::Attrs;
use crate::table::{Duplicate, Unknown};
use crate::tensor::{Family, Layout, Tensor, TensorType};

/// Answers for a call's kernel: its contract, or why there is none.
pub type ContractOf = fn(&Call<'_>) -> Result<Contract, OpError>;

/// Says what a call's kernel decides for itself.
pub type ChoicesOf = fn(&Call<'_>) -> Vec<Choice>;

/// Makes a call's kernel.
pub type KernelOf = fn(&Call<'_>) -> Result<Box<dyn Kernel>, OpError>;

/// Says what keeps an op from some operands, beside their layouts and what its logical op says. The last
/// argument is the type of the result.
pub type Check = fn(&Attrs, &[&TensorType], &TensorType) -> Result<(), OpError>;

/// The declaration of a lowered op, which stands beside its kernel.
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
    /// The name: that of the backend, a dot, and the op's own.
    pub name: &'static str,
    /// The logical op that it computes, by name.
    pub of: &'static str,
    /// What it computes, in one line; `None` where the logical op's line says it.
    pub doc: Option<&'static str>,
    /// How many operands it takes; `None` for as many as the logical op.
    pub arity: Option<Arity>,
    /// Its attributes.
    pub attributes: Attributes,
    /// The layouts in which it takes its operands and gives its result.
    pub layouts: Layouts,
    /// What else keeps it from some operands.
    pub check: Option<Check>,
    /// Operands that another op makes, once, of operands of the logical op: packed weights.
    pub makes: &'static [Made],
    /// Its reference evaluation, on the host in the default layout.
    pub reference: Reference,
    /// Its floating-point operations; `None` for those of the logical op.
    pub flops: Option<Flops>,
    /// The contract of its kernel for a call.
    pub contract: ContractOf,
    /// Its kernel for a call.
    pub kernel: KernelOf,
    /// What the kernel decides for itself for a call, beside what contract and attributes say.
    pub choices: ChoicesOf,
    /// Answers for calls that its own kernel does not take; `None` where these are refused.
    pub fallback: Option<&'static Fallback>,
    /// What cost models may ask of it beside what they know of every op.
    pub features: &'static [Own],
    /// Instruction sets for which it has code of its own, by the backend's names; empty where there is one code.
    pub instruction_sets: &'static [&'static str],
    /// The family of devices in whose memory its operands and its result lie; `None` for the host.
    pub device: Option<Family>,
}

impl Lowering {
    /// A lowered op that takes what its logical op takes.
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
    /// Those of the logical op, and these.
    Also(fn() -> Vec<AttrDef>),
    /// These; the logical op's own that are not among them have their defaults.
    Only(fn() -> Vec<AttrDef>),
}

/// The reference evaluation of a lowered op, which is given its operands in the default layout.
#[derive(Clone, Copy)]
pub enum Reference {
    /// That of the logical op.
    OfLogical,
    /// That of the logical op on what this function makes of the operands.
    Prepared(fn(&Attrs, &[&Tensor]) -> Vec<Tensor>),
    /// This one.
    Own(Eval),
}

/// The layouts in which a lowered op takes its operands and gives its result.
#[derive(Clone, Copy)]
pub enum Layouts {
    /// Those that the logical op takes.
    AsLogical,
    /// One of these forms.
    Forms(&'static [Form]),
    /// What a function of its own says, which gives the type of the result; `samples` are some forms that it
    /// takes.
    Typed {
        /// The type of the result, or what is wrong with the operands.
        infer: fn(&Lowered, &Attrs, &[&TensorType]) -> Result<TensorType, OpError>,
        /// Some forms that it takes, for samplers.
        samples: &'static [Form],
    },
}

/// Layouts of the operands and of the result, by their names. Operands beyond those that are listed, and those of
/// a post chain, lie as the result does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Of the operands.
    pub operands: &'static [&'static str],
    /// Of the result.
    pub result: &'static str,
}

impl Form {
    /// All operands and the result in one layout.
    pub const fn same(layout: &'static str) -> Self {
        Self { operands: &[], result: layout }
    }

    /// Operands in these layouts.
    pub const fn new(operands: &'static [&'static str], result: &'static str) -> Self {
        Self { operands, result }
    }

    /// The layout of an operand.
    pub fn operand(&self, at: usize) -> &'static str {
        self.operands.get(at).copied().unwrap_or(self.result)
    }
}

/// An operand that another op makes of the logical op's operand.
#[derive(Clone, Copy)]
pub struct Made {
    /// The operand.
    pub operand: usize,
    /// The logical op that makes it, by name.
    pub maker: &'static str,
    /// From the lowered op's attributes and the type of what was made, in the default layout: the type of what
    /// it was made of, and the maker's attributes. `None` where the maker makes no such thing.
    pub source: fn(&Attrs, &TensorType) -> Option<(TensorType, Attrs)>,
    /// A sample of what it may be made of.
    pub sample: fn(&mut dyn Draw) -> Sample,
}

/// Draws numbers for samples.
pub trait Draw {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize;

    /// A size, such as a number of channels.
    fn size(&mut self) -> usize;
}

/// What an operand may be made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Attributes of the lowered op that go with it, those of the maker among them.
    pub attrs: Attrs,
    /// The type of the logical op's operand.
    pub source: TensorType,
}

/// A number that an op's declaration tells cost models.
#[derive(Clone, Copy)]
pub struct Own {
    /// Its name: snake case.
    pub name: &'static str,
    /// What it is, with its unit.
    pub doc: &'static str,
    /// Its value for a call.
    pub value: fn(&Call<'_>) -> f64,
}

/// Answers for a call's kernel, given what the op itself would answer.
pub type FallbackContract = fn(&Call<'_>, ContractOf) -> Result<Contract, OpError>;

/// Makes a call's kernel, given what the op itself would make.
pub type FallbackKernel = fn(&Call<'_>, KernelOf) -> Result<Box<dyn Kernel>, OpError>;

/// Answers for calls in place of the op's own kernel, where that refuses them or has nothing better.
#[derive(Clone, Copy)]
pub struct Fallback {
    /// The contract.
    pub contract: FallbackContract,
    /// The kernel.
    pub kernel: FallbackKernel,
}

/// What a lowered op has beside the definition that all ops have.
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
    /// A form names a layout that is none.
    #[error("`{op}` has a form with `{layout}`, which is no layout")]
    Layout {
        /// The lowered op.
        op: &'static str,
        /// The text.
        layout: &'static str,
    },
    /// Another op has the name.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
}

impl Lowering {
    /// The op of this declaration.
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
            flags: super::Flags { elementwise: false, commutative: false, ..logical.flags },
            infer: logical.infer,
            eval: logical.eval,
            flops: self.flops.unwrap_or(logical.flops),
            lowered: Some(Lowered { logical, declaration: *self, makers, forms }),
        }))
    }
}

impl Lowered {
    /// The attributes of the logical op that the lowered op's stand for.
    pub fn logical_attrs(&self, attrs: &Attrs) -> Attrs {
        let known = attrs.iter().filter(|(name, _)| self.logical.attr(name).is_some());
        complete(
            self.logical,
            known.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone())),
        )
    }

    /// What another op makes an operand of, and that op; `None` where it is the logical op's own.
    pub fn made(&self, operand: usize) -> Option<(&Made, Op)> {
        let mut makes = self.declaration.makes.iter().zip(&self.makers);
        makes.find(|(made, _)| made.operand == operand).map(|(made, maker)| (made, *maker))
    }

    /// The types of the logical op's operands, in the default layout, of which the lowered op's were made.
    ///
    /// # Errors
    /// An operand that its maker does not make.
    pub(crate) fn sources(&self, attrs: &Attrs, types: &[&TensorType]) -> Result<Vec<TensorType>, OpError> {
        let mut sources: Vec<TensorType> = types.iter().map(|ty| ty.with_layout(Layout::PLAIN)).collect();
        for (made, maker) in self.declaration.makes.iter().zip(&self.makers) {
            let Some(ty) = sources.get_mut(made.operand) else { continue };
            let source = (made.source)(attrs, ty).filter(|(source, attrs)| {
                maker.result(&complete(*maker, attrs.clone()), &[source]).as_ref() == Ok(ty)
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

    /// The type of the logical op's result for operands in any layouts: in the default one.
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

    /// The reference evaluation, on the host in the default layout.
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

    /// The type of the result.
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
            wanted.zip(types).all(|(layout, ty)| ty.layout == *layout)
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

    /// That operands lie in none of the forms.
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
