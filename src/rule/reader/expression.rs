//! Guards and computed attributes.

use super::Reader;
use super::scope::Scope;
use crate::rule::expr;
use crate::rule::pattern::{ExprAst, ExprKind};
use crate::rule::ron::Text;
use crate::rule::{AttrVar, Expr, OperandVar, RestVar};

impl Reader<'_> {
    pub(super) fn expr(&mut self, text: &Text, ast: &ExprAst, scope: &mut Scope) -> Option<Expr> {
        Some(match &ast.kind {
            ExprKind::Literal(literal) => Expr::Literal(literal.clone()),
            ExprKind::Var(name) => {
                scope.used.push(name.clone());
                let at = |names: &[String]| names.iter().position(|known| known == name);
                if let Some(at) = at(&scope.attrs) {
                    Expr::Attr(AttrVar(at))
                } else if let Some(at) = at(&scope.operands) {
                    Expr::Operand(OperandVar(at))
                } else if let Some(at) = scope.rests.iter().position(|known| known.name == *name) {
                    let var = RestVar(at);
                    if scope.rests[at].optional { Expr::Optional(var) } else { Expr::Rest(var) }
                } else {
                    self.unbound(text, &format!("?{name}"), &ast.range, scope);
                    return None;
                }
            }
            ExprKind::Call(name, arguments) => {
                let span = text.span(ast.range.start..ast.range.start + name.len());
                let Some(function) = expr::functions().find(|function| function.name == name) else {
                    let known: Vec<&str> = expr::functions().map(|function| function.name).collect();
                    self.unknown("guard or function", name, span, &known);
                    return None;
                };
                let (least, most) = function.arity;
                if arguments.len() < least || arguments.len() > most {
                    let wanted = if least == most { format!("{least}") } else { format!("at least {least}") };
                    self.mistake(
                        format!("`{name}` takes {wanted} argument(s), {} are given", arguments.len()),
                        text.span(ast.range.clone()),
                        format!("it is: {}", function.doc),
                    );
                    return None;
                }
                Expr::Call(
                    function,
                    arguments.iter().map(|one| self.expr(text, one, scope)).collect::<Option<_>>()?,
                )
            }
        })
    }
}
