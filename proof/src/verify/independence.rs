//! Checks what an op declares of the independence of positions, by evaluating it.
//!
//! An instance is evaluated twice: once as it is drawn, and once with other elements at all positions but one along an
//! axis that the op is said to keep. At that position, the two results must be equal to the last bit. A third evaluation
//! leaves out the last positions of all operands that have the axis: what remains must be the same as well.

use super::draft::{Filling, Leaf, filled};
use super::palette::Palette;
use super::rng::Rng;
use super::sampler::{Ask, Offer, offer};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::{Arity, Independence, Op};
use ovolo::tensor::{DType, Tensor, TensorType};

/// The element types that results are drawn with.
const DTYPES: [DType; 4] = [DType::F32, DType::F32, DType::I64, DType::Bool];
/// Larger instances are not evaluated, since the reference is slow.
const LARGEST: usize = 1 << 14;

/// How often an op was evaluated to check that it keeps positions independent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Independent {
    /// With other elements at other positions.
    pub replaced: usize,
    /// With fewer positions.
    pub shortened: usize,
}

/// An instance for which a declaration is false.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{op}` of ({}) {attrs:?} {why}", .operands.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
pub struct Dependent {
    /// The op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Attrs,
    /// The types of its operands.
    pub operands: Vec<TensorType>,
    /// What is false.
    pub why: String,
}

/// Checks in this many attempts what a logical op declares.
///
/// # Errors
/// An instance for which the declaration is false.
pub fn independence(op: Op, attempts: u64) -> Result<Independent, Dependent> {
    let mut found = Independent::default();
    for attempt in 0..attempts {
        let mut rng = Rng::new(0, op.name, attempt);
        if let Some(instance) = Instance::draw(op, &mut rng) {
            instance.check(&mut rng, &mut found)?;
        }
    }
    Ok(found)
}

struct Instance {
    op: Op,
    attrs: Attrs,
    operands: Vec<Tensor>,
    /// Other operands of the same types.
    others: Vec<Tensor>,
    ty: TensorType,
}

impl Instance {
    fn draw(op: Op, rng: &mut Rng) -> Option<Self> {
        let palette = if rng.percent(50) { Palette::WIDE } else { Palette::NARROW[2].clone() };
        let rank = palette.any_rank(rng);
        let wish = TensorType::plain(rng.pick(&DTYPES), palette.shape(rng, rank));
        let (least, most) = match op.arity {
            Arity::Exactly(count) => (count, count),
            Arity::Post(count) | Arity::AtLeast(count) => (count, count + 2),
            Arity::Between(least, most) => (least, most),
        };
        let fixed = Attrs::new();
        let Offer { attrs, operands } = offer(&mut Ask {
            op,
            rng: &mut *rng,
            palette: &palette,
            wish: &wish,
            known: &[],
            fixed: &fixed,
            least,
            most,
        })?;
        let types: Vec<&TensorType> = operands.iter().map(|wish| &wish.ty).collect();
        op.check_count(&attrs, types.len()).ok()?;
        let ty = op.result(&attrs, &types).ok()?;
        let small = types.iter().chain([&&ty]).all(|ty| ty.shape.count() <= LARGEST && ty.layout.is_plain());
        let mut drawn = || -> Vec<Tensor> {
            let one = |wish: &super::sampler::Wish| {
                filled(&wish.ty, &Leaf::new(false, Filling::Drawn(wish.values, rng.word()))).clone()
            };
            operands.iter().map(one).collect()
        };
        small.then(|| Self { op, operands: drawn(), others: drawn(), attrs, ty })
    }

    fn types(operands: &[Tensor]) -> Vec<&TensorType> {
        operands.iter().map(Tensor::ty).collect()
    }

    fn evaluate(&self, operands: &[Tensor], ty: &TensorType) -> Tensor {
        self.op.evaluate(&self.attrs, &operands.iter().collect::<Vec<_>>(), ty)
    }

    fn dependent(&self, types: &[&TensorType], why: String) -> Dependent {
        let operands = types.iter().map(|ty| (*ty).clone()).collect();
        Dependent { op: self.op, attrs: self.attrs.clone(), operands, why }
    }

