//! The working copy of a problem that all extractors use. It contains only what can be run and reached, in canonical
//! order.
//!
//! Classes are numbered by their lowest rank, and candidates are sorted by rank. So a decision by number does not
//! depend on how the problem was numbered.

use super::node::Node;
use super::ready::Ready;
use super::{ClassId, ExtractError, Extraction, Problem, Report, Size};

/// A problem in canonical numbers, without candidates that cannot be run or reached.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub classes: Vec<Vec<Node>>,
    /// The roots, sorted, each once.
    pub roots: Vec<u32>,
    /// For each class, its number in the problem.
    pub original: Vec<u32>,
    /// The number of classes in the problem.
    pub total: usize,
}

/// Returns which classes can be computed from candidates that can be run. It is an error if a root cannot.
pub(super) fn runs(problem: &Problem) -> Result<Vec<bool>, ExtractError> {
    validate(problem)?;
    let runs = runnable(problem);
    match problem.roots.iter().find(|root| !runs[root.index()]) {
        Some(&root) => Err(ExtractError::NothingRuns { root, missing: missing(problem, &runs, root) }),
        None => Ok(runs),
    }
}

impl Work {
    /// Makes the working copy of a problem.
    pub(crate) fn new(problem: &Problem) -> Result<Self, ExtractError> {
        let runs = runs(problem)?;
        let usable = |node: &super::Candidate| {
            node.cost < f64::INFINITY && node.children.iter().all(|child| runs[child.index()])
        };
        let mut reached = vec![false; problem.classes.len()];
        let mut stack: Vec<usize> = problem.roots.iter().map(|root| root.index()).collect();
        while let Some(class) = stack.pop() {
            if !std::mem::replace(&mut reached[class], true) {
                for node in problem.classes[class].nodes.iter().filter(|node| usable(node)) {
                    stack.extend(node.children.iter().map(|c| c.index()).filter(|&c| !reached[c]));
                }
            }
        }
        let rank = |class: u32| {
            let nodes = &problem.classes[class as usize].nodes;
            nodes.iter().filter(|node| usable(node)).map(|node| node.rank).min()
        };
        let mut keyed: Vec<_> =
            (0..reached.len() as u32).filter(|&c| reached[c as usize]).map(|c| (rank(c), c)).collect();
        keyed.sort_unstable();
        let original: Vec<u32> = keyed.into_iter().map(|(_, class)| class).collect();
        let mut number = vec![u32::MAX; reached.len()];
        for (new, &old) in original.iter().enumerate() {
            number[old as usize] = new as u32;
        }
        let classes = original.iter().map(|&old| {
            let mut nodes: Vec<_> = problem.classes[old as usize]
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| usable(node))
                .collect();
            nodes.sort_by_key(|(index, node)| (node.rank, *index));
            let node = |(index, node): (usize, &super::Candidate)| {
                let mut children: Vec<u32> = node.children.iter().map(|c| number[c.index()]).collect();
                children.sort_unstable();
                children.dedup();
                Node { cost: node.cost, children, index: index as u32 }
            };
            nodes.into_iter().map(node).collect()
        });
        let mut roots: Vec<u32> = problem.roots.iter().map(|root| number[root.index()]).collect();
        roots.sort_unstable();
        roots.dedup();
        let classes = classes.collect();
        Ok(Self { classes, roots, original, total: number.len() })
    }

    pub(crate) fn size(&self) -> Size {
        Size { classes: self.classes.len(), nodes: self.classes.iter().map(Vec::len).sum() }
    }

    /// Returns for each class the classes that read it, sorted, each once.
    pub(crate) fn readers(&self) -> Vec<Vec<u32>> {
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); self.classes.len()];
        for (class, nodes) in self.classes.iter().enumerate() {
            for &child in nodes.iter().flat_map(|node| &node.children) {
                if readers[child as usize].last() != Some(&(class as u32)) {
                    readers[child as usize].push(class as u32);
                }
            }
        }
        readers
    }

    /// Returns the extraction of a choice, which is given by indices into `classes[class]`.
    pub(crate) fn finish(
        &self,
        choice: &[Option<u32>],
        bound: f64,
        proven: bool,
        report: Report,
    ) -> Extraction {
        let mut out = Extraction { choice: vec![None; self.total], cost: 0.0, bound, proven, report };
        let used = reach(&self.classes, &self.roots, choice);
        for class in (0..self.classes.len()).filter(|&class| used[class]) {
            let node = &self.classes[class][choice[class].expect("a class that is used is chosen") as usize];
            out.choice[self.original[class] as usize] = Some(node.index);
            out.cost += node.cost;
        }
        out.proven |= bound >= out.cost * ROUNDING;
        out.settle();
        if out.proven {
            out.report.limit = None;
        }
        out
    }
}

/// A bound that is closer to the cost than this is equal to it, except for rounding.
pub(crate) const ROUNDING: f64 = 1.0 - 1e-11;

