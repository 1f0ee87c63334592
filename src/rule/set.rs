//! Sets of rules: they are read from files, combined, and selected by the names in pipelines.

use super::gone::Gone;
use super::{Precision, Rule, Vocabulary, reader};
use crate::diagnostic::{Diagnostic, Diagnostics, nearest};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The rules of some files, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    /// Rules that were removed or left out. Their names and the names of their files are still known, but select
    /// nothing.
    gone: Vec<Gone>,
    /// Made when a name is first asked for. Copies of the set share it.
    named: Arc<OnceLock<Named>>,
}

/// The rules of each name ([`Rule::is_called`]), by their places in the set, in ascending order. A pipeline asks for more
/// than a hundred names, each several times.
type Named = FxHashMap<String, Vec<usize>>;

impl RuleSet {
    fn new(rules: Vec<Arc<Rule>>, gone: Vec<Gone>) -> Self {
        Self { rules, gone, named: Arc::default() }
    }

    /// Returns the places of the rules with this name, in ascending order.
    fn places(&self, name: &str) -> &[usize] {
        let named = self.named.get_or_init(|| {
            let mut named = Named::default();
            for (place, rule) in self.rules.iter().enumerate() {
                for name in rule.names() {
                    let places = named.entry(name).or_default();
                    if places.last() != Some(&place) {
                        places.push(place);
                    }
                }
            }
            named
        });
        named.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the rules with this name, in the order of the set.
    fn called(&self, name: &str) -> impl Iterator<Item = &Arc<Rule>> {
        self.places(name).iter().map(|place| &self.rules[*place])
    }

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
        (Self::new(rules.into_iter().map(Arc::new).collect(), gone), found)
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
        let gone = self.gone.iter().chain(&other.gone).cloned().chain(gone.iter().map(Gone::from)).collect();
        Self::new(self.rules.iter().cloned().chain(others).collect(), gone)
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
        Self::new(rules, self.gone.iter().cloned().chain(gone.iter().map(Gone::from)).collect())
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
        Self::new(rules, self.gone.clone())
    }

    /// Returns a set with only the rules that `select` finds.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn keep(&self, names: &[String]) -> Result<Self, Diagnostics> {
        Ok(Self::new(self.select(names)?, Vec::new()))
    }

    /// Returns the first rule with this name that a pipeline of this precision does not allow.
    pub(crate) fn coarser(&self, name: &str, allowed: Precision) -> Option<&Arc<Rule>> {
        self.called(name).find(|rule| !allowed.allows(rule.precision))
    }

    /// Returns one of the rules with this name if a pipeline that makes only these assumptions can use none of them.
    pub(crate) fn bolder(&self, name: &str, allowed: &[&str]) -> Option<&Arc<Rule>> {
        let mut called = self.called(name).peekable();
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
        let mut taken = vec![false; self.rules.len()];
        let selected = names.iter().flat_map(|name| self.places(name));
        let selected = selected.filter(|place| !std::mem::replace(&mut taken[**place], true));
        let selected = selected.map(|place| Arc::clone(&self.rules[*place])).collect();
        found.into_result(selected)
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
        if !self.places(name).is_empty() || self.gone.iter().any(|gone| gone.is_called(name)) {
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
