//! Which element types and which ranks an op takes: asked of the op itself, all of them.
//!
//! An op accepts element types whatever the sizes, so that one list of shapes that fit is enough to ask
//! about all of them; and it accepts ranks whatever the element types. Ranks are asked with all sizes 1:
//! an op that takes none of them, such as a slice from the second element on, says nothing of ranks.

use super::palette::Palette;
use super::rng::Rng;
use super::sampler::{self, Ask};
use ovolo::attr::Attrs;
use ovolo::op::{self, Op};
use ovolo::tensor::{DType, TensorType};

/// Offers that are drawn to find shapes that fit.
const DRAWS: u64 = 400;
/// The most operands for which all combinations are asked.
const OPERANDS: usize = 4;
/// Ranks that are asked.
pub(crate) const RANKS: usize = 7;

/// What an op takes and gives: of each operand, and of the result, as a number below the count of kinds.
pub(crate) type Table = Vec<(Vec<usize>, usize)>;

/// The element types that an op with these attributes takes, by their place in [`DType::ALL`]; `None`
/// where that is not known.
pub(crate) fn dtypes(op: Op, fixed: &Attrs, operands: usize) -> Option<Table> {
    let (attrs, types) = fitting(op, fixed, operands)?;
    Some(table(operands, DType::ALL.len(), &|kinds| {
        let types: Vec<TensorType> = types
            .iter()
            .zip(kinds)
            .map(|(ty, kind)| TensorType { dtype: DType::ALL[*kind], ..ty.clone() })
            .collect();
        let result = infer(op, &attrs, &types)?;
        DType::ALL.iter().position(|dtype| *dtype == result.dtype)
    }))
}

/// The ranks that an op with these attributes takes; `None` where that is not known.
pub(crate) fn ranks(op: Op, attrs: &Attrs, operands: usize) -> Option<Table> {
    let (offered, like) = fitting(op, attrs, operands)?;
    // What has no default is as it was offered: no op is typed without it.
    let needed = op.attrs.iter().filter(|def| def.default.is_none() && attrs.get(def.name).is_none());
    let needed = needed.filter_map(|def| Some((def.name, offered.get(def.name)?.clone())));
    let attrs = needed.fold(attrs.clone(), |attrs, (name, value)| attrs.with(name, value));
    let attrs = op::complete(op, attrs);
    let table = table(operands, RANKS, &|ranks| {
        let types: Vec<TensorType> =
            like.iter().zip(ranks).map(|(ty, rank)| TensorType::plain(ty.dtype, vec![1; *rank])).collect();
        Some(infer(op, &attrs, &types)?.shape.rank()).filter(|rank| *rank < RANKS)
    });
    (!table.is_empty()).then_some(table)
}

fn table(operands: usize, kinds: usize, ask: &dyn Fn(&[usize]) -> Option<usize>) -> Table {
    let combinations = kinds.pow(u32::try_from(operands).unwrap_or(u32::MAX));
    let digits = |mut number: usize| -> Vec<usize> {
        (0..operands)
            .map(|_| {
                let digit = number % kinds;
                number /= kinds;
                digit
            })
            .collect()
    };
    (0..combinations).map(digits).filter_map(|kinds| ask(&kinds).map(|result| (kinds, result))).collect()
}

fn infer(op: Op, attrs: &Attrs, types: &[TensorType]) -> Option<TensorType> {
    let types: Vec<&TensorType> = types.iter().collect();
    op::operand_count(op, attrs, types.len()).ok()?;
    op.result(attrs, &types).ok()
}

/// Attributes and operand types that the op takes.
fn fitting(op: Op, fixed: &Attrs, operands: usize) -> Option<(Attrs, Vec<TensorType>)> {
    if operands == 0 || operands > OPERANDS {
        return None;
    }
    let palette = Palette::WIDE;
    (0..DRAWS).find_map(|number| {
        let mut rng = Rng::new(0, op.name, number);
        let rank = palette.any_rank(&mut rng);
        let wish = TensorType::plain(palette.dtype(&mut rng), palette.shape(&mut rng, rank));
        let known = vec![None; operands];
        let mut ask = Ask {
            op,
            rng: &mut rng,
            palette: &palette,
            wish: &wish,
            known: &known,
            fixed,
            least: operands,
            most: operands,
        };
        let offer = sampler::offer(&mut ask)?;
        let attrs = op::complete(op, offer.attrs);
        let types: Vec<TensorType> = offer.operands.into_iter().map(|wish| wish.ty).collect();
        let sound = op::attr_errors(op, &attrs).is_empty() && infer(op, &attrs, &types).is_some();
        sound.then_some((attrs, types))
    })
}
