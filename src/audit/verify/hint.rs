//! What a rule's guards demand of its variables, read off them, so that instances are found at once.
//!
//! A hint only proposes: the guards themselves decide on every instance. What no hint says is left
//! to chance.

use super::draft::{Draft, LARGEST};
use super::palette::Palette;
use super::rng::Rng;
use crate::attr::{Attr, Float};
use crate::rule::{self, Expr, Rule, Value};
use crate::tensor::{DType, TensorType};

/// The hints of one operand variable.
#[derive(Clone, Debug, Default)]
struct Operand {
    dtype: Option<DType>,
    constant: Option<bool>,
    one: bool,
    rank: Option<usize>,
    splat: Option<f64>,
    /// Expressions that its shape equals.
    shapes: Vec<Expr>,
    /// Operand variables whose type it has.
    same: Vec<usize>,
    /// Sizes of axes, which count from the end where they are negative.
    sizes: Vec<(i64, usize)>,
}

/// Guards and functions whose numbers are compared with sizes and attributes, or make such numbers.
const COMPARING: &[&str] =
    &["equal", "not-equal", "less", "at-most", "divisible", "add", "sub", "mul", "div", "max-of"];

/// The numbers that the rule's guards name, and what is next to them.
pub(super) fn wishes(rule: &Rule) -> Vec<usize> {
    fn named(expr: &Expr, found: &mut Vec<usize>) {
        let Expr::Call(function, arguments) = expr else { return };
        for argument in arguments {
            match argument {
                Expr::Literal(Attr::Int(value)) if COMPARING.contains(&function.name) => {
                    found.extend(usize::try_from(*value).ok().filter(|value| *value <= LARGEST));
                }
                _ => named(argument, found),
            }
        }
    }
    let mut numbers = Vec::new();
    rule.guards.iter().for_each(|guard| named(&guard.expr, &mut numbers));
    let mut wishes: Vec<usize> = numbers
        .iter()
        .flat_map(|number| [number.saturating_sub(1), *number, number + 1, 2 * number])
        .collect();
    wishes.retain(|wish| *wish > 0);
    wishes.sort_unstable();
    wishes.dedup();
    wishes
}

/// The hints of a rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    operands: Vec<Operand>,
    rests: Vec<Operand>,
    /// Expressions that attribute variables equal.
    attrs: Vec<Vec<Expr>>,
}

impl Hints {
    /// Reads the guards that must hold.
    pub fn new(rule: &Rule) -> Self {
        let mut hints = Self {
            operands: vec![Operand::default(); rule.operand_vars.len()],
            rests: vec![Operand::default(); rule.rest_vars.len()],
            attrs: vec![Vec::new(); rule.attr_vars.len()],
        };
        for guard in &rule.guards {
            hints.read(&guard.expr);
        }
        hints
    }

    fn read(&mut self, guard: &Expr) {
        let Expr::Call(function, arguments) = guard else { return };
        let second = || arguments.get(1);
        let literal = |at: usize| match arguments.get(at) {
            Some(Expr::Literal(attr)) => Some(attr),
            _ => None,
        };
        if let Some(Expr::Rest(var) | Expr::Optional(var)) = arguments.first() {
            let rest = &mut self.rests[var.0];
            match (function.name, literal(1)) {
                ("all-f32" | "is-f32", _) => rest.dtype = Some(DType::F32),
                ("all-rank" | "rank", Some(Attr::Int(rank))) => rest.rank = usize::try_from(*rank).ok(),
                _ => {}
            }
            return;
        }
        if let ("not", Some(Expr::Call(inner, of))) = (function.name, arguments.first()) {
            if let ("const", Some(Expr::Operand(var))) = (inner.name, of.first()) {
                self.operands[var.0].constant = Some(false);
            }
            return;
        }
        if function.name == "equal" {
            if let [left, right] = &arguments[..] {
                self.equation(left, right);
                self.equation(right, left);
            }
            return;
        }
        let Some(Expr::Operand(var)) = arguments.first() else { return };
        if let ("same-type" | "same-shape", Some(Expr::Operand(other))) = (function.name, second()) {
            self.operands[var.0].same.push(other.0);
            self.operands[other.0].same.push(var.0);
        }
        let operand = &mut self.operands[var.0];
        match (function.name, literal(1)) {
            ("is-f32", _) => operand.dtype = Some(DType::F32),
            ("const", _) => operand.constant = Some(true),
            ("scalar", _) => operand.one = true,
            ("is-dtype", Some(Attr::DType(dtype))) => operand.dtype = Some(*dtype),
            ("rank", Some(Attr::Int(rank))) => operand.rank = usize::try_from(*rank).ok(),
            // As many as are drawn anyway need no hint.
            ("min-rank", Some(Attr::Int(rank))) if *rank > 4 => operand.rank = usize::try_from(*rank).ok(),
            ("value-is", Some(value)) => {
                operand.constant = Some(true);
                operand.splat = match value {
                    Attr::Float(Float(value)) => Some(*value),
                    #[allow(clippy::cast_precision_loss)]
                    Attr::Int(value) => Some(*value as f64),
                    _ => None,
                };
            }
            _ => {}
        }
        if let ("shape-is", Some(shape)) = (function.name, second()) {
            self.operands[var.0].shapes.push(shape.clone());
        }
    }

