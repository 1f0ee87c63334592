//! A draft: the values of one instance of a rule, its leaves, and what its variables are bound to.

use super::rng::Rng;
use super::untyped::Untyped;
use ovolo::attr::{Attr, Attrs};
use ovolo::graph::text;
use ovolo::op::{Op, Values};
use ovolo::rule::print::Names;
use ovolo::rule::{AttrVar, Bindings, Expr, Fact, OperandVar, Precision, RestVar, Rule};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The most operations of an op that is evaluated, because the reference is slow.
const OPERATIONS: f64 = 1e8;

/// What is no number, or none that is finite.
const NO_NUMBERS: [f64; 3] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// A leaf: the operand that a variable or a number stands for.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Whether it is a constant.
    pub constant: bool,
    /// Where its values come from.
    pub values: Filling,
    value: OnceLock<Tensor>,
}

/// Where a leaf's values come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filling {
    /// The same value everywhere.
    Splat(f64),
    /// Random values with this seed.
    Drawn(Values, u64),
    /// Random values with this seed, in a few blocks of a layout; zeros elsewhere.
    Blocks(Layout, u64),
    /// The text form's random values with this seed.
    Seeded(u64),
    /// The listed values, in order.
    Given(Vec<f64>),
    /// The listed integers, in order. `f64` cannot represent all of them beyond 2^53.
    Whole(Vec<i64>),
}

impl Filling {
    /// Whether the values may be any: neither an exponent, nor an index, nor one value everywhere.
    fn is_any(&self) -> bool {
        matches!(
            self,
            Self::Drawn(Values::Any | Values::Positive, _)
                | Self::Blocks(..)
                | Self::Seeded(_)
                | Self::Given(_)
        )
    }
}

impl Leaf {
    /// Returns a leaf whose tensor is not computed yet.
    pub fn new(constant: bool, values: Filling) -> Self {
        Self { constant, values, value: OnceLock::new() }
    }
}

/// One value.
#[derive(Clone, Debug)]
pub(super) struct DraftValue {
    /// The op; `None` for a leaf.
    pub op: Option<Op>,
    /// Its attributes.
    pub attrs: Attrs,
    /// Its operands.
    pub inputs: Vec<usize>,
    /// Its type.
    pub ty: TensorType,
    /// The leaf, if it is one.
    pub leaf: Option<Leaf>,
    /// Whether it is computed from constants alone.
    pub constant: bool,
    /// The work to compute it: elements to fill, or operations to evaluate.
    pub work: f64,
}

/// How the sides of an instance were compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Exactness {
    /// No side has integers and floats, so the instance is one of real numbers.
    Real,
    /// Without a tolerance: the results are integers, or no float on the way was rounded.
    Exact,
    /// Within the tolerance, for this reason.
    Rounded(String),
}

/// The values of an instance, operands before their users, and what the rule's variables are bound to.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The most elements of a value.
    pub largest: usize,
    /// The rule's names of its variables, for messages.
    pub names: Option<Arc<Names>>,
    /// The precision that the rule rounds to.
    pub precision: Precision,
    /// The values.
    pub values: Vec<DraftValue>,
    /// Operand variables.
    pub operands: Vec<Option<usize>>,
    /// Rests.
    pub rests: Vec<Option<Vec<usize>>>,
    /// Attribute variables.
    pub attrs: Vec<Option<Attr>>,
    /// Rests of attributes.
    pub rest_attrs: Vec<Option<Vec<(&'static str, Attr)>>>,
    /// The left sides.
    pub left: Vec<usize>,
    /// The right sides.
    pub right: Vec<usize>,
    /// What differed with larger values, which overflowed `f64`, if these were drawn smaller.
    pub overflow: Option<String>,
    /// How the sides were compared, once they were.
    pub exactness: Exactness,
}

impl Draft {
    /// Returns a draft without values or variables. A value may have at most `largest` elements.
    pub fn empty(largest: usize) -> Self {
        Self {
            largest,
            names: None,
            precision: Precision::default(),
            values: Vec::new(),
            operands: Vec::new(),
            rests: Vec::new(),
            attrs: Vec::new(),
            rest_attrs: Vec::new(),
            left: Vec::new(),
            right: Vec::new(),
            overflow: None,
            exactness: Exactness::Real,
        }
    }

    /// Returns a draft without values, whose variables are those of a rule, all unbound.
    pub fn new(rule: &Rule, largest: usize) -> Self {
        Self {
            precision: rule.precision,
            operands: vec![None; rule.operand_vars.len()],
            rests: vec![None; rule.rest_vars.len()],
            attrs: vec![None; rule.attr_vars.len()],
            rest_attrs: vec![None; rule.rest_attr_vars.len()],
            ..Self::empty(largest)
        }
    }

