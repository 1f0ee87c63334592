//! Finds left sides that can have no type: no element types or ranks satisfy all their ops at once.
//!
//! Each value of a left side starts with a set of possible element types and ranks. The ops and the guards
//! remove from these sets until nothing changes. If a value has an empty set, the rule never matches.
//! Attributes without a literal, operands of variable number, and ops about which nothing is known remove
//! nothing.

use crate::verify::accept::{self, DTYPES, RANKS, Table};
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::op::{AttrDef, Op};
use ovolo::rule::print::Names;
use ovolo::rule::{AttrPattern, Expr, Pattern, Rule};
use ovolo::tensor::DType;

/// Attributes that never change a rank.
const HARMLESS: &[&str] = &[
    "strides",
    "pads",
    "dilations",
    "groups",
    "post",
    "inner",
    "epsilon",
    "alpha",
    "beta",
    "bias",
    "min",
    "max",
    "scale",
    "count-include-pad",
    "ceil-extra",
];

/// Returns why a left side has no type: its position, and what does not fit together.
pub(super) fn untyped(rule: &Rule) -> Option<(usize, String)> {
    let dtypes = |op: &Node<'_>| op.dtypes();
    let ranks = |op: &Node<'_>| op.ranks();
    let mut element = Domain::new(rule, DTYPES.len(), &dtypes);
    let mut rank = Domain::new(rule, RANKS, &ranks);
    for guard in &rule.guards {
        demand(&guard.expr, &mut element, &mut rank);
    }
    let named = |at: usize| DTYPES[at].name().to_owned();
    element
        .empty(rule, "element types", &named)
        .or_else(|| rank.empty(rule, "ranks", &|at: usize| at.to_string()))
}

/// An op of a left side with the values it connects: its operands, then its result.
struct Node<'a> {
    pattern: &'a Pattern,
    def: Op,
    side: usize,
    written: &'a [(&'static str, AttrPattern)],
    values: Vec<usize>,
    /// Whether it takes a variable number of operands.
    open: bool,
}

impl Node<'_> {
    /// The attributes that the pattern gives as literals.
    fn literals(&self) -> Attrs {
        self.written.iter().fold(Attrs::new(), |attrs, (name, value)| match value {
            AttrPattern::Literal(value) => attrs.with(name, value.clone()),
            AttrPattern::Var(_) => attrs,
        })
    }

    fn dtypes(&self) -> Option<Table> {
        let attrs = self.literals();
        let free = |name: &str, kind: AttrKind| kind == AttrKind::DType && attrs.get(name).is_none();
        let known = !self.open && !self.def.attrs.iter().any(|attr| free(attr.name, attr.kind));
        if known { accept::dtypes(self.def, &attrs, self.values.len() - 1) } else { None }
    }

    fn ranks(&self) -> Option<Table> {
        let attrs = self.literals();
        // A list without a default, such as that of `pad`, has one entry for each axis, so it decides the
        // rank.
        let harmless = |attr: &AttrDef| {
            HARMLESS.contains(&attr.name) && (attr.default.is_some() || attr.kind != AttrKind::Ints)
        };
        let open = |attr: &AttrDef| attrs.get(attr.name).is_none() && !harmless(attr);
        let known = !self.open && !self.def.attrs.iter().any(open);
        if known { accept::ranks(self.def, &attrs, self.values.len() - 1) } else { None }
    }
}

/// The possible kinds (element types or ranks) of each value of the left sides, one bit for each kind.
struct Domain<'a> {
    kinds: usize,
    /// Operand variables first, then numbers and results of ops.
    values: Vec<u32>,
    ops: Vec<(Node<'a>, Option<Table>)>,
    /// Pairs of variables that must be of the same kind.
    same: Vec<(usize, usize)>,
}

