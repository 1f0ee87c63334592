//! Finds which element types and which ranks an op accepts, by asking the op about all of them.
//!
//! An op accepts element types independently of sizes, so one fitting list of shapes is enough to ask about
//! all types; and it accepts ranks independently of element types. Ranks are asked with all sizes 1. An op
//! that accepts no such shape (for instance, a slice that starts at the second element) gives no information
//! about ranks.

pub(crate) use super::palette::DTYPES;
use super::palette::Palette;
use super::rng::Rng;
use super::sampler::{self, Ask};
use ovolo::attr::Attrs;
use ovolo::op::Op;
use ovolo::tensor::TensorType;

/// Attempts to find fitting shapes.
const DRAWS: u64 = 400;
/// The most operands for which all combinations are tried.
const OPERANDS: usize = 4;
/// The number of ranks that are tried: 0 to 6.
pub(crate) const RANKS: usize = 7;

/// The accepted combinations: a kind for each operand, and the kind of the result. A kind is an index.
pub(crate) type Table = Vec<(Vec<usize>, usize)>;

/// Returns the element types that an op with these attributes accepts, as indices in [`DTYPES`]; `None`
/// if they are not known.
pub(crate) fn dtypes(op: Op, fixed: &Attrs, operands: usize) -> Option<Table> {
    let (attrs, types) = fitting(op, fixed, operands)?;
    Some(table(operands, DTYPES.len(), &|kinds| {
        let types: Vec<TensorType> = types
            .iter()
            .zip(kinds)
            .map(|(ty, kind)| TensorType { dtype: DTYPES[*kind], ..ty.clone() })
            .collect();
        let result = infer(op, &attrs, &types)?;
        DTYPES.iter().position(|dtype| *dtype == result.dtype)
    }))
}

/// Returns the ranks that an op with these attributes accepts; `None` if they are not known.
pub(crate) fn ranks(op: Op, attrs: &Attrs, operands: usize) -> Option<Table> {
    let (offered, like) = fitting(op, attrs, operands)?;
    // Attributes without a default keep the offered value, because the op has no type without them.
    let needed = op.attrs.iter().filter(|def| def.default.is_none() && attrs.get(def.name).is_none());
    let needed = needed.filter_map(|def| Some((def.name, offered.get(def.name)?.clone())));
    let attrs = needed.fold(attrs.clone(), |attrs, (name, value)| attrs.with(name, value));
    let attrs = op.complete(attrs);
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
    op.check_count(attrs, types.len()).ok()?;
    op.result(attrs, &types).ok()
}

/// Finds attributes and operand types that the op accepts.
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
        let attrs = op.complete(offer.attrs);
        let types: Vec<TensorType> = offer.operands.into_iter().map(|wish| wish.ty).collect();
        let sound = op.attr_errors(&attrs).is_empty() && infer(op, &attrs, &types).is_some();
        sound.then_some((attrs, types))
    })
}
