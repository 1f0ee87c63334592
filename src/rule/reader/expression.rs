//! The reader of guards and computed attributes. It checks that all arguments have the kinds of the signature.

use super::Reader;
use super::scope::Scope;
use crate::attr::Attr;
use crate::diagnostic::Diagnostic;
use crate::ron::Text;
use crate::rule::expr::Word;
use crate::rule::pattern::{ExprAst, ExprKind};
use crate::rule::signature::{LARGEST, MOST_DIMENSIONS};
use crate::rule::{AttrVar, Expr, Kind, OperandVar, RestVar, literal};

/// An expression with its kind; `None` if the kind of a variable is not known.
pub(super) type Kinded = (Expr, Option<Kind>);

/// The largest number of characters of an expression that a message repeats. A caret shows the rest.
const LONGEST: usize = 60;

impl Reader<'_> {
    pub(super) fn expr(&mut self, text: &Text, ast: &ExprAst, scope: &mut Scope) -> Option<Kinded> {
        Some(match &ast.kind {
            ExprKind::Wrong => return None,
            ExprKind::Literal(literal) => {
                (Expr::Literal(literal.clone()), Some(Kind::from_attr(literal.kind())))
            }
            ExprKind::Var(name) => {
                scope.used.push(name.clone());
                let at = |names: &[String]| names.iter().position(|known| known == name);
                if let Some(at) = at(&scope.attrs) {
                    (Expr::Attr(AttrVar(at)), scope.attr_kinds[at])
                } else if let Some(at) = at(&scope.operands) {
                    (Expr::Operand(OperandVar(at)), Some(Kind::Operand))
                } else if let Some(at) = scope.rests.iter().position(|known| known.name == *name) {
                    let var = RestVar(at);
                    match scope.rests[at].optional {
                        true => (Expr::Optional(var), Some(Kind::Operand)),
                        false => (Expr::Rest(var), Some(Kind::Rest)),
                    }
                } else {
                    self.unbound(text, &format!("?{name}"), &ast.range, scope);
                    return None;
                }
            }
            ExprKind::Call(name, arguments) => return self.call(text, ast, name, arguments, scope),
        })
    }

    fn call(
        &mut self,
        text: &Text,
        ast: &ExprAst,
        name: &str,
        arguments: &[ExprAst],
        scope: &mut Scope,
    ) -> Option<Kinded> {
        let Some(function) = self.vocabulary.words.get(name) else {
            let span = text.span(ast.range.start..ast.range.start + name.len());
            let known: Vec<&str> = self.vocabulary.words.all().map(|function| function.name).collect();
            self.unknown("guard or function", name, span, &known);
            return None;
        };
        let (least, most) = function.arity();
        if arguments.len() < least || arguments.len() > most {
            let wanted = if least == most { format!("{least}") } else { format!("at least {least}") };
            self.mistake(
                format!("`{name}` takes {wanted} argument(s), {} are given", arguments.len()),
                text.span(ast.range.clone()),
                format!("it is `{}`: {}", function.signature(), function.doc),
            );
            return None;
        }
        // All arguments are read before a mistake ends the call, so that all mistakes are reported.
        let read: Vec<Option<Kinded>> = arguments.iter().map(|one| self.expr(text, one, scope)).collect();
        let mut right = true;
        for (at, (argument, given)) in arguments.iter().zip(&read).enumerate() {
            let Some((given, kind)) = given else { continue };
            let asked = match function.argument(at) {
                // The result has the kind of the first argument, if that is known and correct.
                Some(Kind::Same) => read[0]
                    .as_ref()
                    .and_then(|(_, kind)| *kind)
                    .filter(|kind| function.argument(0).is_some_and(|asked| asked.takes(*kind))),
                asked => asked,
            };
            if let (Some(asked), Some(kind)) = (asked, *kind) {
                right &= self.argument(text, argument, function, at, (asked, kind, given), scope);
            }
        }
        let read: Vec<Kinded> = read.into_iter().collect::<Option<_>>()?;
        if let ("dim", Some((Expr::Literal(Attr::Int(axis)), _))) = (function.name, read.get(1))
            && !(-MOST_DIMENSIONS..MOST_DIMENSIONS).contains(axis)
        {
            self.mistake(
                format!("`{}` asks for axis {axis}, which no value has", written(text, ast)),
                text.span(ast.range.clone()),
                format!(
                    "axes count from 0, or from -1 backwards, and values of models have at most {MOST_DIMENSIONS}: \
                     write one such as `dim(?x, 1)`"
                ),
            );
            return None;
        }
        if !right {
            return None;
        }
        let read = self.with_step(text, ast, function, arguments, read)?;
        let gives = match function.gives {
            // All numbers have one kind; if one of them is a float, the result is a float.
            Kind::Number if read.iter().any(|(_, kind)| kind.is_none()) => None,
            Kind::Number if read.iter().any(|(_, kind)| *kind == Some(Kind::Float)) => Some(Kind::Float),
            Kind::Number => Some(Kind::Integer),
            kind => Some(kind),
        };
        Some((Expr::Call(function, read.into_iter().map(|(expr, _)| expr).collect()), gives))
    }

    /// Returns whether an argument has the required kind, and reports it otherwise.
    fn argument(
        &mut self,
        text: &Text,
        ast: &ExprAst,
        function: &Word,
        at: usize,
        (asked, kind, given): (Kind, Kind, &Expr),
        scope: &Scope,
    ) -> bool {
        let beyond = match given {
            Expr::Literal(Attr::Int(value)) if *value < 0 => Some("below 0"),
            Expr::Literal(Attr::Int(value)) if *value > LARGEST => Some("above 128"),
            _ => None,
        };
        let beyond = beyond.filter(|_| asked == Kind::Size);
        if asked.takes(kind) && beyond.is_none() {
            return true;
        }
        let same = function.argument(at) == Some(Kind::Same);
        let is = beyond.unwrap_or(kind.words());
        let wanted = match same {
            true => format!("{} in both places", asked.words()),
            false if function.arity().1 == 1 => asked.words().to_owned(),
            false => format!("{} as argument {}", asked.words(), at + 1),
        };
        let mut help = asked.advice().to_owned();
        let rank = matches!((asked, kind), (Kind::Operand, Kind::Rest));
        let all = format!("all-{}", function.name.trim_start_matches("is-"));
        if rank && self.vocabulary.words.get(&all).is_some() {
            help = format!("`{all}` asks it of every operand");
        } else if let bound @ [_, ..] = &scope.written(asked)[..] {
            help = format!("the left binds {}", bound.join(", "));
        } else if let (Kind::Float, Expr::Literal(Attr::Int(value))) = (asked, given) {
            help = format!("write `{value}.0`");
        }
        self.mistake(
            format!("`{}` takes {wanted}, and `{}` is {is}", function.name, written(text, ast)),
            text.span(ast.range.clone()),
            format!("it is `{}`: {}; {help}", function.signature(), function.doc),
        );
        false
    }

    /// Replaces the name of a step in the arguments by the step, if there is one. Reports an unknown step, and one
    /// with different parameters.
    fn with_step(
        &mut self,
        text: &Text,
        ast: &ExprAst,
        function: &Word,
        arguments: &[ExprAst],
        mut read: Vec<Kinded>,
    ) -> Option<Vec<Kinded>> {
        let Some(place) = (0..read.len()).find(|at| function.argument(*at) == Some(Kind::Step)) else {
            return Some(read);
        };
        let (argument, parameters) = (&arguments[place], read.len() - place - 1);
        let Expr::Literal(Attr::Str(name)) = &read[place].0 else {
            self.mistake(
                format!("`{}` takes the name of a step, and this is computed", function.name),
                text.span(argument.range.clone()),
                "write the name in quotes, such as `\"relu\"`",
            );
            return None;
        };
        let Some(op) = self.vocabulary.ops.step(name) else {
            let known = self.vocabulary.ops.step_names();
            let span = text.span(argument.range.clone());
            let diagnostic = Diagnostic::new(format!("`{name}` is no step of a chain"))
                .label(self.source, span, "")
                .help(match crate::diagnostic::suggestion(name, known.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("the steps are {}", known.join(", ")),
                });
            self.say(diagnostic);
            return None;
        };
        let Err(why) = literal::step(op, vec![crate::attr::Float(0.0); parameters]) else {
            read[place].0 = Expr::Step(op);
            return Some(read);
        };
        self.mistake(
            why,
            text.span(ast.range.clone()),
            format!("it is `{}`: the numbers are the step's parameters", function.signature()),
        );
        None
    }

    /// Returns the expression if an attribute of this kind may have its value, and reports it otherwise.
    pub(super) fn value(
        &mut self,
        text: &Text,
        ast: &ExprAst,
        attribute: &str,
        asked: Option<Kind>,
        scope: &mut Scope,
    ) -> Option<Kinded> {
        let (expr, kind) = self.expr(text, ast, scope)?;
        let asked = asked.unwrap_or(Kind::Attribute);
        match kind.filter(|kind| !asked.takes(*kind)) {
            None => Some((expr, kind)),
            Some(kind) => {
                self.mistake(
                    format!(
                        "{attribute} takes {}, and `{}` is {}",
                        asked.words(),
                        written(text, ast),
                        kind.words()
                    ),
                    text.span(ast.range.clone()),
                    match kind {
                        Kind::Guard => "a guard says yes or no and gives no value: move it to `when`",
                        _ => asked.advice(),
                    },
                );
                None
            }
        }
    }
}

/// Returns the text of an expression, or the beginning of a long one.
fn written(text: &Text, ast: &ExprAst) -> String {
    let all = text.text.get(ast.range.clone()).unwrap_or("").trim();
    match all.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &all[..end]),
        None => all.to_owned(),
    }
}
