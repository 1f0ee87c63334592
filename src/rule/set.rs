//! Sets of rules: read from files, laid beside each other, and selected by the names that pipelines give.

use super::gone::Gone;
use super::{Precision, Rule, Vocabulary, reader};
use crate::error::{Diagnostic, Diagnostics, nearest};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rules of some files, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    /// Rules that were removed or left out: their names and those of their files are still known, and select nothing.
    gone: Vec<Gone>,
}

impl RuleSet {
    /// Reads rule files, given as names and texts. A file that is called as [`example::beside`](super::example::beside) says of another one
    /// has the examples of its rules.
    ///
    /// # Errors
    /// Every mistake of every file.
    pub fn read(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> Result<Self, Diagnostics> {
        let (rules, found) = Self::read_right(vocabulary, files);
        found.into_result(rules)
    }

    /// Reads rule files as far as they are right: those of their rules that are, and every mistake of the
    /// others.
    pub fn read_right(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> (Self, Diagnostics) {
        let mut found = Diagnostics::new();
        let (rules, gone) = reader::read(vocabulary, files, &mut found);
        found.sort();
        (Self { rules: rules.into_iter().map(Arc::new).collect(), gone }, found)
    }

    /// These rules beside those of another set, of which a rule is left out where one here is called so. A
    /// file of that set is left out whole where one here is another version of it: one of its name with a rule
    /// of it, or one of whose rules most are called as some of it. What names what is left out selects nothing.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let named = |rule: &Rule| self.rules.iter().find(|own| own.name == rule.name);
        let replaced = |rule: &&Arc<Rule>| {
            named(rule)
                .is_some_and(|own| own.stem() == rule.stem() || is_version(&self.rules, &own.file, other))
        };
        let versions: Vec<&str> =
            other.rules.iter().filter(replaced).map(|rule| rule.file.as_str()).collect();
        let (gone, others): (Vec<_>, Vec<_>) = other
            .rules
            .iter()
            .cloned()
            .partition(|rule| named(rule).is_some() || versions.contains(&rule.file.as_str()));
        Self {
            rules: self.rules.iter().cloned().chain(others).collect(),
            gone: self.gone.iter().chain(&other.gone).cloned().chain(gone.iter().map(Gone::from)).collect(),
        }
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// All rules but one. What names it, or its file where it was alone there, still does, and selects
    /// nothing.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let (gone, rules): (Vec<_>, Vec<_>) = self.rules.iter().cloned().partition(|rule| rule.name == name);
        Self { rules, gone: self.gone.iter().cloned().chain(gone.iter().map(Gone::from)).collect() }
    }

    /// Only the rules that are called so, as `select` finds them.
    ///
    /// # Errors
    /// A name that nothing has.
    pub fn keep(&self, names: &[String]) -> Result<Self, Diagnostics> {
        Ok(Self { rules: self.select(names)?, gone: Vec::new() })
    }

    /// The first of the rules that are called so that rounds more than a pipeline of a
    /// precision allows.
    pub(crate) fn coarser(&self, name: &str, allowed: Precision) -> Option<&Arc<Rule>> {
        self.rules.iter().filter(|rule| rule.is_called(name)).find(|rule| !allowed.allows(rule.precision))
    }

    /// The rules that are called so ([`Rule::is_called`]), each once, in the order of the names; those of one name in
    /// the order of the set. A user's file adds to the shipped one of the same name.
    ///
    /// # Errors
    /// A name that nothing has.
    pub fn select(&self, names: &[String]) -> Result<Vec<Arc<Rule>>, Diagnostics> {
        let mut found = Diagnostics::new();
        names.iter().filter_map(|name| self.unknown(name)).for_each(|diagnostic| found.push(diagnostic));
        let place = |rule: &Rule| names.iter().position(|name| rule.is_called(name));
        let mut selected: Vec<(usize, &Arc<Rule>)> =
            self.rules.iter().filter_map(|rule| Some((place(rule)?, rule))).collect();
        selected.sort_by_key(|(place, _)| *place);
        found.into_result(selected.into_iter().map(|(_, rule)| Arc::clone(rule)).collect())
    }
}

/// Whether most rules of a file are called as rules of a set, and more than one is: it is another version.
pub fn is_version(rules: &[Arc<Rule>], file: &str, of: &RuleSet) -> bool {
    let known = |rule: &&Arc<Rule>| of.rules.iter().any(|other| other.name == rule.name);
    let (named, others): (Vec<_>, Vec<_>) = rules.iter().filter(|rule| rule.file == file).partition(known);
    named.len() > 1 && named.len() > others.len()
}

impl RuleSet {
    /// That nothing is called so, with the nearest name; `None` where a rule or a file is.
    pub(crate) fn unknown(&self, name: &str) -> Option<Diagnostic> {
        if self.rules.iter().any(|rule| rule.is_called(name))
            || self.gone.iter().any(|gone| gone.is_called(name))
        {
            return None;
        }
        if let Some(found) = self.unknown_rows(name) {
            return Some(found);
        }
        let mut files: Vec<&str> = self.rules.iter().map(|rule| rule.stem()).collect();
        files.dedup();
        let known = files.iter().copied().chain(self.rules.iter().map(|rule| rule.name.as_str()));
        let help = match nearest(name, known) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("the rule files are {}", files.join(", ")),
        };
        Some(Diagnostic::new(format!("no rule and no rule file is called `{name}`")).help(help))
    }
}

impl RuleSet {
    /// That a file has no rows of a value, where a name is `FILE:VALUE` and the file is there.
    fn unknown_rows(&self, name: &str) -> Option<Diagnostic> {
        let (file, value) = name.split_once(':')?;
        let of_file = self.rules.iter().filter(|rule| rule.stem() == file);
        let values: BTreeSet<&str> = of_file.clone().flat_map(|rule| &rule.row).map(String::as_str).collect();
        of_file.count().checked_sub(1)?;
        let help = match nearest(value, values.iter().copied()) {
            Some(close) => format!("did you mean `{file}:{close}`?"),
            None if values.is_empty() => format!("no rule of it has `for_each`: write `{file}`"),
            None => format!("its rows have {}", values.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Some(Diagnostic::new(format!("no rule of the file `{file}` has a row with `{value}`")).help(help))
    }
}
