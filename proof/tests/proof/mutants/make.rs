//! Makes unsound variants of rules, each with one small mistake that an author might make.
//!
//! The following changes do not make a rule unsound and are left out:
//! - removed guards on constness and on lengths of chains, which only exclude matches that do not pay;
//! - removed guards on element types and ranks (such as `is-f32`, `rank`, `all-rank` and `min-rank`), which
//!   the ops of the right side demand again, so that typing refuses the match;
//! - swapped operands of a commutative op, and a zero subtracted instead of added;
//! - changes inside `each` and to a rest, after which the operands fit only where there is no rest, and there
//!   the rule is right;
//! - a removed attribute that is written with its default;
//! - changes of where an operand lies, not of what is computed: `sum`, and conversions in front of ops that
//!   accept any layout.

use ovolo::attr::{Attr, AttrKind, Float};
use ovolo::op::Op;
use ovolo::rule::{AttrPattern, AttrVar, Expr, Interval, OperandVar, Pattern, Rule, Template};

/// A mutant of a rule.
pub struct Mutant {
    pub name: String,
    /// The change, without a number that tells equal changes apart.
    what: String,
    /// Whether its left side equals the rule's.
    pub left_is_kept: bool,
    pub rule: Rule,
}

/// Returns every mutant of a rule.
pub fn mutants(rule: &Rule) -> Vec<Mutant> {
    let mut made = Vec::new();
    guards(rule, &mut made);
    lefts(rule, &mut made);
    rights(rule, &mut made);
    lets(rule, &mut made);
    results(rule, &mut made);
    variables(rule, &mut made);
    // A number distinguishes mutants whose change is possible in several places.
    for at in 1..made.len() {
        let before = made[..at].iter().filter(|one| one.what == made[at].what).count();
        if before > 0 {
            made[at].name = format!("{} ({})", made[at].name, before + 1);
        }
    }
    made
}

fn push(made: &mut Vec<Mutant>, of: &Rule, what: String, rule: Rule) {
    if rule != *of {
        let left_is_kept = rule.from == of.from;
        made.push(Mutant { name: format!("{}: {what}", of.name), what, left_is_kept, rule });
    }
}

/// Adds the mutants with one guard removed.
fn guards(rule: &Rule, made: &mut Vec<Mutant>) {
    for (at, guard) in rule.guards.iter().enumerate() {
        if is_no_matter(&guard.expr) {
            continue;
        }
        let mut mutant = rule.clone();
        mutant.guards.remove(at);
        push(made, rule, format!("without {}", guard.text), mutant);
    }
}

fn is_no_matter(guard: &Expr) -> bool {
    match guard {
        Expr::Call(function, of) => match function.name {
            "const" | "all-const" | "not-root" | "is-f32" | "all-f32" | "is-f32-or-bf16"
            | "all-f32-or-bf16" | "rank" | "all-rank" | "min-rank" => true,
            "not" | "any" => of.iter().any(is_no_matter),
            "at-most" => mentions(guard, "steps"),
            _ => false,
        },
        _ => false,
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Call(function, of) => function.name == name || of.iter().any(|one| mentions(one, name)),
        _ => false,
    }
}

/// Adds mutants of left sides: a changed number or op, or an attribute that may have any value.
fn lefts(rule: &Rule, made: &mut Vec<Mutant>) {
    for (side, pattern) in rule.from.iter().enumerate() {
        let mut changed = Vec::new();
        left(pattern, true, &mut |what, pattern| changed.push((what, pattern)));
        for (what, pattern) in changed {
            let mut mutant = rule.clone();
            mutant.from[side] = pattern;
            push(made, rule, format!("left {side}: {what}"), mutant);
        }
    }
}

