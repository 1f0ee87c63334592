//! Tests of `src/rule/part.rs`.

#[allow(dead_code)]
#[path = "../../../../src/rule/part.rs"]
mod source;

use source::before_reshape;

fn before(starts: &[i64], sizes: &[i64], to: &[i64], from: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
    before_reshape((starts, sizes), to, from).ok()
}

#[test]
fn parts_are_carried_over_where_they_are_boxes() {
    // One of three blocks of columns.
    assert_eq!(before(&[0, 1, 0], &[5, 1, 4], &[5, 3, 4], &[5, 12]), Some((vec![0, 4], vec![5, 4])));
    // Axes with one element can be added and removed.
    assert_eq!(before(&[0, 2, 0], &[1, 1, 4], &[1, 5, 4], &[5, 1, 4]), Some((vec![2, 0, 0], vec![1, 1, 4])));
    assert_eq!(
        before(&[1, 0], &[2, 4], &[5, 4], &[5, 1, 2, 2, 1]),
        Some((vec![1, 0, 0, 0, 0], vec![2, 1, 2, 2, 1]))
    );
    // Some heads correspond to some columns, and the reverse.
    assert_eq!(before(&[0, 8], &[5, 8], &[5, 16], &[5, 4, 4]), Some((vec![0, 2, 0], vec![5, 2, 4])));
    assert_eq!(before(&[0, 2], &[5, 2], &[5, 16], &[5, 4, 4]), Some((vec![0, 0, 2], vec![5, 1, 2])));
    // Columns that cover two heads only partly.
    assert_eq!(before(&[0, 2], &[5, 4], &[5, 16], &[5, 4, 4]), None);
    // Rows of a matrix with exchanged dimensions are not a box.
    assert_eq!(before(&[0, 0], &[3, 2], &[3, 4], &[4, 3]), None);
    assert_eq!(before(&[1, 0], &[2, 4], &[3, 4], &[12]), Some((vec![4], vec![8])));
    // Scalars, and boxes that are not parts.
    assert_eq!(before(&[], &[], &[], &[1, 1]), Some((vec![0, 0], vec![1, 1])));
    assert_eq!(before(&[2], &[2], &[3], &[3]), None);
    assert_eq!(before(&[0], &[2], &[3], &[4]), None);
}

#[test]
fn every_box_that_is_carried_over_holds_the_same_elements() {
    let shapes: [&[i64]; 6] = [&[2, 3, 4], &[6, 4], &[2, 12], &[24], &[1, 2, 3, 2, 2], &[4, 6]];
    let elements = |starts: &[i64], sizes: &[i64], shape: &[i64]| -> Vec<i64> {
        let mut list = vec![0];
        for at in 0..shape.len() {
            list = list
                .iter()
                .flat_map(|base| (0..sizes[at]).map(move |i| base * shape[at] + starts[at] + i))
                .collect();
        }
        list
    };
    let mut carried = 0;
    for to in shapes {
        for from in shapes {
            let mut parts = vec![(vec![], vec![])];
            for &size in to {
                let each = |(starts, sizes): &(Vec<i64>, Vec<i64>)| {
                    let (starts, sizes) = (starts.clone(), sizes.clone());
                    (0..size).flat_map(move |start| {
                        let (starts, sizes) = (starts.clone(), sizes.clone());
                        (1..=size - start).map(move |taken| {
                            ([&starts[..], &[start]].concat(), [&sizes[..], &[taken]].concat())
                        })
                    })
                };
                parts = parts.iter().flat_map(each).collect();
            }
            for (starts, sizes) in parts {
                if let Some((first, taken)) = before(&starts, &sizes, to, from) {
                    assert_eq!(elements(&starts, &sizes, to), elements(&first, &taken, from));
                    carried += 1;
                } else {
                    assert!(to != from, "{starts:?} {sizes:?} of {to:?}");
                }
            }
        }
    }
    assert!(carried > 1000, "{carried}");
}
