//! Application of a match: checks the guards, computes attributes, and adds the right side.

use super::matcher::{Match, Others};
use super::{EGraph, Operands, Term};
use crate::attr::{Attr, Attrs};
use crate::op::scalar;
use crate::rule::print::Names;
use crate::rule::{self, Expr, Fact, No, OperandVar, RestVar, Rule, Template, Value};
use egg::Id;

/// A match in the form that the expressions of a rule read.
struct Scope<'a> {
    egraph: &'a EGraph,
    found: &'a Match,
    /// The rule, if refusals should quote its expressions.
    rule: Option<&'a Rule>,
}

impl Scope<'_> {
    fn fact(&self, id: Id) -> Fact<'_> {
        let data = &self.egraph.egg[id].data;
        let root =
            self.found.roots.iter().any(|root| self.egraph.egg.find(*root) == self.egraph.egg.find(id));
        Fact {
            ty: &data.ty,
            constant: data.constant,
            value: data.value.as_ref(),
            leaf: data.leaf.as_ref(),
            sources: &data.sources,
            root,
        }
    }
}

impl rule::Bindings for Scope<'_> {
    fn operand(&self, var: OperandVar) -> Option<Fact<'_>> {
        self.found.operands[var.0].map(|id| self.fact(id))
    }

    fn rest(&self, var: RestVar) -> Option<Vec<Fact<'_>>> {
        self.found.rests[var.0].as_ref().map(|ids| ids.iter().map(|id| self.fact(*id)).collect())
    }

    fn attr(&self, var: rule::AttrVar) -> Option<Attr> {
        self.found.attrs[var.0].clone()
    }

    fn written(&self, expr: &Expr) -> Option<String> {
        self.rule.map(|rule| Names::new(rule).expr(expr))
    }
}

impl EGraph {
    /// Checks the guards of a match and computes its attributes.
    ///
    /// # Errors
    /// The first refusal, which quotes the rule's expressions if that is wanted.
    pub(super) fn admit(&self, rule: &Rule, found: &mut Match, quote: bool) -> Result<(), No> {
        for guard in &rule.guards {
            rule::ask(guard, &Scope { egraph: self, found, rule: quote.then_some(rule) })?;
        }
        for (var, expr) in &rule.lets {
            let value = self.attr_value(expr, found)?;
            found.attrs[var.0] = Some(value);
        }
        Ok(())
    }

    fn attr_value(&self, expr: &Expr, found: &Match) -> Result<Attr, No> {
        match rule::eval(expr, &Scope { egraph: self, found, rule: None })? {
            Value::Attr(attr) => Ok(attr),
            Value::Operand(_) | Value::Rest(_) => {
                Err("an operand is in the place of an attribute".to_owned().into())
            }
        }
    }

    /// Adds the right side for a match.
    ///
    /// # Errors
    /// The reason why an op of the right side has no type. Nodes that were added before it stay in the e-graph, where
    /// nothing reads them.
    pub(super) fn instantiate(&mut self, template: &Template, found: &Match) -> Result<Id, String> {
        match template {
            Template::Operand(var) => found.operands[var.0].ok_or_else(|| "an unbound operand".into()),
            Template::Scalar(value) => Ok(self.add_scalar(*value)),
            Template::Each(..) => Err("`each` stands outside an operand list".into()),
            Template::Op { op, children, attrs, rest_attrs } => {
                let mut operands = Operands::with_capacity(children.len());
                for child in children {
                    match child {
                        Template::Each(var, inner) => {
                            let Some(items) = found.rests[var.0].clone() else {
                                return Err("an unbound rest".into());
                            };
                            for item in items.iter().copied() {
                                match inner {
                                    None => operands.push(item),
                                    Some((item_var, inner)) => {
                                        let mut one = found.clone();
                                        one.operands[item_var.0] = Some(item);
                                        operands.push(self.instantiate(inner, &one)?);
                                    }
                                }
                            }
                        }
                        other => operands.push(self.instantiate(other, found)?),
                    }
                }
                let mut values = Attrs::new();
                if let Some(var) = rest_attrs {
                    for (name, value) in found.rest_attrs[var.0].iter().flat_map(Others::iter) {
                        if let Some(def) = op.attr(name) {
                            values.set(def.name, value.clone());
                        }
                    }
                }
                for (name, expr) in attrs {
                    let value = self.attr_value(expr, found).map_err(|no| no.to_string())?;
                    values.set(name, value);
                }
                let attrs = self.pool.share(op.complete(values));
                self.add(Term { op: *op, attrs, children: operands })
            }
        }
    }

    /// Adds a node, if its op accepts the types of its operands.
    fn add(&mut self, term: Term) -> Result<Id, String> {
        if let Some(id) = self.egg.lookup(term.clone()) {
            return Ok(id);
        }
        let types: Vec<_> = term.children.iter().map(|child| self.ty(*child)).collect();
        term.op.check_count(&term.attrs, term.children.len()).map_err(|why| why.to_string())?;
        let ty = term
            .op
            .result(&term.attrs, &types)
            .map_err(|why| format!("`{}` cannot be typed: {why}", term.op))?;
        if let Some(why) = crate::tensor::size_error(&ty) {
            return Err(why);
        }
        self.egg.analysis.expect(ty);
        Ok(self.egg.add(term))
    }

    fn add_scalar(&mut self, value: f64) -> Id {
        let attrs = Attrs::new().float("value", value);
        self.egg.add(Term { op: scalar(), attrs: self.pool.share(attrs), children: Operands::new() })
    }
}
