//! Memory layouts: an order of the logical dimensions, plus blocks inside.

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

    /// Returns the logical shape with each blocked dimension rounded up to a multiple of its block.
    pub fn padded_shape(&self, shape: &Shape) -> Shape {
        Shape::new(
            shape.iter().enumerate().map(|(d, &n)| n.next_multiple_of(self.block(d))).collect::<Vec<_>>(),
        )
    }

    /// Returns the number of elements in memory, including padding.
    pub fn padded_count(&self, shape: &Shape) -> usize {
        if self.is_plain() { shape.count() } else { self.padded_shape(shape).count() }
    }

    /// Returns whether a shape in this layout has elements that are padding.
    pub fn pads(&self, shape: &Shape) -> bool {
        shape.iter().enumerate().any(|(d, n)| n % self.block(d) != 0)
    }

    /// Returns the offset of a logical index, in elements.
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
        let letters: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
        let mut rest = &text[letters.len()..];
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
        Ok(Self(Some(Arc::new(Blocking { name: text.to_owned(), order, blocks }))))
    }
}
