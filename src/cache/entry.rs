//! An entry: a key, the plan that was made for it, and where the plan's constants are.

use super::folder::{Folder, Kind};
use super::{Digest, Key, Miss};
use crate::cost::{Basis, Machine};
use crate::graph::NodeId;
use crate::plan::StoredPlan;
use crate::tensor::TensorType;
use serde::{Deserialize, Serialize};

/// What is kept of a compiled model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The model's file when the entry was made.
    pub model: String,
    /// The plan.
    pub plan: StoredPlan,
    /// The constants that the plan reads.
    pub constants: Vec<Constant>,
    /// The speeds of the machine, where the cost model went by them and they are kept.
    pub machine: Option<Machine>,
    /// What the plan was chosen by of the table of times.
    pub basis: Option<Basis>,
    /// What the plan was specialised for, if it is that of a region.
    pub region: Option<Specialised>,
}

/// What the plan of a region was specialised for, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Specialised {
    /// The inputs of the region with their types: `x f32[1,3,224,224]`.
    pub inputs: Vec<String>,
    /// The values that decide shapes or branches, with the elements that they had: `axes = 1, 2`. The plan is used for
    /// other elements as well, where they lead to the same operators and shapes.
    pub asked: Vec<String>,
}

/// A constant of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// The node of the graph that was planned.
    pub node: NodeId,
    /// Its type.
    pub ty: TensorType,
    /// Its bytes.
    pub value: ConstantBytes,
    /// Its recipe, by which the plans of one model share it.
    pub recipe: Option<Digest>,
}

/// The bytes of a constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ConstantBytes {
    /// Few bytes, which are in the entry itself.
    Here(Vec<u8>),
    /// Many bytes, which are in a file of their own with this digest.
    Weight(Digest),
    /// The texts of strings, whose bytes in memory mean nothing to another process.
    Texts(Vec<String>),
}

const MAGIC: &[u8; 16] = b"ovolo plan, v2\n\0";

/// Why bytes are not an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It has another magic number.
    #[error("it does not begin like an entry")]
    Start,
    /// It ends before its checksum does.
    #[error("it is cut short")]
    Short,
    /// It is not what was written.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its fields cannot be written or read.
    #[error(transparent)]
    Fields(#[from] postcard::Error),
}

impl Entry {
    /// Returns the bytes of the entry: a magic number, the digest of what follows, and the encoded fields.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Damage> {
        let body = postcard::to_stdvec(self)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(Digest::new(&body).bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// If a bit differs from what was written.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Damage::Start)?;
        let (digest, body) = rest.split_at_checked(32).ok_or(Damage::Short)?;
        if Digest::new(body).bytes() != digest {
            return Err(Damage::Checksum);
        }
        Ok(postcard::from_bytes(body)?)
    }

    /// Reads the entry of this name in a folder; `None` if there is none.
    pub(super) fn read(folder: &Folder, name: &str) -> Result<Option<Self>, Miss> {
        let damaged = |why: String| Miss::Damaged { why, weights: Vec::new() };
        let content =
            folder.read(Kind::Plan, name).map_err(|error| match folder.is_foreign(Kind::Plan, name) {
                true => damaged(error.to_string()),
                false => Miss::Unreadable(error.to_string()),
            })?;
        let Some(content) = content else { return Ok(None) };
        let entry = Self::decode(&content).map_err(|damage| damaged(damage.to_string()))?;
        match entry.key.fingerprint().to_string() == name {
            true => Ok(Some(entry)),
            false => Err(damaged("it has the name of another entry".to_owned())),
        }
    }

    /// Returns the weights, each of them once.
    pub fn weights(&self) -> Vec<(Digest, &TensorType)> {
        let mut found: Vec<(Digest, &TensorType)> = self
            .constants
            .iter()
            .filter_map(|constant| match constant.value {
                ConstantBytes::Weight(digest) => Some((digest, &constant.ty)),
                ConstantBytes::Here(_) | ConstantBytes::Texts(_) => None,
            })
            .collect();
        found.sort_unstable();
        found.dedup_by_key(|(digest, _)| *digest);
        found
    }
}
