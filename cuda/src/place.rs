//! Conversion of layouts to index arithmetic: a walk over the result's memory in order, and the offset of the same
//! element in each operand.

use super::space::{Access, Bound, Part};
use ovolo::tensor::{Layout, Shape, TensorType};

/// The memory of a result, with its dimensions in the order of memory, and the logical coordinates of an element.
pub(super) struct Walk {
    /// The sizes, outermost first. Their product is the number of elements including padding.
    pub sizes: Vec<usize>,
    /// For each logical dimension, the sum that gives its coordinate: dimensions of the walk, and factors.
    coordinates: Vec<Vec<(usize, usize)>>,
    shape: Shape,
    layout: Layout,
}

impl Walk {
    /// Walks the memory of a type.
    pub(super) fn new(ty: &TensorType) -> Self {
        let (sizes, steps) = physical(&ty.shape, &ty.layout);
        let coordinates = steps.into_iter().map(|one| one.into_iter().map(|s| (s.at, s.factor)).collect());
        Self { sizes, coordinates: coordinates.collect(), shape: ty.shape.clone(), layout: ty.layout.clone() }
    }

    /// Walks the memory of a type in the default layout, with its dimensions divided at the blocks of another layout
    /// if these have no padding.
    pub(super) fn split(ty: &TensorType, other: &Layout) -> Self {
        let once = |dim: usize| other.blocks().iter().filter(|block| block.0 == dim).count() <= 1;
        let whole =
            (0..ty.shape.rank()).all(|dim| once(dim) && ty.shape[dim].is_multiple_of(other.block(dim)));
        if !ty.layout.is_plain() || !whole {
            return Self::new(ty);
        }
        let (mut sizes, mut coordinates) = (Vec::new(), Vec::new());
        for (dim, &size) in ty.shape.iter().enumerate() {
            let block = other.block(dim);
            if block > 1 {
                coordinates.push(vec![(sizes.len(), block), (sizes.len() + 1, 1)]);
                sizes.extend([size / block, block]);
            } else {
                coordinates.push(vec![(sizes.len(), 1)]);
                sizes.push(size);
            }
        }
        Self { sizes, coordinates, shape: ty.shape.clone(), layout: Layout::PLAIN }
    }

    /// Returns the offsets of an operand that broadcasts to the result.
    ///
    /// # Errors
    /// If the two layouts have different blocks, because there is no kernel for that case.
    pub(super) fn access(&self, ty: &TensorType) -> Result<Access, String> {
        let skip = self.shape.rank() - ty.shape.rank();
        let (sizes, steps) = physical(&ty.shape, &ty.layout);
        let mut strides = vec![1_usize; sizes.len()];
        for at in (1..sizes.len()).rev() {
            strides[at - 1] = strides[at] * sizes[at];
        }
        let mut parts = Vec::new();
        for (dim, steps) in steps.iter().enumerate().filter(|(dim, _)| ty.shape[*dim] > 1) {
            let coordinate = &self.coordinates[dim + skip];
            for step in steps {
                let stride = strides[step.at];
                parts.extend(
                    step.part(coordinate, stride).ok_or_else(|| {
                        format!("no kernel converts layout {} to {}", ty.layout, self.layout)
                    })?,
                );
            }
        }
        Ok(Access { offset: 0, parts })
    }

    /// Returns the conditions for elements that are not padding of the result.
    pub(super) fn bounds(&self) -> Vec<Bound> {
        let padded = |dim: &usize| !self.shape[*dim].is_multiple_of(self.layout.block(*dim));
        (0..self.shape.rank())
            .filter(padded)
            .map(|dim| Bound { access: self.coordinate(dim), size: self.shape[dim] })
            .collect()
    }

    /// Returns a logical coordinate.
    pub(super) fn coordinate(&self, dim: usize) -> Access {
        let parts = self.coordinates[dim].iter().map(|(at, factor)| Part::whole(*at, *factor as i64));
        Access { offset: 0, parts: parts.collect() }
    }

    /// Returns an offset that is given by strides of the logical coordinates.
    pub(super) fn strided(&self, offset: i64, strides: &[i64]) -> Access {
        let parts = strides.iter().zip(&self.coordinates).flat_map(|(stride, coordinate)| {
            coordinate.iter().map(move |(at, factor)| Part::whole(*at, *factor as i64 * stride))
        });
        Access { offset, parts: parts.collect() }
    }
}

/// A dimension in memory: its position, and the part of the logical coordinate that it represents.
struct Step {
    at: usize,
    /// The coordinate is divided by this factor,
    factor: usize,
    /// and then reduced modulo this number; zero means no reduction.
    modulo: usize,
}

impl Step {
    /// Returns the part of an offset for a coordinate of a walk.
    fn part(&self, coordinate: &[(usize, usize)], stride: usize) -> Option<Vec<Part>> {
        let stride = stride as i64;
        if let [(dim, 1)] = coordinate {
            return Some(vec![Part { dim: *dim, divide: self.factor, modulo: self.modulo, stride }]);
        }
        if self.factor == 1 && self.modulo == 0 {
            let whole = |(dim, factor): &(usize, usize)| Part::whole(*dim, *factor as i64 * stride);
            return Some(coordinate.iter().map(whole).collect());
        }
        // The walk is divided at the same blocks as the operand.
        let (dim, _) = coordinate.iter().find(|(_, factor)| *factor == self.factor)?;
        let wider = coordinate.iter().map(|(_, factor)| *factor).filter(|factor| *factor > self.factor).min();
        (wider.unwrap_or(0) == self.factor * self.modulo).then(|| vec![Part::whole(*dim, stride)])
    }
}

/// Returns the sizes in memory, and the steps of each logical dimension.
fn physical(shape: &Shape, layout: &Layout) -> (Vec<usize>, Vec<Vec<Step>>) {
    let order = layout.order(shape.rank());
    let mut sizes = Vec::new();
    let mut steps: Vec<Vec<Step>> = shape.iter().map(|_| Vec::new()).collect();
    for &dim in &order {
        let block = layout.block(dim);
        steps[dim].push(Step { at: sizes.len(), factor: block, modulo: 0 });
        sizes.push(shape[dim].div_ceil(block));
    }
    for (position, &(dim, size)) in layout.blocks().iter().enumerate() {
        let inner = layout.blocks()[position + 1..].iter().filter(|b| b.0 == dim).map(|b| b.1).product();
        steps[dim].push(Step { at: sizes.len(), factor: inner, modulo: size });
        sizes.push(size);
    }
    (sizes, steps)
}
