//! Finds a rule that feeds itself: its right side has its left side again, with something larger in place of a variable.
//! So each match makes the next one, until a limit stops the phase.

use super::{Cover, bare};
use ovolo::rule::print::Names;
use ovolo::rule::{AttrPattern, Expr, Interval, Pattern, Rule, Template};

/// Returns the part of the right side that is the left side again, as the rule writes it.
pub(super) fn again(rule: &Rule) -> Option<String> {
    let ([from], [to]) = (&rule.from[..], &rule.to[..]) else { return None };
    let names = Names::new(rule);
    parts(to).into_iter().find(|part| grows(rule, from, part, &names)).map(|part| names.template(part))
}

/// Returns all ops of a right side, the outermost first.
fn parts(template: &Template) -> Vec<&Template> {
    let mut all = vec![template];
    if let Template::Op { children, .. } = template {
        all.extend(children.iter().flat_map(parts));
    }
    all
}

/// Whether a part is an instance of the left side with an op in place of a variable. A guard that asks for more of what
/// stands there may end the growth, so such a rule is not reported.
fn grows(rule: &Rule, from: &Pattern, part: &Template, names: &Names) -> bool {
    let Some(part) = pattern(rule, part) else { return false };
    let mut cover = Cover::new(rule, names);
    if !cover.pattern(from, &bare(&part)) {
        return false;
    }
    let larger = cover.operands.iter().flatten().any(|bound| bound.starts_with('('));
    let bound = cover.bound();
    let asked: Vec<String> = rule.guards.iter().map(|guard| names.expr(&guard.expr)).collect();
    larger && rule.guards.iter().all(|guard| asked.contains(&bound.expr(&guard.expr)))
}

/// Returns a template as the pattern that matches it; `None` if it computes attributes.
fn pattern(rule: &Rule, template: &Template) -> Option<Pattern> {
    Some(match template {
        Template::Operand(var) => Pattern::Operand(*var),
        Template::Scalar(value) => Pattern::Number(Interval { least: *value, most: *value }, None),
        Template::Each(var, None) if rule.rest_vars[var.0].optional => Pattern::Optional(*var),
        Template::Each(var, None) => Pattern::Rest(*var),
        Template::Each(_, Some(_)) => return None,
        Template::Op { op, children, attrs, rest_attrs } => {
            let children = children.iter().map(|child| pattern(rule, child)).collect::<Option<_>>()?;
            let attr = |(name, expr): &(&'static str, Expr)| match expr {
                Expr::Literal(value) => Some((*name, AttrPattern::Literal(value.clone()))),
                Expr::Attr(var) => Some((*name, AttrPattern::Var(*var))),
                _ => None,
            };
            let mut attrs = attrs.iter().map(attr).collect::<Option<Vec<_>>>()?;
            // A left side has the defaults of attributes that are not written.
            if rest_attrs.is_none() {
                for def in &op.attrs {
                    if let (Some(default), false) =
                        (&def.default, attrs.iter().any(|(name, _)| *name == def.name))
                    {
                        attrs.push((def.name, AttrPattern::Literal(default.clone())));
                    }
                }
            }
            Pattern::Op { op: *op, children, attrs, rest_attrs: *rest_attrs }
        }
    })
}
