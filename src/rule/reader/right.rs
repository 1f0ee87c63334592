//! Right sides: templates over what the left binds.

use super::Reader;
use super::scope::{Scope, index};
use crate::attr::Attr;
use crate::error::Diagnostic;
use crate::op;
use crate::rule::pattern::{Ast, Entry, ExprKind, Kind};
use crate::rule::ron::Text;
use crate::rule::{Expr, OperandVar, RestAttrVar, RestVar, Template};

impl Reader<'_> {
    pub(super) fn template(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Template> {
        let (name, name_range, children, entries) = match &ast.kind {
            Kind::Var(name) => {
                let Some(at) = scope.operands.iter().position(|known| known == name) else {
                    let known: Vec<String> = scope.operands.iter().map(|name| format!("?{name}")).collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let diagnostic = Diagnostic::new(format!("`?{name}` is not bound on the left"))
                        .label(self.source, text.span(ast.range.clone()), "")
                        .help(format!(
                            "the left binds {}",
                            if known.is_empty() { "no operand".to_owned() } else { known.join(", ") }
                        ));
                    self.say(diagnostic);
                    return None;
                };
                return Some(Template::Operand(OperandVar(at)));
            }
            Kind::Number(value) => return Some(Template::Scalar(*value)),
            Kind::Rest(name) => {
                let Some(at) = scope.rests.iter().position(|known| known == name) else {
                    self.mistake(
                        format!("`?{name}..` is not bound on the left"),
                        text.span(ast.range.clone()),
                    );
                    return None;
                };
                return Some(Template::Each(RestVar(at), None));
            }
            Kind::Op { name, name_range, children, attrs } => (name, name_range, children, attrs),
        };
        if name == "each" {
            return self.each(text, ast, children, scope);
        }
        let def = self.op(text, name, name_range)?;
        let mut templates = Vec::new();
        for child in children {
            templates.push(self.template(text, child, scope)?);
        }
        let open = templates.iter().any(|child| matches!(child, Template::Each(..)));
        let single = templates.iter().filter(|child| !matches!(child, Template::Each(..))).count();
        let mut attrs: Vec<(&'static str, Expr)> = Vec::new();
        let mut rest_attrs = None;
        for entry in entries {
            match entry {
                Entry::Rest { name, range } => {
                    match scope.rest_attrs.iter().position(|known| known == name) {
                        Some(at) => rest_attrs = Some(RestAttrVar(at)),
                        None => self
                            .mistake(format!("`*{name}` is not bound on the left"), text.span(range.clone())),
                    }
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range)?;
                    let expr = match &value.kind {
                        ExprKind::Literal(literal) => {
                            Expr::Literal(self.literal(text, attr, literal, &value.range)?)
                        }
                        _ => self.expr(text, value, scope)?,
                    };
                    attrs.push((attr.name, expr));
                }
            }
        }
        let post = match attrs.iter().find(|(name, _)| *name == "post") {
            Some((_, Expr::Literal(Attr::Post(steps)))) => Some(op::post::extras(steps)),
            Some(_) => None,
            None if rest_attrs.is_none() => Some(0),
            None => None,
        };
        self.arity(text, &ast.range, def, single, open, post);
        if rest_attrs.is_none() {
            for attr in def.attrs.iter().filter(|attr| attr.default.is_none()) {
                if !attrs.iter().any(|(name, _)| *name == attr.name) {
                    self.mistake(
                        format!("attribute `{}` of `{}` is missing", attr.name, def.name),
                        text.span(ast.range.clone()),
                    );
                }
            }
        }
        Some(Template::Op { op: def, children: templates, attrs, rest_attrs })
    }

    /// `(each ?xs.. ?x template)`: a template for every value of a rest.
    fn each(&mut self, text: &Text, ast: &Ast, children: &[Ast], scope: &mut Scope) -> Option<Template> {
        let [Ast { kind: Kind::Var(rest) | Kind::Rest(rest), .. }, Ast { kind: Kind::Var(item), .. }, inner] =
            children
        else {
            self.mistake("`each` is written `(each ?xs ?x (… ?x …))`", text.span(ast.range.clone()));
            return None;
        };
        let Some(at) = scope.rests.iter().position(|known| known == rest) else {
            self.mistake(
                format!("`?{rest}..` is not bound on the left"),
                text.span(children[0].range.clone()),
            );
            return None;
        };
        let item = OperandVar(index(&mut scope.operands, item));
        let inner = self.template(text, inner, scope)?;
        Some(Template::Each(RestVar(at), Some((item, Box::new(inner)))))
    }
}
