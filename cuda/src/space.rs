//! Index arithmetic: the offsets of a kernel's elements, as text for a given shape.
//!
//! A kernel walks *groups* of dimensions, each by one linear position (`i` for the result, `o` for the kept and `j`
//! for the reduced dimensions). The offset in an operand is a sum of parts of coordinates. Dimensions that follow one
//! another without a gap in an operand are merged into one part. So an operand in the order of the walk is read at
//! the position itself, and shapes with the same access pattern have the same text.

use std::fmt::Write as _;

/// The part of a coordinate in an offset: `coordinate / divide % modulo * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The dimension of the coordinate.
    pub dim: usize,
    /// The divisor of the coordinate.
    pub divide: usize,
    /// The modulus of the quotient; zero for none.
    pub modulo: usize,
    /// The distance of one step, in elements.
    pub stride: i64,
}

impl Part {
    /// Returns the part for a whole coordinate.
    pub(super) fn whole(dim: usize, stride: i64) -> Self {
        Self { dim, divide: 1, modulo: 0, stride }
    }

    fn is_whole(&self) -> bool {
        self.divide == 1 && self.modulo == 0
    }
}

/// An offset in elements: a constant and parts of coordinates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// The offset if all coordinates are zero.
    pub offset: i64,
    /// The parts that coordinates add.
    pub parts: Vec<Part>,
}

impl Access {
    /// Returns an access with one stride per dimension.
    pub(super) fn strided(offset: i64, strides: impl IntoIterator<Item = i64>) -> Self {
        let parts = strides.into_iter().enumerate().map(|(dim, stride)| Part::whole(dim, stride)).collect();
        Self { offset, parts }
    }
}

/// The condition `0 <= access < size`. If it does not hold, nothing is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The left-hand side.
    pub access: Access,
    /// The right-hand side.
    pub size: usize,
}

/// Dimensions that are walked by one position; the last one changes fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// The dimensions.
    pub dims: Vec<usize>,
}

/// The dimensions that a kernel walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// The size of each dimension.
    pub sizes: Vec<usize>,
    /// The groups. Every dimension is in exactly one of them.
    pub groups: Vec<Group>,
}

/// Merged dimensions as one coordinate of a group: `position / divide % modulo`, then the part's own division and
/// modulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    group: usize,
    divide: usize,
    /// The size of the merged dimensions; zero if they are the group's outermost.
    modulo: usize,
    /// The number of elements of the merged dimensions.
    size: usize,
    part: (usize, usize),
    stride: i64,
}

/// How a vector of elements along the last dimensions of a group is read from an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    /// The elements are contiguous and aligned: one wide access.
    Packed,
    /// All elements are the same: one access.
    Uniform,
    /// The elements are anywhere: one access each.
    Scattered,
}

impl Space {
    /// Returns a space with all dimensions in one group.
    pub(super) fn whole(sizes: &[usize]) -> Self {
        Self { sizes: sizes.to_vec(), groups: vec![Group { dims: (0..sizes.len()).collect() }] }
    }

    /// Returns the number of elements of a group.
    pub(super) fn count(&self, group: usize) -> usize {
        self.groups[group].dims.iter().map(|dim| self.sizes[*dim]).product()
    }

