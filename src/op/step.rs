//! The steps that only trees have.

/// The steps that take the value that was put aside, each with its binary step.
const POPS: [(&str, &str); 7] = [
    ("pop-add", "add"),
    ("pop-sub", "sub"),
    ("pop-mul", "mul"),
    ("pop-div", "div"),
    ("pop-min", "min"),
    ("pop-max", "max"),
    ("pop-pow", "pow"),
];

/// The step that puts the value aside and begins another one.
pub const PUSH: &str = "push";

/// Returns the canonical name of a step that only trees have.
pub(crate) fn step_name(name: &str) -> Option<&'static str> {
    std::iter::once(PUSH).chain(POPS.iter().map(|(pop, _)| *pop)).find(|known| *known == name)
}

/// Returns the binary step of a step that takes the value that was put aside; `None` for other steps.
pub fn popped(step: &str) -> Option<&'static str> {
    POPS.iter().find(|(pop, _)| *pop == step).map(|(_, binary)| *binary)
}
