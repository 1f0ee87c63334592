//! Sets of rules: they are read from files, combined, and selected by the names in pipelines.

use super::gone::Gone;
use super::{Precision, Rule, Vocabulary, reader};
use crate::diagnostic::{Diagnostic, Diagnostics, nearest};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rules of some files, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    /// Rules that were removed or left out. Their names and the names of their files are still known, but select
    /// nothing.
    gone: Vec<Gone>,
}

impl RuleSet {
    /// Reads rule files, given as names and texts. A file with the name that
    /// [`beside`](super::beside) returns for another file contains examples of that file's rules.
    ///
    /// # Errors
    /// All mistakes of all files.
    pub fn read(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> Result<Self, Diagnostics> {
        let (rules, found) = Self::read_right(vocabulary, files);
        found.into_result(rules)
    }

    /// Reads the rules without mistakes from rule files. Also returns all mistakes of the others.
    pub fn read_right(vocabulary: Vocabulary<'_>, files: &[(&str, &str)]) -> (Self, Diagnostics) {
        let mut found = Diagnostics::new();
        let (rules, gone) = reader::read(vocabulary, files, &mut found);
        found.sort();
        (Self { rules: rules.into_iter().map(Arc::new).collect(), gone }, found)
    }

    /// Returns these rules together with those of another set. A rule of the other set is left out if a rule here has
    /// its name. A whole file of the other set is left out if a file here is another version of it: if it has the
    /// same name and a rule in common, or if most of its rules have names from that file. Names of what is left out
    /// select nothing.
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

    /// Returns the rules, in order.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Returns all rules except one. Its name is still known but selects nothing, and so is the name of its file if
    /// it was the only rule there.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let (gone, rules): (Vec<_>, Vec<_>) = self.rules.iter().cloned().partition(|rule| rule.name == name);
        Self { rules, gone: self.gone.iter().cloned().chain(gone.iter().map(Gone::from)).collect() }
    }

    /// Returns the set with a rule in place of all rules that have its name, for tests that make rules wrong.
    #[must_use]
    pub fn with(&self, rule: Rule) -> Self {
        let rule = Arc::new(rule);
        let mut rules = self.rules.clone();
        let mut first = true;
        rules.retain_mut(|own| {
            let named = own.name == rule.name;
            if named {
                *own = Arc::clone(&rule);
            }
            !named || std::mem::take(&mut first)
        });
        Self { rules, gone: self.gone.clone() }
    }

    /// Returns a set with only the rules that `select` finds.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn keep(&self, names: &[String]) -> Result<Self, Diagnostics> {
        Ok(Self { rules: self.select(names)?, gone: Vec::new() })
    }

    /// Returns the first rule with this name that a pipeline of this precision does not allow.
    pub(crate) fn coarser(&self, name: &str, allowed: Precision) -> Option<&Arc<Rule>> {
        self.rules.iter().filter(|rule| rule.is_called(name)).find(|rule| !allowed.allows(rule.precision))
    }

    /// Returns one of the rules with this name if a pipeline that makes only these assumptions can use none of them.
    pub(crate) fn bolder(&self, name: &str, allowed: &[&str]) -> Option<&Arc<Rule>> {
        let mut called = self.rules.iter().filter(|rule| rule.is_called(name)).peekable();
        let first = called.peek().copied()?;
        called.all(|rule| !rule.fits(allowed)).then_some(first)
    }

    /// Returns the rules with these names ([`Rule::is_called`]), each once, in the order of the names, and for one
    /// name in the order of the set. A user's file adds to ovolo's file of the same name.
    ///
    /// # Errors
    /// If a name is unknown.
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

/// Returns whether a file is another version of a set: more than one and most of its rules have names from the set.
pub fn is_version(rules: &[Arc<Rule>], file: &str, of: &RuleSet) -> bool {
    let known = |rule: &&Arc<Rule>| of.rules.iter().any(|other| other.name == rule.name);
    let (named, others): (Vec<_>, Vec<_>) = rules.iter().filter(|rule| rule.file == file).partition(known);
    named.len() > 1 && named.len() > others.len()
}

impl RuleSet {
    /// Returns the message that a name is unknown, with the most similar name; `None` if a rule or a file has the
    /// name.
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
            None if files.is_empty() => "no rule could be read: correct the mistakes first".to_owned(),
            None => format!(
                "the rule files are {}; those of your own are known where `--rules DIR` or `--add FILE.ron:PHASE` \
                 names them",
                files.join(", ")
            ),
        };
        Some(Diagnostic::new(format!("no rule and no rule file is called `{name}`")).help(help))
    }
}

impl RuleSet {
    /// Returns the message that a file has no rows with a value, for a name `FILE:VALUE` whose file exists.
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
