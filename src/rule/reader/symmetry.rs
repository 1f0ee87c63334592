//! Detects rules with two left sides that say the same after these are exchanged. Then each pair is only one match.
//!
//! The left sides must be the same except for the names of variables. Exchanging the variables of one with those of
//! the other must map the guards to themselves, and each right side to the other. Facts about types may come from
//! either of two operands that have the same type by a guard, and from either side of an `equal`. Operands may be
//! concatenated in the other order, if the starts of the slices that split them again change accordingly. The result
//! is another program for the same values and of the same size, so nothing is lost.

use crate::op::Op;
use crate::rule::{AttrPattern, AttrVar, Expr, Guard, Pattern, Template};
use std::collections::{BTreeMap, BTreeSet};

/// A variable: a character for its kind, and its index.
type Var = (char, usize);

/// Returns whether a rule with these parts says the same after its left sides are exchanged.
pub(super) fn symmetric(
    from: &[Pattern],
    to: &[Template],
    guards: &[Guard],
    lets: &[(AttrVar, Expr)],
) -> bool {
    let ([one, other], [left, right]) = (from, to) else { return false };
    let Some(exchanged) = exchange(one, other) else { return false };
    let [as_it_is, turned] = [BTreeMap::new(), exchanged].map(|exchanged| {
        let names = Names { exchanged, lets, same: BTreeMap::new() };
        let same = equalities(guards, &names);
        Names { same, ..names }
    });
    as_it_is.guards(guards) == turned.guards(guards)
        && as_it_is.template(left) == turned.template(right)
        && as_it_is.template(right) == turned.template(left)
}

/// Maps each variable to the one at the same position of the other left side. Returns `None` if the left sides differ
/// in more than names.
fn exchange(one: &Pattern, other: &Pattern) -> Option<BTreeMap<Var, Var>> {
    let [one, other] = [one, other].map(|pattern| {
        let mut parts = Vec::new();
        parts_of(pattern, &mut parts);
        parts
    });
    let mut exchanged: BTreeMap<Var, Var> = BTreeMap::new();
    let alike = one.len() == other.len()
        && one.iter().zip(&other).all(|pair| match pair {
            (Part::Text(one), Part::Text(other)) => one == other,
            (Part::Var(one), Part::Var(other)) => {
                *exchanged.entry(*one).or_insert(*other) == *other
                    && *exchanged.entry(*other).or_insert(*one) == *one
            }
            _ => false,
        });
    alike.then_some(exchanged)
}

/// A part of a pattern's text.
enum Part {
    Text(String),
    /// The variable of a kind with this index.
    Var(Var),
}

fn parts_of(pattern: &Pattern, parts: &mut Vec<Part>) {
    match pattern {
        Pattern::Operand(var) => parts.push(Part::Var(('?', var.0))),
        Pattern::Number(interval, var) => {
            parts.push(Part::Text(interval.to_string()));
            parts.extend(var.map(|var| Part::Var(('?', var.0))));
        }
        Pattern::Rest(var) => parts.push(Part::Var(('.', var.0))),
        Pattern::Optional(var) => {
            parts.push(Part::Text("?".to_owned()));
            parts.push(Part::Var(('.', var.0)));
        }
        Pattern::Op { op, children, attrs, rest_attrs } => {
            parts.push(Part::Text(format!("({}", op.name)));
            children.iter().for_each(|child| parts_of(child, parts));
            let mut attrs: Vec<_> = attrs.iter().collect();
            attrs.sort_by_key(|(name, _)| *name);
            for (name, expected) in attrs {
                match expected {
                    AttrPattern::Literal(value) => parts.push(Part::Text(format!("{name}: {value}"))),
                    AttrPattern::Var(var) => {
                        parts.push(Part::Text((*name).to_owned()));
                        parts.push(Part::Var(('a', var.0)));
                    }
                }
            }
            parts.extend(rest_attrs.map(|var| Part::Var(('*', var.0))));
            parts.push(Part::Text(")".to_owned()));
        }
    }
}

/// Returns the equalities that guards state, as texts: each text with the first one that it equals. An operand
/// represents everything that is read from its type.
fn equalities<'g>(
    guards: impl IntoIterator<Item = &'g Guard>,
    names: &Names<'_>,
) -> BTreeMap<String, String> {
    let mut same: BTreeMap<String, String> = BTreeMap::new();
    for guard in guards {
        let Expr::Call(function, arguments) = &guard.expr else { continue };
        if let (true, [one, other]) = (SAME.contains(&function.name), &arguments[..]) {
            let [one, other] = [one, other].map(|expr| names.expr(expr, true));
            let [one, other] = [one, other].map(|text| same.get(&text).cloned().unwrap_or(text));
            let (first, second) = if one < other { (one, other) } else { (other, one) };
            same.values_mut().filter(|text| **text == second).for_each(|text| text.clone_from(&first));
            same.insert(second, first);
        }
    }
    same
}

/// The names of variables in text: unchanged, or exchanged.
struct Names<'a> {
    exchanged: BTreeMap<Var, Var>,
    lets: &'a [(AttrVar, Expr)],
    /// The representative of each text that equals another one.
    same: BTreeMap<String, String>,
}

