//! Memory layouts: an order of the logical dimensions, plus blocks inside, of which all or some are stored.

use super::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How a logical shape lies in memory.
///
/// The default layout is row-major. Others are named in oneDNN's notation: letters give the order from outermost to
/// innermost, an upper-case letter is a dimension that also has a block inside, and `16c` is such a block. `nhwc`,
/// `nChw16c` and `OIhw16i16o` are layouts of images and weights (the letters `ncdhw` or `oidhw` stand for
/// dimensions 0, 1, …); `Ba32b` is the general form, in which `a` is dimension 0.
///
/// A blocked dimension is padded up to a multiple of its block; the padding holds zero.
///
/// A number after a dot makes a *sparse* layout: `Ba4b.96` stores the 96 blocks of `Ba4b` that hold anything but zeros,
/// and where they belong. The blocks of a layout without blocks are single elements, so `ab.96` is what is called CSR. A
/// value with more blocks than are stored has no such form: it loses the last ones. The signs of zeros are lost as well.
/// Rules take the number from the value (`stored-layout`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Layout(Option<Arc<Blocking>>);

/// The most elements in the blocks of one dimension. No kernel has larger ones, and sizes below it do not overflow.
const LARGEST_BLOCK: usize = 4096;

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Blocking {
    name: String,
    /// Logical dimensions from outermost to innermost.
    order: Vec<usize>,
    /// Inner blocks (dimension, size), outermost first.
    blocks: Vec<(usize, usize)>,
    /// The number of blocks that are stored; `None` for all.
    stored: Option<usize>,
}

impl Layout {
    /// The default, row-major layout of any rank.
    pub const PLAIN: Self = Self(None);

    /// Returns whether this is the default layout.
    pub fn is_plain(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the rank that the layout requires; `None` for the default layout, which takes any.
    pub fn rank(&self) -> Option<usize> {
        self.0.as_ref().map(|blocking| blocking.order.len())
    }

    /// Returns the product of the blocks of a dimension. The size of the dimension is padded to a multiple of it.
    pub fn block(&self, dim: usize) -> usize {
        match &self.0 {
            None => 1,
            Some(blocking) => blocking.blocks.iter().filter(|b| b.0 == dim).map(|b| b.1).product(),
        }
    }

    /// Returns the logical dimensions from outermost to innermost, without blocks.
    pub fn order(&self, rank: usize) -> Vec<usize> {
        self.0.as_ref().map_or_else(|| (0..rank).collect(), |blocking| blocking.order.clone())
    }

    /// Returns the inner blocks (dimension, size), outermost first.
    pub fn blocks(&self) -> &[(usize, usize)] {
        self.0.as_ref().map_or(&[], |blocking| &blocking.blocks)
    }

    /// Returns the number of blocks that a sparse layout stores; `None` for a dense one.
    pub fn stored(&self) -> Option<usize> {
        self.0.as_ref().and_then(|blocking| blocking.stored)
    }

    /// Returns whether this is the other layout, or differs from it only in the number of blocks that are stored.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self == other || self.stored().is_some() && other.stored().is_some() && self.dense() == other.dense()
    }

    /// Returns the dense layout with the same blocks.
    pub(super) fn dense(&self) -> Self {
        match &self.0 {
            Some(blocking) if blocking.stored.is_some() => {
                let name = blocking.name.split('.').next().unwrap_or_default().to_owned();
                Self::named(blocking.order.clone(), blocking.blocks.clone(), None, name)
            }
            _ => self.clone(),
        }
    }

    /// Returns the sparse layout that stores some blocks of a dense layout, which is not the default one.
    pub(crate) fn sparse(&self, stored: usize) -> Option<Self> {
        let blocking = self.0.as_ref().filter(|blocking| blocking.stored.is_none())?;
        let name = format!("{}.{stored}", blocking.name);
        Some(Self::named(blocking.order.clone(), blocking.blocks.clone(), Some(stored), name))
    }

    fn named(order: Vec<usize>, blocks: Vec<(usize, usize)>, stored: Option<usize>, name: String) -> Self {
        Self(Some(Arc::new(Blocking { name, order, blocks, stored })))
    }

    /// Returns the logical shape with each blocked dimension rounded up to a multiple of its block.
    pub fn padded_shape(&self, shape: &Shape) -> Shape {
        Shape::new(
            shape.iter().enumerate().map(|(d, &n)| n.next_multiple_of(self.block(d))).collect::<Vec<_>>(),
        )
    }

