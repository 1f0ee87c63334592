//! The ONNX operators that compute a function.

/// An ONNX operator that computes the function. Its attributes with the names of parameters are those parameters.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The name of the operator. If it is not ONNX's own, its domain comes first.
    pub name: &'static str,
    /// The attribute values for which the operator computes the function. Without conditions it always does.
    pub when: Vec<(&'static str, Setting)>,
    /// The values of attributes that a model does not write. A parameter that is not listed has its own default.
    pub defaults: Vec<(&'static str, Setting)>,
}

impl Operator {
    /// Returns the value of an attribute that a model does not write.
    pub fn default_of(&self, attribute: &str) -> Option<&Setting> {
        self.defaults.iter().find(|(name, _)| *name == attribute).map(|(_, value)| value)
    }
}

/// The value of an ONNX attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// Text.
    Text(&'static str),
}
