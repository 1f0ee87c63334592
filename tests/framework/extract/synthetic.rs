//! Synthetic extraction problems: small random ones with cycles, and ones with the shape of lowered networks,
//! with each value in several layouts, conversions between them, and several kernels for an op.
#![allow(dead_code, missing_docs)]

#[allow(clippy::duplicate_mod)] // Benches compile this file alone.
#[path = "../../common/seeded.rs"]
mod seeded;

pub use seeded::Random;

use ovolo::extract::{Candidate, Class, ClassId, Problem};

/// A small problem with arbitrary wiring: cycles, sharing, free and impossible candidates.
pub fn tangle(seed: u64) -> Problem {
    let random = &mut Random(seed);
    let classes = 3 + random.below(10);
    knot(random, classes)
}

/// The same with a given number of classes.
pub fn large_tangle(seed: u64, classes: usize) -> Problem {
    knot(&mut Random(seed), classes)
}

fn knot(random: &mut Random, classes: usize) -> Problem {
    let mut problem = Problem { classes: vec![Class::default(); classes], roots: Vec::new() };
    let mut rank = 0;
    // Small integer costs produce ties; other costs do not.
    let whole = random.below(2) == 0;
    for class in 0..classes {
        for node in 0..1 + random.below(4) {
            let children = if node == 0 && random.below(3) > 0 {
                // Candidates that do not form a cycle.
                (0..random.below(3)).filter(|_| class > 0).map(|_| random.below(class.max(1))).collect()
            } else {
                (0..random.below(4)).map(|_| random.below(classes)).collect::<Vec<_>>()
            };
            let cost = match random.below(8) {
                0 => 0.0,
                1 if node > 0 => f64::INFINITY,
                _ if whole => random.below(6) as f64,
                _ => random.unit() * 10.0,
            };
            let children = children.into_iter().map(|child| ClassId(child as u32)).collect();
            problem.classes[class].nodes.push(Candidate { cost, children, rank });
            rank += 1;
        }
    }
    for _ in 0..1 + random.below(3) {
        problem.roots.push(ClassId(random.below(classes) as u32));
    }
    problem
}

/// Values computed from one or two earlier ones. Each also has candidates that include the work of an
/// operand's candidate, as in fused elementwise chains. Costs differ little, so that it is hard to tell which
/// values are worth sharing.
pub fn chains(seed: u64) -> Problem {
    let random = &mut Random(seed);
    let (inputs, values) = (2, 5 + random.below(4));
    let mut problem = Problem { classes: vec![Class::default(); inputs + values], roots: Vec::new() };
    let mut rank = 0;
    let mut add = |problem: &mut Problem, class: usize, cost: f64, mut children: Vec<ClassId>| {
        children.sort_unstable();
        children.dedup();
        problem.classes[class].nodes.push(Candidate { cost, children, rank });
        rank += 1;
    };
    for input in 0..inputs {
        let dear = random.unit() * 5.0;
        add(&mut problem, input, dear, Vec::new());
    }
    for class in inputs..inputs + values {
        let operand = |random: &mut Random| class - 1 - random.below(class.min(4));
        let mut operands = vec![operand(random), operand(random)];
        if random.below(3) == 0 {
            operands.pop();
        }
        // Some operands are expensive, as matrix products are.
        let cost = if random.below(4) == 0 { 40.0 + random.unit() } else { 1.0 + 0.3 * random.unit() };
        let ids: Vec<ClassId> = operands.iter().map(|&at| ClassId(at as u32)).collect();
        add(&mut problem, class, cost, ids.clone());
        for &operand in &operands {
            for node in problem.classes[operand].nodes.clone() {
                if node.children.is_empty() || random.below(4) == 0 {
                    continue;
                }
                let others = ids.iter().filter(|id| id.0 as usize != operand);
                let children = others.chain(&node.children).copied().collect();
                add(&mut problem, class, node.cost + cost * 0.2 * random.unit(), children);
            }
        }
        problem.classes[class].nodes.truncate(7);
    }
    problem.roots = vec![ClassId((inputs + values - 1) as u32)];
    if random.below(2) == 0 {
        problem.roots.push(ClassId((inputs + values - 2) as u32));
    }
    problem
}

/// One value: its class in each layout, the default layout first.
#[derive(Clone)]
pub struct Value(pub Vec<ClassId>);

/// Builds extraction problems of networks.
pub struct Network {
    pub problem: Problem,
    pub random: Random,
    pub layouts: usize,
    rank: u32,
}

impl Network {
    pub fn new(seed: u64, layouts: usize) -> Self {
        Self { problem: Problem::default(), random: Random(seed), layouts, rank: 0 }
    }

