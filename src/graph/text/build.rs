//! Builds a graph from statements: names, ops, operands, attributes, types and constants.
//!
//! Takes the statements of [`super::syntax`]. Refuses, each with its place, names that are not defined or are
//! defined twice, unknown ops and attributes, attribute values of the wrong kind, wrong operand counts, types that
//! inference contradicts, and constants that are not given.

use super::constants::{Absent, Constants};
use super::syntax::{Body, GraphText, Literal, RawAttr, Spanned, Statement};
use super::value;
use crate::attr::{Attr, AttrKind, Attrs, Float, Step};
use crate::diagnostic::{Diagnostic, Diagnostics, Span, suggestion};
use crate::graph::{CONST, Graph, INPUT, Node, NodeId};
use crate::op::{Op, Ops, post};
use crate::tensor::{NoLayout, Tensor, TensorType, UnknownDType};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Builds the graph, and adds mistakes to `found`. Refuses values with more than `most` elements. `broken` has the
/// names of values whose lines did not parse.
pub(super) fn build(
    ops: &Ops,
    text: GraphText,
    broken: Vec<String>,
    constants: &Constants<'_>,
    most: usize,
    found: &mut Diagnostics,
) -> Graph {
    let later = text.statements.iter().filter_map(|statement| match statement {
        Statement::Value { name, .. } => Some((name.value.clone(), name.span)),
        Statement::Return { .. } => None,
    });
    let later: FxHashMap<String, Span> = later.collect();
    let names = broken.into_iter().map(|name| (name, Known { span: None, node: None })).collect();
    let mut builder = Builder { ops, graph: Graph::new(), names, later, constants, most, found };
    builder.graph.set_name(&text.name);
    for statement in text.statements {
        builder.statement(statement);
    }
    builder.graph
}

/// A name that was defined. It has no node if its line had a mistake.
struct Known {
    span: Option<Span>,
    node: Option<NodeId>,
}

struct Builder<'a> {
    ops: &'a Ops,
    graph: Graph,
    names: FxHashMap<String, Known>,
    later: FxHashMap<String, Span>,
    constants: &'a Constants<'a>,
    /// The most elements that a value may have.
    most: usize,
    found: &'a mut Diagnostics,
}