/// Calls `give` with every variant of a pattern that has one change. The root's op stays, because `x - 0` is
/// `x` as well.
fn left(pattern: &Pattern, root: bool, give: &mut dyn FnMut(String, Pattern)) {
    match pattern {
        Pattern::Operand(_) | Pattern::Rest(_) | Pattern::Optional(_) => {}
        Pattern::Number(interval, var) => {
            let (text, instead) = match interval.value() {
                Some(value) => (value.to_string(), Interval::point(other(value))),
                None => (interval.to_string(), Interval { least: f64::NEG_INFINITY, most: f64::INFINITY }),
            };
            let now = instead.value().map_or(instead.to_string(), |value| value.to_string());
            give(format!("{text} is {now}"), Pattern::Number(instead, *var));
        }
        Pattern::Op { op, children, attrs, rest_attrs } => {
            let with = |children: Vec<Pattern>, attrs| Pattern::Op {
                op: *op,
                children,
                attrs,
                rest_attrs: *rest_attrs,
            };
            if let (false, Some((_, instead))) =
                (root, OP_INSTEAD.iter().find(|(known, _)| *known == op.name))
            {
                give(
                    format!("{} is {instead}", op.name),
                    Pattern::Op {
                        op: crate::common::ops().get(instead).unwrap(),
                        children: children.clone(),
                        attrs: attrs.clone(),
                        rest_attrs: *rest_attrs,
                    },
                );
            }
            for (at, (name, value)) in attrs.iter().enumerate() {
                if matches!(value, AttrPattern::Literal(_)) && !PLACES.contains(name) {
                    let mut fewer = attrs.clone();
                    fewer.remove(at);
                    give(format!("any {name} of {}", op.name), with(children.clone(), fewer));
                }
            }
            for at in 0..children.len() {
                left(&children[at], false, &mut |what, child| {
                    let mut changed = children.clone();
                    changed[at] = child;
                    give(what, with(changed, attrs.clone()));
                });
            }
        }
    }
}

/// Adds mutants of right sides: swapped or repeated operands, dropped or changed attributes, changed or
/// removed ops. If there are several right sides, the mistake in an operand is made in all of them: they
/// share the value of which they are parts, and often one part does not read the changed place.
fn rights(rule: &Rule, made: &mut Vec<Mutant>) {
    let mut shared: Vec<Vec<(String, Template)>> = Vec::new();
    for (side, template) in rule.to.iter().enumerate() {
        let mut changed = Vec::new();
        right(template, &mut |what, template| changed.push((what, template)));
        let (of_operands, others): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|(what, _)| rule.to.len() > 1 && what.starts_with("operand"));
        shared.push(of_operands);
        for (what, template) in others {
            let mut mutant = rule.clone();
            mutant.to[side] = template;
            push(made, rule, format!("right {side}: {what}"), mutant);
        }
    }
    for at in 0..shared[0].len() {
        let mut mutant = rule.clone();
        for (side, changed) in shared.iter().enumerate() {
            assert_eq!(changed[at].0, shared[0][at].0, "{}: the right sides have different forms", rule.name);
            mutant.to[side] = changed[at].1.clone();
        }
        push(made, rule, format!("every right: {}", shared[0][at].0), mutant);
    }
}

/// Adds mutants with two results swapped.
fn results(rule: &Rule, made: &mut Vec<Mutant>) {
    for at in 1..rule.to.len() {
        let mut mutant = rule.clone();
        mutant.to.swap(at - 1, at);
        push(made, rule, format!("results {} and {at} swapped", at - 1), mutant);
    }
}

/// Adds mutants in which one variable is replaced by another of the left side, the most common slip. Only for
/// rules with one right side: the parts of several often do not read the changed place.
fn variables(rule: &Rule, made: &mut Vec<Mutant>) {
    let ([_], [template]) = (&rule.from[..], &rule.to[..]) else { return };
    let mut bound = Bound::default();
    bound.read(&rule.from[0]);
    let mut changed = Vec::new();
    another(template, &bound, &mut |operand, from, to, template| changed.push((operand, from, to, template)));
    for (operand, from, to, template) in changed {
        let names = if operand { &rule.operand_vars } else { &rule.attr_vars };
        let mut mutant = rule.clone();
        mutant.to[0] = template;
        push(made, rule, format!("right 0: ?{} is ?{}", names[from], names[to]), mutant);
    }
}

/// The variables that a left side binds: operands, and attributes with their kinds.
#[derive(Default)]
struct Bound {
    operands: Vec<OperandVar>,
    attrs: Vec<(AttrVar, AttrKind)>,
}