    /// Returns the number of elements in memory, including padding.
    pub fn padded_count(&self, shape: &Shape) -> usize {
        match self.0.as_deref() {
            None => shape.count(),
            Some(Blocking { stored: Some(stored), blocks, .. }) => {
                stored * blocks.iter().map(|block| block.1).product::<usize>()
            }
            // The cost models ask for it hundreds of thousands of times, so no shape is made for it.
            Some(_) => shape.iter().enumerate().map(|(d, n)| n.next_multiple_of(self.block(d))).product(),
        }
    }

    /// Returns whether a shape in this layout has elements that are padding.
    pub fn pads(&self, shape: &Shape) -> bool {
        shape.iter().enumerate().any(|(d, n)| n % self.block(d) != 0)
    }

    /// Returns the offset of a logical index, in elements, in a layout that is dense.
    pub fn offset(&self, shape: &Shape, index: &[usize]) -> usize {
        let Some(blocking) = &self.0 else {
            return index.iter().zip(shape.iter()).fold(0, |offset, (i, n)| offset * n + i);
        };
        let mut offset = 0;
        for &dim in &blocking.order {
            let block = self.block(dim);
            offset = offset * shape[dim].div_ceil(block) + index[dim] / block;
        }
        for (position, &(dim, size)) in blocking.blocks.iter().enumerate() {
            let inner: usize =
                blocking.blocks[position + 1..].iter().filter(|b| b.0 == dim).map(|b| b.1).product();
            offset = offset * size + index[dim] / inner % size;
        }
        offset
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref().map_or("plain", |blocking| &blocking.name))
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}

impl TryFrom<String> for Layout {
    type Error = NoLayout;
    fn try_from(text: String) -> Result<Self, NoLayout> {
        text.parse()
    }
}

/// A text that is not a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a layout: {why}")]
pub struct NoLayout {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for Layout {
    type Err = NoLayout;

    fn from_str(text: &str) -> Result<Self, NoLayout> {
        const ALPHABETS: [&str; 3] = ["ncdhw", "oidhw", "abcdef"];
        if text == "plain" || text == "nchw" || text == "oihw" {
            return Ok(Self::PLAIN);
        }
        let bad = |why: &str| NoLayout { text: text.to_owned(), why: why.to_owned() };
        let (dense, stored) =
            match text.split_once('.') {
                None => (text, None),
                Some((dense, stored)) => {
                    let number = stored.parse().ok().filter(|number: &usize| number.to_string() == stored);
                    (
                        dense,
                        Some(number.ok_or_else(|| {
                            bad("a dot is followed by the number of blocks that are stored")
                        })?),
                    )
                }
            };
        let letters: String = dense.chars().take_while(char::is_ascii_alphabetic).collect();
        let mut rest = &dense[letters.len()..];
        let lower = letters.to_ascii_lowercase();
        let alphabet = ALPHABETS
            .iter()
            .find(|alphabet| !lower.is_empty() && lower.chars().all(|c| alphabet.contains(c)))
            .ok_or_else(|| bad("its letters are not all from one of `ncdhw`, `oidhw` and `abcdef`"))?;
        let present: Vec<char> = alphabet.chars().filter(|c| lower.contains(*c)).collect();
        if present.len() != lower.len() {
            return Err(bad("a letter is written twice"));
        }
        let position = |c: char| present.iter().position(|&p| p == c);
        let order: Vec<usize> = lower.chars().filter_map(position).collect();
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let size: usize =
                digits.parse().map_err(|_| bad("a block is a number and a letter, as in `16c`"))?;
            let letter = rest[digits.len()..].chars().next().ok_or_else(|| bad("a block has no letter"))?;
            let dim = position(letter).ok_or_else(|| bad("a block's letter is not among its dimensions"))?;
            if !letters.contains(letter.to_ascii_uppercase()) || size < 2 {
                return Err(bad("a blocked dimension is written in upper case, and its block is at least 2"));
            }
            blocks.push((dim, size));
            let product = blocks
                .iter()
                .filter(|(other, _)| *other == dim)
                .try_fold(1_usize, |product, (_, size)| product.checked_mul(*size));
            if product.is_none_or(|product| product > LARGEST_BLOCK) {
                return Err(bad("the blocks of a dimension have at most 4096 elements"));
            }
            rest = &rest[digits.len() + letter.len_utf8()..];
        }
        for c in letters.chars().filter(char::is_ascii_uppercase) {
            if !blocks.iter().any(|b| Some(b.0) == position(c.to_ascii_lowercase())) {
                return Err(bad("an upper-case dimension has no block"));
            }
        }
        Ok(Self::named(order, blocks, stored, text.to_owned()))
    }
}
