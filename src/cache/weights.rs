//! The constants of a plan. Small ones are in the entry itself; each large one is in a file that is named by its
//! digest, so that models with the same weights share it.

use super::entry::{Constant, ConstantBytes};
use super::folder::{Folder, Kind};
use super::loaded::{Loaded, load};
use super::{Digest, Miss, prune};
use crate::digest;
use crate::error::Error;
use crate::graph::NodeId;
use crate::session::{Constants, Recipes, Store};
use crate::tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Constants of fewer bytes are in the entry, since opening a file would take longer than reading them.
const SMALL: usize = 16 << 10;

/// A store of constants, and the recipes by which the constants of a session are in it.
pub(super) type Sharing<'a> = (&'a Store, &'a Recipes);

/// Describes constants by their digests. Also returns the bytes of those that the entry does not hold itself, each
/// of them once. Digests that a store knows are not computed again.
pub(super) fn describe<'a>(
    constants: &[(NodeId, &'a Tensor)],
    threads: usize,
    sharing: Option<Sharing<'_>>,
) -> (Vec<Constant>, BTreeMap<Digest, &'a [u8]>) {
    let recipe = |node: &NodeId| sharing.and_then(|(_, recipes)| recipes.get(node)).copied();
    let known = |node: &NodeId| sharing.and_then(|(store, _)| store.content(&recipe(node)?));
    let stored = constants.iter().filter(|(_, tensor)| tensor.ty().dtype != DType::Text);
    let large = stored.filter(|(_, tensor)| tensor.ty().bytes() >= SMALL);
    let unknown: Vec<(NodeId, &[u8])> = large
        .clone()
        .filter(|(node, _)| known(node).is_none())
        .map(|(node, tensor)| (*node, tensor.bytes()))
        .collect();
    let bytes: Vec<&[u8]> = unknown.iter().map(|(_, bytes)| *bytes).collect();
    let mut digests: FxHashMap<NodeId, Digest> =
        large.filter_map(|(node, _)| Some((*node, known(node)?))).collect();
    for ((node, _), digest) in unknown.iter().zip(Digest::all(&bytes, threads)) {
        digests.insert(*node, digest);
        if let (Some((store, _)), Some(recipe)) = (sharing, recipe(node)) {
            store.note_content(&recipe, digest);
        }
    }
    let mut kept = BTreeMap::new();
    let one = |(node, tensor): &(NodeId, &'a Tensor)| {
        if let Some(texts) = tensor.to_texts() {
            let texts = texts.iter().map(|text| text.to_string()).collect();
            let value = ConstantBytes::Texts(texts);
            return Constant { node: *node, ty: tensor.ty().clone(), value, recipe: recipe(node) };
        }
        let bytes = tensor.bytes();
        let digest = digests.get(node).copied();
        let value = match digest {
            Some(digest) => {
                kept.insert(digest, bytes);
                ConstantBytes::Weight(digest)
            }
            None => ConstantBytes::Here(bytes.to_vec()),
        };
        Constant { node: *node, ty: tensor.ty().clone(), value, recipe: recipe(node) }
    };
    (constants.iter().map(one).collect(), kept)
}

/// Writes a weight unless the same bytes are already there. They need not be compared if this process has checked them
/// before. Returns whether it was written.
fn write(folder: &Folder, digest: Digest, bytes: &[u8], checked: bool) -> Result<bool, Error> {
    let name = digest.to_string();
    let there =
        (checked && folder.has(Kind::Weight, &name, bytes.len())) || folder.holds(Kind::Weight, &name, bytes);
    if there {
        // Noting the use keeps the weight from being pruned before the entry that names it is written.
        folder.touch(Kind::Weight, &name);
        return Ok(false);
    }
    folder.write(Kind::Weight, &name, &[bytes]).map(|()| true)
}

/// Writes weights, by `threads` threads, and then the entry that names them. If one of them cannot be written, those that
/// were written are removed, unless another entry names them.
pub(super) fn write_entry<'a>(
    folder: &Folder,
    name: &str,
    encoded: &[u8],
    weights: impl IntoIterator<Item = (Digest, &'a [u8])>,
    (store, threads): (Option<&Store>, usize),
) -> Result<(), Error> {
    let weights: Vec<(Digest, &[u8])> = weights.into_iter().collect();
    let next = AtomicUsize::new(0);
    let written = Mutex::new((Vec::new(), Ok(())));
    let written_now = || written.lock().unwrap_or_else(PoisonError::into_inner);
    digest::by_threads(threads.min(weights.len()), || {
        while written_now().1.is_ok()
            && let Some((digest, bytes)) = weights.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let checked = store.is_some_and(|store| store.is_checked(digest));
            let result = write(folder, *digest, bytes, checked);
            if let (Some(store), Ok(_)) = (store, &result) {
                store.note_checked(*digest);
            }
            match result {
                Ok(true) => written_now().0.push(*digest),
                Ok(false) => {}
                Err(error) => written_now().1 = Err(error),
            }
        }
    });
    let (fresh, result) = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    result.and_then(|()| folder.write(Kind::Plan, name, &[encoded])).inspect_err(|_| {
        let named = prune::named(folder);
        for digest in fresh.iter().filter(|digest| !named.contains(*digest)) {
            // If this fails, the weight is pruned later.
            let _ = folder.remove(Kind::Weight, &digest.to_string());
        }
    })
}

