//! Reads the demands that a rule's guards make on its variables, so that instances are found quickly.
//!
//! A hint only proposes: the guards themselves decide about every instance. Whatever no hint covers is
//! random.

use super::draft::Draft;
use super::palette::{LARGEST, Palette};
use super::rng::Rng;
use super::sampler::Rank;
use ovolo::attr::{Attr, Float};
use ovolo::rule::{self, Expr, Rule, Template, Value};
use ovolo::tensor::{DType, Layout, TensorType};

const F32_OR_BF16: &[DType] = &[DType::F32, DType::F32, DType::BF16];
const F32_OR_16_BIT: &[DType] = &[DType::F32, DType::F32, DType::F16, DType::BF16];

/// The hints of one operand variable.
#[derive(Clone, Debug, Default)]
struct Operand {
    dtype: Option<DType>,
    /// Types that it may have; a repeated one is drawn more often.
    among: Option<&'static [DType]>,
    constant: Option<bool>,
    one: bool,
    rank: Option<Rank>,
    layout: Option<Layout>,
    splat: Option<f64>,
    /// The layout of which it has few blocks that hold anything but zeros.
    blocks: Option<Layout>,
    /// Expressions that its shape must equal.
    shapes: Vec<Expr>,
    /// Operand variables whose type it has.
    same: Vec<usize>,
    /// Sizes of axes; negative axes count from the end.
    sizes: Vec<(i64, usize)>,
}

impl Operand {
    /// Records what a guard demands of the rank. `None` stands for a negative number, which no rank equals.
    fn known(&mut self, rank: Option<usize>, rank_of: fn(usize) -> Rank) {
        let Some(rank) = rank.map(rank_of) else { return };
        self.rank = Some(self.rank.map_or(rank, |known| known.and(rank)));
    }

    /// What is known about the rank. A layout may determine it.
    fn rank(&self) -> Option<Rank> {
        self.layout.as_ref().and_then(Layout::rank).map(Rank::Exactly).or(self.rank)
    }
}

/// What the rule demands of the values of an operand.
pub(super) enum Known {
    Nothing,
    /// This value everywhere.
    Splat(f64),
    /// Few blocks of this layout that hold anything but zeros.
    Blocks(Layout),
}

/// Guards and functions whose number arguments are compared with sizes and attributes.
const COMPARING: &[&str] =
    &["equal", "not-equal", "less", "at-most", "divisible", "add", "sub", "mul", "div", "max-of"];

/// The numbers in the rule's guards, and their neighbours.
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
    /// Expressions that attribute variables must equal.
    attrs: Vec<Vec<Expr>>,
}

impl Hints {
    /// Reads the guards of a rule.
    pub fn new(rule: &Rule) -> Self {
        let mut hints = Self {
            operands: vec![Operand::default(); rule.operand_vars.len()],
            rests: vec![Operand::default(); rule.rest_vars.len()],
            attrs: vec![Vec::new(); rule.attr_vars.len()],
        };
        for guard in &rule.guards {
            hints.read(&guard.expr);
        }
        rule.lets.iter().for_each(|(_, expr)| hints.stored(expr));
        rule.to.iter().for_each(|right| hints.template(right));
        hints
    }

    /// Reads the computed attributes of a right side.
    fn template(&mut self, right: &Template) {
        match right {
            Template::Op { children, attrs, .. } => {
                attrs.iter().for_each(|(_, expr)| self.stored(expr));
                children.iter().for_each(|child| self.template(child));
            }
            Template::Each(_, Some((_, inner))) => self.template(inner),
            Template::Each(_, None) | Template::Operand(_) | Template::Scalar(_) => {}
        }
    }