impl Builder<'_> {
    fn report(&mut self, message: impl Into<String>, span: Span, label: impl Into<String>) {
        self.found.push(Diagnostic::new(message).label(0, span, label));
    }

    fn statement(&mut self, statement: Statement) {
        match statement {
            Statement::Return { name, value } => {
                if self.graph.outputs().any(|(other, _)| **other == *name.value) {
                    self.report(format!("output `{}` is returned twice", name.value), name.span, "");
                } else if let Some(node) = self.resolve(&value) {
                    self.graph.add_output(&name.value, node);
                }
            }
            Statement::Value { name, ty, op, body } => {
                let node = self.value(&name, ty, &op, body);
                let known = self.names.entry(name.value.clone()).or_insert(Known { span: None, node: None });
                match known.span {
                    Some(first) => {
                        let diagnostic = Diagnostic::new(format!("`{}` is defined twice", name.value));
                        self.found.push(diagnostic.label(0, name.span, "again here").label(
                            0,
                            first,
                            "first here",
                        ));
                    }
                    None => {
                        *known =
                            Known { span: Some(name.span), node: node.map(|node| self.graph.add_node(node)) };
                    }
                }
            }
        }
    }

    /// Returns the node of a name. If there is none, the mistake is reported once, where the name is used or was
    /// defined.
    fn resolve(&mut self, name: &Spanned<String>) -> Option<NodeId> {
        if let Some(known) = self.names.get(&name.value) {
            return known.node;
        }
        let diagnostic = match self.later.get(&name.value) {
            Some(&span) => Diagnostic::new(format!("`{}` is used before its definition", name.value))
                .label(0, name.span, "used here")
                .label(0, span, "defined here")
                .help("operands come before their users"),
            None => {
                let mut close: Vec<&str> = self.names.keys().map(String::as_str).collect();
                close.sort_unstable();
                let diagnostic = Diagnostic::new(format!("`{}` is not defined", name.value)).label(
                    0,
                    name.span,
                    "no value has this name",
                );
                match suggestion(&name.value, close) {
                    Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
                    None => diagnostic
                        .help(format!("define it on a line above, as in `{}: f32[4] = input`", name.value)),
                }
            }
        };
        self.found.push(diagnostic);
        None
    }

    fn value(
        &mut self,
        name: &Spanned<String>,
        ty: Option<Spanned<TensorType>>,
        op: &Spanned<String>,
        body: Body,
    ) -> Option<Node> {
        let leaf = |op: Op, ty| Node {
            op,
            attrs: Arc::default(),
            inputs: Vec::new(),
            name: name.value.as_str().into(),
            ty,
        };
        let (operands, attrs) = match body {
            Body::Call { operands, attrs } => (operands, attrs),
            Body::Input | Body::Const(_) => {
                let Some(ty) = ty else {
                    let help = format!("write it as in `{}: f32[1,64] = {}`", name.value, op.value);
                    let diagnostic = Diagnostic::new(format!("the type of `{}` is missing", name.value));
                    self.found.push(diagnostic.label(0, name.span, "nothing says its type").help(help));
                    return None;
                };
                self.size(&ty.value, ty.span)?;
                let Body::Const(literal) = body else {
                    return Some(leaf(INPUT, ty.value));
                };
                let value = self.constant(name, &ty, &literal)?;
                if self.names.get(&name.value).is_none_or(|known| known.span.is_none()) {
                    self.graph.set_constant(&name.value, value);
                }
                return Some(leaf(CONST, ty.value));
            }
        };
        let inputs: Vec<Option<NodeId>> = operands.iter().map(|operand| self.resolve(operand)).collect();
        let Some(def) = self.ops.get(&op.value) else {
            let names = self.ops.names().into_iter().chain([INPUT.name, CONST.name]);
            let diagnostic = Diagnostic::new(format!("unknown op `{}`", op.value));
            self.found.push(diagnostic.label(0, op.span, "no op has this name").suggest(&op.value, names));
            return None;
        };
        let attrs = self.attrs(def, op, &attrs)?;
        if let Err(takes) = def.check_count(&attrs, operands.len()) {
            let whole = operands.iter().fold(op.span, |span, operand| span.to(operand.span));
            self.report(takes.to_string(), whole, "");
            return None;
        }
        let inputs = inputs.into_iter().collect::<Option<Vec<NodeId>>>()?;
        let types: Vec<&TensorType> = inputs.iter().map(|&input| &self.graph[input].ty).collect();
        let inferred = def.result(&attrs, &types).map_err(|why| why.to_string());
        let inferred = inferred.and_then(|ty| crate::tensor::size_error(&ty).map_or(Ok(ty), Err));
        let inferred = match inferred {
            Ok(inferred) => inferred,
            Err(message) => {
                let mut diagnostic =
                    Diagnostic::new(format!("`{}` does not fit its operands: {message}", def.name))
                        .label(0, op.span, "");
                for (operand, ty) in operands.iter().zip(types) {
                    diagnostic = diagnostic.label(0, operand.span, ty.to_string());
                }
                self.found.push(diagnostic);
                return None;
            }
        };
        self.size(&inferred, op.span)?;
        if let Some(written) = ty.filter(|written| written.value != inferred) {
            let message = format!("`{}` has another type than is written", name.value);
            self.report(message, written.span, format!("inferred: {inferred}"));
        }
        Some(Node { op: def, attrs: Arc::new(attrs), inputs, name: name.value.as_str().into(), ty: inferred })
    }

    /// Refuses a value with too many elements.
    fn size(&mut self, ty: &TensorType, span: Span) -> Option<()> {
        let elements =
            crate::tensor::size_error(ty).map_or_else(|| ty.layout.padded_count(&ty.shape), |_| usize::MAX);
        if self.most < usize::MAX && elements > self.most {
            let message = format!("a value of type {ty} has more than {} elements", self.most);
            self.report(message, span, "too large here");
            return None;
        }
        Some(())
    }

    fn constant(
        &mut self,
        name: &Spanned<String>,
        ty: &Spanned<TensorType>,
        literal: &Spanned<Literal>,
    ) -> Option<Tensor> {
        match value::read(&literal.value, &ty.value) {
            Ok(Some(tensor)) => return Some(tensor),
            Ok(None) => {}
            Err(errors) => {
                for (span, message) in errors {
                    self.report(message, if span == Span::default() { literal.span } else { span }, "");
                }
                return None;
            }
        }
        let Literal::Hash(hash) = &literal.value else {
            unreachable!("only a hash stands for a value that is not in the text")
        };
        let absent = match self.constants.find(&name.value, &ty.value, hash) {
            Ok(tensor) => return Some(tensor),
            Err(absent) => absent,
        };
        let named = &name.value;
        self.found.push(match absent {
            Absent::NotGiven => Diagnostic::new(format!("the value of `{named}` is not in the text"))
                .label(0, literal.span, "a hash only names a value")
                .help("give the model that the text was printed from (`--weights MODEL`), or write `~1` for seeded values"),
            Absent::NoSuchHash { from, same_name } => {
                let missing = Diagnostic::new(format!("`{from}` has no constant with the hash of `{named}`"))
                    .label(0, literal.span, "no constant there has this hash")
                    .help("give the model that the text was printed from, with the same `--dim` and weights");
                match same_name {
                    Some(hash) => missing.note(format!("its constant `{named}` has the hash #{hash}")),
                    None => missing,
                }
            }
            Absent::OtherType(given) => {
                Diagnostic::new(format!("the constant that is given for `{named}` has another type"))
                    .label(0, ty.span, format!("given: {given}"))
            }
        });
        None
    }

    /// Reads attributes and adds the defaults of those that are not written; `None` after a mistake.
    fn attrs(
        &mut self,
        def: Op,
        op: &Spanned<String>,
        written: &[(Spanned<String>, Spanned<RawAttr>)],
    ) -> Option<Attrs> {
        let mut attrs = Attrs::new();
        let mut whole = true;
        for (name, raw) in written {
            let read = match def.attr(&name.value) {
                None => Err(Diagnostic::new(format!("`{}` has no attribute `{}`", def.name, name.value))
                    .label(0, name.span, "unknown attribute")
                    .suggest(&name.value, def.attrs.iter().map(|attr| attr.name))),
                Some(attr) if attrs.get(attr.name).is_some() => {
                    Err(Diagnostic::new(format!("attribute `{}` is written twice", attr.name))
                        .label(0, name.span, ""))
                }
                Some(attr) => read_attr(self.ops, attr.kind, raw).map(|value| (attr.name, value)),
            };
            match read {
                Ok((name, value)) => attrs.set(name, value),
                Err(diagnostic) => {
                    self.found.push(diagnostic);
                    whole = false;
                }
            }
        }
        for attr in &def.attrs {
            if attrs.get(attr.name).is_some() {
                continue;
            }
            match &attr.default {
                Some(default) => attrs.set(attr.name, default.clone()),
                // A misspelt attribute may be the missing one, and was already reported.
                None if !whole => {}
                None => {
                    let message = format!("`{}` lacks its attribute `{}`", def.name, attr.name);
                    self.found.push(
                        Diagnostic::new(message)
                            .label(0, op.span, "")
                            .note(format!("{}: {}", attr.name, attr.doc)),
                    );
                    whole = false;
                }
            }
        }
        whole.then_some(attrs)
    }
}