    /// Checks that a value of this type is small enough to evaluate.
    ///
    /// # Errors
    /// A message if it is too large.
    pub(super) fn fits(&self, ty: &TensorType) -> Result<(), Untyped> {
        if ovolo::tensor::size_error(ty).is_some() || ty.layout.padded_count(&ty.shape) > self.largest {
            return Err(Untyped::Large { ty: Box::new(ty.clone()), most: self.largest });
        }
        Ok(())
    }

    /// The work to compute all values.
    pub fn work(&self) -> f64 {
        self.values.iter().map(|value| value.work).sum()
    }

    /// Adds a leaf.
    ///
    /// # Errors
    /// A message if it is too large.
    pub(super) fn leaf(&mut self, ty: TensorType, constant: bool, values: Filling) -> Result<usize, Untyped> {
        self.fits(&ty)?;
        let leaf = Leaf::new(constant, values);
        #[allow(clippy::cast_precision_loss)]
        let work = ty.shape.count() as f64;
        self.values.push(DraftValue {
            op: None,
            attrs: Attrs::new(),
            inputs: Vec::new(),
            ty,
            leaf: Some(leaf),
            constant,
            work,
        });
        Ok(self.values.len() - 1)
    }

    /// Adds the result of an op and returns its index.
    ///
    /// # Errors
    /// The reason if the op cannot be typed or is too large to evaluate.
    pub(super) fn op(&mut self, op: Op, attrs: Attrs, inputs: Vec<usize>) -> Result<usize, Untyped> {
        let attrs = op.complete(attrs);
        // The op's `infer` relies on complete attributes and a correct number of operands.
        if let Some(why) = op.attr_errors(&attrs).into_iter().next() {
            return Err(Untyped::Attributes { op: op.name, why });
        }
        op.check_count(&attrs, inputs.len()).map_err(Untyped::Count)?;
        let types: Vec<&TensorType> = inputs.iter().map(|input| &self.values[*input].ty).collect();
        let ty = op.result(&attrs, &types).map_err(|why| Untyped::Operands { op: op.name, why })?;
        self.fits(&ty)?;
        if ty.shape.contains(&0) {
            return Err(Untyped::Empty { ty: Box::new(ty) });
        }
        #[allow(clippy::cast_precision_loss)]
        let work = (op.flops)(&attrs, &types, &ty) + ty.shape.count() as f64;
        if work > OPERATIONS {
            return Err(Untyped::Slow { op: op.name, operations: work });
        }
        let constant = inputs.iter().all(|input| self.values[*input].constant);
        self.values.push(DraftValue { op: Some(op), attrs, inputs, ty, leaf: None, constant, work });
        Ok(self.values.len() - 1)
    }

    /// Returns the first `count` values, which are the left sides, with floating-point values scaled down to
    /// at most `most` in magnitude; their order is kept. `None` if none is larger.
    pub fn smaller(&self, count: usize, most: f64) -> Option<Self> {
        let mut smaller = Self { right: Vec::new(), ..self.clone() };
        smaller.values.truncate(count);
        let mut changed = false;
        for at in 0..count {
            let Some(leaf) = &self.values[at].leaf else { continue };
            let kept = matches!(
                leaf.values,
                Filling::Splat(_) | Filling::Whole(_) | Filling::Drawn(Values::Exponent, _)
            );
            let Some(value) = self.tensor(at).filter(|value| !kept && value.ty().dtype.is_float()) else {
                continue;
            };
            let mut values = value.to_f64();
            let largest = values.iter().fold(0.0, |largest: f64, one| largest.max(one.abs()));
            if largest <= most {
                continue;
            }
            let half = most / 2.0;
            for one in values.iter_mut().filter(|one| one.abs() > half) {
                *one = one.signum() * (half + half * (one.abs() - half) / (largest - half));
            }
            smaller.values[at].leaf = Some(Leaf::new(leaf.constant, Filling::Given(values)));
            changed = true;
        }
        changed.then_some(smaller)
    }

