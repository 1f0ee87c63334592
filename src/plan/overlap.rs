//! Checks that live values in an arena do not overlap, and that the result and the scratch of a step do not overlap
//! its operands, except where the kernel works in place.

use super::{Base, Place, Plan, Step, Unsound};
use crate::tensor::Device;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

impl Plan {
    /// Checks that buffers in use at the same time do not overlap, that every range that a step reads or writes lies
    /// in one of them, that every operand was written before, and that a step does not overwrite what its kernel
    /// reads.
    ///
    /// # Errors
    /// The first step at which this is not so, and the reason.
    pub(super) fn check_overlap(&self) -> Result<(), Unsound> {
        let last = self.steps.len();
        let mut begins = vec![Vec::new(); last + 1];
        let mut ends = vec![Vec::new(); last + 2];
        for (at, buffer) in self.buffers.iter().enumerate() {
            let arena = self.arena_of(buffer.device);
            let inside = buffer.offset.checked_add(buffer.size).is_some_and(|end| end <= arena);
            if !inside || buffer.size == 0 || buffer.lower >= buffer.upper || buffer.upper > last + 1 {
                return Err(Unsound::Buffer(at));
            }
            begins[buffer.lower].push(at);
            ends[buffer.upper].push(at);
        }
        let mut live = Live::default();
        for step in 0..=last {
            for at in &ends[step] {
                live.end(&self.span(*at));
            }
            let name = || self.steps.get(step).map_or("the end", |step| &step.name).to_owned();
            for at in &begins[step] {
                live.begin(&self.span(*at)).map_err(|why| Unsound::Overlap { step: name(), why })?;
            }
            match self.steps.get(step) {
                Some(step) => live.run(step).map_err(|why| Unsound::Step { step: name(), why })?,
                None => {
                    for (name, ty, place) in &self.outputs {
                        live.reads(*place, ty.bytes())
                            .map_err(|why| Unsound::Output { output: name.to_string(), why })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn span(&self, buffer: usize) -> Span {
        let buffer = &self.buffers[buffer];
        Span { device: buffer.device, range: buffer.offset..buffer.offset + buffer.size }
    }
}

/// A range of bytes in the arena of a device.
#[derive(Clone)]
struct Span {
    device: Device,
    range: Range<usize>,
}

impl Span {
    fn is_within(&self, other: &Self) -> bool {
        self.device == other.device
            && other.range.start <= self.range.start
            && self.range.end <= other.range.end
    }

    fn meets(&self, other: &Self) -> bool {
        let apart = self.range.end <= other.range.start || other.range.end <= self.range.start;
        self.device == other.device && !apart
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.range.start, self.range.end)?;
        match self.device {
            Device::Host => Ok(()),
            device => write!(f, "#{device}"),
        }
    }
}

/// The buffers that are in use at one step, by their device and offset: their end, and the bytes of them that were
/// written.
#[derive(Default)]
struct Live(BTreeMap<(Device, usize), Taken>);

/// The end of a buffer, and the bytes of it that were written.
type Taken = (usize, Vec<Range<usize>>);

impl Live {
    fn begin(&mut self, span: &Span) -> Result<(), String> {
        let Span { device, range } = span;
        let below = self.0.range((*device, 0)..(*device, range.end)).next_back();
        if let Some(((_, start), (end, _))) = below.filter(|(_, (end, _))| *end > range.start) {
            let other = Span { device: *device, range: *start..*end };
            return Err(format!("buffers at {other} and {span} overlap"));
        }
        self.0.insert((*device, range.start), (range.end, Vec::new()));
        Ok(())
    }

    fn end(&mut self, span: &Span) {
        self.0.remove(&(span.device, span.range.start));
    }

    /// Returns the written bytes of the buffer that contains these bytes.
    fn holder(&mut self, span: &Span) -> Result<&mut Vec<Range<usize>>, String> {
        let found = self.0.range_mut((span.device, 0)..=(span.device, span.range.start)).next_back();
        match found {
            Some((_, (end, written))) if span.range.end <= *end => Ok(written),
            _ => Err(format!("no buffer contains {span} at that time")),
        }
    }

    /// Checks that the bytes at a place were written.
    fn reads(&mut self, place: Place, bytes: usize) -> Result<(), String> {
        let Some(span) = arena(place, bytes) else { return Ok(()) };
        let written = self.holder(&span)?;
        let mut from = span.range.start;
        while from < span.range.end {
            let further = written.iter().filter(|one| one.start <= from && from < one.end).map(|one| one.end);
            let Some(to) = further.max() else {
                return Err(format!("nothing has written byte {from} of {span}"));
            };
            from = to;
        }
        Ok(())
    }

    fn run(&mut self, step: &Step) -> Result<(), String> {
        let output = arena(step.output, step.output_type.bytes());
        let range = step.scratch_offset..step.scratch_offset + step.scratch;
        let scratch = Span { device: step.output_type.device, range };
        if step.scratch > 0 {
            if !self.holder(&scratch)?.is_empty() {
                return Err("its scratch overlaps another value".to_owned());
            }
            if output.as_ref().is_some_and(|output| scratch.meets(output)) {
                return Err("its scratch overlaps its result".to_owned());
            }
        }
        if step.in_place.is_some_and(|operand| step.inputs.get(operand) != Some(&step.output)) {
            return Err("it works in place, but its result does not lie on that operand".to_owned());
        }
        let operands = step.inputs.iter().zip(&step.input_types).enumerate();
        let operands =
            operands.filter_map(|(at, (place, ty))| Some((at, *place, arena(*place, ty.bytes())?)));
        let Some(output) = output else {
            // The result takes the place of an input.
            let kept =
                |(at, place): (usize, &Place)| step.in_place != Some(at) && place.base == step.output.base;
            if let Some(at) = step.inputs.iter().enumerate().position(kept) {
                return Err(format!("its result overlaps operand {at}"));
            }
            for (at, place, span) in operands {
                self.reads(place, span.range.len()).map_err(|why| format!("operand {at}: {why}"))?;
                if step.scratch > 0 && scratch.meets(&span) {
                    return Err(format!("its scratch overlaps operand {at}"));
                }
            }
            return Ok(());
        };
        // The bytes of the result that the kernel does not write, or on which it works in place.
        let shares = |at: usize| step.in_place == Some(at) || step.joined.contains(&at);
        let shared: Vec<Span> =
            operands.clone().filter(|(at, ..)| shares(*at)).map(|(_, _, span)| span).collect();
        for (at, place, span) in operands {
            self.reads(place, span.range.len()).map_err(|why| format!("operand {at}: {why}"))?;
            if step.scratch > 0 && scratch.meets(&span) {
                return Err(format!("its scratch overlaps operand {at}"));
            }
            if shares(at) && !span.is_within(&output) {
                return Err(format!("operand {at} should be part of its result, but lies elsewhere"));
            }
            // An operand that is joined once may be copied from there to another part of the result.
            let joined = !step.joined.is_empty() && shared.iter().any(|one| span.is_within(one));
            if !shares(at) && !joined && output.meets(&span) {
                return Err(format!("its result overlaps operand {at}"));
            }
        }
        let written = self.holder(&output)?;
        let lost = |one: &&Range<usize>| {
            let range = one.start.max(output.range.start)..one.end.min(output.range.end);
            let both = Span { range, ..output };
            !both.range.is_empty() && !shared.iter().any(|operand| both.is_within(operand))
        };
        if let Some(lost) = written.iter().find(lost) {
            return Err(format!("its result overlaps the value at {}..{}", lost.start, lost.end));
        }
        written.push(output.range);
        Ok(())
    }
}

/// Returns the bytes of an arena that a value takes.
fn arena(place: Place, bytes: usize) -> Option<Span> {
    match place.base {
        Base::Arena(device) => Some(Span { device, range: place.offset..place.offset + bytes }),
        Base::Input(_) | Base::Constant(_) => None,
    }
}
