//! Absent backends.

use crate::backend::Backends;

/// Returns those of these backends that are absent on this machine, each with the reason.
pub(super) fn missing(names: &[String], backends: &Backends) -> Vec<(String, String)> {
    let why = |name: &String| match backends.get(name) {
        Some(backend) => backend.found().err().map(|why| (name.clone(), why.to_string())),
        None => Some((name.clone(), "there is no such backend".to_owned())),
    };
    names.iter().filter_map(why).collect()
}
