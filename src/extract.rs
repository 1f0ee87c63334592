//! stand-in
pub type StandIn = ();
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);
#[derive(Clone, Debug, Default)]
pub struct Problem { pub classes: Vec<Class>, pub roots: Vec<ClassId> }
#[derive(Clone, Debug, Default)]
pub struct Class { pub nodes: Vec<Candidate> }
#[derive(Clone, Debug)]
pub struct Candidate { pub cost: f64, pub children: Vec<ClassId>, pub rank: u32 }
#[derive(Clone, Debug, PartialEq)]
pub struct Extraction { pub choice: Vec<Option<u32>>, pub cost: f64, pub bound: f64, pub proven: bool }
#[derive(Debug, thiserror::Error)]
#[error("no")]
pub struct ExtractError;
pub trait Extractor: Sync { fn name(&self) -> &'static str; fn extract(&self, p: &Problem) -> Result<Extraction, ExtractError>; }
pub const EXTRACTORS: &[&dyn Extractor] = &[&Tree];
pub fn find(_: &str) -> Option<&'static dyn Extractor> { Some(EXTRACTORS[0]) }
struct Tree;
impl Extractor for Tree {
    fn name(&self) -> &'static str { "greedy-dag" }
    fn extract(&self, p: &Problem) -> Result<Extraction, ExtractError> {
        use std::collections::BTreeMap;
        // greedy dag: per class the set of (class -> cost) below
        let n = p.classes.len();
        let mut parents = vec![Vec::new(); n];
        for (c, class) in p.classes.iter().enumerate() { for node in &class.nodes { for ch in &node.children { parents[ch.0 as usize].push(c); } } }
        let mut best: Vec<Option<(f64, u32, BTreeMap<u32, f64>)>> = vec![None; n];
        let mut queue: std::collections::VecDeque<usize> = (0..n).collect();
        let mut inq = vec![true; n];
        while let Some(c) = queue.pop_front() {
            inq[c] = false;
            let mut improved = false;
            for (i, node) in p.classes[c].nodes.iter().enumerate() {
                let mut set = BTreeMap::new();
                let mut ok = true;
                for ch in &node.children {
                    match &best[ch.0 as usize] { Some((_, _, s)) if !s.contains_key(&(c as u32)) => set.extend(s.iter().map(|(a, b)| (*a, *b))), _ => { ok = false; break; } }
                }
                if !ok { continue; }
                set.insert(c as u32, node.cost);
                let cost: f64 = set.values().sum();
                if best[c].as_ref().is_none_or(|b| cost < b.0 - 1e-15) { best[c] = Some((cost, i as u32, set)); improved = true; }
            }
            if improved { for &q in &parents[c] { if !inq[q] { inq[q] = true; queue.push_back(q); } } }
        }
        let choice: Vec<Option<u32>> = best.iter().map(|b| b.as_ref().map(|b| b.1)).collect();
        let mut all = BTreeMap::new();
        for r in &p.roots { all.extend(best[r.0 as usize].as_ref().ok_or(ExtractError)?.2.iter().map(|(a, b)| (*a, *b))); }
        Ok(Extraction { choice, cost: all.values().sum(), bound: 0.0, proven: false })
    }
}