impl Bound {
    fn read(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Operand(var) | Pattern::Number(_, Some(var)) => self.operands.push(*var),
            Pattern::Number(_, None) | Pattern::Rest(_) | Pattern::Optional(_) => {}
            Pattern::Op { op, children, attrs, .. } => {
                for (name, value) in attrs {
                    if let AttrPattern::Var(var) = value {
                        self.attrs.push((*var, op.attr(name).unwrap().kind));
                    }
                }
                children.iter().for_each(|child| self.read(child));
            }
        }
    }

    fn other_operand(&self, var: OperandVar) -> Option<OperandVar> {
        let at = self.operands.iter().position(|known| *known == var)?;
        let after = self.operands.iter().cycle().skip(at + 1).take(self.operands.len());
        after.copied().find(|other| *other != var)
    }

    fn other_attr(&self, var: AttrVar) -> Option<AttrVar> {
        let (at, kind) = self
            .attrs
            .iter()
            .enumerate()
            .find(|(_, known)| known.0 == var)
            .map(|(at, known)| (at, known.1))?;
        let after = self.attrs.iter().cycle().skip(at + 1).take(self.attrs.len());
        after.copied().find(|other| other.0 != var && other.1 == kind).map(|other| other.0)
    }
}

/// Calls `give` with every variant of a template in which one variable is replaced: whether it is an operand
/// variable, the variable, its replacement, and the variant.
fn another(template: &Template, bound: &Bound, give: &mut dyn FnMut(bool, usize, usize, Template)) {
    let Template::Op { op, children, attrs, rest_attrs } = template else { return };
    let with =
        |children: Vec<Template>, attrs| Template::Op { op: *op, children, attrs, rest_attrs: *rest_attrs };
    for at in 0..children.len() {
        let changed = |child: Template| {
            let mut children = children.clone();
            children[at] = child;
            with(children, attrs.clone())
        };
        match &children[at] {
            Template::Operand(var) => {
                if let Some(other) = bound.other_operand(*var) {
                    give(true, var.0, other.0, changed(Template::Operand(other)));
                }
            }
            child => {
                another(child, bound, &mut |operand, from, to, child| give(operand, from, to, changed(child)))
            }
        }
    }
    for (at, (_, value)) in attrs.iter().enumerate() {
        if let Expr::Attr(var) = value
            && let Some(other) = bound.other_attr(*var)
        {
            let mut attrs = attrs.clone();
            attrs[at].1 = Expr::Attr(other);
            give(false, var.0, other.0, with(children.clone(), attrs));
        }
    }
}

/// Whether two operands may be swapped, in a lowered op as in its logical op.
fn commutes(op: Op, children: &[Template]) -> bool {
    children.len() == 2 && op.logical().flags.commutative
}

/// Calls `give` with every variant of a template that has one change. What occurs several times in it is one value, and
/// changes in all places.
fn right(template: &Template, give: &mut dyn FnMut(String, Template)) {
    let mut parts = Vec::new();
    distinct(template, &mut parts);
    for part in parts {
        here(part, &mut |what, changed| {
            // Remove only the conversion itself, and nothing below it.
            if what == "no pack" && is_read_in_any_layout(template, part) {
                return;
            }
            give(what, with_instead(template, part, &changed));
        });
    }
}

/// Adds the parts of a template that are not among `parts`, each before its own parts.
fn distinct<'a>(template: &'a Template, parts: &mut Vec<&'a Template>) {
    if parts.contains(&template) {
        return;
    }
    parts.push(template);
    if let Template::Op { children, .. } = template {
        children.iter().for_each(|child| distinct(child, parts));
    }
}

/// Whether an op that accepts operands in any layout has the part as its operand.
fn is_read_in_any_layout(template: &Template, part: &Template) -> bool {
    let Template::Op { op, children, .. } = template else { return false };
    ANY_LAYOUT.contains(&op.name) && children.contains(part)
        || children.iter().any(|child| is_read_in_any_layout(child, part))
}

