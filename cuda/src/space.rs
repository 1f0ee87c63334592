//! Index arithmetic: where a kernel's elements lie, written for the shape at hand.
//!
//! A kernel walks *groups* of dimensions, each by one linear position (`i` of the result; `o` of what is
//! kept and `j` of what is reduced). An operand's offset is a sum of parts of coordinates. Dimensions that
//! lie behind one another in an operand are one part, so that an operand in the order of the walk is read
//! at the position itself, and shapes that differ in what makes no difference have one text.

use std::fmt::Write as _;

/// A coordinate's part in an offset: `coordinate / divide % modulo * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The dimension.
    pub dim: usize,
    /// What its coordinate is divided by.
    pub divide: usize,
    /// What of the quotient is taken; zero: all.
    pub modulo: usize,
    /// Elements for one step.
    pub stride: i64,
}

impl Part {
    /// A whole coordinate.
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
    /// At coordinates of zero.
    pub offset: i64,
    /// What coordinates add.
    pub parts: Vec<Part>,
}

impl Access {
    /// One stride a dimension.
    pub(super) fn strided(offset: i64, strides: impl IntoIterator<Item = i64>) -> Self {
        let parts = strides.into_iter().enumerate().map(|(dim, stride)| Part::whole(dim, stride)).collect();
        Self { offset, parts }
    }
}

/// `0 <= access < size`: where it does not hold, nothing is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// What is compared.
    pub access: Access,
    /// With what.
    pub size: usize,
}

/// Dimensions that are walked by one position, the last one fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// The dimensions.
    pub dims: Vec<usize>,
}

/// What a kernel walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// The size of each dimension.
    pub sizes: Vec<usize>,
    /// Every dimension is in one group.
    pub groups: Vec<Group>,
}

/// A run of dimensions as one coordinate of a group: `position / divide % modulo`, then the part's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    group: usize,
    divide: usize,
    /// The size of the run; zero where it is the group's outermost.
    modulo: usize,
    /// Elements of the run.
    size: usize,
    part: (usize, usize),
    stride: i64,
}

/// How an operand meets a vector of elements along the last dimensions of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// Side by side and aligned: one wide access.
    Packed,
    /// One element for all.
    Uniform,
    /// An element each, wherever it lies.
    Scattered,
}

impl Space {
    /// All dimensions in one group.
    pub(super) fn whole(sizes: &[usize]) -> Self {
        Self { sizes: sizes.to_vec(), groups: vec![Group { dims: (0..sizes.len()).collect() }] }
    }

    /// Elements of a group.
    pub(super) fn count(&self, group: usize) -> usize {
        self.groups[group].dims.iter().map(|dim| self.sizes[*dim]).product()
    }

    /// The runs of dimensions that an access tells apart.
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

    /// The offset as text, at these positions of the groups.
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

    /// How an access meets vectors of `width` elements of a group. Vectors begin at multiples of their
    /// width, and do not reach over the end of the group.
    pub(super) fn meeting(&self, access: &Access, group: usize, width: usize) -> Meeting {
        let terms = self.terms(access);
        let inner = terms.iter().filter(|term| term.group == group);
        // Runs of other elements than the innermost ones begin at multiples of the vector.
        let uniform = |term: &Term| {
            term.divide.is_multiple_of(width)
                || term.divide == 1 && term.part.0.is_multiple_of(width) && term.size.is_multiple_of(width)
        };
        let along = inner.clone().find(|term| !uniform(term));
        let Some(along) = along else { return Meeting::Uniform };
        let wide = |stride: i64| stride % width as i64 == 0;
        let aligned = terms.iter().filter(|term| *term != along).all(|term| wide(term.stride))
            && inner.filter(|term| *term != along).all(uniform)
            && wide(access.offset);
        let side_by_side = along.divide == 1
            && along.stride == 1
            && along.part.0 == 1
            && (along.modulo == 0 || along.modulo.is_multiple_of(width))
            && (along.part.1 == 0 || along.part.1.is_multiple_of(width));
        if aligned && side_by_side { Meeting::Packed } else { Meeting::Scattered }
    }

    /// Whether a bound holds for all elements of a vector or for none.
    pub(super) fn holds_together(&self, bound: &Bound, group: usize, width: usize) -> bool {
        match self.meeting(&bound.access, group, width) {
            Meeting::Uniform => true,
            Meeting::Packed => bound.size.is_multiple_of(width),
            Meeting::Scattered => false,
        }
    }
}

/// The type of positions: 32 bits where they do, since a division in 64 bits is dozens of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// `unsigned`.
    Narrow,
    /// `unsigned long long`.
    Wide,
}

impl Index {
    /// For positions and offsets up to a number.
    pub(super) fn for_count(largest: usize) -> Self {
        // A thread past the end still adds its unrolled steps to its position.
        if largest < (1 << 31) { Self::Narrow } else { Self::Wide }
    }

    /// The type.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Narrow => "unsigned",
            Self::Wide => "unsigned long long",
        }
    }

    /// A number of the type.
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
    fn dimensions_behind_one_another_are_one_part() {
        assert_eq!(text(&[2, 3, 4], &[12, 4, 1]), "i");
        assert_eq!(text(&[2, 1, 12], &[12, 7, 1]), "i");
        assert_eq!(text(&[2, 3, 4], &[4, 0, 1]), "i % 4u + i / 12u * 4u");
        assert_eq!(text(&[2, 64, 7, 7], &[0, 1, 0, 0]), "i / 49u % 64u");
        assert_eq!(text(&[], &[]), "0u");
        assert_eq!(text(&[5], &[-1]), "0u - i");
    }

    #[test]
    fn vectors_are_wide_where_all_begins_at_their_multiples() {
        let space = Space::whole(&[6, 8]);
        let meeting = |strides: [i64; 2], width| space.meeting(&Access::strided(0, strides), 0, width);
        assert_eq!(meeting([8, 1], 4), Meeting::Packed);
        assert_eq!(meeting([0, 1], 4), Meeting::Packed);
        assert_eq!(meeting([0, 1], 16), Meeting::Scattered);
        assert_eq!(meeting([10, 1], 4), Meeting::Scattered, "rows of 10 are not aligned");
        assert_eq!(meeting([1, 0], 4), Meeting::Uniform);
        assert_eq!(meeting([1, 6], 4), Meeting::Scattered);
    }
}
