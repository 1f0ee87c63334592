//! Long lines, cut around what a message points at.
//!
//! Takes a text and the places of one diagnostic, and gives a text in which of every line that is too
//! long only what is near a place is left, with `…` for the rest. Lines and columns in messages remain
//! those of the whole text.

use codespan_reporting::files::{Error, Files};
use std::borrow::Cow;
use std::ops::Range;

/// Lines of more bytes than this are cut.
const LONGEST: usize = 200;
/// What is left on either side of the ends of a place.
const AROUND: usize = 60;
/// What stands for what is left out.
const GAP: &str = "…";

/// A text with long lines cut.
pub(super) struct Excerpt<'a> {
    name: &'a str,
    whole: &'a str,
    cut: Cow<'a, str>,
    /// Where each piece that is left begins in the cut text and in the whole one, and its length.
    pieces: Vec<(usize, usize, usize)>,
    /// Where the lines of the cut text begin.
    lines: Vec<usize>,
}

impl<'a> Excerpt<'a> {
    /// A text, cut around these places, which lie in it at the bounds of characters.
    pub(crate) fn new(name: &'a str, whole: &'a str, places: &[Range<usize>]) -> Self {
        let ends: Vec<usize> = places.iter().flat_map(|place| [place.start, place.end]).collect();
        let mut cut = Cow::Borrowed("");
        let mut pieces = Vec::new();
        if places.is_empty() || whole.lines().all(|line| line.len() <= LONGEST) {
            cut = Cow::Borrowed(whole);
            pieces.push((0, 0, whole.len()));
        } else {
            let mut start = 0;
            for line in whole.split_inclusive('\n') {
                for kept in kept(line, start, &ends) {
                    if kept.start > 0 {
                        cut.to_mut().push_str(GAP);
                    }
                    pieces.push((cut.len(), start + kept.start, kept.len()));
                    cut.to_mut().push_str(&line[kept]);
                }
                if !cut.ends_with('\n') && line.ends_with('\n') {
                    if !ends_at(&pieces, start + line.len() - 1) {
                        cut.to_mut().push_str(GAP);
                    }
                    pieces.push((cut.len(), start + line.len() - 1, 1));
                    cut.to_mut().push('\n');
                }
                start += line.len();
            }
            if cut.len() < whole.len() && !whole.ends_with('\n') && !ends_at(&pieces, whole.len()) {
                cut.to_mut().push_str(GAP);
            }
        }
        let lines = std::iter::once(0).chain(cut.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { name, whole, cut, pieces, lines }
    }

    /// Where a place of the whole text is in the cut one.
    pub(crate) fn place(&self, place: Range<usize>) -> Range<usize> {
        let moved = |at: usize| {
            let after = self.pieces.partition_point(|(_, whole, _)| *whole <= at);
            match after.checked_sub(1).map(|piece| self.pieces[piece]) {
                Some((cut, whole, length)) => cut + (at - whole).min(length),
                None => 0,
            }
        };
        moved(place.start)..moved(place.end)
    }

    /// Where a place of the cut text is in the whole one.
    fn back(&self, at: usize) -> usize {
        let after = self.pieces.partition_point(|(cut, ..)| *cut <= at);
        match after.checked_sub(1).map(|piece| self.pieces[piece]) {
            Some((cut, whole, length)) => whole + (at - cut).min(length),
            None => 0,
        }
    }
}

fn ends_at(pieces: &[(usize, usize, usize)], end: usize) -> bool {
    pieces.last().is_some_and(|(_, whole, length)| whole + length == end)
}

/// The parts of a line that are left: all of a short one; of a long one what is near an end of a place,
/// or its beginning, where none is.
fn kept(line: &str, start: usize, ends: &[usize]) -> Vec<Range<usize>> {
    if line.trim_end_matches(['\r', '\n']).len() <= LONGEST {
        let all = 0..line.len();
        return vec![all];
    }
    let here = |end: &&usize| (start..start + line.len()).contains(end) || **end == start + line.len();
    let mut near: Vec<Range<usize>> = ends
        .iter()
        .filter(here)
        .map(|end| (end - start).saturating_sub(AROUND)..(end - start + AROUND).min(line.len()))
        .collect();
    if near.is_empty() {
        near.push(0..2 * AROUND);
    }
    near.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in near {
        let range = super::whole_characters(line, range.into());
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The texts of one diagnostic, by the number of their source.
pub(super) struct Excerpts<'a>(pub Vec<Excerpt<'a>>);

impl Excerpts<'_> {
    fn of(&self, source: usize) -> Result<&Excerpt<'_>, Error> {
        self.0.get(source).ok_or(Error::FileMissing)
    }
}

impl<'a> Files<'a> for Excerpts<'a> {
    type FileId = usize;
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, source: usize) -> Result<&'a str, Error> {
        Ok(self.of(source)?.name)
    }

    fn source(&'a self, source: usize) -> Result<&'a str, Error> {
        Ok(&self.of(source)?.cut)
    }

    fn line_index(&'a self, source: usize, byte: usize) -> Result<usize, Error> {
        Ok(self.of(source)?.lines.partition_point(|start| *start <= byte).saturating_sub(1))
    }

    fn line_range(&'a self, source: usize, line: usize) -> Result<Range<usize>, Error> {
        let Excerpt { lines, cut, .. } = self.of(source)?;
        let beyond = Error::LineTooLarge { given: line, max: lines.len().saturating_sub(1) };
        let start = *lines.get(line).ok_or(beyond)?;
        Ok(start..lines.get(line + 1).copied().unwrap_or(cut.len()))
    }

    fn column_number(&'a self, source: usize, _: usize, byte: usize) -> Result<usize, Error> {
        let excerpt = self.of(source)?;
        let before = &excerpt.whole[..excerpt.back(byte)];
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        Ok(line.chars().count() + 1)
    }
}
