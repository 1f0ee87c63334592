//! Finds guards of one rule that contradict each other.
//!
//! Each guard is read as a statement about the order of expressions: `less(a, b)` is `a < b`, `rank(?x, 2)`
//! is `rank-of(?x) = 2`, and literals are ordered among themselves. If it follows that an expression is less
//! than itself, or that two different literals are equal, then nothing satisfies the guards. A guard that
//! cannot be read this way is assumed to be satisfiable.

use ovolo::attr::{Attr, Float};
use ovolo::rule::print::Names;
use ovolo::rule::{Expr, Rule};
use ovolo::tensor::{DType, Layout};
use std::collections::BTreeMap;

/// Returns the positions of guards that contradict each other: of two, if two are enough.
pub(super) fn contradiction(rule: &Rule) -> Option<Vec<usize>> {
    let names = Names::new(rule);
    let all: Vec<Vec<Claim>> = rule.guards.iter().map(|guard| claims(&guard.expr, &names)).collect();
    let contradict = |guards: &[usize]| {
        Order::new(&guards.iter().flat_map(|at| &all[*at]).collect::<Vec<_>>()).is_broken()
    };
    let every: Vec<usize> = (0..all.len()).collect();
    if !contradict(&every) {
        return None;
    }
    let pairs = every.iter().flat_map(|second| (0..=*second).map(move |first| (first, *second)));
    let two = pairs.map(|(first, second)| if first == second { vec![first] } else { vec![first, second] });
    Some(two.into_iter().find(|two| contradict(two)).unwrap_or(every))
}

/// An expression that a guard compares.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// An expression that is not a literal, by its text.
    Expr(String),
    Literal(Attr),
}

/// A statement that a guard makes.
#[derive(Clone, Debug)]
enum Claim {
    /// The first is at most the second; with `true`, less than it.
    Below(Term, Term, bool),
    Differ(Term, Term),
    /// The integer divides the term.
    Divides(i64, Term),
    /// The guard with this text holds, or does not.
    Holds(String, bool),
}

fn claims(guard: &Expr, names: &Names) -> Vec<Claim> {
    let Expr::Call(function, arguments) = guard else { return Vec::new() };
    // A guard on an optional operand is not evaluated when the operand is absent.
    if names_optional(guard) {
        return Vec::new();
    }
    let mut claims = vec![Claim::Holds(names.expr(guard), true)];
    match (function.name, &arguments[..]) {
        ("not", [inner]) => {
            claims.push(Claim::Holds(names.expr(inner), false));
            return claims;
        }
        ("any", _) => return claims,
        _ => {}
    }
    let term = |expr: &Expr| match expr {
        Expr::Literal(value) => Term::Literal(value.clone()),
        other => Term::Expr(names.expr(other)),
    };
    let of = |what: &str, expr: &Expr| Term::Expr(format!("{what}({})", names.expr(expr)));
    let mut equal = |a: Term, b: Term| {
        claims.push(Claim::Below(a.clone(), b.clone(), false));
        claims.push(Claim::Below(b, a, false));
    };
    let rank = |list: &Expr| match list {
        Expr::Literal(Attr::Ints(list)) => {
            i64::try_from(list.len()).ok().map(|rank| Term::Literal(Attr::Int(rank)))
        }
        _ => None,
    };
    match (function.name, &arguments[..]) {
        ("equal", [a, b]) => {
            equal(term(a), term(b));
            for (shape, list) in [(a, b), (b, a)] {
                if let (Expr::Call(function, of_shape), Some(rank)) = (shape, rank(list))
                    && let ("shape-of", [operand]) = (function.name, &of_shape[..])
                {
                    equal(of("rank-of", operand), rank);
                }
            }
        }
        ("shape-is", [x, list]) => {
            equal(of("shape-of", x), term(list));
            rank(list).into_iter().for_each(|rank| equal(of("rank-of", x), rank));
        }
        ("rank", [x, rank]) => equal(of("rank-of", x), term(rank)),
        ("is-f32", [x]) => equal(of("dtype-of", x), Term::Literal(Attr::DType(DType::F32))),
        ("is-dtype", [x, dtype]) => equal(of("dtype-of", x), term(dtype)),
        ("plain", [x]) => equal(of("layout-of", x), Term::Literal(Attr::Layout(Layout::PLAIN))),
        ("layout-is", [x, layout]) => equal(of("layout-of", x), term(layout)),
        ("less", [a, b]) => claims.push(Claim::Below(term(a), term(b), true)),
        ("at-most", [a, b]) => claims.push(Claim::Below(term(a), term(b), false)),
        ("min-rank", [x, rank]) => claims.push(Claim::Below(term(rank), of("rank-of", x), false)),
        ("not-equal", [a, b]) => claims.push(Claim::Differ(term(a), term(b))),
        ("divisible", [a, Expr::Literal(Attr::Int(by))]) => claims.push(Claim::Divides(*by, term(a))),
        _ => {}
    }
    arguments.iter().for_each(|argument| axes(argument, names, &mut claims));
    claims
}

