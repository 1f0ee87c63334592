//! Samplers of copies between the host and a device, and of gradients.

use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::tensor::{DType, Device, TensorType};

/// A copy from the host to a device, or back.
pub(super) fn transfer(ask: &mut Ask<'_>) -> Option<Offer> {
    let operand = |device| TensorType { device, ..ask.wish.clone() };
    // The op itself determines the direction of the copy.
    let (host, there) = (operand(Device::Host), operand(Device::Accelerator(ask.op.flags.transfer?, 0)));
    let uploads = ask.op.result(&Attrs::new(), &[&host]).is_ok();
    let operand = if uploads { host } else { there };
    Some(Offer { attrs: Attrs::new(), operands: vec![Wish::any(operand)] })
}

/// A gradient of an op with one operand, or of one with two of which the wanted one is repeated along some
/// axes.
pub(super) fn gradient(ask: &mut Ask<'_>) -> Option<Offer> {
    let two = ask.least > 2 || ask.most > 2 && ask.rng.percent(50);
    let of = match ask.fixed.get("of") {
        Some(Attr::Post(steps)) => steps.clone(),
        _ => {
            let op = if two {
                ask.rng.pick(&["add", "sub", "mul", "div", "max"])
            } else {
                ask.rng.pick(&["relu", "sigmoid", "tanh", "exp", "gelu"])
            };
            vec![Step { op: op.into(), parameters: Vec::new() }]
        }
    };
    let operand = match ask.fixed.get("operand") {
        Some(Attr::Int(operand)) => *operand,
        _ => i64::from(two && ask.rng.percent(50)),
    };
    let dtype = if ask.wish.dtype.is_float() { ask.wish.dtype } else { DType::F32 };
    let mine = Wish::plain(dtype, ask.wish.shape.to_vec());
    let attrs = Attrs::new().with("of", Attr::Post(of)).int("operand", operand);
    if !two {
        return Some(Offer { attrs, operands: vec![mine.clone(), mine] });
    }
    let mut whole: Vec<usize> =
        ask.wish.shape.iter().map(|size| if *size == 1 { ask.rng.pick(&[1, 3]) } else { *size }).collect();
    if ask.rng.percent(40) {
        whole.insert(0, 2);
    }
    let whole = Wish::plain(dtype, whole);
    let pair = if operand == 0 { [mine, whole.clone()] } else { [whole.clone(), mine] };
    Some(Offer { attrs, operands: pair.into_iter().chain([whole]).collect() })
}