impl<'a> Domain<'a> {
    fn new(rule: &'a Rule, kinds: usize, table: &dyn Fn(&Node<'a>) -> Option<Table>) -> Self {
        let all = (1 << kinds) - 1;
        let mut domain =
            Self { kinds, values: vec![all; rule.operand_vars.len()], ops: Vec::new(), same: Vec::new() };
        for (side, pattern) in rule.from.iter().enumerate() {
            domain.value(pattern, side, all, table);
        }
        domain
    }

    /// Returns the index of a pattern's value.
    fn value(
        &mut self,
        pattern: &'a Pattern,
        side: usize,
        all: u32,
        table: &dyn Fn(&Node<'a>) -> Option<Table>,
    ) -> usize {
        let (def, children, written) = match pattern {
            Pattern::Operand(var) | Pattern::Number(_, Some(var)) => return var.0,
            Pattern::Op { op, children, attrs, .. } => (*op, children, attrs),
            Pattern::Number(_, None) | Pattern::Rest(_) | Pattern::Optional(_) => {
                self.values.push(all);
                return self.values.len() - 1;
            }
        };
        let open = children.iter().any(|child| child.spread().is_some());
        let mut values: Vec<usize> =
            children.iter().map(|child| self.value(child, side, all, table)).collect();
        self.values.push(all);
        values.push(self.values.len() - 1);
        let result = self.values.len() - 1;
        let op = Node { pattern, def, side, written, values, open };
        let table = table(&op);
        self.ops.push((op, table));
        result
    }

    fn keep(&mut self, var: usize, kinds: impl Fn(usize) -> bool) {
        let kept = (0..self.kinds).filter(|kind| kinds(*kind)).fold(0, |bits, kind| bits | 1 << kind);
        self.values[var] &= kept;
    }

    /// Describes the first op one of whose values has no possible kind left.
    fn empty(mut self, rule: &Rule, what: &str, name: &dyn Fn(usize) -> String) -> Option<(usize, String)> {
        let names = Names::new(rule);
        loop {
            let before = self.values.clone();
            for (a, b) in self.same.clone() {
                let both = self.values[a] & self.values[b];
                (self.values[a], self.values[b]) = (both, both);
            }
            for (op, table) in &self.ops {
                let Some(table) = table else { continue };
                let was: Vec<u32> = op.values.iter().map(|value| self.values[*value]).collect();
                let mut left = vec![0; was.len()];
                for (operands, result) in table {
                    let kinds = || operands.iter().chain([result]);
                    if kinds().zip(&was).all(|(kind, was)| was >> kind & 1 == 1) {
                        kinds().zip(&mut left).for_each(|(kind, left)| *left |= 1 << kind);
                    }
                }
                for (value, left) in op.values.iter().zip(&left) {
                    self.values[*value] &= left;
                }
                if left.contains(&0) {
                    let Pattern::Op { children, .. } = op.pattern else { continue };
                    let shown = |(child, bits): (&Pattern, &u32)| {
                        let kinds = (0..self.kinds).filter(|kind| bits >> kind & 1 == 1).map(name);
                        let kinds = match bits.count_ones() as usize {
                            count if count == self.kinds => "any".to_owned(),
                            _ => kinds.collect::<Vec<_>>().join(" or "),
                        };
                        format!("`{}`: {kinds}", names.pattern(child))
                    };
                    let mut parts: Vec<String> = children.iter().zip(&was).map(shown).collect();
                    // The result is worth mentioning only if its kinds are restricted.
                    let result = was.last().filter(|bits| bits.count_ones() as usize != self.kinds);
                    parts.extend(result.map(|bits| shown((op.pattern, bits))));
                    let joined = parts.join(", ");
                    return Some((
                        op.side,
                        format!("`{}` joins no values of these {what}: {joined}", op.def.name),
                    ));
                }
            }
            if self.values == before {
                return None;
            }
        }
    }
}

/// Applies what a guard demands of variables.
fn demand(guard: &Expr, element: &mut Domain<'_>, rank: &mut Domain<'_>) {
    let Expr::Call(function, arguments) = guard else { return };
    let number = |at: usize| match arguments.get(at) {
        Some(Expr::Literal(Attr::Int(value))) => usize::try_from(*value).ok(),
        _ => None,
    };
    let Some(Expr::Operand(var)) = arguments.first() else {
        if let ("equal", [Expr::Call(inner, of), _]) = (function.name, &arguments[..])
            && let ("rank-of", [Expr::Operand(var)], Some(wanted)) = (inner.name, &of[..], number(1))
            && wanted < RANKS
        {
            rank.keep(var.0, |rank| rank == wanted);
        }
        return;
    };
    match (function.name, arguments.get(1)) {
        ("is-f32", _) => element.keep(var.0, |at| DTYPES[at] == DType::F32),
        ("is-f32-or-bf16", _) => {
            element.keep(var.0, |at| matches!(DTYPES[at], DType::F32 | DType::BF16));
        }
        ("is-f32-or-16-bit", _) => {
            element.keep(var.0, |at| matches!(DTYPES[at], DType::F32 | DType::F16 | DType::BF16));
        }
        // Of the types that are not tried, nothing is known.
        ("is-dtype", Some(Expr::Literal(Attr::DType(dtype)))) if DTYPES.contains(dtype) => {
            element.keep(var.0, |at| DTYPES[at] == *dtype);
        }
        ("same-type", Some(Expr::Operand(other))) => {
            element.same.push((var.0, other.0));
            rank.same.push((var.0, other.0));
        }
        ("same-shape", Some(Expr::Operand(other))) => rank.same.push((var.0, other.0)),
        ("rank", _) => {
            if let Some(wanted) = number(1).filter(|wanted| *wanted < RANKS) {
                rank.keep(var.0, |rank| rank == wanted);
            }
        }
        ("min-rank", _) => {
            if let Some(least) = number(1).filter(|least| *least < RANKS) {
                rank.keep(var.0, |rank| rank >= least);
            }
        }
        ("shape-is", Some(Expr::Literal(Attr::Ints(shape)))) if shape.len() < RANKS => {
            rank.keep(var.0, |rank| rank == shape.len());
        }
        _ => {}
    }
}
