//! Positions of elements.

/// Moves an index to the next element in row-major order, and to zero after the last one.
pub fn advance(index: &mut [usize], shape: &[usize]) {
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return;
        }
        index[axis] = 0;
    }
}
