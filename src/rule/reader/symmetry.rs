//! Whether a rule with two left sides says the same with them exchanged: then one match is a pair.
//!
//! Where the left sides are one but for names, exchanging the variables of one with those of the other must
//! map the guards onto themselves and each right side onto the other. What is read of types may be read of
//! either of two operands that a guard says are of one type, and of either side of an `equal`. Operands may
//! be concatenated in the other order, with what takes them apart again beginning elsewhere: that is another
//! program for the same values, of the same size, and nothing that the first order does not find.

use crate::op::Op;
use crate::rule::{AttrPattern, AttrVar, Expr, Guard, Pattern, Template};
use std::collections::{BTreeMap, BTreeSet};

/// A variable: the sign of its kind and its index.
type Var = (char, usize);

/// Whether a rule of these parts says the same with its left sides exchanged.
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

/// The variables of two left sides that are one but for names, each with the one in its place.
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

/// What the guards say is the same, as it is written: each text with the first of those that it equals. An
/// operand stands for all that is read of its type.
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

/// How variables are written: as they are, or exchanged.
struct Names<'a> {
    exchanged: BTreeMap<Var, Var>,
    lets: &'a [(AttrVar, Expr)],
    /// What is written in place of what it equals.
    same: BTreeMap<String, String>,
}

/// What is asked of an operand beside its type, and so not the same of all that have the type.
const OF_VALUES: &[&str] = &["const", "value-is", "scalar-of", "integer-of"];
/// Guards that say what is the same.
const SAME: &[&str] = &["same-type", "equal"];
/// Guards and computed attributes whose arguments may stand in any order.
const ANY_ORDER: &[&str] = &["any", "same-type", "same-shape", "equal", "not-equal", "add", "mul", "max-of"];

impl Names<'_> {
    fn var(&self, kind: char, index: usize) -> String {
        let (kind, index) = self.exchanged.get(&(kind, index)).copied().unwrap_or((kind, index));
        format!("{kind}{index}")
    }

    fn known(&self, text: String) -> String {
        self.same.get(&text).cloned().unwrap_or(text)
    }

    /// An expression; `typed` where only the types of operands count.
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

    /// The guards, in no order. What one says to be the same is not held against itself.
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

    /// A right side. What is concatenated stands in no order, nor do the operands of a commutative op.
    fn template(&self, template: &Template) -> String {
        self.value(template, 0).text
    }

    /// A value of a right side, below so many `each`.
    fn value(&self, template: &Template, depth: usize) -> Value {
        let leaf = |text: String| Value { text, joins: false };
        match template {
            Template::Operand(var) => leaf(self.var('?', var.0)),
            Template::Scalar(value) => leaf(format!("{value:?}")),
            Template::Each(rest, None) => leaf(format!("each {}", self.var('.', rest.0))),
            Template::Each(rest, Some((item, inner))) => {
                // The item has a name of the rule's choice.
                let mut exchanged = self.exchanged.clone();
                exchanged.insert(('?', item.0), ('i', depth));
                let names = Names { exchanged, lets: self.lets, same: self.same.clone() };
                let inner = names.value(inner, depth + 1);
                let text = format!("each {} {}", self.var('.', rest.0), inner.text);
                Value { text, joins: inner.joins }
            }
            Template::Op { op, children, attrs, rest_attrs } => {
                let operands: Vec<Value> = children.iter().map(|child| self.value(child, depth)).collect();
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
                Value { text, joins: joins && !apart }
            }
        }
    }
}

/// A value of a right side as it is compared.
struct Value {
    text: String,
    /// Whether something is concatenated in it that is not taken apart again.
    joins: bool,
}

fn any_order(op: Op) -> bool {
    op.name == "concat" || op.flags.commutative
}
