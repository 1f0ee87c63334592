//! Applies a rule of the table of derivatives to a node.

use super::builder::Builder;
use super::elementwise;
use super::error::TrainError;
use super::table::{Entry, Table};
use ovolo::attr::{Attr, Attrs};
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::rule::print::Names;
use ovolo::rule::{
    self, AttrPattern, AttrVar, Bindings, Expr, Fact, OperandVar, Pattern, RestVar, Rule, Template, Value,
};

/// Returns the gradient with respect to one operand of a node, given the gradient with respect to the node.
///
/// # Errors
/// The table has no rule for the operand, or each of them refuses; a rule gives a gradient of another type.
pub(crate) fn gradient(
    table: &Table,
    builder: &mut Builder<'_>,
    node: &Node,
    operand: usize,
    above: NodeId,
) -> Result<NodeId, TrainError> {
    let mut refusals = Vec::new();
    for entry in table.entries(node.op.name) {
        let names = Names::new(&entry.rule);
        let Some(mut bound) = Bound::new(entry, node, operand, above) else { continue };
        let made =
            bound.admit(builder.graph(), &names).and_then(|()| bound.attributes(builder.graph(), &names));
        if let Err(why) = made {
            refusals.push(format!("rule `{}`: {why}", entry.rule.name));
            continue;
        }
        let by = &builder.graph()[node.inputs[operand]];
        let (wanted, by) = (by.ty.clone(), by.name.to_string());
        let name = format!("d.{by}");
        bound.whole.clone_from(&name);
        let result = bound.instantiate(&entry.rule.to[0], builder, &name, &names)?;
        let found = builder.graph()[result].ty.clone();
        if found != wanted {
            return Err(TrainError::Type {
                rule: entry.rule.name.clone(),
                node: by,
                wanted: Box::new(wanted),
                found: Box::new(found),
            });
        }
        return Ok(result);
    }
    let why = match refusals.is_empty() {
        true => "the table has no rule for it".to_owned(),
        false => refusals.join("; "),
    };
    Err(TrainError::NoDerivative { node: node.name.to_string(), op: node.op.name, operand, why })
}

/// Builds the right side of a rule whose left side is an op of these values, such as that of a loss.
///
/// # Errors
/// The error that `unfit` makes of the reason of a guard, or of an attribute that cannot be computed; an op cannot be
/// applied.
pub(crate) fn build(
    rule: &Rule,
    builder: &mut Builder<'_>,
    operands: &[NodeId],
    name: &str,
    unfit: impl FnOnce(String) -> TrainError,
) -> Result<NodeId, TrainError> {
    let names = Names::new(rule);
    let mut bound = Bound::empty(rule);
    name.clone_into(&mut bound.whole);
    let children = rule.from.iter().flat_map(|pattern| match pattern {
        Pattern::Op { children, .. } => &children[..],
        _ => &[],
    });
    for (child, operand) in children.zip(operands) {
        if let Pattern::Operand(var) = child {
            bound.operands[var.0] = Some(*operand);
        }
    }
    let made = bound.admit(builder.graph(), &names).and_then(|()| bound.attributes(builder.graph(), &names));
    made.map_err(unfit)?;
    bound.instantiate(&rule.to[0], builder, name, &names)
}

/// What the variables of a rule stand for.
struct Bound<'r> {
    rule: &'r Rule,
    /// The name of what is built.
    whole: String,
    operands: Vec<Option<NodeId>>,
    rests: Vec<Option<Vec<NodeId>>>,
    attrs: Vec<Option<Attr>>,
    rest_attrs: Vec<Vec<(&'static str, Attr)>>,
}

impl<'r> Bound<'r> {
    fn empty(rule: &'r Rule) -> Self {
        Self {
            rule,
            whole: String::new(),
            operands: vec![None; rule.operand_vars.len()],
            rests: vec![None; rule.rest_vars.len()],
            attrs: vec![None; rule.attr_vars.len()],
            rest_attrs: vec![Vec::new(); rule.rest_attr_vars.len()],
        }
    }

    /// Matches the left side with a node, such that its operand is this one; `None` if the rule is for another operand, or
    /// for other attributes.
    fn new(entry: &'r Entry, node: &Node, operand: usize, above: NodeId) -> Option<Self> {
        let rule = &*entry.rule;
        let mut bound = Self::empty(rule);
        let Some(Pattern::Op { children: parts, .. }) = rule.from.first() else { return None };
        let Some(Pattern::Operand(gradient)) = parts.get(2) else { return None };
        bound.operands[gradient.0] = Some(above);
        let Pattern::Op { children, attrs, rest_attrs, .. } = entry.pattern() else { return None };
        bound.list(&children[..entry.place], &node.inputs[..operand])?;
        bound.list(&children[entry.place..=entry.place], &node.inputs[operand..=operand])?;
        bound.list(&children[entry.place + 1..], &node.inputs[operand + 1..])?;
        for (name, pattern) in attrs {
            let value = node.attrs.get(name)?;
            match pattern {
                AttrPattern::Literal(wanted) if wanted != value => return None,
                AttrPattern::Literal(_) => {}
                AttrPattern::Var(var) => match &bound.attrs[var.0] {
                    Some(before) if before != value => return None,
                    _ => bound.attrs[var.0] = Some(value.clone()),
                },
            }
        }
        if let Some(var) = rest_attrs {
            let named = |name: &str| attrs.iter().any(|(known, _)| *known == name);
            let others = node.attrs.iter().filter(|(name, _)| !named(name));
            bound.rest_attrs[var.0] = others.map(|(name, value)| (name, value.clone())).collect();
        }
        Some(bound)
    }