    /// Reads a computed attribute: a sparse layout can be that of a constant with few blocks alone.
    fn stored(&mut self, expr: &Expr) {
        let Expr::Call(function, arguments) = expr else { return };
        if let ("stored-layout", [Expr::Operand(var), Expr::Literal(Attr::Layout(layout))]) =
            (function.name, &arguments[..])
        {
            let operand = &mut self.operands[var.0];
            operand.constant = Some(true);
            operand.known(layout.rank(), Rank::Exactly);
            operand.blocks = Some(layout.clone());
        }
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
                ("all-f32-or-bf16" | "is-f32-or-bf16", _) => rest.among = Some(F32_OR_BF16),
                ("all-const", _) => rest.constant = Some(true),
                ("all-rank" | "rank", Some(Attr::Int(rank))) => {
                    rest.known(usize::try_from(*rank).ok(), Rank::Exactly)
                }
                ("min-rank", Some(Attr::Int(rank))) => rest.known(usize::try_from(*rank).ok(), Rank::AtLeast),
                ("layout-is", Some(Attr::Layout(layout))) => rest.layout = Some(layout.clone()),
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
        // For example `less(2, rank-of(?x))` and `at-most(3, rank-of(?x))`.
        if let ("less" | "at-most", Some(Attr::Int(bound)), Some(Expr::Call(inner, of))) =
            (function.name, literal(0), second())
            && let ("rank-of", Some(Expr::Operand(var))) = (inner.name, of.first())
        {
            let least = bound.saturating_add(i64::from(function.name == "less"));
            self.operands[var.0].known(usize::try_from(least).ok(), Rank::AtLeast);
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
            ("is-f32-or-bf16", _) => operand.among = Some(F32_OR_BF16),
            ("is-f32-or-16-bit", _) => operand.among = Some(F32_OR_16_BIT),
            ("const", _) => operand.constant = Some(true),
            ("scalar", _) => operand.one = true,
            ("is-dtype", Some(Attr::DType(dtype))) => operand.dtype = Some(*dtype),
            ("rank", Some(Attr::Int(rank))) => operand.known(usize::try_from(*rank).ok(), Rank::Exactly),
            ("min-rank", Some(Attr::Int(rank))) => operand.known(usize::try_from(*rank).ok(), Rank::AtLeast),
            ("layout-is", Some(Attr::Layout(layout))) => operand.layout = Some(layout.clone()),
            ("plain", _) => operand.layout = Some(Layout::PLAIN),
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
                        operand.known(usize::try_from(*rank).ok(), Rank::Exactly);
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

    /// Draws the element type of most operands: one that some operand must have, or else any.
    pub fn dtype(&self, rng: &mut Rng, palette: &Palette) -> DType {
        let any = |wanted: fn(&Operand) -> bool| self.operands.iter().chain(&self.rests).any(wanted);
        if any(|operand| operand.dtype == Some(DType::F32)) {
            DType::F32
        } else if let Some(list) = self.operands.iter().chain(&self.rests).find_map(|one| one.among) {
            rng.pick(list)
        } else {
            palette.dtype(rng)
        }
    }

    /// What the guards demand of the rank of an operand variable, or of another one with the same type.
    pub fn rank(&self, var: usize) -> Option<Rank> {
        let own = |var: usize| {
            let operand = &self.operands[var];
            let shape = || operand.shapes.iter().find_map(literal_rank).map(Rank::Exactly);
            operand.rank().or_else(|| if operand.one { None } else { shape() })
        };
        own(var).or_else(|| self.operands[var].same.iter().find_map(|other| own(*other)))
    }

    /// The element type that the guards demand of an operand variable.
    pub fn element(&self, var: usize) -> Option<DType> {
        self.operands[var].dtype
    }

    /// What the guards demand of the rank of each value of a rest.
    pub fn rest_rank(&self, var: usize) -> Option<Rank> {
        self.rests[var].rank()
    }

    /// Whether the guards demand that each value of a rest is constant.
    pub fn rest_is_constant(&self, var: usize) -> bool {
        self.rests[var].constant == Some(true)
    }

    /// The value that an attribute variable must have, if it can already be computed.
    pub fn attr(&self, var: usize, draft: &Draft) -> Option<Attr> {
        self.attrs[var].iter().find_map(|expr| computed(expr, draft))
    }

    /// Returns the type of a new leaf for a variable, whether it must be constant, and what is known about its values.
    /// `wish` is the wanted type.
    pub fn operand(
        &self,
        var: usize,
        draft: &Draft,
        wish: &TensorType,
        rng: &mut Rng,
        palette: &Palette,
    ) -> (TensorType, Option<bool>, Known) {
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
            // Sometimes a higher rank than that of the other operand, which shows in the result.
            let rank = ty.shape.rank().max(wish.shape.rank()) + 1 + rng.below(2);
            ty = TensorType::plain(ty.dtype, vec![1; rank]);
        }
        finish(hint, &mut ty, rng, palette);
        let known = match (hint.splat, &hint.blocks) {
            (Some(value), _) => Known::Splat(value),
            (None, Some(layout)) => Known::Blocks(layout.clone()),
            (None, None) => Known::Nothing,
        };
        (ty, hint.constant, known)
    }

    /// The type of one value of a rest; `wish` is the wanted type.
    pub fn rest(&self, var: usize, wish: &TensorType, rng: &mut Rng, palette: &Palette) -> TensorType {
        let mut ty = wish.clone();
        finish(&self.rests[var], &mut ty, rng, palette);
        ty
    }
}

fn finish(hint: &Operand, ty: &mut TensorType, rng: &mut Rng, palette: &Palette) {
    let here = ty.shape.rank();
    match hint.rank() {
        Some(Rank::Exactly(rank)) if rank != here => {
            *ty = TensorType::plain(ty.dtype, palette.shape(rng, rank));
        }
        Some(Rank::AtLeast(least)) if least > here => {
            let rank = palette.rank_from(rng, least);
            *ty = TensorType::plain(ty.dtype, palette.shape(rng, rank));
        }
        _ => {}
    }
    if let Some(layout) = &hint.layout {
        ty.layout = layout.clone();
    }
    if let Some(dtype) = hint.dtype {
        ty.dtype = dtype;
    } else if let Some(list) = hint.among.filter(|list| !list.contains(&ty.dtype)) {
        ty.dtype = rng.pick(list);
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