    /// Merges the dimensions that an access does not need to distinguish.
    fn terms(&self, access: &Access) -> Vec<Term> {
        let mut terms = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            let (mut behind, mut open): (usize, Option<Term>) = (1, None);
            for (place, &dim) in group.dims.iter().enumerate().rev() {
                let size = self.sizes[dim];
                if size == 1 {
                    continue;
                }
                let outermost = group.dims[..place].iter().all(|dim| self.sizes[*dim] == 1);
                let mut whole = 0;
                for part in access.parts.iter().filter(|part| part.dim == dim && part.stride != 0) {
                    if part.is_whole() {
                        whole += part.stride;
                    } else {
                        terms.push(Term {
                            group: number,
                            divide: behind,
                            modulo: if outermost { 0 } else { size },
                            size,
                            part: (part.divide, part.modulo),
                            stride: part.stride,
                        });
                    }
                }
                let joins = open.is_some_and(|term| whole == term.stride * term.size as i64);
                match &mut open {
                    Some(term) if joins => {
                        term.size *= size;
                        term.modulo = if outermost { 0 } else { term.size };
                    }
                    _ => {
                        terms.extend(open.take().filter(|term| term.stride != 0));
                        open = Some(Term {
                            group: number,
                            divide: behind,
                            modulo: if outermost { 0 } else { size },
                            size,
                            part: (1, 0),
                            stride: whole,
                        });
                    }
                }
                behind *= size;
            }
            terms.extend(open.filter(|term| term.stride != 0));
        }
        terms
    }

    /// Returns the offset as text, at these positions of the groups.
    pub(super) fn offset(&self, access: &Access, positions: &[&str], index: Index) -> String {
        let mut text = String::new();
        for term in self.terms(access) {
            let mut one = positions[term.group].to_owned();
            let mut step = |sign: &str, by: usize| {
                let _ = write!(one, " {sign} {}", index.number(by));
            };
            if term.divide > 1 {
                step("/", term.divide);
            }
            if term.modulo > 0 {
                step("%", term.modulo);
            }
            if term.part.0 > 1 {
                step("/", term.part.0);
            }
            if term.part.1 > 0 {
                step("%", term.part.1);
            }
            let stride = usize::try_from(term.stride.unsigned_abs()).unwrap_or(usize::MAX);
            if stride > 1 {
                step("*", stride);
            }
            match (text.is_empty(), term.stride < 0) {
                (true, false) => text = one,
                (true, true) => text = format!("{} - {one}", index.number(0)),
                (false, false) => text = format!("{text} + {one}"),
                (false, true) => text = format!("{text} - {one}"),
            }
        }
        let constant = usize::try_from(access.offset.unsigned_abs()).unwrap_or(usize::MAX);
        match (text.is_empty(), access.offset) {
            (true, 0) => index.number(0),
            (true, 1..) => index.number(constant),
            (true, _) => format!("{} - {}", index.number(0), index.number(constant)),
            (false, 0) => text,
            (false, 1..) => format!("{text} + {}", index.number(constant)),
            (false, _) => format!("{text} - {}", index.number(constant)),
        }
    }

    /// Returns how an access reads vectors of `width` elements of a group. Vectors start at multiples of their width,
    /// and do not extend past the end of the group.
    pub(super) fn access_kind(&self, access: &Access, group: usize, width: usize) -> AccessKind {
        let terms = self.terms(access);
        let inner = terms.iter().filter(|term| term.group == group);
        // The coordinates of outer dimensions must be constant within a vector.
        let uniform = |term: &Term| {
            term.divide.is_multiple_of(width)
                || term.divide == 1 && term.part.0.is_multiple_of(width) && term.size.is_multiple_of(width)
        };
        let along = inner.clone().find(|term| !uniform(term));
        let Some(along) = along else { return AccessKind::Uniform };
        let wide = |stride: i64| stride % width as i64 == 0;
        let aligned = terms.iter().filter(|term| *term != along).all(|term| wide(term.stride))
            && inner.filter(|term| *term != along).all(uniform)
            && wide(access.offset);
        let side_by_side = along.divide == 1
            && along.stride == 1
            && along.part.0 == 1
            && (along.modulo == 0 || along.modulo.is_multiple_of(width))
            && (along.part.1 == 0 || along.part.1.is_multiple_of(width));
        if aligned && side_by_side { AccessKind::Packed } else { AccessKind::Scattered }
    }

    /// Returns whether a condition holds for either all elements of a vector or none.
    pub(super) fn holds_together(&self, bound: &Bound, group: usize, width: usize) -> bool {
        match self.access_kind(&bound.access, group, width) {
            AccessKind::Uniform => true,
            AccessKind::Packed => bound.size.is_multiple_of(width),
            AccessKind::Scattered => false,
        }
    }
}

/// The type of positions. 32 bits are used if they suffice, because a 64-bit division takes dozens of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// `unsigned`.
    Narrow,
    /// `unsigned long long`.
    Wide,
}

impl Index {
    /// Returns the type for positions and offsets up to a number.
    pub(super) fn for_count(largest: usize) -> Self {
        // A thread past the end still adds its unrolled steps to its position.
        if largest < (1 << 31) { Self::Narrow } else { Self::Wide }
    }

    /// Returns the name of the type.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Narrow => "unsigned",
            Self::Wide => "unsigned long long",
        }
    }

    /// Returns a constant of the type.
    pub(super) fn number(self, value: usize) -> String {
        match self {
            Self::Narrow => format!("{value}u"),
            Self::Wide => format!("{value}ull"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sizes: &[usize], strides: &[i64]) -> String {
        Space::whole(sizes).offset(&Access::strided(0, strides.iter().copied()), &["i"], Index::Narrow)
    }

    #[test]
    fn adjacent_dimensions_are_merged() {
        assert_eq!(text(&[2, 3, 4], &[12, 4, 1]), "i");
        assert_eq!(text(&[2, 1, 12], &[12, 7, 1]), "i");
        assert_eq!(text(&[2, 3, 4], &[4, 0, 1]), "i % 4u + i / 12u * 4u");
        assert_eq!(text(&[2, 64, 7, 7], &[0, 1, 0, 0]), "i / 49u % 64u");
        assert_eq!(text(&[], &[]), "0u");
        assert_eq!(text(&[5], &[-1]), "0u - i");
    }

    #[test]
    fn aligned_vectors_are_packed() {
        let space = Space::whole(&[6, 8]);
        let access_kind =
            |strides: [i64; 2], width| space.access_kind(&Access::strided(0, strides), 0, width);
        assert_eq!(access_kind([8, 1], 4), AccessKind::Packed);
        assert_eq!(access_kind([0, 1], 4), AccessKind::Packed);
        assert_eq!(access_kind([0, 1], 16), AccessKind::Scattered);
        assert_eq!(access_kind([10, 1], 4), AccessKind::Scattered, "rows of 10 are not aligned");
        assert_eq!(access_kind([1, 0], 4), AccessKind::Uniform);
        assert_eq!(access_kind([1, 6], 4), AccessKind::Scattered);
    }
}