/// Guards and computed attributes that depend on more than the type of an operand, and so differ between operands of
/// the same type.
const OF_VALUES: &[&str] = &["const", "value-is", "scalar-of", "integer-of", "stored-layout"];
/// Guards that state equalities.
const SAME: &[&str] = &["same-type", "equal"];
/// Guards and computed attributes whose arguments may be in any order.
const ANY_ORDER: &[&str] = &["any", "same-type", "same-shape", "equal", "not-equal", "add", "mul", "max-of"];

impl Names<'_> {
    fn var(&self, kind: char, index: usize) -> String {
        let (kind, index) = self.exchanged.get(&(kind, index)).copied().unwrap_or((kind, index));
        format!("{kind}{index}")
    }

    fn known(&self, text: String) -> String {
        self.same.get(&text).cloned().unwrap_or(text)
    }

    /// Returns the text of an expression. With `typed`, only the types of operands matter.
    fn expr(&self, expr: &Expr, typed: bool) -> String {
        match expr {
            Expr::Literal(value) => value.to_string(),
            Expr::Step(op) => format!("{op:?}"),
            Expr::Attr(var) => match self.lets.iter().find(|(computed, _)| computed == var) {
                Some((_, expr)) => self.expr(expr, true),
                None => self.known(self.var('a', var.0)),
            },
            Expr::Operand(var) if typed => self.known(self.var('?', var.0)),
            Expr::Operand(var) => self.var('?', var.0),
            Expr::Rest(var) | Expr::Optional(var) => self.var('.', var.0),
            Expr::Call(function, arguments) => {
                let typed = !OF_VALUES.contains(&function.name);
                let mut arguments: Vec<String> =
                    arguments.iter().map(|argument| self.expr(argument, typed)).collect();
                if ANY_ORDER.contains(&function.name) {
                    arguments.sort();
                }
                self.known(format!("{}({})", function.name, arguments.join(", ")))
            }
        }
    }

    /// Returns the texts of the guards, without order. A guard that states an equality is not rewritten by its own
    /// equality.
    fn guards(&self, guards: &[Guard]) -> BTreeSet<String> {
        let plain = || Names { exchanged: self.exchanged.clone(), lets: self.lets, same: BTreeMap::new() };
        let written = guards.iter().enumerate().map(|(at, guard)| match &guard.expr {
            Expr::Call(function, _) if SAME.contains(&function.name) => {
                let others = guards.iter().enumerate().filter(|(other, _)| *other != at);
                let same = equalities(others.map(|(_, guard)| guard), &plain());
                Names { same, ..plain() }.expr(&guard.expr, true)
            }
            expr => self.expr(expr, true),
        });
        written.collect()
    }

    /// Returns the text of a right side. The order of concatenated operands and of the operands of commutative ops is
    /// ignored.
    fn template(&self, template: &Template) -> String {
        self.value(template, 0).text
    }

    /// Returns a value of a right side, inside `depth` uses of `each`.
    fn value(&self, template: &Template, depth: usize) -> Compared {
        let leaf = |text: String| Compared { text, joins: false };
        match template {
            Template::Operand(var) => leaf(self.var('?', var.0)),
            Template::Scalar(value) => leaf(format!("{value:?}")),
            Template::Each(rest, None) => leaf(format!("each {}", self.var('.', rest.0))),
            Template::Each(rest, Some((item, inner))) => {
                // The author of the rule chooses the name of the item.
                let mut exchanged = self.exchanged.clone();
                exchanged.insert(('?', item.0), ('i', depth));
                let names = Names { exchanged, lets: self.lets, same: self.same.clone() };
                let inner = names.value(inner, depth + 1);
                let text = format!("each {} {}", self.var('.', rest.0), inner.text);
                Compared { text, joins: inner.joins }
            }
            Template::Op { op, children, attrs, rest_attrs } => {
                let operands: Vec<Compared> = children.iter().map(|child| self.value(child, depth)).collect();
                let joins = op.name == "concat" || operands.iter().any(|operand| operand.joins);
                let mut operands: Vec<String> = operands.into_iter().map(|operand| operand.text).collect();
                if any_order(*op) {
                    operands.sort();
                }
                let apart = op.name == "slice" && joins;
                let mut attrs: Vec<String> = attrs
                    .iter()
                    .filter(|(name, _)| !(apart && *name == "starts"))
                    .map(|(name, value)| format!("{name}: {}", self.expr(value, true)))
                    .collect();
                attrs.sort();
                attrs.extend(rest_attrs.map(|var| self.var('*', var.0)));
                let text = format!("({} {} {{{}}})", op.name, operands.join(" "), attrs.join(", "));
                Compared { text, joins: joins && !apart }
            }
        }
    }
}

/// A value of a right side in the form in which it is compared.
struct Compared {
    text: String,
    /// Whether it contains a concatenation that is not split again.
    joins: bool,
}

fn any_order(op: Op) -> bool {
    op.name == "concat" || op.flags.commutative
}