/// Checks every bit of a weight against the digest in its name.
///
/// # Errors
/// Why not, or why it cannot be read.
pub(super) fn check(folder: &Folder, name: &str) -> Result<(), Miss> {
    let map = folder.map(Kind::Weight, name).map_err(|error| Miss::Unreadable(error.to_string()))?;
    let bytes: &[u8] = map.as_ref().map_or(&[], |map| map);
    match Digest::new(bytes).to_string() == name {
        true => Ok(()),
        false => Err(Miss::Damaged { why: "its checksum is wrong".to_owned(), weights: Vec::new() }),
    }
}

/// Loads the constants of an entry and checks every bit of them. Those that a store has are taken from there.
pub(super) fn read(
    folder: &Folder,
    constants: &[Constant],
    threads: usize,
    store: Option<&Store>,
) -> Result<Constants, Miss> {
    let shared = |constant: &Constant| {
        let there = store?.find(constant.recipe.as_ref()?)?;
        (*there.ty() == constant.ty).then_some((constant.node, there))
    };
    let mut found: Constants = constants.iter().filter_map(shared).collect();
    let lacking: Vec<&Constant> =
        constants.iter().filter(|constant| !found.contains_key(&constant.node)).collect();
    for (constant, tensor) in lacking.iter().zip(read_new(folder, &lacking, threads)?) {
        let tensor = match (store, constant.recipe) {
            (Some(store), Some(recipe)) => {
                let content = match constant.value {
                    ConstantBytes::Weight(digest) => Some(digest),
                    ConstantBytes::Here(_) | ConstantBytes::Texts(_) => None,
                };
                content.into_iter().for_each(|digest| store.note_checked(digest));
                store.keep(recipe, tensor, content)
            }
            _ => tensor,
        };
        found.insert(constant.node, tensor);
    }
    Ok(found)
}

/// Loads constants and checks every bit of them.
fn read_new(folder: &Folder, constants: &[&Constant], threads: usize) -> Result<Vec<Tensor>, Miss> {
    let mut weights: FxHashMap<Digest, Arc<Loaded>> = FxHashMap::default();
    let wanted: BTreeSet<Digest> = constants
        .iter()
        .filter_map(|constant| match constant.value {
            ConstantBytes::Weight(digest) => Some(digest),
            ConstantBytes::Here(_) | ConstantBytes::Texts(_) => None,
        })
        .collect();
    let names: Vec<String> = wanted.iter().map(Digest::to_string).collect();
    for ((digest, name), weight) in wanted.into_iter().zip(&names).zip(load(folder, &names, threads)) {
        let weight = weight.map_err(|error| {
            let why = format!("weight {}: {error}", digest.short());
            match folder.is_foreign(Kind::Weight, name) {
                true => Miss::Damaged { why, weights: vec![digest] },
                false => Miss::Unreadable(why),
            }
        })?;
        weights.insert(digest, Arc::new(weight.ok_or(Miss::Incomplete { weight: digest })?));
    }
    let mut named: Vec<(Digest, &[u8])> =
        weights.iter().map(|(digest, weight)| (*digest, (**weight).as_ref())).collect();
    // The largest ones come first, so that no thread starts on one when the others have finished.
    named.sort_unstable_by_key(|(digest, bytes)| (std::cmp::Reverse(bytes.len()), *digest));
    let parts: Vec<&[u8]> = named.iter().map(|(_, bytes)| *bytes).collect();
    let found = Digest::all(&parts, threads);
    let damaged: Vec<Digest> = named
        .iter()
        .zip(found)
        .filter(|((digest, _), found)| digest != found)
        .map(|((d, _), _)| *d)
        .collect();
    if let Some(first) = damaged.first() {
        let why = format!("the checksum of weight {} is wrong", first.short());
        return Err(Miss::Damaged { why, weights: damaged });
    }
    let tensor = |constant: &Constant| {
        crate::tensor::type_error(&constant.ty).is_none().then_some(())?;
        match &constant.value {
            ConstantBytes::Weight(digest) => Tensor::kept(constant.ty.clone(), weights.get(digest)?.clone()),
            ConstantBytes::Texts(texts) => {
                let fits = texts.len() == constant.ty.shape.count() && constant.ty.dtype == DType::Text;
                fits.then(|| {
                    let plain = Tensor::from_texts(constant.ty.shape.clone(), texts);
                    plain.to_layout(&constant.ty.layout).on(constant.ty.device)
                })
            }
            ConstantBytes::Here(_) if constant.ty.dtype == DType::Text => None,
            ConstantBytes::Here(bytes) => (bytes.len() == constant.ty.bytes()).then(|| {
                let mut tensor = Tensor::zeros(constant.ty.clone());
                tensor.bytes_mut().copy_from_slice(bytes);
                tensor
            }),
        }
    };
    let damage = |constant: &Constant| Miss::Damaged {
        why: format!("constant {} is not of its type", constant.node),
        weights: Vec::new(),
    };
    constants.iter().map(|one| tensor(one).ok_or_else(|| damage(one))).collect()
}
