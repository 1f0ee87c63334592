//! Tests of recurrent layers against the reference evaluations.

use crate::check::{Random, verify};
use crate::fixture::ops;
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::Layout;

fn attrs() -> Attrs {
    Attrs::new()
}

#[test]
fn recurrent_layers_agree_with_the_reference_in_rows_and_in_panels() {
    let mut random = Random::new(33);
    let text = |text: &str| Attr::Str(text.into());
    for (steps, batch, directions, hidden) in
        [(3, 1, 1, 20), (4, 2, 2, 5), (2, 4, 1, 33), (3, 1, 1, 180), (2, 3, 2, 16)]
    {
        for (cell, packed, gates, linear) in [
            ("native.lstm", "native.lstm-packed", 4, 0),
            ("native.gru", "native.gru-packed", 3, 0),
            ("native.gru", "native.gru-packed", 3, 1),
            ("native.rnn", "native.rnn-packed", 1, 0),
        ] {
            let functions: &[&str] = match cell {
                "native.lstm" => &["sigmoid 0 0", "tanh 0 0", "tanh 0 0"],
                "native.gru" => &["sigmoid 0 0", "tanh 0 0"],
                _ => &["tanh 0 0"],
            };
            let x = random.f32([steps, batch, directions, gates * hidden]);
            let w = random.f32([directions, gates * hidden, hidden]);
            let states = [0, 1].map(|_| random.f32([directions, batch, hidden]));
            let mut attributes = attrs().with("activations", text(&functions.repeat(directions).join(",")));
            if cell == "native.gru" {
                attributes = attributes.int("linear", linear);
            }
            let panels = w.to_layout(&"aBc16b".parse::<Layout>().unwrap());
            for (op, weights, implementation) in [(cell, &w, "rows"), (packed, &panels, "panels")] {
                let mut operands = vec![&x, weights, &states[0]];
                if cell == "native.lstm" {
                    operands.push(&states[1]);
                }
                let contract =
                    verify(op, &ops().get(op).unwrap().complete(attributes.clone()), &operands, 1e-4);
                assert_eq!(contract.implementation, implementation);
            }
        }
    }
}
