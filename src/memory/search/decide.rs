//! Whether there is an order that needs no more than a number of bytes.
//!
//! The states are the sets of done tasks. Which bytes are live depends only on the set, so each set is visited once
//! (dynamic programming over the sets; Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired
//! Neural Networks for Edge Devices", MLSys 2020, whose adaptive budget corresponds to the number of bytes here).
//!
//! What makes it fast is that the live bytes are a submodular function of the set: the more tasks are done, the fewer
//! bytes a further task adds. So if some tasks can be done next that leave no more bytes live than before, and no part
//! of them leaves fewer, then they can be done at once: if there is an order from here, there is one that begins with
//! them. The same is true backwards from the end. For a tree this is the division into hills and valleys (Liu, "An
//! application of generalized tree pebbling to sparse matrix factorization", 1987).

use super::problem::Problem;
use super::set::Set;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;

/// The answer to the question.
pub(super) enum Verdict {
    /// An order with no more bytes.
    Order(Vec<usize>),
    /// There is none. All orders need at least this number of bytes.
    Impossible(usize),
    /// The states were used up.
    Unknown,
}

/// A set of done tasks, and the bytes that are live after them.
#[derive(Clone)]
struct State<const N: usize> {
    done: Set<N>,
    live: usize,
}

/// How a visit of the states from a start ended.
enum Visit {
    /// At the end, by these tasks.
    End(Vec<usize>),
    /// All states that can be reached were visited.
    Exhausted,
    /// There were too many states.
    TooMany,
}

/// The most states of one look for tasks that can be done at once, from the first and the last state.
const LOOK: usize = 256;
/// The same from every other state: there are many, and most looks are short or in vain.
const GLANCE: usize = 24;
/// The most states that are visited forwards before the search tries it backwards. With each turn it grows fourfold.
const TURN: usize = 1 << 10;

/// The question whether some order needs no more than a number of bytes.
pub(super) struct Decision<'a, const N: usize> {
    forward: &'a Problem<N>,
    backward: &'a Problem<N>,
    /// The most bytes.
    ceiling: usize,
    /// The states that are left.
    left: usize,
    /// The fewest bytes above the ceiling with which a task that was refused could run.
    next: usize,
}

impl<'a, const N: usize> Decision<'a, N> {
    pub(super) fn new(
        forward: &'a Problem<N>,
        backward: &'a Problem<N>,
        ceiling: usize,
        states: usize,
    ) -> Self {
        Self { forward, backward, ceiling, left: states, next: usize::MAX }
    }

    /// Returns the number of states that are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Answers the question.
    pub(super) fn run(&mut self) -> Verdict {
        let (forward, backward) = (self.forward, self.backward);
        let mut from = State { done: Set::EMPTY, live: forward.live };
        let mut to = State { done: Set::EMPTY, live: backward.live };
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        while self.advance(forward, &mut from, &to.done, &mut head, LOOK)
            | self.advance(backward, &mut to, &from.done, &mut tail, LOOK)
        {}
        let mut most = TURN;
        loop {
            for forwards in [true, false] {
                let visit = if forwards {
                    self.visit(forward, &from, &to.done, most)
                } else {
                    self.visit(backward, &to, &from.done, most)
                };
                match visit {
                    Visit::End(tasks) => {
                        let path = if forwards { &mut head } else { &mut tail };
                        path.extend(tasks);
                        head.extend(tail.into_iter().rev());
                        return Verdict::Order(head);
                    }
                    Visit::Exhausted => return Verdict::Impossible(self.next),
                    Visit::TooMany if self.left == 0 => return Verdict::Unknown,
                    Visit::TooMany => {}
                }
            }
            most = most.saturating_mul(4);
        }
    }

    /// Does all tasks that can be done at once. Returns whether there were any.
    fn advance(
        &mut self,
        problem: &Problem<N>,
        state: &mut State<N>,
        except: &Set<N>,
        path: &mut Vec<usize>,
        look: usize,
    ) -> bool {
        let before = path.len();
        loop {
            let ready = problem.ready(&state.done).filter(|task| !except.contains(*task));
            let found = ready.filter_map(|task| self.valley(problem, state, task, except, look)).next();
            let Some((to, tasks)) = found else { break };
            *state = to;
            path.extend(tasks);
        }
        path.len() > before
    }