/// Returns which classes a choice uses.
pub(super) fn reach(classes: &[Vec<Node>], roots: &[u32], choice: &[Option<u32>]) -> Vec<bool> {
    let mut used = vec![false; classes.len()];
    let mut stack = roots.to_vec();
    while let Some(class) = stack.pop() {
        if !std::mem::replace(&mut used[class as usize], true) {
            let node = choice[class as usize].expect("a class that is used is chosen");
            stack.extend(&classes[class as usize][node as usize].children);
        }
    }
    used
}

/// Returns the cost of a choice that is known to be acyclic.
pub(super) fn price(classes: &[Vec<Node>], roots: &[u32], choice: &[Option<u32>]) -> f64 {
    let used = reach(classes, roots, choice);
    let node =
        |class: usize| &classes[class][choice[class].expect("a class that is used is chosen") as usize];
    (0..classes.len()).filter(|&class| used[class]).map(|class| node(class).cost).sum()
}

/// For each class the cheapest candidate and its cost if nothing were shared, and the order in which classes can be
/// computed. Children come before their readers, so the choice is acyclic.
///
/// This is Knuth's generalisation of Dijkstra's algorithm (Information Processing Letters 6(1), 1977).
pub(super) struct Trees {
    /// The cost, which is infinite for a class that cannot be computed.
    pub cost: Vec<f64>,
    pub choice: Vec<Option<u32>>,
}

/// Replaces every larger sum, so that the tree cost of a deep network stays finite.
const HUGE: f64 = 1e300;

impl Trees {
    pub(crate) fn new(classes: &[Vec<Node>]) -> Self {
        let mut ready = Ready::new(classes, vec![false; classes.len()]);
        let mut trees = Self { cost: vec![f64::INFINITY; classes.len()], choice: vec![None; classes.len()] };
        while let Some((cost, class, place)) = ready.settle() {
            trees.choice[class as usize] = Some(place);
            trees.cost[class as usize] = cost;
            ready.release(class, |node| {
                let sum: f64 = node.children.iter().map(|&child| trees.cost[child as usize]).sum();
                Some((node.cost + sum).min(HUGE))
            });
        }
        trees
    }
}

/// Returns for which classes a finite and acyclic selection exists.
pub(super) fn runnable(problem: &Problem) -> Vec<bool> {
    let mut runs = vec![false; problem.classes.len()];
    let mut readers: Vec<Vec<(u32, u32)>> = vec![Vec::new(); problem.classes.len()];
    let mut waiting: Vec<Vec<u32>> = problem.classes.iter().map(|class| vec![0; class.nodes.len()]).collect();
    let mut ready = Vec::new();
    for (class, nodes) in problem.classes.iter().enumerate() {
        for (place, node) in nodes.nodes.iter().enumerate().filter(|(_, node)| node.cost < f64::INFINITY) {
            for child in &node.children {
                waiting[class][place] += 1;
                readers[child.index()].push((class as u32, place as u32));
            }
            if node.children.is_empty() {
                ready.push(class);
            }
        }
    }
    while let Some(class) = ready.pop() {
        if !std::mem::replace(&mut runs[class], true) {
            for &(reader, place) in &readers[class] {
                let left = &mut waiting[reader as usize][place as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(reader as usize);
                }
            }
        }
    }
    runs
}

/// Returns the class to name in the error for a root that cannot be run: the first one below it without a priced
/// candidate, or else one on a cycle.
fn missing(problem: &Problem, runs: &[bool], root: ClassId) -> ClassId {
    let mut seen = vec![false; problem.classes.len()];
    let mut class = root;
    loop {
        seen[class.index()] = true;
        let priced = problem.classes[class.index()].nodes.iter().filter(|node| node.cost < f64::INFINITY);
        let mut below = priced.flat_map(|node| &node.children).filter(|child| !runs[child.index()]);
        match below.find(|child| !seen[child.index()]) {
            Some(&next) => class = next,
            None => return class,
        }
    }
}

/// Checks that all classes exist, that prices are not negative, and that their sums are finite.
///
/// # Errors
/// [`ExtractError::UnknownClass`], [`ExtractError::BadCost`], [`ExtractError::TooDear`].
fn validate(problem: &Problem) -> Result<(), ExtractError> {
    let classes = problem.classes.len();
    let known = |of: &dyn Fn() -> String, class: ClassId| {
        if class.index() < classes {
            Ok(())
        } else {
            Err(ExtractError::UnknownClass { of: of(), class, classes })
        }
    };
    for &root in &problem.roots {
        known(&|| "a root".to_owned(), root)?;
    }
    let mut sum = 0.0;
    for (index, class) in problem.classes.iter().enumerate() {
        let mut dearest = 0.0_f64;
        for (node, candidate) in class.nodes.iter().enumerate() {
            if candidate.cost.is_nan() || candidate.cost < 0.0 {
                let class = ClassId(index as u32);
                return Err(ExtractError::BadCost { class, node, cost: candidate.cost });
            }
            if candidate.cost.is_finite() {
                dearest = dearest.max(candidate.cost);
            }
            for &child in &candidate.children {
                known(&|| format!("candidate {node} of class {index}"), child)?;
            }
        }
        sum += dearest;
        if !f64::is_finite(sum) {
            return Err(ExtractError::TooDear { class: ClassId(index as u32) });
        }
    }
    Ok(())
}
