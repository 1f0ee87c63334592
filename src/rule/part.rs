//! Parts of values before a reshape: computes which box of the operand becomes a given box of the result.
//!
//! The axes of both shapes are divided into the smallest groups with equal products, from the outermost axis inwards.
//! A reshape moves elements only inside such groups. In a group, a box has a counterpart if it is an interval of the
//! group's elements in row-major order, and if this interval is also a box of the other axes.

use std::ops::Range;

/// The starts and sizes of a box.
pub(super) type Part = (Vec<i64>, Vec<i64>);

/// Returns the part of a value of shape `from` that becomes the given part of its reshape to shape `to`.
///
/// # Errors
/// If the shapes have different numbers of elements or empty axes, if the part is not inside `to`, or if it is not
/// one box of `from`; says which.
pub(super) fn before_reshape(part: (&[i64], &[i64]), to: &[i64], from: &[i64]) -> Result<Part, String> {
    let (starts, sizes) = part;
    let inside = |(at, &size): (usize, &i64)| {
        starts.get(at).zip(sizes.get(at)).is_some_and(|(&start, &taken)| {
            start >= 0 && taken > 0 && start.checked_add(taken).is_some_and(|end| end <= size)
        })
    };
    if starts.len() != to.len() || sizes.len() != to.len() || !to.iter().enumerate().all(inside) {
        return Err(format!("starts {starts:?} and sizes {sizes:?} are no part of {to:?}"));
    }
    let (mut first, mut taken) = (vec![0; from.len()], from.to_vec());
    for (to_axes, from_axes) in groups(to, from)? {
        let interval = interval(&starts[to_axes.clone()], &sizes[to_axes.clone()], &to[to_axes]);
        let boxed = interval.and_then(|interval| boxed(interval, &from[from_axes.clone()]));
        let Some((start, size)) = boxed else {
            return Err(format!("the part of {sizes:?} from {starts:?} of {to:?} is no box of {from:?}"));
        };
        first[from_axes.clone()].copy_from_slice(&start);
        taken[from_axes].copy_from_slice(&size);
    }
    Ok((first, taken))
}

/// Axes of one shape, and the axes of the other shape that contain the same elements.
type Group = (Range<usize>, Range<usize>);

/// Returns the axes of both shapes in groups with equal products.
fn groups(to: &[i64], from: &[i64]) -> Result<Vec<Group>, String> {
    let unequal = || format!("{from:?} has not as many elements as {to:?}");
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < to.len() || j < from.len() {
        let (first_to, first_from) = (i, j);
        let (mut a, mut b) = (1_i64, 1_i64);
        loop {
            // If both products are equal, the axes so far form a group, unless it is still empty.
            if a == b && (i > first_to || j > first_from) && !(i < to.len() && to[i] == 1) {
                break;
            }
            let (shape, at, product) =
                if a < b || a == b && i < to.len() { (to, &mut i, &mut a) } else { (from, &mut j, &mut b) };
            let size = shape.get(*at).filter(|size| **size > 0).ok_or_else(unequal)?;
            *product = product.checked_mul(*size).ok_or_else(unequal)?;
            *at += 1;
        }
        groups.push((first_to..i, first_from..j));
    }
    Ok(groups)
}

/// Returns the elements of a box if they are contiguous in row-major order: one element of the outer axes, some
/// elements of one axis, and all of the inner axes.
fn interval(starts: &[i64], sizes: &[i64], shape: &[i64]) -> Option<Range<i64>> {
    let (mut start, mut size, mut stride) = (0, 1, 1);
    let mut whole = true;
    for at in (0..shape.len()).rev() {
        if !whole && sizes[at] != 1 {
            return None;
        }
        start += starts[at] * stride;
        size *= sizes[at];
        stride *= shape[at];
        whole = whole && sizes[at] == shape[at];
    }
    Some(start..start + size)
}

/// Returns the box of these elements, in row-major order.
fn boxed(elements: Range<i64>, shape: &[i64]) -> Option<Part> {
    let (mut start, mut size) = (elements.start, elements.end - elements.start);
    let mut stride: i64 = shape.iter().product();
    let (mut starts, mut sizes) = (Vec::new(), Vec::new());
    for &axis in shape {
        stride /= axis;
        let taken = (size / stride).max(1);
        let first = start / stride;
        // An interval that begins or ends inside an element of this axis must lie within that element.
        let fits = if size >= stride {
            start % stride == 0 && size % stride == 0
        } else {
            start % stride + size <= stride
        };
        if !fits {
            return None;
        }
        starts.push(first);
        sizes.push(taken);
        start -= first * stride;
        if size >= stride && taken > 1 {
            // The interval covers everything inside.
            (start, size) = (0, stride);
        }
    }
    Some((starts, sizes))
}
