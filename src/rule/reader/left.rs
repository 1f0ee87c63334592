//! The reader of left sides: patterns, checked against the op registry.

use super::Reader;
use super::operator::Given;
use super::scope::{Scope, index};
use crate::attr::Attr;
use crate::diagnostic::Diagnostic;
use crate::op::{self, Op};
use crate::ron::Text;
use crate::rule::pattern::{Ast, Entry, ExprAst, ExprKind, Kind};
use crate::rule::{self, AttrPattern, AttrVar, Interval, OperandVar, Pattern, RestAttrVar, RestVar};

impl Reader<'_> {
    pub(super) fn pattern(&mut self, text: &Text, ast: &Ast, scope: &mut Scope) -> Option<Pattern> {
        let (name, name_range, children, entries) = match &ast.kind {
            Kind::Var(name) => {
                self.one_kind(text, name, &ast.range, scope, "an operand")?;
                scope.stands(text, &ast.range);
                return Some(Pattern::Operand(OperandVar(index(&mut scope.operands, name))));
            }
            Kind::Number { interval, var } => {
                return self.number(text, ast, *interval, var.as_deref(), scope);
            }
            Kind::Spread { name, optional } => {
                let what = if *optional { "an optional operand" } else { "a rest" };
                self.one_kind(text, name, &ast.range, scope, what)?;
                scope.stands(text, &ast.range);
                let var = RestVar(scope.rest(name, *optional));
                return Some(if *optional { Pattern::Optional(var) } else { Pattern::Rest(var) });
            }
            Kind::Wrong => return None,
            Kind::Op { name, name_range, children, attrs } => (name, name_range, children, attrs),
        };
        // All parts are read before a mistake ends the pattern, so that all mistakes are reported.
        let def = self.op(text, name, name_range);
        let patterns: Vec<Option<Pattern>> =
            children.iter().map(|child| self.pattern(text, child, scope)).collect();
        self.once(text, entries);
        let def = def?;
        let (mut right, mut known) = (true, Vec::new());
        let mut attrs: Vec<(&'static str, AttrPattern)> = Vec::new();
        let mut rest_attrs = None;
        for entry in entries {
            match entry {
                Entry::Rest { name, range } => {
                    scope.stands(text, range);
                    rest_attrs = Some(RestAttrVar(index(&mut scope.rest_attrs, name)))
                }
                Entry::Attr { name, range, value } => {
                    let attr = self.attr_name(text, def, name, range);
                    known.push(attr.map(|attr| attr.name));
                    match attr
                        .and_then(|attr| Some((attr.name, self.expected(text, (def, attr), value, scope)?)))
                    {
                        Some(read) => attrs.push(read),
                        None => right = false,
                    }
                }
            }
        }
        let post = attrs.iter().find_map(|(name, value)| match value {
            AttrPattern::Literal(Attr::Post(steps)) if *name == "post" => Some(op::post::extras(steps)),
            _ => None,
        });
        let no_post = def.attr("post").is_some() && rest_attrs.is_none() && !known.contains(&Some("post"));
        let chain = known.contains(&Some("post")) && !attrs.iter().any(|(name, _)| *name == "post");
        if !chain {
            self.arity(text, &ast.range, def, Given::count(children), if no_post { Some(0) } else { post });
        }
        // A misspelt attribute may be the one that seems to be missing.
        if rest_attrs.is_none() && !known.contains(&None) {
            self.defaults(text, ast, def, &known, &mut attrs);
        }
        let patterns: Option<Vec<Pattern>> = patterns.into_iter().collect();
        patterns.filter(|_| right).map(|children| Pattern::Op { op: def, children, attrs, rest_attrs })
    }

    /// Reads a number or a range, possibly with a name.
    fn number(
        &mut self,
        text: &Text,
        ast: &Ast,
        interval: Interval,
        var: Option<&str>,
        scope: &mut Scope,
    ) -> Option<Pattern> {
        if interval.least > interval.most {
            self.mistake(
                format!("no number is in `{interval}`"),
                text.span(ast.range.clone()),
                "write the smaller end first",
            );
            return None;
        }
        let var = match var {
            Some(name) => {
                self.one_kind(text, name, &ast.range, scope, "an operand")?;
                scope.stands(text, &(ast.range.start..ast.range.start + 1 + name.len()));
                Some(OperandVar(index(&mut scope.operands, name)))
            }
            None => None,
        };
        Some(Pattern::Number(interval, var))
    }

    /// Adds the default of each attribute that is not written, and reports those without a default.
    fn defaults(
        &mut self,
        text: &Text,
        ast: &Ast,
        def: Op,
        known: &[Option<&'static str>],
        attrs: &mut Vec<(&'static str, AttrPattern)>,
    ) {
        for attr in &def.attrs {
            if known.contains(&Some(attr.name)) {
                continue;
            }
            match &attr.default {
                Some(default) => attrs.push((attr.name, AttrPattern::Literal(default.clone()))),
                None => {
                    let diagnostic = Diagnostic::new(format!(
                        "attribute `{}` of `{}` is not mentioned",
                        attr.name, def.name
                    ))
                    .label(self.source, text.span(ast.range.clone()), "")
                    .help(format!(
                        "bind it with `{}: ?{}`, or all others with `*rest`",
                        attr.name,
                        attr.name.chars().next().unwrap_or('a')
                    ));
                    self.say(diagnostic);
                }
            }
        }
    }

    /// Returns the condition on an attribute of a left side.
    fn expected(
        &mut self,
        text: &Text,
        (def, attr): (Op, &op::AttrDef),
        value: &ExprAst,
        scope: &mut Scope,
    ) -> Option<AttrPattern> {
        match &value.kind {
            ExprKind::Wrong => None,
            ExprKind::Var(var) => {
                self.one_kind(text, var, &value.range, scope, "an attribute")?;
                scope.stands(text, &value.range);
                let kind = rule::Kind::from_attr(attr.kind);
                let (at, known) = scope.attr(var, Some(kind));
                if let Some(known) = known.filter(|known| *known != kind) {
                    self.mistake(
                        format!(
                            "`?{var}` is {} here and {} elsewhere: nothing is both",
                            kind.words(),
                            known.words()
                        ),
                        text.span(value.range.clone()),
                        "give one of them another name",
                    );
                    return None;
                }
                Some(AttrPattern::Var(AttrVar(at)))
            }
            ExprKind::Literal(literal) => {
                self.literal(text, def, attr, literal, &value.range).map(AttrPattern::Literal)
            }
            ExprKind::Call(..) => {
                self.mistake(
                    "a left side binds attributes or names values; it computes none",
                    text.span(value.range.clone()),
                    "bind the attribute to a variable, and ask in `when` what it must be",
                );
                None
            }
        }
    }
}
