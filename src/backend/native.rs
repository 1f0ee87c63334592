//! The native backend: every op in pure Rust.
use super::{Backend, Call, Contract, Kernel};
/// The native backend.
pub struct Native;
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }
    fn contract(&self, call: &Call<'_>) -> Result<Contract, String> {
        Err(format!("no kernel for {}", call.op))
    }
    fn kernel(&self, call: &Call<'_>) -> Result<Box<dyn Kernel>, String> {
        Err(format!("no kernel for {}", call.op))
    }
}