    /// Returns the first `count` values, which are the left sides, with infinities and NaN among the floating-point
    /// operands that a run gives: in one of them, or in all. `None` if there is no such operand.
    pub fn spoiled(&self, rng: &mut Rng, count: usize) -> Option<Self> {
        let given = |at: &usize| {
            let value = &self.values[*at];
            value.ty.dtype.is_float()
                && value.leaf.as_ref().is_some_and(|leaf| !leaf.constant && leaf.values.is_any())
        };
        let leaves: Vec<usize> = (0..count).filter(given).collect();
        if leaves.is_empty() {
            return None;
        }
        let only = rng.percent(50).then(|| rng.pick(&leaves));
        let mut spoiled = Self { right: Vec::new(), ..self.clone() };
        spoiled.values.truncate(count);
        for at in leaves.into_iter().filter(|at| only.is_none_or(|only| only == *at)) {
            let mut values = self.tensor(at)?.to_f64();
            if values.is_empty() {
                continue;
            }
            for _ in 0..1 + rng.below(2) {
                let place = rng.below(values.len());
                values[place] = rng.pick(&NO_NUMBERS);
            }
            spoiled.values[at].leaf = Some(Leaf::new(false, Filling::Given(values)));
        }
        Some(spoiled)
    }

    /// Returns the first `count` values, which are the left sides, with negative infinity in some elements of the masks of
    /// attention. Where attention gives zeros for rows without keys, some rows have none; elsewhere each row keeps a key,
    /// because its result would be NaN. `None` if no mask is a leaf.
    pub fn masked(&self, rng: &mut Rng, count: usize) -> Option<Self> {
        let mut masked = Self { right: Vec::new(), ..self.clone() };
        masked.values.truncate(count);
        let mut changed = false;
        for value in &self.values[..count] {
            let mask = value.inputs.get(3).filter(|_| value.op.is_some_and(|op| op.meaning() == "attention"));
            let Some(&mask) = mask else { continue };
            let leaf = self.values[mask].leaf.as_ref().filter(|leaf| leaf.values.is_any());
            let (Some(leaf), Some(tensor)) = (leaf, self.tensor(mask)) else { continue };
            let mut values = tensor.to_f64();
            let keys = tensor.ty().shape.last().copied().unwrap_or(1).max(1);
            let zeros = value.attrs.expect_int("nan_as_zero") == 1;
            for row in values.chunks_mut(keys) {
                let kept = (!zeros || rng.percent(50)).then(|| rng.below(row.len()));
                for (at, element) in row.iter_mut().enumerate() {
                    if kept.is_none() || kept != Some(at) && rng.percent(30) {
                        *element = f64::NEG_INFINITY;
                    }
                }
            }
            masked.values[mask].leaf = Some(Leaf::new(leaf.constant, Filling::Given(values)));
            changed = true;
        }
        changed.then_some(masked)
    }

    /// The largest magnitude of the floating-point leaves.
    pub fn largest_number(&self) -> f64 {
        let leaves = (0..self.values.len()).filter(|at| self.values[*at].ty.dtype.is_float());
        let numbers = leaves.filter_map(|at| self.tensor(at)).flat_map(Tensor::to_f64);
        numbers.fold(0.0, |largest, one| largest.max(one.abs()))
    }

    /// The tensor of a leaf.
    pub fn tensor(&self, at: usize) -> Option<&Tensor> {
        let value = &self.values[at];
        let leaf = value.leaf.as_ref()?;
        Some(filled(&value.ty, leaf))
    }

    fn fact(&self, at: usize) -> Fact<'_> {
        let value = &self.values[at];
        let leaf = value.leaf.as_ref().filter(|leaf| leaf.constant).and_then(|_| self.tensor(at));
        let small = leaf.filter(|_| value.ty.shape.count() <= Fact::SMALL);
        let sources = leaf.map(std::slice::from_ref).unwrap_or_default();
        Fact { ty: &value.ty, constant: value.constant, value: small, leaf, sources, root: false }
    }

    /// Describes the right sides: each value with its op, attributes, operands and type.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        for at in self.below(&self.right) {
            let value = &self.values[at];
            let op = value.op.map_or("leaf", |op| op.name);
            text.push_str(&format!("{at} {op} {} {:?} {}\n", value.attrs, value.inputs, value.ty));
        }
        text.push_str(&format!("{:?}", self.right));
        text
    }

    /// Returns the values that `roots` depend on, including the roots, in order.
    pub fn below(&self, roots: &[usize]) -> Vec<usize> {
        let mut wanted = vec![false; self.values.len()];
        for root in roots {
            wanted[*root] = true;
        }
        for at in (0..self.values.len()).rev() {
            if wanted[at] {
                for input in &self.values[at].inputs {
                    wanted[*input] = true;
                }
            }
        }
        (0..self.values.len()).filter(|at| wanted[*at]).collect()
    }
}