/// Returns the template with `changed` in all places of a part.
fn with_instead(template: &Template, part: &Template, changed: &Template) -> Template {
    match template {
        _ if template == part => changed.clone(),
        Template::Op { op, children, attrs, rest_attrs } => Template::Op {
            op: *op,
            children: children.iter().map(|child| with_instead(child, part, changed)).collect(),
            attrs: attrs.clone(),
            rest_attrs: *rest_attrs,
        },
        Template::Operand(_) | Template::Scalar(_) | Template::Each(..) => template.clone(),
    }
}

/// Calls `give` with every variant of a template whose root has one change.
fn here(template: &Template, give: &mut dyn FnMut(String, Template)) {
    match template {
        Template::Operand(_) | Template::Each(..) => {}
        Template::Scalar(value) => {
            give(format!("{value} is {}", other(*value)), Template::Scalar(other(*value)))
        }
        Template::Op { op, children, attrs, rest_attrs } => {
            let name = op.name;
            let with = |children: Vec<Template>, attrs| Template::Op {
                op: *op,
                children,
                attrs,
                rest_attrs: *rest_attrs,
            };
            for at in 1..children.len() {
                let each = [&children[at - 1], &children[at]].map(|one| matches!(one, Template::Each(..)));
                let same = commutes(*op, children);
                if children[at - 1] != children[at] && each[0] == each[1] && !same {
                    let mut swapped = children.clone();
                    swapped.swap(at - 1, at);
                    give(
                        format!("operands {} and {at} of {name} swapped", at - 1),
                        with(swapped, attrs.clone()),
                    );
                }
            }
            for at in 1..children.len() {
                if let (Template::Operand(one), Template::Operand(other)) = (&children[at - 1], &children[at])
                    && one != other
                {
                    let mut twice = children.clone();
                    twice[at] = twice[at - 1].clone();
                    give(format!("operand {} of {name} twice", at - 1), with(twice, attrs.clone()));
                }
            }
            if let Some((_, instead)) = OP_INSTEAD.iter().find(|(known, _)| *known == name) {
                give(
                    format!("{name} is {instead}"),
                    Template::Op {
                        op: crate::common::ops().get(instead).unwrap(),
                        children: children.clone(),
                        attrs: attrs.clone(),
                        rest_attrs: *rest_attrs,
                    },
                );
            }
            if let [only] = &children[..]
                && !matches!(only, Template::Each(..))
            {
                give(format!("no {name}"), only.clone());
            }
            for (at, (attr, value)) in attrs.iter().enumerate() {
                if PLACES.contains(attr) {
                    continue;
                }
                let default = op.attr(attr).and_then(|def| def.default.clone());
                if default.is_some_and(|default| *value != Expr::Literal(default)) {
                    let mut fewer = attrs.clone();
                    fewer.remove(at);
                    give(format!("{attr} of {name} dropped"), with(children.clone(), fewer));
                }
                expression(value, &mut |what, value| {
                    let mut changed = attrs.clone();
                    changed[at].1 = value;
                    give(format!("{attr} of {name}: {what}"), with(children.clone(), changed));
                });
            }
            if rest_attrs.is_some() {
                let dropped = Template::Op {
                    op: *op,
                    children: children.clone(),
                    attrs: attrs.clone(),
                    rest_attrs: None,
                };
                give(format!("other attributes of {name} dropped"), dropped);
            }
        }
    }
}

/// Adds mutants in which the expression of a computed attribute is changed.
fn lets(rule: &Rule, made: &mut Vec<Mutant>) {
    for (at, (var, expr)) in rule.lets.iter().enumerate() {
        expression(expr, &mut |what, expr| {
            let mut mutant = rule.clone();
            mutant.lets[at].1 = expr;
            push(made, rule, format!("let {}: {what}", rule.attr_vars[var.0]), mutant);
        });
    }
}

/// Attributes that tell where an operand lies or which kernel a library uses, not what is computed.
const PLACES: &[&str] = &["sum", "algorithm", "engine", "workspace", "tf32"];
/// Ops that accept operands in any layout, because their library decides for which ones it has a kernel.
const ANY_LAYOUT: &[&str] = &["onednn.conv", "onednn.conv-transpose", "onednn.matmul-packed"];

/// The function that replaces a function.
const INSTEAD: &[(&str, &str)] =
    &[("zeros", "ones"), ("ones", "zeros"), ("add", "sub"), ("sub", "add"), ("mul", "add"), ("div", "mul")];