    fn check(&self, rng: &mut Rng, found: &mut Independent) -> Result<(), Dependent> {
        let types = Self::types(&self.operands);
        let axes = match self.op.independence() {
            Independence::Along(axes) | Independence::Selecting(axes) => axes(&self.attrs, &types, &self.ty),
            Independence::Unknown | Independence::RowMajor => return Ok(()),
        };
        let fits = axes.len() <= types.len()
            && axes.iter().zip(&types).all(|(own, ty)| own.len() <= ty.shape.rank());
        if !fits {
            return Err(self.dependent(&types, "declares more operands or axes than it has".to_owned()));
        }
        let result = self.evaluate(&self.operands, &self.ty);
        if *result.ty() != self.ty {
            let why = format!("evaluates to {}, and its inferred type is {}", result.ty(), self.ty);
            return Err(self.dependent(&types, why));
        }
        for (operand, own) in axes.iter().enumerate() {
            for (axis, place) in own.iter().enumerate() {
                let (Some(place), size) = (*place, types[operand].shape[axis]) else { continue };
                let kept = self.ty.shape.get(place).copied();
                let wrong = |why: &str| {
                    let said = format!(
                        "is said to keep axis {axis} of operand {operand} as axis {place} of the result"
                    );
                    self.dependent(&types, format!("{said}, {}, but {why}", self.ty))
                };
                let Some(kept) = kept else { return Err(wrong("the result has no such axis")) };
                // An axis of one element may be broadcast.
                if size < 2 || kept == 0 {
                    continue;
                }
                let at = rng.below(size.min(kept));
                let mut operands = self.operands.clone();
                operands[operand] = spliced(&self.operands[operand], &self.others[operand], axis, at);
                let after = self.evaluate(&operands, &self.ty);
                if part(&after, place, at, 1).bytes() != part(&result, place, at, 1).bytes() {
                    return Err(wrong("elements at other positions change it"));
                }
                found.replaced += 1;
            }
        }
        for place in 0..self.ty.shape.rank() {
            self.shorten(&axes, place, &result, found)?;
        }
        Ok(())
    }

    /// Leaves out the last position of an axis of the result, and of the axes of all operands that become it.
    fn shorten(
        &self,
        axes: &[Vec<Option<usize>>],
        place: usize,
        result: &Tensor,
        found: &mut Independent,
    ) -> Result<(), Dependent> {
        let kept = self.ty.shape[place];
        let mut operands = self.operands.clone();
        for (operand, own) in axes.iter().enumerate() {
            for (axis, becomes) in own.iter().enumerate() {
                if *becomes == Some(place) && operands[operand].ty().shape[axis] == kept && kept > 1 {
                    operands[operand] = part(&operands[operand], axis, 0, kept - 1);
                }
            }
        }
        let types = Self::types(&operands);
        let mut shorter = self.ty.shape.to_vec();
        shorter[place] = kept.saturating_sub(1);
        // Attributes that have the sizes of the result change with it.
        let [whole, rest] = [&self.ty.shape.to_vec(), &shorter].map(|sizes| {
            Attr::Ints(sizes.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect())
        });
        let attrs = self.attrs.iter().fold(self.attrs.clone(), |attrs, (name, value)| {
            if *value == whole { attrs.with(name, rest.clone()) } else { attrs }
        });
        let ty = self.op.result(&attrs, &types).ok().filter(|ty| kept > 1 && ty.shape.to_vec() == shorter);
        let Some(ty) = ty else { return Ok(()) };
        found.shortened += 1;
        match self.op.evaluate(&attrs, &operands.iter().collect::<Vec<_>>(), &ty).bytes()
            == part(result, place, 0, kept - 1).bytes()
        {
            true => Ok(()),
            false => {
                let why = format!("has other elements than a result that is longer along axis {place}");
                Err(self.dependent(&types, why))
            }
        }
    }
}

/// Returns `count` positions of an axis from `first` on.
fn part(tensor: &Tensor, axis: usize, first: usize, count: usize) -> Tensor {
    let ty = tensor.ty();
    let mut dims = ty.shape.to_vec();
    let inner = dims[axis + 1..].iter().product::<usize>() * ty.dtype.size();
    let line = dims[axis] * inner;
    dims[axis] = count;
    let mut result = Tensor::zeros(TensorType { shape: dims.into(), ..ty.clone() });
    if line > 0 && count * inner > 0 {
        let lines = tensor.bytes().chunks_exact(line);
        for (to, from) in result.bytes_mut().chunks_exact_mut(count * inner).zip(lines) {
            to.copy_from_slice(&from[first * inner..][..count * inner]);
        }
    }
    result
}

/// Returns `other` with the elements of `tensor` at one position of an axis.
fn spliced(tensor: &Tensor, other: &Tensor, axis: usize, at: usize) -> Tensor {
    let ty = tensor.ty();
    let inner = ty.shape[axis + 1..].iter().product::<usize>() * ty.dtype.size();
    let line = ty.shape[axis] * inner;
    let mut result = other.clone();
    if line > 0 {
        let lines = tensor.bytes().chunks_exact(line);
        for (to, from) in result.bytes_mut().chunks_exact_mut(line).zip(lines) {
            to[at * inner..][..inner].copy_from_slice(&from[at * inner..][..inner]);
        }
    }
    result
}