    pub fn class(&mut self) -> ClassId {
        self.problem.classes.push(Class::default());
        ClassId(self.problem.classes.len() as u32 - 1)
    }

    pub fn node(&mut self, class: ClassId, cost: f64, children: &[ClassId]) {
        self.rank += 1;
        let node = Candidate { cost, children: children.to_vec(), rank: self.rank };
        self.problem.classes[class.index()].nodes.push(node);
    }

    /// Returns a value that can be converted between the default layout and each other layout, with a class
    /// for the op itself, which has no kernel.
    fn value(&mut self, size: f64) -> Value {
        let forms: Vec<_> = (0..self.layouts).map(|_| self.class()).collect();
        self.node(forms[0], f64::INFINITY, &[]);
        for &form in &forms[1..] {
            let (pack, unpack) =
                (size * (0.15 + 0.1 * self.random.unit()), size * (0.15 + 0.1 * self.random.unit()));
            self.node(form, pack, &forms[..1]);
            self.node(forms[0], unpack, &[form]);
        }
        Value(forms)
    }

    pub fn input(&mut self) -> Value {
        let value = self.value(1.0);
        self.node(value.0[0], 0.0, &[]);
        value
    }

    /// A constant in a packed form, made from its default form at no cost.
    fn weight(&mut self) -> Vec<ClassId> {
        let plain = self.class();
        self.node(plain, 0.0, &[]);
        let forms: Vec<_> = (0..self.layouts).map(|_| self.class()).collect();
        forms.iter().for_each(|&form| self.node(form, 0.0, &[plain]));
        forms
    }

    fn kernels(&mut self, result: &Value, operands: &[&Value], weights: &[ClassId], size: f64) {
        for (layout, &form) in result.0.iter().enumerate() {
            let variants = [1, 2, 1, 1, 1][layout % 5];
            for _ in 0..variants {
                let cost = size * (0.5 + self.random.unit() + if layout == 0 { 0.7 } else { 0.0 });
                let mut children: Vec<_> = operands.iter().map(|operand| operand.0[layout]).collect();
                children.push(weights[layout]);
                self.node(form, cost, &children);
            }
        }
        // A kernel from the default layout to another.
        let mut children: Vec<_> = operands.iter().map(|operand| operand.0[0]).collect();
        children.push(weights[1]);
        let cost = size * (0.8 + self.random.unit());
        self.node(result.0[1], cost, &children);
    }

    /// A convolution whose activation is fused or separate.
    pub fn conv(&mut self, x: &Value, size: f64) -> Value {
        let weights = self.weight();
        let raw = self.value(0.5);
        self.kernels(&raw, &[x], &weights, size);
        let active = self.value(0.5);
        self.kernels(&active, &[x], &weights, size);
        self.each(&active, &[&raw], 0.1);
        active
    }

    /// An op that works in each layout.
    fn each(&mut self, result: &Value, operands: &[&Value], size: f64) {
        for (layout, &form) in result.0.iter().enumerate() {
            let cost = size * (0.8 + 0.4 * self.random.unit());
            let children: Vec<_> = operands.iter().map(|operand| operand.0[layout]).collect();
            self.node(form, cost, &children);
        }
    }

    pub fn same(&mut self, operands: &[&Value], size: f64) -> Value {
        let value = self.value(0.5);
        self.each(&value, operands, size);
        value
    }

    /// A convolution and an addition, fused or separate, followed by a rectifier, fused or separate.
    pub fn conv_add(&mut self, x: &Value, skip: &Value, size: f64) -> Value {
        let weights = self.weight();
        let raw = self.value(0.5);
        self.kernels(&raw, &[x], &weights, size);
        let sum = self.value(0.5);
        self.kernels(&sum, &[x, skip], &weights, size);
        self.each(&sum, &[&raw, skip], 0.15);
        let active = self.value(0.5);
        self.kernels(&active, &[x, skip], &weights, size);
        self.each(&active, &[&sum], 0.1);
        active
    }

    pub fn finish(mut self, root: &Value) -> Problem {
        self.problem.roots.push(root.0[0]);
        self.problem
    }
}

/// Residual blocks of three convolutions, as in ResNet-50 (which has 16).
pub fn residual(seed: u64, blocks: usize, layouts: usize) -> Problem {
    let mut net = Network::new(seed, layouts);
    let image = net.input();
    let mut x = net.conv(&image, 1.0);
    for block in 0..blocks {
        let a = net.conv(&x, 0.5);
        let b = net.conv(&a, 1.0);
        let skip = if block % 4 == 0 { net.conv(&x, 0.5) } else { x.clone() };
        x = net.conv_add(&b, &skip, 0.5);
    }
    let root = net.same(&[&x], 0.1);
    net.finish(&root)
}

