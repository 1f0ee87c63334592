//! Rules as text: patterns, templates and expressions, with names for their variables.

use super::{AttrPattern, Expr, Pattern, Rule, Template};
use crate::op::OpDef;

/// The names of the variables of a rule, without `?` and `*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The names of operands.
    pub operands: Vec<String>,
    /// The names of rests of operands.
    pub rests: Vec<String>,
    /// The names of attributes.
    pub attrs: Vec<String>,
    /// The names of rests of attributes.
    pub rest_attrs: Vec<String>,
}

impl Names {
    /// Returns the names in a rule.
    pub fn new(rule: &Rule) -> Self {
        let written = |names: &[String], sign: &str, end: &str| {
            names.iter().map(|name| format!("{sign}{name}{end}")).collect()
        };
        Self {
            operands: written(&rule.operand_vars, "?", ""),
            rests: rule.rest_vars.iter().map(ToString::to_string).collect(),
            attrs: written(&rule.attr_vars, "?", ""),
            rest_attrs: written(&rule.rest_attr_vars, "*", ""),
        }
    }

    /// Returns a left side as text.
    pub fn pattern(&self, pattern: &Pattern) -> String {
        match pattern {
            Pattern::Operand(var) => self.operands[var.0].clone(),
            Pattern::Number(interval, None) => interval.to_string(),
            Pattern::Number(interval, Some(var)) => format!("{}:{interval}", self.operands[var.0]),
            Pattern::Rest(var) | Pattern::Optional(var) => self.rests[var.0].clone(),
            Pattern::Op { op, children, attrs, rest_attrs } => {
                let operands: Vec<String> = children.iter().map(|child| self.pattern(child)).collect();
                let written = attrs.iter().map(|(name, expected)| match expected {
                    AttrPattern::Literal(value) => (*name, value.to_string()),
                    AttrPattern::Var(var) => (*name, self.attrs[var.0].clone()),
                });
                self.op(op, &operands, written.collect(), rest_attrs.map(|var| var.0))
            }
        }
    }

    /// Returns a right side as text.
    pub fn template(&self, template: &Template) -> String {
        match template {
            Template::Operand(var) => self.operands[var.0].clone(),
            Template::Scalar(value) => format!("{value:?}"),
            Template::Each(rest, None) => self.rests[rest.0].clone(),
            Template::Each(rest, Some((item, inner))) => {
                format!("(each {} {} {})", self.rests[rest.0], self.operands[item.0], self.template(inner))
            }
            Template::Op { op, children, attrs, rest_attrs } => {
                let operands: Vec<String> = children.iter().map(|child| self.template(child)).collect();
                let written = attrs.iter().map(|(name, expr)| (*name, self.expr(expr)));
                self.op(op, &operands, written.collect(), rest_attrs.map(|var| var.0))
            }
        }
    }

    /// Returns an expression as text.
    pub fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Literal(value) => value.to_string(),
            Expr::Step(op) => format!("{op:?}"),
            Expr::Attr(var) => self.attrs[var.0].clone(),
            Expr::Operand(var) => self.operands[var.0].clone(),
            Expr::Rest(var) | Expr::Optional(var) => self.rests[var.0].clone(),
            Expr::Call(function, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|one| self.expr(one)).collect();
                format!("{}({})", function.name, arguments.join(", "))
            }
        }
    }

    /// Returns an op as text. Attributes are sorted, and those with their defaults are left out, so that equal
    /// programs have equal texts.
    fn op(
        &self,
        op: &OpDef,
        operands: &[String],
        mut attrs: Vec<(&'static str, String)>,
        rest: Option<usize>,
    ) -> String {
        let default =
            |name: &str| op.attr(name).and_then(|attr| attr.default.as_ref()).map(ToString::to_string);
        attrs.retain(|(name, value)| rest.is_some() || default(name).as_ref() != Some(value));
        attrs.sort();
        let mut written: Vec<String> = attrs.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        written.extend(rest.map(|var| self.rest_attrs[var].clone()));
        let attrs = if written.is_empty() { String::new() } else { format!(" {{{}}}", written.join(", ")) };
        // An empty rest adds no text.
        let operands = operands
            .iter()
            .filter(|operand| !operand.is_empty())
            .map(|operand| format!(" {operand}"))
            .collect::<String>();
        format!("({}{operands}{attrs})", op.name)
    }
}
