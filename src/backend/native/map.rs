//! stub
use crate::backend::{Call, Contract, Kernel};
pub(super) fn takes(_call: &Call<'_>) -> bool { false }
pub(super) fn contract(_call: &Call<'_>) -> Result<Contract, String> { Err(String::new()) }
pub(super) fn kernel(_call: &Call<'_>) -> Result<Box<dyn Kernel>, String> { Err(String::new()) }
