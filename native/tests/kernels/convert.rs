//! Tests of conversions between layouts against the reference evaluation.

use crate::check::{Random, assert_close, run};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Layout};

#[test]
fn every_change_of_layout_keeps_the_values() {
    let layouts = ["plain", "nhwc", "nChw8c", "nChw16c", "OIhw16i16o", "Ohwi16o", "OIhw4i16o4i", "nchw"];
    let mut random = Random::new(1);
    for shape in [[1, 16, 3, 5], [2, 3, 4, 4], [1, 40, 7, 9], [17, 33, 3, 1], [1, 64, 56, 56]] {
        for dtype in [DType::F32, DType::I64, DType::U8] {
            let plain = random.tensor(dtype, shape);
            for from in layouts {
                let source = plain.to_layout(&from.parse().unwrap());
                for to in layouts {
                    let layout: Layout = to.parse().unwrap();
                    let want = plain.to_layout(&layout);
                    let attrs = Attrs::new().with("layout", Attr::Layout(layout));
                    for threads in [1, 2] {
                        let (_, got) = run("native.reorder", &attrs, &[&source], want.ty(), threads, None);
                        assert_close(&format!("{from} to {to}"), &got, &want, 0.0);
                    }
                }
            }
        }
    }
}