/// Reads a written attribute as a value of the declared kind.
fn read_attr(ops: &Ops, kind: AttrKind, raw: &Spanned<RawAttr>) -> Result<Attr, Diagnostic> {
    let wrong =
        |what: &str| Diagnostic::new(format!("expected {what}")).label(0, raw.span, format!("not {what}"));
    let known = |message: String| Diagnostic::new(message).label(0, raw.span, "");
    match (kind, &raw.value) {
        (AttrKind::Int, RawAttr::Number(text)) => {
            text.parse().map(Attr::Int).map_err(|_| wrong("an integer"))
        }
        (AttrKind::Int, _) => Err(wrong("an integer")),
        (AttrKind::Float, RawAttr::Number(text) | RawAttr::Word(text)) => {
            text.parse().map(|value| Attr::Float(Float(value))).map_err(|_| wrong("a number"))
        }
        (AttrKind::Float, _) => Err(wrong("a number")),
        (AttrKind::Ints, RawAttr::List(list)) => list
            .iter()
            .map(|item| {
                let not = || Diagnostic::new("expected an integer").label(0, item.span, "not an integer");
                item.value.parse().map_err(|_| not())
            })
            .collect::<Result<_, _>>()
            .map(Attr::Ints),
        (AttrKind::Ints, _) => Err(wrong("a list of integers, as in `[1,2]`")),
        (AttrKind::Str, RawAttr::Quoted(text)) => Ok(Attr::Str(text.as_str().into())),
        (AttrKind::Str, _) => Err(wrong("a string in quotes")),
        (AttrKind::DType, RawAttr::Word(word)) => {
            word.parse().map(Attr::DType).map_err(|why: UnknownDType| known(why.to_string()))
        }
        (AttrKind::DType, _) => Err(wrong("an element type, as in `f32`")),
        (AttrKind::Layout, RawAttr::Word(word)) => {
            word.parse().map(Attr::Layout).map_err(|why: NoLayout| known(why.to_string()))
        }
        (AttrKind::Layout, _) => Err(wrong("a layout, as in `nChw16c`")),
        (AttrKind::Post, RawAttr::Post(steps)) => steps
            .iter()
            .map(|(name, parameters)| read_step(ops, name, parameters))
            .collect::<Result<_, _>>()
            .map(Attr::Post),
        (AttrKind::Post, _) => Err(wrong("steps, as in `<relu>`")),
    }
}

fn read_step(ops: &Ops, name: &Spanned<String>, written: &[Spanned<String>]) -> Result<Step, Diagnostic> {
    let mut parameters = Vec::new();
    for parameter in written {
        let value = parameter.value.parse();
        let value = value
            .map_err(|_| Diagnostic::new("expected a number").label(0, parameter.span, "not a number"))?;
        parameters.push(Float(value));
    }
    let op = ops.step(&name.value).ok_or_else(|| {
        Diagnostic::new(format!("`{}` is not a step of a post chain", name.value))
            .label(0, name.span, "not an elementwise op")
            .suggest(&name.value, ops.step_names())
    })?;
    let declared = post::parameters(op);
    if parameters.is_empty() {
        parameters.extend(declared.iter().map(|parameter| Float(parameter.default)));
    }
    if parameters.len() == declared.len() {
        return Ok(Step { op, parameters });
    }
    let message = format!("step `{op}` takes {} parameters, {} are given", declared.len(), written.len());
    Err(Diagnostic::new(message).label(0, name.span, ""))
}
