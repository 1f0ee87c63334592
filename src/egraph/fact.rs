//! The facts of e-classes: type, whether constant, and small values. They only become more precise.

use super::Term;
use super::change::Changes;
use crate::graph::CONST;
use crate::rule::Fact;
use crate::tensor::{Tensor, TensorType};
use egg::{DidMerge, Id};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The analysis of egg: the types and values of leaves, and the classes that changed since the last search.
#[derive(Default)]
pub(crate) struct Facts {
    leaves: FxHashMap<Arc<str>, (TensorType, Option<Tensor>)>,
    changes: Changes,
    /// Whether a merge has just made facts more precise. egg calls `modify` for their class next.
    sharpening: bool,
    /// The type of the node that is added next.
    expected: Option<TensorType>,
}

/// The facts of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassFacts {
    /// The type.
    pub ty: TensorType,
    /// Whether it depends only on constants.
    pub constant: bool,
    /// The value, if it is constant and small.
    pub value: Option<Tensor>,
    /// The value, if it is one of the graph's constants, or one of them in another order that may be mostly zeros.
    pub leaf: Option<Tensor>,
    /// The graph's constants among whose elements all of its elements are; empty if that is not known.
    pub sources: Arc<[Tensor]>,
}

/// Ops whose elements are all elements of their operands.
const MOVES: &[&str] = &["concat", "expand", "reshape", "slice", "transpose"];

impl Facts {
    pub(super) fn declare(&mut self, name: &Arc<str>, ty: TensorType, value: Option<Tensor>) {
        self.leaves.insert(Arc::clone(name), (ty, value));
    }

    /// The classes that changed since [`Facts::take_changes`], by the ids they had at that time.
    pub(super) fn touched(&self) -> &[Id] {
        &self.changes.touched
    }

    /// Returns the changes since the last call, and forgets them.
    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Sets the type of the node that is added next, which its op has just inferred, so that it is not inferred
    /// twice.
    pub(super) fn expect(&mut self, ty: TensorType) {
        self.expected = Some(ty);
    }

    pub(super) fn constant(&self, name: &str) -> Option<&Tensor> {
        self.leaves.get(name).and_then(|(_, value)| value.as_ref())
    }
}

impl egg::Analysis<Term> for Facts {
    type Data = ClassFacts;

    fn make(egraph: &mut egg::EGraph<Term, Self>, term: &Term, _id: Id) -> ClassFacts {
        let expected = egraph.analysis.expected.take();
        if let Some(name) = term.leaf_name() {
            let (ty, value) = &egraph.analysis.leaves[name];
            let small = value.as_ref().filter(|value| value.ty().shape.count() <= Fact::SMALL);
            return ClassFacts {
                ty: ty.clone(),
                constant: term.op == CONST,
                value: small.cloned(),
                leaf: value.clone(),
                sources: value.iter().cloned().collect(),
            };
        }
        let types: Vec<&TensorType> = term.children.iter().map(|&child| &egraph[child].data.ty).collect();
        let def = term.op;
        let ty = expected.unwrap_or_else(|| {
            def.result(&term.attrs, &types)
                .unwrap_or_else(|why| panic!("an ill-typed `{}` reached the e-graph: {why}", term.op))
        });
        let constant = term.children.iter().all(|&child| egraph[child].data.constant);
        let values: Option<Vec<&Tensor>> =
            term.children.iter().map(|&child| egraph[child].data.value.as_ref()).collect();
        let value = match values {
            Some(values) if constant && ty.shape.count() <= Fact::SMALL => {
                Some(def.evaluate(&term.attrs, &values, &ty))
            }
            _ => None,
        };
        // Exporters write weights in the order of columns and transpose them. Of dense weights nobody asks for the zeros.
        let leaf = match &term.children[..] {
            [only] if ["transpose", "reshape"].contains(&def.name) => {
                let given = egraph[*only].data.leaf.as_ref().filter(|given| given.may_be_sparse());
                given.map(|given| def.evaluate(&term.attrs, &[given], &ty))
            }
            _ => None,
        };
        let sources = match &term.children[..] {
            [only] if MOVES.contains(&def.name) => Arc::clone(&egraph[*only].data.sources),
            all if constant && MOVES.contains(&def.name) => {
                let parts: Vec<&[Tensor]> = all.iter().map(|&child| &*egraph[child].data.sources).collect();
                let known = parts.iter().all(|part| !part.is_empty());
                if known { parts.concat().into() } else { Arc::default() }
            }
            _ => Arc::default(),
        };
        ClassFacts { ty, constant, value, leaf, sources }
    }

    fn merge(&mut self, to: &mut ClassFacts, from: ClassFacts) -> DidMerge {
        debug_assert_eq!(to.ty, from.ty, "types are compared before classes are united");
        let constant = to.constant || from.constant;
        let gains = |one: &Option<Tensor>, other: &Option<Tensor>| one.is_none() && other.is_some();
        let finds =
            |one: &ClassFacts, other: &ClassFacts| one.sources.is_empty() && !other.sources.is_empty();
        let merged = DidMerge(
            constant != to.constant
                || gains(&to.value, &from.value)
                || gains(&to.leaf, &from.leaf)
                || finds(to, &from),
            constant != from.constant
                || gains(&from.value, &to.value)
                || gains(&from.leaf, &to.leaf)
                || finds(&from, to),
        );
        if finds(to, &from) {
            to.sources = from.sources;
        }
        to.constant = constant;
        to.value = to.value.take().or(from.value);
        to.leaf = to.leaf.take().or(from.leaf);
        self.sharpening |= merged.0 || merged.1;
        merged
    }

    /// egg calls this for every class that is new, was merged, or whose facts changed.
    fn modify(egraph: &mut egg::EGraph<Term, Self>, id: Id) {
        let facts = &mut egraph.analysis;
        facts.changes.touched.push(id);
        if std::mem::take(&mut facts.sharpening) {
            facts.changes.sharpened.push(id);
        }
    }
}
