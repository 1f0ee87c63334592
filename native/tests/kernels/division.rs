//! Divisions of work among tiles.

use ovolo_vector::args::split;

#[test]
fn nearly_equal_parts_are_cut_where_divisions_would_cut_them() {
    for (count, parts) in [(0, 1), (5, 7), (12, 5), (13, 13), (3136, 19), (49, 9)] {
        for first in 0..parts {
            let cut = |at: usize| count * at / parts;
            let expected: Vec<_> = (first..parts).map(|at| cut(at)..cut(at + 1)).collect();
            assert_eq!(split(count, parts, first..parts).collect::<Vec<_>>(), expected);
        }
    }
}