    /// Looks for tasks that begin with `first`, depend on it, and leave no more bytes live than there are. It visits
    /// fewer tasks before more, so no part of those that it finds leaves as few.
    fn valley(
        &mut self,
        problem: &Problem<N>,
        from: &State<N>,
        first: usize,
        except: &Set<N>,
        most: usize,
    ) -> Option<(State<N>, Vec<usize>)> {
        let (during, live) = problem.step(&from.done, from.live, first);
        if during > self.ceiling {
            return None;
        }
        let start = State { done: from.done.with(first), live };
        if live <= from.live {
            return Some((start, vec![first]));
        }
        let below = problem.below[first].minus(except);
        let mut paths = vec![(NONE, first)];
        let mut level = vec![(start, 0)];
        while !level.is_empty() {
            let mut found = FxHashSet::default();
            let mut deeper = Vec::new();
            for (state, path) in &level {
                let open = below.minus(&state.done);
                for task in open.iter().filter(|task| problem.before[*task].is_within(&state.done)) {
                    let (during, live) = problem.step(&state.done, state.live, task);
                    let next = State { done: state.done.with(task), live };
                    if during > self.ceiling || !found.insert(next.done) {
                        continue;
                    }
                    paths.push((*path, task));
                    if live <= from.live {
                        return Some((next, unwind(&paths, paths.len() - 1)));
                    }
                    if paths.len() > most {
                        return None;
                    }
                    deeper.push((next, paths.len() - 1));
                }
            }
            self.left = self.left.saturating_sub(deeper.len());
            level = deeper;
        }
        None
    }

    /// Visits the states from a start, those with few live bytes first, until the end is reached.
    fn visit(&mut self, problem: &Problem<N>, start: &State<N>, except: &Set<N>, most: usize) -> Visit {
        self.next = usize::MAX;
        let rest = (0..problem.len()).filter(|task| !except.contains(*task));
        let end = rest.fold(Set::EMPTY, Set::with);
        let mut seen = FxHashSet::default();
        // Each task with the number of the one before it, so that states share their paths.
        let mut paths: Vec<(usize, usize)> = Vec::new();
        let mut stack = vec![(start.clone(), NONE)];
        while let Some((mut state, mut path)) = stack.pop() {
            let mut more = Vec::new();
            self.advance(problem, &mut state, except, &mut more, GLANCE);
            for task in more {
                paths.push((path, task));
                path = paths.len() - 1;
            }
            if state.done == end {
                return Visit::End(unwind(&paths, path));
            }
            if !seen.insert(state.done) {
                continue;
            }
            if seen.len() > most || self.left == 0 {
                return Visit::TooMany;
            }
            self.left -= 1;
            let mut next = Vec::new();
            for task in problem.ready(&state.done).filter(|task| !except.contains(*task)) {
                let (during, live) = problem.step(&state.done, state.live, task);
                let done = state.done.with(task);
                if during > self.ceiling {
                    self.next = self.next.min(during);
                } else if !seen.contains(&done) {
                    next.push((live, task, done));
                }
            }
            // The last one on the stack is visited first.
            next.sort_unstable_by_key(|(live, task, _)| Reverse((*live, *task)));
            for (live, task, done) in next {
                paths.push((path, task));
                stack.push((State { done, live }, paths.len() - 1));
            }
        }
        Visit::Exhausted
    }
}

/// The number of no task of a path.
const NONE: usize = usize::MAX;

/// Returns the tasks of a path, the first one first.
fn unwind(paths: &[(usize, usize)], mut at: usize) -> Vec<usize> {
    let mut tasks = Vec::new();
    while at != NONE {
        let (before, task) = paths[at];
        tasks.push(task);
        at = before;
    }
    tasks.reverse();
    tasks
}
