//! Placeholder of the family.
use super::OpDef;
pub(super) fn ops() -> Vec<OpDef> {
    Vec::new()
}
