//! Windows that matrices of AMX read where they lie in an image, so that none is copied.
//!
//! A matrix of rows has the windows of adjacent pixels: its rows are equally far apart, and an instruction loads them with
//! this distance. The elements of a window that are adjacent in the image are a run: a row of the window, or the channels
//! of one of its pixels. Pieces of the inner dimension must not cross the end of a run.
//!
//! Pixels are adjacent within a row of the result. Where its rows are short, and windows move by one pixel, a matrix may
//! also go on over the end of a row: the sums of positions that are no pixels are left out.

use super::bands::{BAND, Bands, band};
use super::geometry::Geometry;
use super::matrix::{Matrices, ROWS, Windows};
use super::prepared::width;
use std::ops::Range;

/// The most products of matrices that take less time than copying windows, as a multiple of the products with copies: a
/// fraction.
const MOST_WORK: [usize; 2] = [3, 2];

/// How the pixels of a result are divided among matrices.
pub(super) struct Strips {
    /// The positions of a line, the distance between two of them in an image in bytes, and how many of them are from a row
    /// of the result to the next.
    positions: usize,
    apart: usize,
    row: usize,
    /// The lines of an image, and their distance in bytes.
    lines: usize,
    lines_apart: usize,
    /// The columns of the result.
    columns: usize,
    /// The positions of a tile. The last tile of a line has some positions of the one before, if they do not fill it.
    tile: usize,
    /// Where the runs of a window begin, in bytes from its first element.
    runs: Vec<usize>,
    matrices: Matrices,
}

/// Some tiles that are multiplied at once: one or two.
pub(super) struct Part {
    tiles: Range<usize>,
}

impl Strips {
    /// Returns a division of the pixels of a convolution whose windows lie in `source`; `None` if the processor has no
    /// matrices, if these would be small, or if copying the windows takes less time. `group` has the sizes of a group.
    pub(super) fn new(source: &Geometry, group: &Geometry, groups: usize) -> Option<Self> {
        let quads = width(group) / 4;
        let line = source.image[1] * source.channels;
        let [rows, columns] = source.window;
        let joined = groups == 1 && source.dilations[1] == 1;
        let run = if joined { columns * quads } else { quads };
        let columns = if joined { 1 } else { columns };
        let runs: Vec<usize> = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
            .map(|(row, column)| {
                row * source.dilations[0] * line + column * source.dilations[1] * source.channels
            })
            .collect();
        let [height, width] = source.pixels;
        let ways =
            [(height, width, source.strides[0] * line), (1, (height - 1) * source.image[1] + width, 0)];
        // The second way is for windows that move by one pixel.
        let ways = &ways[..if source.strides == [1, 1] { 2 } else { 1 }];
        let of = |&(lines, positions, lines_apart): &(usize, usize, usize)| {
            let tile = positions.div_ceil(positions.div_ceil(ROWS));
            let matrices = Matrices::of_runs(tile, run)?;
            Some(Self {
                positions,
                apart: source.strides[1] * source.channels,
                row: if lines == 1 { source.image[1] } else { 0 },
                lines,
                lines_apart,
                columns: width,
                tile,
                runs: runs.clone(),
                matrices,
            })
        };
        let best = ways.iter().filter_map(of).min_by_key(Self::work)?;
        let depth = rows * source.window[1] * quads;
        let copied = Matrices::new(BAND.min(source.area()), depth + Matrices::filling(BAND, depth));
        let copied = copied?.pieces() * source.area().div_ceil(ROWS);
        (MOST_WORK[1] * best.work() <= MOST_WORK[0] * copied).then_some(best)
    }

    /// Returns the number of products of matrices for a column of panels.
    fn work(&self) -> usize {
        self.tiles() * self.runs.len() * self.matrices.pieces()
    }

    fn tiles_of_line(&self) -> usize {
        self.positions.div_ceil(self.tile)
    }

    /// Returns the number of tiles of an image.
    fn tiles(&self) -> usize {
        self.lines * self.tiles_of_line()
    }

    /// Returns the bands of tiles of an image; `group` has the sizes of a group.
    pub(super) fn bands(&self, group: &Geometry, threads: usize) -> Bands {
        Bands::even(self.tiles(), (band(group.channels) / self.tile).max(2).next_multiple_of(2), threads)
    }

    /// Returns the division of the products of a tile.
    pub(super) fn matrices(&self) -> Matrices {
        self.matrices
    }

    /// Returns the parts of some tiles.
    pub(super) fn parts(&self, tiles: &Range<usize>) -> impl ExactSizeIterator<Item = Part> + use<> {
        let end = tiles.end;
        tiles.clone().step_by(2).map(move |tile| Part { tiles: tile..(tile + 2).min(end) })
    }

    /// Returns the line of a tile, its first position, and how many positions before that it has in addition.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (line, first) = (tile / self.tiles_of_line(), tile % self.tiles_of_line() * self.tile);
        let begin = first.min(self.positions - self.tile);
        (line, first, first - begin)
    }

    /// Returns the positions of all lines, counted together, up to a tile.
    fn before(&self, tile: usize) -> usize {
        match tile == self.tiles() {
            true => self.lines * self.positions,
            false => {
                let (line, first, _) = self.place(tile);
                line * self.positions + first
            }
        }
    }

    /// Returns the number of pixels before a position.
    fn pixel(&self, position: usize) -> usize {
        match self.row {
            0 => position,
            row => position / row * self.columns + (position % row).min(self.columns),
        }
    }

    /// Returns the pixels of some tiles.
    pub(super) fn pixels(&self, tiles: &Range<usize>) -> Range<usize> {
        self.pixel(self.before(tiles.start))..self.pixel(self.before(tiles.end))
    }

    /// Returns the windows of a part in an image, whose sums are to be written from a row of sums on.
    pub(super) fn windows(&self, image: *const u8, part: &Part) -> Windows<'_> {
        let place = |tile: usize| {
            let (line, first, more) = self.place(tile);
            image.wrapping_add(line * self.lines_apart + (first - more) * self.apart)
        };
        let second = (part.tiles.len() > 1).then(|| {
            let (.., more) = self.place(part.tiles.start + 1);
            (place(part.tiles.start + 1), self.tile - more)
        });
        Windows { first: place(part.tiles.start), second, stride: self.apart, runs: &self.runs }
    }

    /// Returns how many sums of a part come before those of its first position.
    fn before_first(&self, part: &Part) -> usize {
        self.place(part.tiles.start).2
    }

    /// Returns the sums of a part that are those of adjacent pixels: the first row of sums, and the pixels.
    pub(super) fn sums(&self, part: &Part) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let positions = self.before(part.tiles.start)..self.before(part.tiles.end);
        let first = self.before_first(part);
        let (row, columns) = match self.row {
            // All positions are pixels.
            0 => (usize::MAX, usize::MAX),
            row => (row, self.columns),
        };
        let pixel = self.pixel(positions.start);
        let mut at = positions.start;
        let mut next = pixel;
        std::iter::from_fn(move || {
            if at % row >= columns {
                at = at.next_multiple_of(row);
            }
            if at >= positions.end {
                return None;
            }
            let end = (at - at % row).saturating_add(columns).min(positions.end);
            let (sums, pixels) = (first + at - positions.start, next..next + end - at);
            (at, next) = (end, pixels.end);
            Some((sums, pixels))
        })
    }
}
