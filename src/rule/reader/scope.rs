//! The variables of a rule.

use super::Reader;
use crate::diagnostic::{Span, suggestion};
use crate::ron::Text;
use crate::rule::{Kind, Rest};
use std::ops::Range;

/// The names and kinds of the variables of a rule.
#[derive(Default)]
pub(super) struct Scope {
    pub operands: Vec<String>,
    pub rests: Vec<Rest>,
    pub attrs: Vec<String>,
    /// The kind of each attribute variable; `None` if the attribute that binds it could not be read.
    pub attr_kinds: Vec<Option<Kind>>,
    pub rest_attrs: Vec<String>,
    pub used: Vec<String>,
    /// The positions of variables on the left side, with their texts.
    pub places: Vec<(String, Span)>,
    /// The computed attributes that are not known yet: all of `let` in guards, and in `let` those from the current one on.
    pub later: Vec<String>,
    /// Whether a left side could not be read, so that not all variables are known.
    pub incomplete: bool,
}

impl Scope {
    /// Records the position of a variable.
    pub(crate) fn stands(&mut self, text: &Text, range: &Range<usize>) {
        let written = text.text.get(range.clone()).unwrap_or_default().to_owned();
        self.places.push((written, text.span(range.clone())));
    }

    /// Returns the index of a rest or an optional operand, which is added if it is new.
    pub(crate) fn rest(&mut self, name: &str, optional: bool) -> usize {
        self.rests.iter().position(|known| known.name == name).unwrap_or_else(|| {
            self.rests.push(Rest { name: name.to_owned(), optional });
            self.rests.len() - 1
        })
    }

    /// Returns the index of an attribute variable, which is added if it is new, and its kind.
    pub(crate) fn attr(&mut self, name: &str, kind: Option<Kind>) -> (usize, Option<Kind>) {
        let at = index(&mut self.attrs, name);
        if at == self.attr_kinds.len() {
            self.attr_kinds.push(kind);
        }
        (at, self.attr_kinds[at])
    }

    /// Returns the operands and rests that are accepted where this kind is required, as guards write them.
    pub(crate) fn written(&self, kind: Kind) -> Vec<String> {
        let rests = |optional: bool, end: &'static str| {
            let of_kind = self.rests.iter().filter(move |rest| rest.optional == optional);
            of_kind.map(move |rest| format!("?{}{end}", rest.name))
        };
        match kind {
            Kind::Operand => {
                self.operands.iter().map(|name| format!("?{name}")).chain(rests(true, "")).collect()
            }
            Kind::Rest => rests(false, "").collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the kind of the variable of this name, in words.
    pub(crate) fn kind(&self, name: &str) -> Option<&'static str> {
        let is = |names: &[String]| names.iter().any(|known| known == name);
        let rest = self.rests.iter().find(|known| known.name == name);
        match rest {
            Some(rest) if rest.optional => Some("an optional operand"),
            Some(_) => Some("a rest"),
            None if is(&self.operands) => Some("an operand"),
            None if is(&self.attrs) => Some("an attribute"),
            None => None,
        }
    }

    /// Returns the texts of all variables, for advice.
    fn known(&self) -> Vec<String> {
        let plain = |name: &String| format!("?{name}");
        self.operands
            .iter()
            .map(plain)
            .chain(self.rests.iter().map(ToString::to_string))
            .chain(self.attrs.iter().map(plain))
            .chain(self.rest_attrs.iter().map(|name| format!("*{name}")))
            .collect()
    }
}

/// Returns the index of a name, which is added if it is new.
pub(super) fn index(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

impl Reader<'_> {
    /// Reports a name that is used for two kinds of variables.
    pub(super) fn one_kind(
        &mut self,
        text: &Text,
        name: &str,
        range: &Range<usize>,
        scope: &Scope,
        what: &str,
    ) -> Option<()> {
        match scope.kind(name).filter(|other| *other != what) {
            Some(other) => {
                self.mistake(
                    format!("`?{name}` is {what} here and {other} elsewhere"),
                    text.span(range.clone()),
                    "give one of them another name",
                );
                None
            }
            None => Some(()),
        }
    }

    /// Reports a variable that is not bound, with those that are. Nothing is reported if a left side could not be
    /// read.
    pub(super) fn unbound(&mut self, text: &Text, written: &str, range: &Range<usize>, scope: &Scope) {
        if scope.incomplete {
            return;
        }
        if written.strip_prefix('?').is_some_and(|name| scope.later.iter().any(|later| later == name)) {
            let help = "`let` is read in order and after the guards: an attribute may name those that stand before \
                        it, and a guard has the whole expression instead";
            self.mistake(format!("`{written}` is not computed yet"), text.span(range.clone()), help);
            return;
        }
        // A rest of attributes cannot be used as a variable.
        let of_attributes = |name: &str| name.starts_with('*');
        let mut known = scope.known();
        known.retain(|one| of_attributes(one) == of_attributes(written));
        if of_attributes(written) {
            let help = match &known[..] {
                [] => format!(
                    "no left side binds a rest of attributes: write `{written}` in the attributes of the op there \
                     that has them"
                ),
                some => format!("the left binds `{}`: write that", some.join("`, `")),
            };
            self.mistake(format!("`{written}` is not bound on the left"), text.span(range.clone()), help);
            return;
        }
        let bare = |name: &str| name.trim_matches(['?', '*', '.']).to_owned();
        let same = known.iter().find(|one| bare(one) == bare(written));
        let close =
            same.map(String::as_str).or_else(|| suggestion(written, known.iter().map(String::as_str)));
        let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        let help = match close {
            Some(close) => format!("did you mean `{close}`?"),
            None if known.is_empty() => "the left binds nothing: bind it there".to_owned(),
            None => format!("bind it there, or write one of those that are bound: {}", quoted.join(", ")),
        };
        self.mistake(format!("`{written}` is not bound on the left"), text.span(range.clone()), help);
    }

    /// Returns the rest of this name.
    pub(super) fn bound_rest(
        &mut self,
        text: &Text,
        name: &str,
        range: &Range<usize>,
        scope: &Scope,
    ) -> Option<usize> {
        let at = scope.rests.iter().position(|known| known.name == name);
        if at.is_none() {
            let written = text.text.get(range.clone()).unwrap_or(name);
            self.unbound(text, written, range, scope);
        }
        at
    }
}