impl Bindings for Draft {
    fn operand(&self, var: OperandVar) -> Option<Fact<'_>> {
        self.operands[var.0].map(|at| self.fact(at))
    }

    fn rest(&self, var: RestVar) -> Option<Vec<Fact<'_>>> {
        self.rests[var.0].as_ref().map(|all| all.iter().map(|at| self.fact(*at)).collect())
    }

    fn attr(&self, var: AttrVar) -> Option<Attr> {
        self.attrs[var.0].clone()
    }

    fn written(&self, expr: &Expr) -> Option<String> {
        self.names.as_ref().map(|names| names.expr(expr))
    }
}

/// Computes a tensor in which a quarter of the blocks of a layout hold anything but zeros.
fn blocks(ty: &TensorType, layout: &Layout, seed: u64) -> Tensor {
    let mut rng = Rng::new(seed, "blocks", 0);
    let mut values = vec![0.0; ty.shape.count()];
    let mut kept = BTreeMap::new();
    let mut index = vec![0; ty.shape.rank()];
    for value in &mut values {
        let block: Vec<usize> = index.iter().enumerate().map(|(dim, at)| at / layout.block(dim)).collect();
        if *kept.entry(block).or_insert_with(|| rng.percent(25)) {
            *value = 4.0 * rng.unit() - 2.0;
        }
        for (at, size) in index.iter_mut().zip(ty.shape.iter()).rev() {
            *at += 1;
            if *at < *size {
                break;
            }
            *at = 0;
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &values).to_layout(&ty.layout).on(ty.device)
}

/// Exponents: pairs that undo each other, some that keep a sign, some that lose it, and 0.
const EXPONENTS: &[f64] = &[2.0, 2.0, 0.5, 0.5, 1.0, 3.0, 0.0, -1.0, -2.0, 1.5];

/// Returns the tensor of a leaf of this type, computed once.
pub(super) fn filled<'a>(ty: &TensorType, leaf: &'a Leaf) -> &'a Tensor {
    leaf.value.get_or_init(|| fill(ty, &leaf.values))
}

/// Computes the tensor of a leaf; padding is zero.
#[allow(clippy::cast_precision_loss)]
fn fill(ty: &TensorType, filling: &Filling) -> Tensor {
    let (values, seed) = match filling {
        Filling::Seeded(seed) => return text::random(ty, *seed),
        Filling::Splat(value) => {
            let values = vec![*value; ty.shape.count()];
            return Tensor::from_f64(ty.dtype, ty.shape.clone(), &values).to_layout(&ty.layout).on(ty.device);
        }
        Filling::Given(values) => {
            return Tensor::from_f64(ty.dtype, ty.shape.clone(), values).to_layout(&ty.layout).on(ty.device);
        }
        Filling::Whole(values) if ty.dtype == DType::I64 => {
            return Tensor::from_elements(ty.shape.clone(), values).to_layout(&ty.layout);
        }
        Filling::Whole(values) => {
            let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            return Tensor::from_f64(ty.dtype, ty.shape.clone(), &values).to_layout(&ty.layout);
        }
        Filling::Drawn(values, seed) => (*values, *seed),
        Filling::Blocks(layout, seed) => return blocks(ty, layout, *seed),
    };
    let mut rng = Rng::new(seed, "values", 0);
    // Some values are far from zero, so that bounds such as those of `clip` are reached.
    let scale = rng.pick(&[1.0, 1.0, 1.0, 4.0]);
    let positive = values == Values::Positive || values == Values::Any && rng.percent(40);
    // Mostly one exponent for all elements, as in real models.
    let exponent = (values == Values::Exponent && rng.percent(70)).then(|| rng.pick(EXPONENTS));
    let drawn: Vec<f64> = (0..ty.shape.count())
        .map(|_| match (values, ty.dtype) {
            (Values::Exponent, _) => exponent.unwrap_or_else(|| rng.pick(EXPONENTS)),
            (Values::Below(size), _) => (rng.below(2 * size.max(1)) as f64) - size as f64,
            (_, DType::Bool) => rng.below(2) as f64,
            (_, dtype) if dtype.is_float() => {
                scale * if positive { 0.25 + 1.75 * rng.unit() } else { 4.0 * rng.unit() - 2.0 }
            }
            _ => rng.below(5) as f64 - if positive || ty.dtype == DType::U8 { 0.0 } else { 2.0 },
        })
        .collect();
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &drawn).to_layout(&ty.layout).on(ty.device)
}