/// Adds the claim that an axis in an expression is below the rank.
fn axes(expr: &Expr, names: &Names, claims: &mut Vec<Claim>) {
    let Expr::Call(function, arguments) = expr else { return };
    if let ("dim", [operand, Expr::Literal(Attr::Int(axis))]) = (function.name, &arguments[..]) {
        let rank = Term::Expr(format!("rank-of({})", names.expr(operand)));
        let least = if *axis < 0 { axis.saturating_neg() } else { axis.saturating_add(1) };
        claims.push(Claim::Below(Term::Literal(Attr::Int(least)), rank, false));
    }
    arguments.iter().for_each(|argument| axes(argument, names, claims));
}

fn names_optional(expr: &Expr) -> bool {
    match expr {
        Expr::Optional(_) => true,
        Expr::Call(_, arguments) => arguments.iter().any(names_optional),
        _ => false,
    }
}

/// What is known about the order of two terms.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Known {
    Nothing,
    /// The first is at most the second.
    AtMost,
    Below,
}

/// The order of some terms, closed under transitivity.
struct Order<'a> {
    claims: &'a [&'a Claim],
    terms: Vec<Term>,
    known: Vec<Vec<Known>>,
}

impl<'a> Order<'a> {
    fn new(claims: &'a [&'a Claim]) -> Self {
        let mut order = Self { claims, terms: Vec::new(), known: Vec::new() };
        for claim in claims {
            match claim {
                Claim::Below(a, b, _) | Claim::Differ(a, b) => {
                    order.place(a);
                    order.place(b);
                }
                Claim::Divides(_, a) => drop(order.place(a)),
                Claim::Holds(..) => {}
            }
        }
        let count = order.terms.len();
        order.known = vec![vec![Known::Nothing; count]; count];
        for a in 0..count {
            for b in 0..count {
                order.known[a][b] = match (number(&order.terms[a]), number(&order.terms[b])) {
                    (Some(one), Some(other)) if one < other => Known::Below,
                    (Some(one), Some(other)) if one == other => Known::AtMost,
                    _ if a == b => Known::AtMost,
                    _ => Known::Nothing,
                };
            }
        }
        for claim in claims {
            if let Claim::Below(a, b, strictly) = claim {
                let (a, b) = (order.place(a), order.place(b));
                order.learn(a, b, if *strictly { Known::Below } else { Known::AtMost });
            }
        }
        for middle in 0..count {
            for a in 0..count {
                for b in 0..count {
                    let (one, other) = (order.known[a][middle], order.known[middle][b]);
                    if one != Known::Nothing && other != Known::Nothing {
                        order.learn(a, b, if one > other { one } else { other });
                    }
                }
            }
        }
        order
    }

    fn place(&mut self, term: &Term) -> usize {
        self.terms.iter().position(|known| known == term).unwrap_or_else(|| {
            self.terms.push(term.clone());
            self.terms.len() - 1
        })
    }

    fn learn(&mut self, a: usize, b: usize, known: Known) {
        if known > self.known[a][b] {
            self.known[a][b] = known;
        }
    }

    fn same(&self, a: usize, b: usize) -> bool {
        self.known[a][b] != Known::Nothing && self.known[b][a] != Known::Nothing
    }

    fn at(&self, term: &Term) -> Option<usize> {
        self.terms.iter().position(|known| known == term)
    }

    /// Whether the claims contradict each other.
    fn is_broken(&self) -> bool {
        let count = self.terms.len();
        let below_itself = (0..count).any(|at| self.known[at][at] == Known::Below);
        let literal = |at: usize| matches!(self.terms[at], Term::Literal(_));
        let alike = |a: usize, b: usize| match (number(&self.terms[a]), number(&self.terms[b])) {
            (None, None) => self.terms[a] == self.terms[b],
            (one, other) => one == other,
        };
        let unlike = |a: usize, b: usize| literal(a) && literal(b) && !alike(a, b);
        let two_are_one = (0..count)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .any(|(a, b)| unlike(a, b) && self.same(a, b));
        let mut said: BTreeMap<&str, bool> = BTreeMap::new();
        let denied = self.claims.iter().any(|claim| match claim {
            Claim::Holds(text, yes) => said.insert(text, *yes).is_some_and(|before| before != *yes),
            Claim::Differ(a, b) => match (self.at(a), self.at(b)) {
                (Some(a), Some(b)) => self.same(a, b),
                _ => false,
            },
            Claim::Divides(by, a) => self.at(a).is_some_and(|a| {
                let is = |b: usize| match &self.terms[b] {
                    Term::Literal(Attr::Int(value)) if self.same(a, b) => Some(*value),
                    _ => None,
                };
                (0..count).filter_map(is).any(|value| value.checked_rem(*by) != Some(0))
            }),
            Claim::Below(..) => false,
        });
        below_itself || two_are_one || denied
    }
}

/// The value of a term that is a numeric literal.
#[allow(clippy::cast_precision_loss)]
fn number(term: &Term) -> Option<f64> {
    match term {
        Term::Literal(Attr::Int(value)) => Some(*value as f64),
        Term::Literal(Attr::Float(Float(value))) => Some(*value),
        _ => None,
    }
}
