//! The ways that runs have taken through a model: a tree of points at which regions begin, and of the regions that were
//! run from there.
//!
//! The number of regions is bounded. When there are too many, those go that were passed longest ago, with everything
//! that lies behind them.

use super::region::RegionReport;
use crate::digest::Digest;
use crate::onnx::{Item, LiveFrom, Position};
use crate::tensor::{Tensor, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};

/// Identifies a point. Points that were dropped do not give their numbers to others.
pub(super) type PointId = usize;

pub(super) struct Route {
    /// The points at which models begin, by the form of their inputs.
    starts: FxHashMap<String, PointId>,
    points: FxHashMap<PointId, Point>,
    /// The number of the next point.
    next: PointId,
    /// The number of regions.
    regions: usize,
    /// The number of the current run.
    run: u64,
    most: usize,
}

/// A place at which a region begins.
struct Point {
    position: Position,
    /// The regions that begin here.
    variants: Vec<Variant>,
}

/// A region, and when it is the one to run.
pub(super) struct Variant {
    /// The types of the live tensors before it.
    pub types: Vec<TensorType>,
    /// The live tensors whose elements it depends on, with these elements.
    pub asked: Vec<(usize, Tensor)>,
    /// The digest of its plan; `None` if it computes nothing.
    pub plan: Option<Digest>,
    /// The live tensors that are the inputs of its plan.
    pub inputs: Vec<usize>,
    /// Where the live tensors after it come from.
    pub live: Vec<LiveFrom>,
    pub next: Next,
    pub report: RegionReport,
    /// The last run that passed it.
    pub used: u64,
}

pub(super) enum Next {
    Point(PointId),
    Finished(Vec<(String, Item<usize>)>),
}

impl Variant {
    fn fits(&self, live: &[Tensor]) -> bool {
        self.types.len() == live.len()
            && self.types.iter().zip(live).all(|(ty, tensor)| ty == tensor.ty())
            && self.asked.iter().all(|(slot, tensor)| tensor.bytes() == live[*slot].bytes())
    }
}

impl Route {
    pub fn new(most: usize) -> Self {
        Self {
            starts: FxHashMap::default(),
            points: FxHashMap::default(),
            next: 0,
            regions: 0,
            run: 0,
            most: most.max(1),
        }
    }

    /// Sets the most regions that are kept.
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
    }

    /// Returns the number of regions.
    pub fn regions(&self) -> usize {
        self.regions
    }

    /// Begins a run with inputs of a form. Returns the point at which it begins.
    pub fn begin(&mut self, form: String, position: Position) -> PointId {
        self.run += 1;
        if let Some(point) = self.starts.get(&form) {
            return *point;
        }
        let point = self.point(position);
        self.starts.insert(form, point);
        point
    }

    /// Adds a point.
    pub fn point(&mut self, position: Position) -> PointId {
        self.points.insert(self.next, Point { position, variants: Vec::new() });
        self.next += 1;
        self.next - 1
    }

    pub fn position(&self, at: PointId) -> Option<&Position> {
        self.points.get(&at).map(|point| &point.position)
    }

    /// Returns the region that runs from a point for live tensors, and notes that the current run passes it.
    pub fn find(&mut self, at: PointId, live: &[Tensor]) -> Option<&Variant> {
        let variant = self.points.get_mut(&at)?.variants.iter_mut().find(|variant| variant.fits(live))?;
        variant.used = self.run;
        Some(variant)
    }

    /// Makes room for a region at a point, if there are too many regions.
    pub fn make_room(&mut self, at: PointId) {
        if self.regions >= self.most {
            self.trim(at);
        }
    }

    /// Adds a region at a point, which the current run passes.
    pub fn add(&mut self, at: PointId, variant: Variant) {
        if let Some(point) = self.points.get_mut(&at) {
            point.variants.push(Variant { used: self.run, ..variant });
            self.regions += 1;
        }
    }

    /// Drops regions until at most half of the limit is left: those that were passed longest ago. A run passes all
    /// regions on its way, so what comes before a region is never older than the region. The current point stays, even
    /// if the current run alone has passed too many regions.
    fn trim(&mut self, at: PointId) {
        let mut used: Vec<u64> =
            self.points.values().flat_map(|point| &point.variants).map(|variant| variant.used).collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        let last = used.get(self.most / 2).copied().unwrap_or(0);
        for point in self.points.values_mut() {
            point.variants.retain(|variant| variant.used > last);
        }
        let points = &self.points;
        self.starts.retain(|_, start| {
            *start == at || points.get(start).is_some_and(|point| !point.variants.is_empty())
        });
        let mut reached = FxHashSet::default();
        let mut open: Vec<PointId> = self.starts.values().copied().chain([at]).collect();
        while let Some(id) = open.pop() {
            if let Some(point) = self.points.get(&id).filter(|_| reached.insert(id)) {
                open.extend(point.variants.iter().filter_map(|variant| match variant.next {
                    Next::Point(next) => Some(next),
                    Next::Finished(_) => None,
                }));
            }
        }
        self.points.retain(|id, _| reached.contains(id));
        self.regions = self.points.values().map(|point| point.variants.len()).sum();
    }
}
