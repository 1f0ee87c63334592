//! How the products of Strassen's algorithm are stored in the quarters of the result.

use crate::product::StoreMode;

/// Returns the quarters that a product contributes to, and how it is stored in each. `begun` says which quarters
/// already hold a sum.
pub(super) fn modes(factors: &[f64; 4], begun: &mut [bool; 4]) -> [(usize, StoreMode); 2] {
    let mut modes = [(0, StoreMode::None); 2];
    let parts = factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0);
    for (to, (quarter, factor)) in modes.iter_mut().zip(parts) {
        let way = match (begun[quarter], *factor > 0.0) {
            (false, _) => StoreMode::Set,
            (true, true) => StoreMode::Add,
            (true, false) => StoreMode::Subtract,
        };
        begun[quarter] = true;
        *to = (quarter, way);
    }
    modes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovolo::op::strassen::PRODUCTS;

    #[test]
    fn every_quarter_is_set_once_and_then_added_to() {
        let mut begun = [false; 4];
        let mut set = [0; 4];
        for product in &PRODUCTS {
            let parts = product.result.iter().filter(|factor| **factor != 0.0).count();
            let modes = modes(&product.result, &mut begun);
            // A tile is stored in two quarters at most, and the first contribution to a quarter is not negated.
            assert_eq!(modes.iter().filter(|(_, way)| *way != StoreMode::None).count(), parts);
            for (quarter, way) in modes {
                if way == StoreMode::Set {
                    set[quarter] += 1;
                    assert_eq!(product.result[quarter], 1.0);
                }
            }
        }
        assert_eq!(set, [1; 4]);
    }
}
