//! The steps that trees alone have.

/// The steps that take the value that was put aside, and the binary steps that they are.
const POPS: [(&str, &str); 7] = [
    ("pop-add", "add"),
    ("pop-sub", "sub"),
    ("pop-mul", "mul"),
    ("pop-div", "div"),
    ("pop-min", "min"),
    ("pop-max", "max"),
    ("pop-pow", "pow"),
];

/// What begins another value.
pub const PUSH: &str = "push";

/// The canonical name of a step that trees alone have.
pub(crate) fn step_name(name: &str) -> Option<&'static str> {
    std::iter::once(PUSH).chain(POPS.iter().map(|(pop, _)| *pop)).find(|known| *known == name)
}

/// The binary step of what was put aside and the value, where a step is one that takes it.
pub fn popped(step: &str) -> Option<&'static str> {
    POPS.iter().find(|(pop, _)| *pop == step).map(|(_, binary)| *binary)
}
