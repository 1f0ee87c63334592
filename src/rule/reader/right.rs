//! The reader of right sides: templates over the variables that the left side binds.

use super::Reader;
use super::operator::Given;
use super::scope::{Scope, index};
use crate::attr::Attr;
use crate::op::{self, Op};
use crate::ron::Text;
use crate::rule::pattern::{Ast, Entry, ExprKind, Kind};
use crate::rule::{self, Expr, OperandVar, RestAttrVar, RestVar, Template};

/// The attributes of an op in a template.
#[derive(Default)]
struct Attributes {
    attrs: Vec<(&'static str, Expr)>,
    rest: Option<RestAttrVar>,
    /// The names that are written; `None` for a name that the op does not have.
    known: Vec<Option<&'static str>>,
    /// Whether an attribute could not be read.
    wrong: bool,
}

impl Attributes {
    /// Returns the number of operands that the post chain reads; `None` if it is not known yet.
    fn extras(&self) -> Option<usize> {
        match self.attrs.iter().find(|(name, _)| *name == "post") {
            Some((_, Expr::Literal(Attr::Post(steps)))) => Some(op::post::extras(steps)),
            Some(_) => None,
            None if self.rest.is_none() && !self.known.contains(&Some("post")) => Some(0),
            None => None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn template(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Template> {
        match &ast.kind {
            Kind::Var(name) => self.operand(text, ast, name, scope),
            Kind::Number { interval, var } => {
                let point = interval.value().filter(|_| var.is_none());
                if point.is_none() {
                    self.mistake(
                        "a range of numbers stands on the left only",
                        text.span(ast.range.clone()),
                        "bind a variable to it on the left, `?c:0..6`, and write `?c` here",
                    );
                }
                point.map(Template::Scalar)
            }
            Kind::Spread { name, optional } => self.spread(text, ast, (name, *optional), scope),
            Kind::Wrong => None,
            Kind::Op { name, children, .. } if name == "each" => self.each(text, ast, children, scope),
            Kind::Op { .. } => self.template_of_op(text, ast, scope),
        }
    }

    /// Reads a variable that stands for an operand.
    fn operand(&mut self, text: &Text, ast: &Ast, name: &str, scope: &Scope) -> Option<Template> {
        if let Some(at) = scope.operands.iter().position(|known| known == name) {
            return Some(Template::Operand(OperandVar(at)));
        }
        if scope.kind(name) == Some("an attribute") {
            self.mistake(
                format!("`?{name}` is an attribute, and an operand stands here"),
                text.span(ast.range.clone()),
                format!(
                    "a number becomes an operand by `(scalar {{value: ?{name}}})`; an attribute of an op is written \
                     `{{name: ?{name}}}`"
                ),
            );
        } else {
            self.unbound(text, &format!("?{name}"), &ast.range, scope);
        }
        None
    }

    /// Reads a rest or an optional operand.
    fn spread(
        &mut self,
        text: &Text,
        ast: &Ast,
        (name, optional): (&str, bool),
        scope: &mut Scope,
    ) -> Option<Template> {
        let at = self.bound_rest(text, name, &ast.range, scope)?;
        if scope.rests[at].optional != optional {
            let written = scope.rests[at].to_string();
            self.mistake(
                format!("the left binds `{written}`"),
                text.span(ast.range.clone()),
                format!("write `{written}` here as well"),
            );
            return None;
        }
        Some(Template::Each(RestVar(at), None))
    }

    /// Reads `(op operands… {attributes})`.
    fn template_of_op(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Template> {
        let Kind::Op { name, name_range, children, attrs: entries } = &ast.kind else { return None };
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
            false => Given::count(children),
        };
        self.once(text, entries);
        let def = def?;
        let read = self.attributes(text, def, entries, scope);
        self.arity(text, &ast.range, def, given, read.extras());
        let rest = entries.iter().any(|entry| matches!(entry, Entry::Rest { .. }));
        if !rest && !read.known.contains(&None) {
            self.without_default(text, ast, def, &read.known);
        }
        let templates: Option<Vec<Template>> = templates.into_iter().collect();
        let Attributes { attrs, rest: rest_attrs, wrong, .. } = read;
        templates.filter(|_| !wrong).map(|children| Template::Op { op: def, children, attrs, rest_attrs })
    }

    /// Reads the attributes of an op.
    fn attributes(&mut self, text: &Text, def: Op, entries: &[Entry], scope: &mut Scope) -> Attributes {
        let mut read = Attributes::default();
        for entry in entries {
            match entry {
                Entry::Rest { name, range } => {
                    match scope.rest_attrs.iter().position(|known| known == name) {
                        Some(at) => read.rest = Some(RestAttrVar(at)),
                        None => self.unbound(text, &format!("*{name}"), range, scope),
                    }
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range);
                    read.known.push(attr.map(|attr| attr.name));
                    let expr = attr.and_then(|attr| match &value.kind {
                        ExprKind::Literal(literal) => {
                            self.literal(text, def, attr, literal, &value.range).map(Expr::Literal)
                        }
                        _ => {
                            let attribute = format!("attribute `{}` of `{}`", attr.name, def.name);
                            let asked = Some(rule::Kind::from_attr(attr.kind));
                            self.value(text, value, &attribute, asked, scope).map(|(expr, _)| expr)
                        }
                    });
                    match (attr, expr) {
                        (Some(attr), Some(expr)) => read.attrs.push((attr.name, expr)),
                        _ => read.wrong = true,
                    }
                }
            }
        }
        read
    }

    /// Reports each attribute without a default that is not written.
    fn without_default(&mut self, text: &Text, ast: &Ast, def: Op, known: &[Option<&'static str>]) {
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
        if let Some(what @ ("an operand" | "an attribute")) = scope.kind(rest) {
            self.mistake(
                format!("`each` takes a rest or an optional operand, and `?{rest}` is {what}"),
                text.span(children[0].range.clone()),
                format!("write the template alone, with `?{rest}` in it, or bind `?{rest}..` or `?{rest}?` on the left"),
            );
            return None;
        }
        let at = self.bound_rest(text, rest, &children[0].range, scope)?;
        let item = OperandVar(index(&mut scope.operands, item));
        let inner = self.template(text, inner, scope)?;
        Some(Template::Each(RestVar(at), Some((item, Box::new(inner)))))
    }
}
