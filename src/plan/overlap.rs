//! Whether what is live in the arena lies apart: buffer from buffer, and within a step its result and its
//! scratch from what it reads, but where the kernel works on an operand's own bytes.

use super::{Base, Place, Plan, Step};
use std::collections::BTreeMap;
use std::ops::Range;

impl Plan {
    /// Checks that buffers that are taken together lie apart, that whatever a step touches lies in one of
    /// them, that every operand was written, and that a step writes over none that its kernel reads.
    ///
    /// # Errors
    /// The first step at which that is not so, and why.
    pub(super) fn check_overlap(&self) -> Result<(), String> {
        let last = self.steps.len();
        let mut begins = vec![Vec::new(); last + 1];
        let mut ends = vec![Vec::new(); last + 2];
        for (at, buffer) in self.buffers.iter().enumerate() {
            let inside = buffer.offset.checked_add(buffer.size).is_some_and(|end| end <= self.arena);
            if !inside || buffer.size == 0 || buffer.lower >= buffer.upper || buffer.upper > last + 1 {
                return Err(format!("buffer {at} does not lie within the arena and the steps"));
            }
            begins[buffer.lower].push(at);
            ends[buffer.upper].push(at);
        }
        let mut live = Live::default();
        for step in 0..=last {
            for at in &ends[step] {
                live.end(self.range(*at));
            }
            let name = self.steps.get(step).map_or("the end", |step| &step.name);
            for at in &begins[step] {
                live.begin(self.range(*at)).map_err(|why| format!("at `{name}`: {why}"))?;
            }
            match self.steps.get(step) {
                Some(step) => live.run(step).map_err(|why| format!("step `{name}`: {why}"))?,
                None => {
                    for (name, ty, place) in &self.outputs {
                        live.reads(*place, ty.bytes()).map_err(|why| format!("output `{name}`: {why}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn range(&self, buffer: usize) -> Range<usize> {
        let buffer = &self.buffers[buffer];
        buffer.offset..buffer.offset + buffer.size
    }
}

/// The buffers that are taken at one step, where each begins: its end, and which bytes of it were written.
#[derive(Default)]
struct Live(BTreeMap<usize, (usize, Vec<Range<usize>>)>);

impl Live {
    fn begin(&mut self, range: Range<usize>) -> Result<(), String> {
        let below = self.0.range(..range.end).next_back();
        if let Some((start, (end, _))) = below.filter(|(_, (end, _))| *end > range.start) {
            return Err(format!("buffers at {start}..{end} and {}..{} overlap", range.start, range.end));
        }
        self.0.insert(range.start, (range.end, Vec::new()));
        Ok(())
    }

    fn end(&mut self, range: Range<usize>) {
        self.0.remove(&range.start);
    }

    /// What was written of the buffer that holds these bytes.
    fn holder(&mut self, range: &Range<usize>) -> Result<&mut Vec<Range<usize>>, String> {
        let found = self.0.range_mut(..=range.start).next_back();
        match found {
            Some((_, (end, written))) if range.end <= *end => Ok(written),
            _ => Err(format!("no buffer holds {}..{} then", range.start, range.end)),
        }
    }

    /// That a place of so many bytes holds what a step has written.
    fn reads(&mut self, place: Place, bytes: usize) -> Result<(), String> {
        let Some(range) = arena(place, bytes) else { return Ok(()) };
        let written = self.holder(&range)?;
        let mut from = range.start;
        while from < range.end {
            let further = written.iter().filter(|one| one.start <= from && from < one.end).map(|one| one.end);
            let Some(to) = further.max() else {
                return Err(format!("nothing has written byte {from} of {}..{}", range.start, range.end));
            };
            from = to;
        }
        Ok(())
    }

    fn run(&mut self, step: &Step) -> Result<(), String> {
        let output = arena(step.output, step.output_type.bytes()).ok_or("its result is not in the arena")?;
        let scratch = step.scratch_offset..step.scratch_offset + step.scratch;
        if step.scratch > 0 {
            if !self.holder(&scratch)?.is_empty() {
                return Err("its scratch lies on another value".to_owned());
            }
            if meet(&scratch, &output) {
                return Err("its scratch lies in its result".to_owned());
            }
        }
        if step.in_place.is_some_and(|operand| step.inputs.get(operand) != Some(&step.output)) {
            return Err("it is to take an operand's place, and its result lies elsewhere".to_owned());
        }
        let operands = step.inputs.iter().zip(&step.input_types).enumerate();
        let operands =
            operands.filter_map(|(at, (place, ty))| Some((at, *place, arena(*place, ty.bytes())?)));
        // Bytes of the result that the kernel leaves alone, or works on where they lie.
        let shares = |at: usize| step.in_place == Some(at) || step.joined.contains(&at);
        let shared: Vec<Range<usize>> =
            operands.clone().filter(|(at, ..)| shares(*at)).map(|(_, _, range)| range).collect();
        for (at, place, range) in operands {
            self.reads(place, range.len()).map_err(|why| format!("operand {at}: {why}"))?;
            if step.scratch > 0 && meet(&scratch, &range) {
                return Err(format!("its scratch lies on operand {at}"));
            }
            if shares(at) && !within(&range, &output) {
                return Err(format!("operand {at} is part of its result, and lies elsewhere"));
            }
            // What is joined once may be copied from there to another part.
            let joined = !step.joined.is_empty() && shared.iter().any(|one| within(&range, one));
            if !shares(at) && !joined && meet(&output, &range) {
                return Err(format!("its result lies on operand {at}"));
            }
        }
        let written = self.holder(&output)?;
        let lost = |one: &&Range<usize>| {
            let both = one.start.max(output.start)..one.end.min(output.end);
            !both.is_empty() && !shared.iter().any(|operand| within(&both, operand))
        };
        if let Some(lost) = written.iter().find(lost) {
            return Err(format!("its result lies on the value at {}..{}", lost.start, lost.end));
        }
        written.push(output);
        Ok(())
    }
}

/// The bytes of the arena that a value takes.
fn arena(place: Place, bytes: usize) -> Option<Range<usize>> {
    (place.base == Base::Arena).then(|| place.offset..place.offset + bytes)
}

fn within(a: &Range<usize>, b: &Range<usize>) -> bool {
    b.start <= a.start && a.end <= b.end
}

fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
