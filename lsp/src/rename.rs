//! Renaming: variables, keys and rules, wherever they are named.

use crate::document::Document;
use crate::project::Project;
use crate::reference::{self, Place};
use crate::symbol::{self, Occurrence, Symbol};
use std::path::Path;

/// Why a name cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// There is no name at the position, or it is not one of the file's own.
    #[error("only variables, keys of rows and rules can be renamed here")]
    NotOwn,
    /// The new name has other characters than such a name may have.
    #[error("`{0}` is no name: {1}")]
    NoName(String, &'static str),
    /// The new name is taken.
    #[error("there is a `{0}` already")]
    Taken(String),
    /// The rule is not in a file of the editor's folders.
    #[error("rule `{0}` is in none of the open folders")]
    Absent(String),
}

/// Returns the name at a byte of a file, if it can be renamed.
///
/// # Errors
/// If it cannot.
pub fn prepare(project: &Project, document: &Document, at: usize) -> Result<Occurrence, RenameError> {
    let one = symbol::at(document, at).ok_or(RenameError::NotOwn)?;
    match &one.symbol {
        Symbol::Variable(_) | Symbol::Rest(_) | Symbol::Key(_) => Ok(one),
        Symbol::Rule(name) if crate::rule_index::places(&project.workspace, name).is_empty() => {
            Err(RenameError::Absent(name.clone()))
        }
        Symbol::Rule(_) => Ok(one),
        _ => Err(RenameError::NotOwn),
    }
}

/// Returns the places at which the new name, which is returned as well, is to be written. The new name may be given with
/// its sign, `?x`.
///
/// # Errors
/// If the name cannot be renamed, or not so.
pub fn rename(
    project: &Project,
    path: &Path,
    document: &Document,
    at: usize,
    new: &str,
) -> Result<(Vec<Place>, String), RenameError> {
    let one = prepare(project, document, at)?;
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let (renamed, new) = match &one.symbol {
        Symbol::Variable(_) => {
            let new = new.strip_prefix('?').unwrap_or(new);
            check(new, word, "write letters, digits, `-` and `_`")?;
            (Symbol::Variable(new.to_owned()), new)
        }
        Symbol::Rest(_) => {
            let new = new.strip_prefix('*').unwrap_or(new);
            check(new, word, "write letters, digits, `-` and `_`")?;
            (Symbol::Rest(new.to_owned()), new)
        }
        Symbol::Key(_) => {
            let new = new.strip_prefix('$').unwrap_or(new);
            check(new, |c| c.is_ascii_alphanumeric(), "write letters and digits")?;
            (Symbol::Key(new.to_owned()), new)
        }
        _ => {
            check(new, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '$'), "write it in kebab case")?;
            same_keys(document, &one, new)?;
            (Symbol::Rule(new.to_owned()), new)
        }
    };
    let taken = Occurrence { symbol: renamed, ..one.clone() };
    if taken.symbol != one.symbol && !reference::places(project, path, document, &taken).is_empty() {
        return Err(RenameError::Taken(new.to_owned()));
    }
    Ok((reference::places(project, path, document, &one), new.to_owned()))
}

fn check(name: &str, fits: impl Fn(char) -> bool, advice: &'static str) -> Result<(), RenameError> {
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(()),
        false => Err(RenameError::NoName(name.to_owned(), advice)),
    }
}

/// Checks that a rule's new name has the same keys, without which its rows would have one name.
fn same_keys(document: &Document, one: &Occurrence, new: &str) -> Result<(), RenameError> {
    let keys = |text: &str| {
        let mut keys: Vec<String> = text
            .split('$')
            .skip(1)
            .map(|part| part.chars().take_while(char::is_ascii_alphanumeric).collect())
            .collect();
        keys.sort_unstable();
        keys
    };
    match keys(one.span.slice(&document.text)) == keys(new) {
        true => Ok(()),
        false => Err(RenameError::NoName(new.to_owned(), "it needs the same `$` keys as before")),
    }
}
