//! Copies values from one layout to another.

use super::{Layout, Shape};

/// Copies the logical elements of `shape` from one layout to another. Padding is not written.
pub(super) fn copy(from: &[u8], source: &Layout, to: &mut [u8], target: &Layout, shape: &Shape, size: usize) {
    // In every layout an offset is a sum with one term for each dimension, so it can be computed from tables of
    // terms.
    let (source, target) = (terms(source, shape), terms(target, shape));
    match size {
        1 => elements::<1>(from, &source, to, &target, shape),
        2 => elements::<2>(from, &source, to, &target, shape),
        4 => elements::<4>(from, &source, to, &target, shape),
        _ => elements::<8>(from, &source, to, &target, shape),
    }
}

/// Returns, for each dimension and index, what the index adds to the offset, in elements.
fn terms(layout: &Layout, shape: &Shape) -> Vec<Vec<usize>> {
    let mut index = vec![0; shape.rank()];
    (0..shape.rank())
        .map(|dim| {
            let column = (0..shape[dim])
                .map(|at| {
                    index[dim] = at;
                    layout.offset(shape, &index)
                })
                .collect();
            index[dim] = 0;
            column
        })
        .collect()
}

fn elements<const SIZE: usize>(
    from: &[u8],
    source: &[Vec<usize>],
    to: &mut [u8],
    target: &[Vec<usize>],
    shape: &Shape,
) {
    let Some(last) = shape.rank().checked_sub(1) else {
        to[..SIZE].copy_from_slice(&from[..SIZE]);
        return;
    };
    if shape.count() == 0 {
        return;
    }
    let outer = &shape[..last];
    let runs = runs(&source[last], &target[last]);
    // Short runs take less time element by element.
    let whole = runs.len() * 4 <= shape[last];
    let mut index = vec![0; last];
    for _ in 0..outer.iter().product::<usize>() {
        let base =
            |terms: &[Vec<usize>]| index.iter().zip(terms).map(|(at, column)| column[*at]).sum::<usize>();
        let (read, write) = (base(source), base(target));
        if whole {
            for (a, b, count) in &runs {
                let (a, b, bytes) = ((read + a) * SIZE, (write + b) * SIZE, count * SIZE);
                to[b..b + bytes].copy_from_slice(&from[a..a + bytes]);
            }
        } else {
            for (a, b) in source[last].iter().zip(&target[last]) {
                let (a, b) = ((read + a) * SIZE, (write + b) * SIZE);
                to[b..b + SIZE].copy_from_slice(&from[a..a + SIZE]);
            }
        }
        super::advance(&mut index, outer);
    }
}

/// Returns the longest runs of elements that are adjacent in both layouts: where each begins in them, and its length.
fn runs(source: &[usize], target: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for (a, b) in source.iter().zip(target) {
        match runs.last_mut() {
            Some((from, to, count)) if *a == *from + *count && *b == *to + *count => *count += 1,
            _ => runs.push((*a, *b, 1)),
        }
    }
    runs
}