/// The op that replaces an op.
const OP_INSTEAD: &[(&str, &str)] = &[
    ("add", "sub"),
    ("sub", "add"),
    ("mul", "div"),
    ("div", "mul"),
    ("sqrt", "abs"),
    ("erf", "tanh"),
    ("sigmoid", "tanh"),
    ("reduce-mean", "reduce-max"),
    ("reciprocal", "neg"),
    ("relu", "abs"),
    ("silu", "gelu"),
    ("gelu", "silu"),
    ("hard-swish", "silu"),
    ("native.pow", "native.sub"),
    ("native.round", "native.floor"),
    ("native.reduce-mean", "native.reduce-sum"),
];
/// The step that replaces a step.
const STEP_INSTEAD: &[(&str, &str)] = &[
    ("sub", "rsub"),
    ("rsub", "sub"),
    ("div", "rdiv"),
    ("rdiv", "div"),
    ("pow", "rpow"),
    ("rpow", "pow"),
    ("add", "mul"),
    ("mul", "add"),
    ("min", "max"),
    ("max", "min"),
    ("relu", "abs"),
    ("clip", "hard-sigmoid"),
    ("leaky-relu", "elu"),
    ("elu", "leaky-relu"),
];

/// Calls `give` with every variant of an expression that has one change.
fn expression(expr: &Expr, give: &mut dyn FnMut(String, Expr)) {
    match expr {
        Expr::Literal(attr) => {
            if let Some(changed) = other_attr(attr) {
                give(format!("{attr} is {changed}"), Expr::Literal(changed));
            }
        }
        Expr::Step(op) => {
            let instead = STEP_INSTEAD.iter().find(|(step, _)| *op == **step);
            if let Some(changed) = instead.and_then(|(_, name)| crate::common::ops().step(name)) {
                give(format!("{op:?} is {changed:?}"), Expr::Step(changed));
            }
        }
        Expr::Attr(_) | Expr::Operand(_) | Expr::Rest(_) | Expr::Optional(_) => {}
        Expr::Call(function, of) => {
            let zero = matches!(&of[..], [_, Expr::Literal(Attr::Int(0))]);
            if let Some((_, instead)) = INSTEAD.iter().find(|(name, _)| *name == function.name && !zero)
                && let Some(instead) = crate::common::registry()
                    .words()
                    .all()
                    .find(|known| !known.is_guard() && known.name == *instead)
            {
                give(format!("{} is {}", function.name, instead.name), Expr::Call(instead, of.clone()));
            }
            if ["then-all", "perm-compose"].contains(&function.name) {
                let mut swapped = of.clone();
                swapped.swap(0, 1);
                give(format!("arguments of {} swapped", function.name), Expr::Call(function, swapped));
                give(format!("only the first of {}", function.name), of[0].clone());
                give(format!("only the second of {}", function.name), of[1].clone());
            }
            if function.name == "then" && of.len() == 4 {
                let mut swapped = of.clone();
                swapped.swap(2, 3);
                give("parameters swapped".to_owned(), Expr::Call(function, swapped));
            }
            for at in 0..of.len() {
                expression(&of[at], &mut |what, one| {
                    let mut changed = of.clone();
                    changed[at] = one;
                    give(what, Expr::Call(function, changed));
                });
            }
        }
    }
}

fn other(value: f64) -> f64 {
    if value == 0.0 { 0.125 } else { value * 1.125 }
}

fn other_attr(attr: &Attr) -> Option<Attr> {
    Some(match attr {
        Attr::Int(1) => Attr::Int(0),
        Attr::Int(value) => Attr::Int(value + 1),
        Attr::Float(value) => Attr::Float(Float(other(value.0))),
        Attr::Ints(list) => {
            let mut list = list.clone();
            match &mut list[..] {
                [.., a, b] if a != b => std::mem::swap(a, b),
                [.., last] => *last += 1,
                [] => return None,
            }
            Attr::Ints(list)
        }
        // Every layout holds the same value, so another layout is not a mistake if it has a type.
        Attr::Str(_) | Attr::Layout(_) | Attr::DType(_) | Attr::Post(_) => return None,
    })
}
