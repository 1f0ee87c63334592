//! Fills inputs up to the sizes of buckets, where it is proved that the outputs do not depend on the filling.

use super::bucket::{self, Sizes, axes, resized};
use crate::error::Error;
use crate::onnx::{Dynamic, Item, LiveFrom, Region, Tables, Then, checked_type};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The buckets of dimensions, and what was proved.
#[derive(Default)]
pub(super) struct Padding {
    /// The sizes of each dimension, in ascending order.
    buckets: BTreeMap<String, Vec<usize>>,
    /// What is cut off the outputs, by the types of inputs; or the operator for which there is no proof.
    proofs: FxHashMap<String, Result<Vec<Cut>, String>>,
}

/// The most proofs that are kept. When there are more, all are dropped.
const PROOFS: usize = 4096;

/// A dimension whose size in a run is beyond its largest bucket, so that the run has a plan for this size alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Beyond {
    /// The dimension.
    pub dim: String,
    /// Its size in the run.
    pub size: usize,
    /// The size of its largest bucket.
    pub largest: usize,
}

impl std::fmt::Display for Beyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { dim, size, largest } = self;
        write!(f, "`{dim}` is {size}, beyond its largest bucket, {largest}: the plan is for {size} alone")
    }
}

/// An axis along which an output is cut back.
#[derive(Clone, Copy, Debug)]
struct Cut {
    output: usize,
    axis: usize,
    size: usize,
}

/// Inputs that are filled up, and what is to be done with the outputs.
pub(super) struct Filled {
    pub inputs: BTreeMap<String, Item<Tensor>>,
    cuts: Vec<Cut>,
}

impl Padding {
    /// Sets the sizes of a dimension.
    pub fn bucket(&mut self, dim: &str, sizes: &[usize]) -> Result<(), Error> {
        let mut sizes: Vec<usize> = sizes.iter().copied().filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            return Err(Error::NoBucket { dim: dim.to_owned() });
        }
        self.buckets.insert(dim.to_owned(), sizes);
        self.proofs.clear();
        Ok(())
    }

    /// Returns the dimensions whose sizes in these inputs are beyond their largest buckets.
    pub fn beyond(&self, model: &Dynamic, given: &BTreeMap<String, Item<Tensor>>) -> Vec<Beyond> {
        let one = |(dim, sizes): (&String, &Vec<usize>)| {
            let size = |(name, axis): &(&str, usize)| size(given, name, *axis);
            let (size, largest) = (model.places(dim).iter().find_map(size)?, *sizes.last()?);
            (size > largest).then(|| Beyond { dim: dim.clone(), size, largest })
        };
        self.buckets.iter().filter_map(one).collect()
    }

    /// Fills inputs up; `None` if they already have the sizes of buckets.
    pub fn fill(
        &mut self,
        model: &Dynamic,
        tables: Tables<'_>,
        given: &BTreeMap<String, Item<Tensor>>,
    ) -> Result<Option<Filled>, Error> {
        let mut inputs = given.clone();
        let mut cuts = Vec::new();
        let mut filled = false;
        for (dim, sizes) in &self.buckets {
            let places = model.places(dim);
            let found: Vec<usize> =
                places.iter().filter_map(|(name, axis)| size(&inputs, name, *axis)).collect();
            // Inputs that differ in the size of one dimension are refused when the run begins.
            let Some(small) = found.first().copied().filter(|first| found.iter().all(|size| size == first))
            else {
                continue;
            };
            let Some(large) = sizes.iter().copied().find(|size| *size >= small) else { continue };
            if small == large || small == 0 {
                continue;
            }
            let before = inputs.clone();
            for (name, axis) in &places {
                if let Some(Item::Tensor(tensor)) = inputs.get_mut(*name) {
                    let mut dims = tensor.ty().shape.to_vec();
                    dims[*axis] = large;
                    checked_type(tensor.ty().dtype, dims).map_err(|why| Error::Bucket {
                        dim: dim.clone(),
                        size: small,
                        bucket: large,
                        why: format!("input `{name}`: {why}"),
                    })?;
                    *tensor = resized(tensor, *axis, large);
                }
            }
            let sizes = Sizes { small, large };
            let mut form = format!("{dim:?} {large}:");
            for (name, item) in &before {
                let _ = write!(form, " {name:?} {:?}", item.map(&mut |tensor| tensor.ty().to_string()));
            }
            if self.proofs.len() >= PROOFS {
                self.proofs.clear();
            }
            let proof = match self.proofs.get(&form) {
                Some(proof) => proof.clone(),
                None => {
                    let proof = proof(model, tables, &before, &inputs, sizes)?;
                    self.proofs.insert(form, proof.clone());
                    proof
                }
            };
            let dim = dim.clone();
            cuts.extend(proof.map_err(|why| Error::Bucket { dim, size: small, bucket: large, why })?);
            filled = true;
        }
        Ok(filled.then_some(Filled { inputs, cuts }))
    }
}

