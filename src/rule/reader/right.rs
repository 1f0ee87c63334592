//! The reader of right sides: templates over the variables that the left side binds.

use super::Reader;
use super::operator::Given;
use super::scope::{Scope, index};
use crate::attr::Attr;
use crate::op;
use crate::ron::Text;
use crate::rule::pattern::{Ast, Entry, ExprKind, Kind};
use crate::rule::{self, Expr, OperandVar, RestAttrVar, RestVar, Template};

impl Reader<'_> {
    pub(super) fn template(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Template> {
        let (name, name_range, children, entries) = match &ast.kind {
            Kind::Var(name) => {
                let Some(at) = scope.operands.iter().position(|known| known == name) else {
                    if scope.kind(name) == Some("an attribute") {
                        self.mistake(
                            format!("`?{name}` is an attribute, and an operand stands here"),
                            text.span(ast.range.clone()),
                            format!(
                                "a number becomes an operand by `(scalar {{value: ?{name}}})`; an attribute of an op \
                                 is written `{{name: ?{name}}}`"
                            ),
                        );
                        return None;
                    }
                    self.unbound(text, &format!("?{name}"), &ast.range, scope);
                    return None;
                };
                return Some(Template::Operand(OperandVar(at)));
            }
            Kind::Number { interval, var } => {
                let point = interval.value().filter(|_| var.is_none());
                if point.is_none() {
                    self.mistake(
                        "a range of numbers stands on the left only",
                        text.span(ast.range.clone()),
                        "bind a variable to it on the left, `?c:0..6`, and write `?c` here",
                    );
                }
                return point.map(Template::Scalar);
            }
            Kind::Spread { name, optional } => {
                let at = self.bound_rest(text, name, &ast.range, scope)?;
                if scope.rests[at].optional != *optional {
                    let written = scope.rests[at].to_string();
                    self.mistake(
                        format!("the left binds `{written}`"),
                        text.span(ast.range.clone()),
                        format!("write `{written}` here as well"),
                    );
                    return None;
                }
                return Some(Template::Each(RestVar(at), None));
            }
            Kind::Wrong => return None,
            Kind::Op { name, name_range, children, attrs } => (name, name_range, children, attrs),
        };
        if name == "each" {
            return self.each(text, ast, children, scope);
        }
        // All parts are read before a mistake ends the template, so that all mistakes are reported.
        let def = self.op(text, name, name_range);
        let templates: Vec<Option<Template>> =
            children.iter().map(|child| self.template(text, child, scope)).collect();
        let spread = |child: &Option<Template>| match child {
            Some(Template::Each(var, _)) => Some(scope.rests[var.0].optional),
            _ => None,
        };
        // If all operands could be read, an `each` over an optional operand is known to give at most one.
        let given = match templates.iter().all(Option::is_some) {
            true => Given {
                single: templates.iter().filter(|child| spread(child).is_none()).count(),
                optional: templates.iter().filter(|child| spread(child) == Some(true)).count(),
                open: templates.iter().any(|child| spread(child) == Some(false)),
            },
            false => Given::of(children),
        };
        self.once(text, entries);
        let def = def?;
        let (mut right, mut known) = (true, Vec::new());
        let mut attrs: Vec<(&'static str, Expr)> = Vec::new();
        let mut rest_attrs = None;
        for entry in entries {
            match entry {
                Entry::Rest { name, range } => {
                    match scope.rest_attrs.iter().position(|known| known == name) {
                        Some(at) => rest_attrs = Some(RestAttrVar(at)),
                        None => self.unbound(text, &format!("*{name}"), range, scope),
                    }
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range);
                    known.push(attr.map(|attr| attr.name));
                    let expr = attr.and_then(|attr| match &value.kind {
                        ExprKind::Literal(literal) => {
                            self.literal(text, def, attr, literal, &value.range).map(Expr::Literal)
                        }
                        _ => {
                            let attribute = format!("attribute `{}` of `{}`", attr.name, def.name);
                            let asked = Some(rule::Kind::of(attr.kind));
                            self.value(text, value, &attribute, asked, scope).map(|(expr, _)| expr)
                        }
                    });
                    match (attr, expr) {
                        (Some(attr), Some(expr)) => attrs.push((attr.name, expr)),
                        _ => right = false,
                    }
                }
            }
        }
        let post = match attrs.iter().find(|(name, _)| *name == "post") {
            Some((_, Expr::Literal(Attr::Post(steps)))) => Some(op::post::extras(steps)),
            Some(_) => None,
            None if rest_attrs.is_none() && !known.contains(&Some("post")) => Some(0),
            None => None,
        };
        self.arity(text, &ast.range, def, given, post);
        let rest = entries.iter().any(|entry| matches!(entry, Entry::Rest { .. }));
        if !rest && !known.contains(&None) {
            for attr in def.attrs.iter().filter(|attr| attr.default.is_none()) {
                if !known.contains(&Some(attr.name)) {
                    self.mistake(
                        format!("attribute `{}` of `{}` is missing", attr.name, def.name),
                        text.span(ast.range.clone()),
                        format!(
                            "it has no default: write `{}: …`, or a `*rest` of the left that has it",
                            attr.name
                        ),
                    );
                }
            }
        }
        let templates: Option<Vec<Template>> = templates.into_iter().collect();
        templates.filter(|_| right).map(|children| Template::Op { op: def, children, attrs, rest_attrs })
    }

    /// Reads `(each ?xs.. ?x template)`: a template for every value of a rest.
    fn each(&mut self, text: &Text, ast: &Ast, children: &[Ast], scope: &mut Scope) -> Option<Template> {
        let [
            Ast { kind: Kind::Var(rest) | Kind::Spread { name: rest, .. }, .. },
            Ast { kind: Kind::Var(item), .. },
            inner,
        ] = children
        else {
            self.mistake(
                "`each` takes a rest, a name for one of it, and a template",
                text.span(ast.range.clone()),
                "write `(each ?xs ?x (… ?x …))`",
            );
            return None;
        };
        let at = self.bound_rest(text, rest, &children[0].range, scope)?;
        let item = OperandVar(index(&mut scope.operands, item));
        let inner = self.template(text, inner, scope)?;
        Some(Template::Each(RestVar(at), Some((item, Box::new(inner)))))
    }
}
