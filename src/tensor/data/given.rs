//! Values that a model gives by their elements that are not zero.

use super::super::{TensorType, sparse};

/// The elements of a value in the default layout that may be other than zero, in ascending order of their places, which
/// are counted row by row.
pub(crate) struct Given {
    /// The bytes of an element.
    size: usize,
    places: Vec<usize>,
    /// The bytes of the elements.
    elements: Vec<u8>,
}

impl Given {
    /// Collects elements of so many bytes.
    pub fn new(size: usize) -> Self {
        Self { size, places: Vec::new(), elements: Vec::new() }
    }

    /// Adds an element at a place after those that are there. Returns whether that is so; otherwise it is not added.
    pub fn push(&mut self, place: usize, element: &[u8]) -> bool {
        let follows = self.places.last().is_none_or(|last| *last < place);
        if follows {
            self.places.push(place);
            self.elements.extend_from_slice(element);
        }
        follows
    }

    /// Returns the number of elements.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.places.iter().copied().zip(self.elements.chunks_exact(self.size))
    }

    /// Writes the elements to their places among bytes that are zero.
    pub(super) fn write(&self, to: &mut [u8]) {
        for (place, element) in self.iter() {
            to[place * element.len()..][..element.len()].copy_from_slice(element);
        }
    }

    /// Returns the elements with their places in the blocks of a type's layout, in ascending order.
    fn placed(&self, ty: &TensorType) -> Vec<(usize, &[u8])> {
        let at = |(place, element)| {
            let mut rest: usize = place;
            let mut index = vec![0; ty.shape.rank()];
            for (index, size) in index.iter_mut().zip(ty.shape.iter()).rev() {
                *index = rest % size;
                rest /= size;
            }
            (ty.layout.offset(&ty.shape, &index), element)
        };
        let mut placed: Vec<(usize, &[u8])> = self.iter().map(at).collect();
        placed.sort_unstable_by_key(|(place, _)| *place);
        placed
    }

    /// Returns the blocks of a dense layout that have anything but zeros: the number of each, and its elements, of which
    /// some may be zero, with their bytes from its start.
    fn in_use<'a>(
        &self,
        ty: &TensorType,
        placed: &'a [(usize, &'a [u8])],
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = (usize, &'a [u8])>)> {
        let (size, block, dtype) = (self.size, ty.block_bytes(), ty.dtype);
        let number = move |place: usize| place * size / block;
        let blocks = placed.chunk_by(move |a, b| number(a.0) == number(b.0));
        let any = move |elements: &&[(usize, &[u8])]| {
            elements.iter().any(|(_, element)| !sparse::is_zero(element, dtype))
        };
        blocks.filter(any).map(move |elements| {
            let first = number(elements[0].0);
            (first, elements.iter().map(move |(place, element)| (place * size - first * block, *element)))
        })
    }

    /// Returns the number of blocks of a dense layout that have anything but zeros.
    pub(super) fn blocks(&self, ty: &TensorType) -> usize {
        self.in_use(ty, &self.placed(ty)).count()
    }

    /// Writes the elements to bytes of a sparse layout, which are zero, as [`sparse::compress`] does.
    pub(super) fn compress(&self, ty: &TensorType, to: &mut [u8]) {
        let dense = ty.with_layout(ty.layout.dense());
        let placed = self.placed(&dense);
        let blocks = self.in_use(&dense, &placed).map(|(number, elements)| {
            let write = |to: &mut [u8]| {
                for (at, element) in elements {
                    to[at..][..element.len()].copy_from_slice(element);
                }
            };
            (number, write)
        });
        sparse::store(blocks, to, &ty.layout, &ty.shape, dense.block_bytes());
    }
}
