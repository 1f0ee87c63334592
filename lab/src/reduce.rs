//! Finds the smallest graph of which something is still true, such as that a command fails in the same way.
//!
//! Parts are taken away as long as it stays true: outputs, the end of the graph, its beginning, calls in the middle, the
//! values of constants, sizes. Parts are tried many at once and then fewer, as in delta debugging (Zeller and
//! Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).

mod sketch;

pub use sketch::{Size, Sketch};

use ovolo::graph::Graph;
use std::ops::Range;

/// Says whether it is still true of a graph.
pub type Holds<'a, E> = &'a mut dyn FnMut(&Sketch) -> Result<bool, E>;

/// Takes parts of a graph away, as long as `holds` says that what is left still has the property. The graph itself must have it.
///
/// # Errors
/// The first error of `holds`.
pub fn reduce<E>(graph: &Graph, holds: Holds<'_, E>) -> Result<Sketch, E> {
    let mut search = Search { best: Sketch::new(graph), holds };
    loop {
        let before = search.best.size();
        search.by_chunks(|sketch| sketch.size().outputs, Sketch::without_outputs)?;
        search.cut_end()?;
        search.by_chunks(|sketch| sketch.size().outputs, Sketch::without_outputs)?;
        search.cut_beginning()?;
        search.by_chunks(|sketch| sketch.size().calls, Sketch::bypassed)?;
        search.by_chunks(|sketch| sketch.size().calls, Sketch::opened)?;
        search.by_chunks(|sketch| sketch.size().values, Sketch::seeded)?;
        search.shrink_sizes()?;
        if search.best.size() == before {
            return Ok(search.best);
        }
    }
}

struct Search<'a, E> {
    best: Sketch,
    holds: Holds<'a, E>,
}

impl<E> Search<'_, E> {
    /// Takes a candidate if it is smaller and still has the property.
    fn takes(&mut self, candidate: Option<Sketch>) -> Result<bool, E> {
        let smaller = candidate.filter(|candidate| candidate.size() < self.best.size());
        let Some(candidate) = smaller else { return Ok(false) };
        let holds = (self.holds)(&candidate)?;
        if holds {
            self.best = candidate;
        }
        Ok(holds)
    }

    /// Tries to take away all parts at once, then halves, and so on down to single parts.
    fn by_chunks(
        &mut self,
        count: impl Fn(&Sketch) -> usize,
        without: impl Fn(&Sketch, Range<usize>) -> Option<Sketch>,
    ) -> Result<(), E> {
        let mut chunk = count(&self.best);
        while chunk > 0 {
            // Chunks are tried from the end, because what comes last is usually not needed for what comes before.
            let mut end = count(&self.best);
            while end > 0 {
                let start = end.saturating_sub(chunk);
                let candidate = without(&self.best, start..end);
                self.takes(candidate)?;
                end = start.min(count(&self.best));
            }
            chunk /= 2;
        }
        Ok(())
    }

    /// Finds the first calls that are enough, by bisection.
    fn cut_end(&mut self) -> Result<(), E> {
        let whole = self.best.clone();
        let (mut short, mut enough) = (0, whole.size().calls);
        while enough - short > 1 {
            let middle = usize::midpoint(short, enough);
            match self.takes(Some(whole.prefix(middle)))? {
                true => enough = middle,
                false => short = middle,
            }
        }
        Ok(())
    }

    /// Finds how many of the first calls can become inputs, by bisection.
    fn cut_beginning(&mut self) -> Result<(), E> {
        let whole = self.best.clone();
        let (mut free, mut much) = (0, whole.size().calls);
        while much - free > 1 {
            let middle = usize::midpoint(free, much);
            match self.takes(whole.opened(0..middle))? {
                true => free = middle,
                false => much = middle,
            }
        }
        Ok(())
    }

    /// Tries smaller sizes of dimensions, the largest dimensions first.
    fn shrink_sizes(&mut self) -> Result<(), E> {
        for size in self.best.dimensions() {
            for smaller in [1, 2, 3, size / 2] {
                if smaller < size && smaller > 0 && self.takes(self.best.resized(size, smaller))? {
                    break;
                }
            }
        }
        Ok(())
    }
}
