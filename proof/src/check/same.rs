//! Decides whether the right sides of a rule equal its left sides, up to the order of commutative operands.

use ovolo::rule::print::Names;
use ovolo::rule::{AttrPattern, Expr, Pattern, Rule, Template};

/// Whether every right side equals the left side at the same position.
pub(super) fn sides(rule: &Rule) -> bool {
    let mut names = Names::new(rule);
    // A computed attribute that only repeats another one gets that one's name.
    for (var, expr) in &rule.lets {
        if let Expr::Attr(other) = expr {
            names.attrs[var.0] = names.attrs[other.0].clone();
        }
    }
    rule.from.len() == rule.to.len() && rule.from.iter().zip(&rule.to).all(|(a, b)| same(a, b, &names))
}

fn same(pattern: &Pattern, template: &Template, names: &Names) -> bool {
    match (pattern, template) {
        (Pattern::Operand(a) | Pattern::Number(_, Some(a)), Template::Operand(b)) => a == b,
        (Pattern::Number(interval, None), Template::Scalar(value)) => interval.value() == Some(*value),
        (Pattern::Rest(a) | Pattern::Optional(a), Template::Each(b, None)) => a == b,
        (Pattern::Rest(a) | Pattern::Optional(a), Template::Each(b, Some((item, inner)))) => {
            a == b && **inner == Template::Operand(*item)
        }
        (
            Pattern::Op { op, children, attrs, rest_attrs },
            Template::Op { op: other, children: of_other, attrs: other_attrs, rest_attrs: other_rest },
        ) => {
            let straight = || children.iter().zip(of_other).all(|(a, b)| same(a, b, names));
            let crossed = || {
                op.flags.commutative
                    && children.iter().zip(of_other.iter().rev()).all(|(a, b)| same(a, b, names))
            };
            let default =
                |name: &str| op.attr(name).and_then(|attr| attr.default.as_ref()).map(ToString::to_string);
            let shown = |list: Vec<(&'static str, String)>| {
                let mut list: Vec<_> =
                    list.into_iter().filter(|(name, value)| default(name).as_ref() != Some(value)).collect();
                list.sort();
                list
            };
            let left = attrs.iter().map(|(name, expected)| match expected {
                AttrPattern::Literal(value) => (*name, value.to_string()),
                AttrPattern::Var(var) => (*name, names.attrs[var.0].clone()),
            });
            let right = other_attrs.iter().map(|(name, expr)| (*name, names.expr(expr)));
            op.name == other.name
                && children.len() == of_other.len()
                && rest_attrs == other_rest
                && shown(left.collect()) == shown(right.collect())
                && (straight() || crossed())
        }
        _ => false,
    }
}