    fn equation(&mut self, left: &Expr, right: &Expr) {
        match left {
            Expr::Attr(var) => self.attrs[var.0].push(right.clone()),
            Expr::Call(function, of) => {
                let Some(Expr::Operand(var)) = of.first() else { return };
                let operand = &mut self.operands[var.0];
                match (function.name, of.get(1), right) {
                    ("shape-of", ..) => operand.shapes.push(right.clone()),
                    ("rank-of", _, Expr::Literal(Attr::Int(rank))) => {
                        operand.rank = usize::try_from(*rank).ok()
                    }
                    ("dim", Some(Expr::Literal(Attr::Int(axis))), Expr::Literal(Attr::Int(size))) => {
                        operand.sizes.extend(usize::try_from(*size).ok().map(|size| (*axis, size)));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Whether some operand must be of `f32`: then all mostly are.
    pub fn wants_f32(&self) -> bool {
        self.operands.iter().chain(&self.rests).any(|operand| operand.dtype == Some(DType::F32))
    }

    /// The rank that an operand variable must have.
    pub fn rank(&self, var: usize) -> Option<usize> {
        let operand = &self.operands[var];
        operand.rank.or(if operand.one { None } else { operand.shapes.iter().find_map(literal_rank) })
    }

    /// The value that an attribute variable must have, as far as it can be computed yet.
    pub fn attr(&self, var: usize, draft: &Draft) -> Option<Attr> {
        self.attrs[var].iter().find_map(|expr| computed(expr, draft))
    }

    /// The type, constness and value of a new leaf for a variable, from what was wished for it.
    pub fn operand(
        &self,
        var: usize,
        draft: &Draft,
        wish: &TensorType,
        rng: &mut Rng,
        palette: &Palette,
    ) -> (TensorType, Option<bool>, Option<f64>) {
        let hint = &self.operands[var];
        let mut ty = wish.clone();
        if let Some(at) = hint.same.iter().find_map(|other| draft.operands[*other]) {
            ty = draft.values[at].ty.clone();
        }
        let shape = hint.shapes.iter().find_map(|expr| computed(expr, draft));
        if let Some(Attr::Ints(shape)) = shape {
            let sizes: Option<Vec<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
            ty = TensorType::plain(ty.dtype, sizes.unwrap_or_default());
        } else if hint.one && ty.shape.count() != 1 {
            ty = TensorType::plain(ty.dtype, super::palette::ones(rng, ty.shape.rank()));
        }
        if hint.one && hint.rank.is_none() && hint.shapes.is_empty() && rng.percent(6) {
            // More dimensions than what it meets: these would show in the result.
            let rank = ty.shape.rank().max(wish.shape.rank()) + 1 + rng.below(2);
            ty = TensorType::plain(ty.dtype, vec![1; rank]);
        }
        finish(hint, &mut ty, rng, palette);
        (ty, hint.constant, hint.splat)
    }

    /// The type of one value of a rest, from what was wished for it.
    pub fn rest(&self, var: usize, wish: &TensorType, rng: &mut Rng, palette: &Palette) -> TensorType {
        let mut ty = wish.clone();
        finish(&self.rests[var], &mut ty, rng, palette);
        ty
    }
}

fn finish(hint: &Operand, ty: &mut TensorType, rng: &mut Rng, palette: &Palette) {
    if let Some(rank) = hint.rank.filter(|rank| *rank != ty.shape.rank()) {
        *ty = TensorType::plain(ty.dtype, palette.shape(rng, rank));
    }
    if let Some(dtype) = hint.dtype {
        ty.dtype = dtype;
    }
    for (axis, size) in &hint.sizes {
        let mut shape = ty.shape.to_vec();
        let from_end = axis + if *axis < 0 { i64::try_from(shape.len()).unwrap_or(0) } else { 0 };
        if let Some(place) = usize::try_from(from_end).ok().and_then(|axis| shape.get_mut(axis)) {
            *place = *size;
            ty.shape = shape.into();
        }
    }
}

fn literal_rank(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Literal(Attr::Ints(list)) => Some(list.len()),
        Expr::Call(function, list) if function.name == "list" => Some(list.len()),
        _ => None,
    }
}

fn computed(expr: &Expr, draft: &Draft) -> Option<Attr> {
    match rule::eval(expr, draft) {
        Ok(Value::Attr(attr)) => Some(attr),
        _ => None,
    }
}
