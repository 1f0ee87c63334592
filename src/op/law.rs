//! Conditions on attributes that hold for all operands. For example, no value has an axis below zero.
//!
//! Conditions that depend on operands, such as whether they have that axis, are checked when the result's type is
//! inferred. The ones here are checked where an attribute is written, so that the message can point at it.

use super::Op;
use crate::attr::Attr;

/// Returns what is wrong with the value of an attribute, and what to write instead; `None` if the value is allowed.
pub(crate) fn broken(op: Op, name: &str, value: &Attr) -> Option<(&'static str, &'static str)> {
    let name_of = op.meaning();
    match (name, value) {
        ("axis", Attr::Int(axis)) if *axis < 0 => Some((
            "an axis is counted from the front",
            "count from 0: the import of models converts negative axes",
        )),
        ("axes", Attr::Ints(axes)) if axes.iter().any(|axis| *axis < 0) => Some((
            "an axis is counted from the front",
            "count from 0: the import of models converts negative axes",
        )),
        ("axes", Attr::Ints(axes)) if repeats(axes) => {
            Some(("an axis is listed twice", "write each axis once, the smaller one first"))
        }
        ("layout", Attr::Layout(layout)) if name_of == "pack" && layout.is_plain() => Some((
            "that is the plain layout, which needs no packing",
            "write a layout such as `nChw16c`; `unpack` gives the plain one",
        )),
        ("perm", Attr::Ints(perm)) if repeats(perm) || !within(perm) => Some((
            "it is not an order of axes",
            "write each axis from 0 on once, in the order in which the result has them, as in `[0,2,1]`",
        )),
        ("strides" | "dilations" | "kernel", Attr::Ints(list)) if list.len() != 2 => {
            Some(("windows have two dimensions, rows and columns", "write two numbers, as in `[1,1]`"))
        }
        ("strides" | "dilations" | "kernel", Attr::Ints(list)) if list.iter().any(|one| *one < 1) => {
            Some(("sizes and steps of windows are at least 1", "write numbers from 1 on"))
        }
        ("pads", Attr::Ints(list)) if name_of != "pad" && list.len() != 4 => Some((
            "windows are padded on four sides",
            "write four numbers, as in `[0,0,0,0]`: top, left, bottom, right",
        )),
        ("pads", Attr::Ints(list)) if list.len() % 2 != 0 => Some((
            "each axis is padded before and after",
            "write as many numbers for what comes after as for what comes before",
        )),
        ("pads", Attr::Ints(list)) if list.iter().any(|one| *one < 0) => {
            Some(("padding only adds elements", "write numbers from 0 on; `slice` removes elements"))
        }
        ("steps", Attr::Ints(list)) if list.contains(&0) => Some((
            "a step must not be zero",
            "write 1 for every element, or -1 for every element in reverse order",
        )),
        ("starts", Attr::Ints(list)) if list.iter().any(|one| *one < 0) => Some((
            "a start is counted from the front",
            "count from 0: the import of models converts negative starts",
        )),
        ("sizes" | "shape", Attr::Ints(list)) if list.iter().any(|one| *one < 0) => Some((
            "a size must not be negative",
            "write each size, or compute it, as in `dim(?x, 0)`: sizes are never inferred",
        )),
        ("groups" | "into" | "size", Attr::Int(one)) if *one < 1 => {
            Some(("it must be at least 1", "write a number from 1 on"))
        }
        ("output-padding", Attr::Ints(list)) if list.len() != 2 || list.iter().any(|one| *one < 0) => Some((
            "it has two numbers, for rows and columns that are added",
            "write two numbers from 0 on, as in `[0,0]`",
        )),
        (
            "keepdims" | "count-include-pad" | "select-last" | "fmod" | "sum" | "exclude-outside"
            | "antialias",
            Attr::Int(flag),
        ) if !(0..=1).contains(flag) => Some(("it has only two values", "write 0 or 1")),
        _ => None,
    }
}

fn repeats(list: &[i64]) -> bool {
    list.iter().enumerate().any(|(at, one)| list[..at].contains(one))
}

fn within(list: &[i64]) -> bool {
    list.iter().all(|one| usize::try_from(*one).is_ok_and(|one| one < list.len()))
}