/// Modules of four branches that are concatenated.
pub fn inception(seed: u64, modules: usize) -> Problem {
    let mut net = Network::new(seed, 4);
    let image = net.input();
    let mut x = net.conv(&image, 1.0);
    for _ in 0..modules {
        let a = net.conv(&x, 0.3);
        let b = net.conv(&x, 0.3);
        let b = net.conv(&b, 0.8);
        let c = net.conv(&x, 0.3);
        let c = net.conv(&c, 0.8);
        let c = net.conv(&c, 0.8);
        let d = net.same(&[&x], 0.2);
        let d = net.conv(&d, 0.3);
        x = net.same(&[&a, &b, &c, &d], 0.3);
    }
    let root = net.same(&[&x], 0.1);
    net.finish(&root)
}

/// Dense blocks, in which every layer reads the concatenation of all earlier layers.
pub fn dense(seed: u64, blocks: &[usize]) -> Problem {
    let mut net = Network::new(seed, 4);
    let image = net.input();
    let mut x = net.conv(&image, 1.0);
    for &layers in blocks {
        let mut parts = vec![x];
        for _ in 0..layers {
            let joined = net.same(&parts.iter().collect::<Vec<_>>(), 0.2);
            let y = net.conv(&joined, 0.5);
            let y = net.conv(&y, 0.5);
            parts.push(y);
        }
        let joined = net.same(&parts.iter().collect::<Vec<_>>(), 0.2);
        x = net.conv(&joined, 0.5);
    }
    let root = net.same(&[&x], 0.1);
    net.finish(&root)
}

/// A U-Net with one skip connection for each level.
pub fn unet(seed: u64, levels: usize) -> Problem {
    let mut net = Network::new(seed, 4);
    let image = net.input();
    let mut x = net.conv(&image, 1.0);
    let mut skips = Vec::new();
    for _ in 0..levels {
        x = net.conv(&x, 1.0);
        x = net.conv(&x, 1.0);
        skips.push(x.clone());
        x = net.same(&[&x], 0.1);
    }
    for skip in skips.iter().rev() {
        x = net.same(&[&x, skip], 0.2);
        x = net.conv(&x, 1.0);
        x = net.conv(&x, 1.0);
    }
    net.finish(&x)
}

/// Layers of matrix products, attention heads and residuals, as in BERT.
pub fn transformer(seed: u64, layers: usize) -> Problem {
    let mut net = Network::new(seed, 3);
    let image = net.input();
    let mask = net.input();
    let mut x = net.conv(&image, 0.3);
    for _ in 0..layers {
        let (q, k, v) = (net.conv(&x, 0.4), net.conv(&x, 0.4), net.conv(&x, 0.4));
        let scores = net.same(&[&q, &k], 0.3);
        let scores = net.same(&[&scores, &mask], 0.1);
        let scores = net.same(&[&scores], 0.1);
        let mixed = net.same(&[&scores, &v], 0.3);
        let y = net.conv_add(&mixed, &x, 0.4);
        let y = net.same(&[&y], 0.1);
        let z = net.conv(&y, 0.8);
        let z = net.same(&[&z], 0.2);
        let z = net.conv_add(&z, &y, 0.8);
        x = net.same(&[&z], 0.1);
    }
    net.finish(&x)
}

/// Random wiring: each node reads one to three earlier nodes.
pub fn wired(seed: u64, nodes: usize) -> Problem {
    let mut net = Network::new(seed, 4);
    let mut values = vec![net.input()];
    let mut read = vec![true];
    for _ in 0..nodes {
        let mut operands: Vec<usize> =
            (0..1 + net.random.below(3)).map(|_| net.random.below(values.len())).collect();
        operands.sort_unstable();
        operands.dedup();
        operands.iter().for_each(|&operand| read[operand] = true);
        let chosen: Vec<Value> = operands.iter().map(|&operand| values[operand].clone()).collect();
        let sum = net.same(&chosen.iter().collect::<Vec<_>>(), 0.2);
        let value = net.conv(&sum, 0.5);
        values.push(value);
        read.push(false);
    }
    let ends: Vec<Value> =
        values.iter().zip(&read).filter(|(_, read)| !**read).map(|(v, _)| v.clone()).collect();
    let root = net.same(&ends.iter().collect::<Vec<_>>(), 0.2);
    net.finish(&root)
}