    /// Binds the variables of a list of operands, one of which may stand for any number.
    fn list(&mut self, patterns: &[Pattern], inputs: &[NodeId]) -> Option<()> {
        let spread = patterns.iter().position(|pattern| pattern.spread().is_some());
        let slack = inputs.len().checked_sub(patterns.len() - usize::from(spread.is_some()))?;
        if spread.is_none() && slack > 0 {
            return None;
        }
        let mut inputs = inputs.iter().copied();
        for pattern in patterns {
            match pattern {
                Pattern::Operand(var) => self.operands[var.0] = Some(inputs.next()?),
                Pattern::Rest(var) => self.rests[var.0] = Some(inputs.by_ref().take(slack).collect()),
                Pattern::Optional(var) if slack <= 1 => {
                    self.rests[var.0] = Some(inputs.by_ref().take(slack).collect());
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Asks the guards.
    fn admit(&self, graph: &Graph, names: &Names) -> Result<(), String> {
        let facts = Facts { bound: self, graph, names };
        self.rule.guards.iter().try_for_each(|guard| rule::ask(guard, &facts).map_err(|why| why.to_string()))
    }

    /// Computes the attributes of `let`.
    fn attributes(&mut self, graph: &Graph, names: &Names) -> Result<(), String> {
        for (var, expr) in &self.rule.lets {
            self.attrs[var.0] = Some(attribute(expr, &Facts { bound: self, graph, names })?);
        }
        Ok(())
    }

    /// Builds a part of a right side. The names of parts end with their ops.
    fn part(
        &mut self,
        template: &Template,
        builder: &mut Builder<'_>,
        name: &str,
        names: &Names,
    ) -> Result<NodeId, TrainError> {
        match template {
            Template::Op { op, .. } => {
                let name = format!("{}.{}", self.whole, op.name);
                self.instantiate(template, builder, &name, names)
            }
            _ => self.instantiate(template, builder, name, names),
        }
    }

    fn instantiate(
        &mut self,
        template: &Template,
        builder: &mut Builder<'_>,
        name: &str,
        names: &Names,
    ) -> Result<NodeId, TrainError> {
        let refused = |op: &'static str, why: String| TrainError::Op { what: name.to_owned(), op, why };
        let (op, children, written, rest_attrs) = match template {
            Template::Operand(var) => {
                let bound = self.operands[var.0];
                return bound.ok_or_else(|| refused("?", "a variable is not bound".to_owned()));
            }
            Template::Scalar(value) => return Ok(builder.number(*value)),
            Template::Each(..) => {
                return Err(refused("?", "a rest stands in the place of one operand".to_owned()));
            }
            Template::Op { op, children, attrs, rest_attrs } => (*op, children, attrs, rest_attrs),
        };
        let mut inputs = Vec::with_capacity(children.len());
        for child in children {
            let Template::Each(var, inner) = child else {
                inputs.push(self.part(child, builder, name, names)?);
                continue;
            };
            let items = self.rests[var.0].clone().unwrap_or_default();
            let Some((item, inner)) = inner else {
                inputs.extend(items);
                continue;
            };
            let before = self.operands[item.0];
            for one in items {
                self.operands[item.0] = Some(one);
                inputs.push(self.part(inner, builder, name, names)?);
            }
            self.operands[item.0] = before;
        }
        let mut attrs = Attrs::new();
        for (name, value) in rest_attrs.iter().flat_map(|var| &self.rest_attrs[var.0]) {
            if let Some(def) = op.attr(name) {
                attrs.set(def.name, value.clone());
            }
        }
        for (attr, expr) in written {
            let facts = Facts { bound: self, graph: builder.graph(), names };
            attrs.set(attr, attribute(expr, &facts).map_err(|why| refused(op.name, why))?);
        }
        // The backends of processors have no kernel for it.
        if op == "grad" {
            return elementwise::expand(builder, name, &op.complete(attrs), &inputs);
        }
        builder.op(name, op, attrs, inputs)
    }
}

fn attribute(expr: &Expr, facts: &Facts<'_, '_>) -> Result<Attr, String> {
    match rule::eval(expr, facts) {
        Ok(Value::Attr(attr)) => Ok(attr),
        Ok(Value::Operand(_) | Value::Rest(_)) => {
            Err("an operand stands in the place of an attribute".to_owned())
        }
        Err(why) => Err(why.to_string()),
    }
}

/// The facts about what the variables stand for.
struct Facts<'f, 'r> {
    bound: &'f Bound<'r>,
    graph: &'f Graph,
    names: &'f Names,
}

impl Facts<'_, '_> {
    fn fact(&self, id: NodeId) -> Fact<'_> {
        let value = self.graph.constant(id);
        Fact {
            ty: &self.graph[id].ty,
            constant: value.is_some(),
            value: value.filter(|value| value.ty().shape.count() <= Fact::SMALL),
            leaf: value,
            sources: value.map(std::slice::from_ref).unwrap_or_default(),
            root: false,
        }
    }
}

impl Bindings for Facts<'_, '_> {
    fn operand(&self, var: OperandVar) -> Option<Fact<'_>> {
        self.bound.operands[var.0].map(|id| self.fact(id))
    }

    fn rest(&self, var: RestVar) -> Option<Vec<Fact<'_>>> {
        self.bound.rests[var.0].as_ref().map(|all| all.iter().map(|id| self.fact(*id)).collect())
    }

    fn attr(&self, var: AttrVar) -> Option<Attr> {
        self.bound.attrs[var.0].clone()
    }

    fn written(&self, expr: &Expr) -> Option<String> {
        Some(self.names.expr(expr))
    }
}
