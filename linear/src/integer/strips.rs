//! Windows that matrices of AMX read where they lie in an image, so that none is copied.
//!
//! A matrix of rows has the windows of adjacent pixels: its rows are equally far apart, and an instruction loads them with
//! this distance. The elements of a window that are adjacent in the image are a run: a row of the window, or the channels
//! of one of its pixels. Pieces of the inner dimension must not cross the end of a run.
//!
//! There are two ways to divide the pixels of a result. In the first one, each row of the result is a line, and the windows
//! of a matrix belong to one line. In the second one, which is for windows that move by one pixel, the image is a single
//! line: a position follows the last pixel of a row for each column of the padded image that begins no window of this row.
//! Matrices are then full where rows are short, and the sums of positions that are no pixels are left out.

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
    /// The positions of a line.
    positions: usize,
    /// The distance between the windows of adjacent positions in an image, in bytes.
    apart: usize,
    /// If an image is one line, the number of positions from a row of the result to the next.
    row: Option<usize>,
    /// The lines of an image.
    lines: usize,
    /// The distance between the windows of adjacent lines in an image, in bytes.
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
        let ways = &ways[..if source.strides == [1, 1] { 2 } else { 1 }];
        let of = |&(lines, positions, lines_apart): &(usize, usize, usize)| {
            let tile = positions.div_ceil(positions.div_ceil(ROWS));
            let matrices = Matrices::of_runs(tile, run)?;
            Some(Self {
                positions,
                apart: source.strides[1] * source.channels,
                row: (lines_apart == 0).then_some(source.image[1]),
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

    /// Returns the line of a tile, its first position that no other tile has, and how many positions of the tile before it
    /// has as well.
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
            None => position,
            Some(row) => position / row * self.columns + (position % row).min(self.columns),
        }
    }

    /// Returns the pixels of some tiles.
    pub(super) fn pixels(&self, tiles: &Range<usize>) -> Range<usize> {
        self.pixel(self.before(tiles.start))..self.pixel(self.before(tiles.end))
    }

    /// Returns the windows of a part in an image.
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

    /// Returns the adjacent pixels of a part, row by row of the result if an image is one line, each with the row of sums of
    /// the first of them.
    pub(super) fn sums(&self, part: &Part) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let positions = self.before(part.tiles.start)..self.before(part.tiles.end);
        // The sums of positions that also belong to the tile before come first.
        let (.., first) = self.place(part.tiles.start);
        // Without rows that end, all positions are pixels.
        let (row, columns) = self.row.map_or((usize::MAX, usize::MAX), |row| (row, self.columns));
        let mut at = positions.start;
        let mut next = self.pixel(at);
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