/// Returns the size of an axis of an input; `None` if it is not given, or is no tensor that has the axis.
fn size(given: &BTreeMap<String, Item<Tensor>>, name: &str, axis: usize) -> Option<usize> {
    match given.get(name) {
        Some(Item::Tensor(tensor)) => tensor.ty().shape.get(axis).copied(),
        _ => None,
    }
}

/// Proves that the outputs at one position of a dimension do not depend on the inputs at another one: the proof that a model
/// may be filled up tells for each operator whether it keeps positions apart, and so serves any of them.
pub(super) fn separates(
    model: &Dynamic,
    tables: Tables<'_>,
    dim: &str,
    rows: usize,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Result<(), Error> {
    let mut inputs = given.clone();
    for (name, axis) in model.places(dim) {
        if let Some(Item::Tensor(tensor)) = inputs.get_mut(name)
            && axis < tensor.ty().shape.rank()
        {
            *tensor = resized(tensor, axis, rows);
        }
    }
    let mut padding = Padding::default();
    padding.bucket(dim, &[rows + 1])?;
    padding.fill(model, tables, &inputs).map(|_| ())
}

impl Filled {
    /// Cuts outputs back to the true sizes.
    pub fn cut(&self, mut outputs: Vec<(String, Item<Tensor>)>) -> Vec<(String, Item<Tensor>)> {
        for Cut { output, axis, size } in &self.cuts {
            if let Some((_, Item::Tensor(tensor))) = outputs.get_mut(*output) {
                *tensor = resized(tensor, *axis, *size);
            }
        }
        outputs
    }
}

/// Proves that a model may run on filled inputs in place of given ones, or says why there is no proof.
fn proof(
    model: &Dynamic,
    tables: Tables<'_>,
    given: &BTreeMap<String, Item<Tensor>>,
    filled: &BTreeMap<String, Item<Tensor>>,
    sizes: Sizes,
) -> Result<Result<Vec<Cut>, String>, Error> {
    let import = |inputs| -> Result<(Region, Vec<Tensor>), Error> {
        let (position, live) = model.start(inputs)?;
        Ok((model.region(tables, &position, &live)?, live))
    };
    let ((one, one_live), (other, other_live)) = (import(given)?, import(filled)?);
    if let (Then::Cut { why, .. }, _) | (_, Then::Cut { why, .. }) = (&one.then, &other.then) {
        return Ok(Err(format!("the model runs as several regions ({why})")));
    }
    if let Some((_, name)) = one.asked.iter().chain(&other.asked).next() {
        return Ok(Err(format!("its shapes depend on the elements of `{name}`")));
    }
    let (Then::Finished(outputs), Then::Finished(others)) = (&one.then, &other.then) else {
        return Ok(Err("the model runs as several regions".to_owned()));
    };
    let proved = match bucket::prove(&one.graph, &other.graph, sizes) {
        Ok(proved) => proved,
        Err(why) => return Ok(Err(why)),
    };
    let mut cuts = Vec::new();
    for (output, ((name, item), (_, other_item))) in outputs.iter().zip(others).enumerate() {
        let (Item::Tensor(slot), Item::Tensor(other_slot)) = (item, other_item) else {
            return Ok(Err(format!("the output `{name}` is no tensor")));
        };
        let axes = match (&one.live[*slot], &other.live[*other_slot]) {
            (LiveFrom::Output(at), LiveFrom::Output(other)) if at == other => proved.get(*at).cloned(),
            (LiveFrom::Before(at), LiveFrom::Before(other)) if at == other => {
                axes(one_live[*at].ty(), other_live[*at].ty(), sizes)
            }
            (LiveFrom::Constant(a), LiveFrom::Constant(b)) => {
                (a.ty() == b.ty() && a.bytes() == b.bytes()).then(Vec::new)
            }
            _ => None,
        };
        let Some(axes) = axes else {
            return Ok(Err(format!("the output `{name}` has other values if the size changes")));
        };
        cuts.extend(axes.into_iter().map(|axis| Cut { output, axis, size: sizes.small }));
    }
    Ok(Ok(cuts))
}
