//! Long lines, cut around what a message points at.
//!
//! Takes a text and the places of one diagnostic, and returns a text in which long lines are shortened: only the
//! parts near a place are left, with `…` for the rest. Lines and columns in messages are still those of the whole
//! text.

use codespan_reporting::files::{Error, Files};
use std::borrow::Cow;
use std::ops::Range;

/// Lines of more bytes than this are shortened.
const LONGEST: usize = 200;
/// The number of bytes that are kept on both sides of each end of a place.
const AROUND: usize = 60;
/// Replaces what is left out.
const GAP: &str = "…";

/// A text whose long lines are shortened.
pub(super) struct Excerpt<'a> {
    name: &'a str,
    whole: &'a str,
    cut: Cow<'a, str>,
    /// For each part that is kept: where it begins in the short text and in the whole one, and its length.
    pieces: Vec<(usize, usize, usize)>,
    /// Where the lines of the short text begin.
    lines: Vec<usize>,
}

impl<'a> Excerpt<'a> {
    /// Shortens a text around these places, which must begin and end at the boundaries of characters.
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

    /// Returns the place in the short text of a place in the whole one.
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

    /// Returns the position in the whole text of a position in the short one.
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

/// Returns the parts of a line that are kept: all of a short line; of a long one, what is near the ends of places,
/// or the beginning of the line if it has none.
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

/// The texts of one diagnostic, by the index of their source.
pub(super) struct Excerpts<'a>(pub Vec<Excerpt<'a>>);

impl Excerpts<'_> {
    fn get(&self, source: usize) -> Result<&Excerpt<'_>, Error> {
        self.0.get(source).ok_or(Error::FileMissing)
    }
}

impl<'a> Files<'a> for Excerpts<'a> {
    type FileId = usize;
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, source: usize) -> Result<&'a str, Error> {
        Ok(self.get(source)?.name)
    }

    fn source(&'a self, source: usize) -> Result<&'a str, Error> {
        Ok(&self.get(source)?.cut)
    }

    fn line_index(&'a self, source: usize, byte: usize) -> Result<usize, Error> {
        Ok(self.get(source)?.lines.partition_point(|start| *start <= byte).saturating_sub(1))
    }

    fn line_range(&'a self, source: usize, line: usize) -> Result<Range<usize>, Error> {
        let Excerpt { lines, cut, .. } = self.get(source)?;
        let beyond = Error::LineTooLarge { given: line, max: lines.len().saturating_sub(1) };
        let start = *lines.get(line).ok_or(beyond)?;
        Ok(start..lines.get(line + 1).copied().unwrap_or(cut.len()))
    }

    fn column_number(&'a self, source: usize, _: usize, byte: usize) -> Result<usize, Error> {
        let excerpt = self.get(source)?;
        let before = &excerpt.whole[..excerpt.back(byte)];
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        Ok(line.chars().count() + 1)
    }
}
