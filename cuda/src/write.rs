//! The text of a kernel, statement by statement. A value that a block has already computed is used by its name.

use super::expr::{Expr, Leaf, Node, parameter};
use super::scalar::{self, Scalar};
use super::space::{AccessKind, Bound, Index, Space};
use ovolo::scalar::{Operand, Program};
use ovolo::tensor::DType;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The body of a kernel that is being generated.
pub(super) struct Writer {
    text: String,
    /// For each open block, the values that it has named: the type and the right-hand side, with the name.
    scopes: Vec<FxHashMap<String, String>>,
    names: usize,
    /// The parts of the prelude that the body uses.
    pub needs: BTreeSet<&'static str>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { text: String::new(), scopes: vec![FxHashMap::default()], names: 0, needs: BTreeSet::new() }
    }

    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        for _ in 0..self.scopes.len() {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line that opens a block.
    pub(super) fn open(&mut self, line: &str) {
        self.line(&format!("{line} {{"));
        self.scopes.push(FxHashMap::default());
    }

    /// Closes a block.
    pub(super) fn close(&mut self) {
        self.scopes.pop();
        self.line("}");
    }

    /// Closes a block and opens its alternative.
    pub(super) fn otherwise(&mut self, line: &str) {
        self.scopes.pop();
        self.line(&format!("}} {line} {{"));
        self.scopes.push(FxHashMap::default());
    }

    /// Opens an unrolled loop over constants.
    pub(super) fn unrolled(&mut self, variable: &str, count: usize) {
        self.line("#pragma unroll");
        self.open(&format!("for (unsigned {variable} = 0u; {variable} < {count}u; ++{variable})"));
    }

    /// Returns the name of a value, and computes it here unless the block already has it.
    pub(super) fn value(&mut self, ty: &str, right: &str) -> String {
        let simple = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if right.chars().all(simple) && right.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return right.to_owned();
        }
        let key = format!("{ty} {right}");
        if let Some(name) = self.scopes.iter().rev().find_map(|scope| scope.get(&key)) {
            return name.clone();
        }
        let name = format!("t{}", self.names);
        self.names += 1;
        self.line(&format!("const {ty} {name} = {right};"));
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, name.clone());
        }
        name
    }

    /// Requires a part of the prelude.
    pub(super) fn need(&mut self, part: Option<&'static str>) {
        self.needs.extend(part);
    }

    /// Returns the body, and the parts of the prelude that it uses.
    pub(super) fn finish(self) -> (String, BTreeSet<&'static str>) {
        (self.text, self.needs)
    }

    /// Generates an expression. `load` returns the name of a leaf's element, and `given` is the value that the kernel
    /// has already computed.
    ///
    /// # Errors
    /// If an op has no text.
    pub(super) fn expression(
        &mut self,
        expr: &Expr,
        load: &mut dyn FnMut(&mut Self, usize) -> String,
        inside: &mut dyn FnMut(&mut Self, usize) -> String,
        given: &str,
    ) -> Result<String, String> {
        let ty = Scalar::from_dtype(expr.dtype);
        let (text, need) = match &expr.node {
            Node::Load(leaf) => (load(self, *leaf), None),
            Node::Inside(leaf) => (inside(self, *leaf), None),
            Node::Given => (given.to_owned(), None),
            Node::Number(value) => return Ok(ty.number(*value)),
            Node::Not(x) => (format!("!{}", self.named(x, load, inside, given)?), None),
            Node::IsNan(x) => {
                let name = self.named(x, load, inside, given)?;
                (if x.dtype.is_float() { format!("{name} != {name}") } else { "false".to_owned() }, None)
            }
            Node::Own(own, parameters, operands) => {
                let names = self.all_named(operands, load, inside, given)?;
                ((own.text)(ty, parameters, &names), None)
            }
            Node::Formula(program, operands) => {
                let names = self.all_named(operands, load, inside, given)?;
                return Ok(self.program(program, expr.dtype, &names));
            }
            Node::Binary(kind, a, b) => {
                let left = self.expression(a, load, inside, given)?;
                let right = self.expression(b, load, inside, given)?;
                scalar::binary(*kind, a.dtype, &left, &right)
            }
            Node::Select(condition, then, otherwise) => {
                let condition = self.expression(condition, load, inside, given)?;
                let then = self.expression(then, load, inside, given)?;
                let otherwise = self.expression(otherwise, load, inside, given)?;
                (format!("{condition} ? {then} : {otherwise}"), None)
            }
            Node::Cast(x) => {
                let name = self.named(x, load, inside, given)?;
                scalar::cast(x.dtype, expr.dtype, &name)
            }
        };
        self.need(need);
        Ok(self.value(ty.name(), &text))
    }

    /// Writes a program applied to values that have names, and returns the name of its result.
    fn program(&mut self, program: &Program, dtype: DType, operands: &[String]) -> String {
        let ty = Scalar::from_dtype(dtype);
        let mut results: Vec<String> = Vec::with_capacity(program.instructions.len());
        let text = |operand: &Operand, results: &[String]| match operand {
            Operand::X => operands[0].clone(),
            Operand::Y => operands[1].clone(),
            Operand::Number(number) => ty.number(*number),
            Operand::Result(at) => results[*at].clone(),
        };
        for instruction in &program.instructions {
            let operands: Vec<String> =
                instruction.operands().iter().map(|operand| text(operand, &results)).collect();
            let (right, need) = scalar::instruction(instruction, dtype, &operands);
            self.need(need);
            results.push(self.value(ty.name(), &right));
        }
        text(&program.result, &results)
    }

    fn all_named(
        &mut self,
        list: &[Expr],
        load: &mut dyn FnMut(&mut Self, usize) -> String,
        inside: &mut dyn FnMut(&mut Self, usize) -> String,
        given: &str,
    ) -> Result<Vec<String>, String> {
        list.iter().map(|one| self.named(one, load, inside, given)).collect()
    }

    /// Like `expression`, but also gives constants a name, because functions use their operand more than once.
    fn named(
        &mut self,
        expr: &Expr,
        load: &mut dyn FnMut(&mut Self, usize) -> String,
        inside: &mut dyn FnMut(&mut Self, usize) -> String,
        given: &str,
    ) -> Result<String, String> {
        let text = self.expression(expr, load, inside, given)?;
        Ok(self.value(Scalar::from_dtype(expr.dtype).name(), &text))
    }
}

/// How a kernel reads its leaves: in vectors along one group of its walk.
pub(super) struct Reader<'a> {
    pub leaves: &'a [Leaf],
    pub space: &'a Space,
    pub index: Index,
    /// The group along which vectors lie, and the number of their elements.
    pub group: usize,
    pub width: usize,
}

impl Reader<'_> {
    /// Returns how vectors of a leaf are read.
    pub(super) fn access_kind(&self, leaf: usize) -> AccessKind {
        let it = &self.leaves[leaf];
        let together = it.bounds.iter().all(|bound| self.space.holds_together(bound, self.group, self.width));
        if !together || self.width == 1 {
            return AccessKind::Scattered;
        }
        let access_kind = self.space.access_kind(&it.access, self.group, self.width);
        match &it.picked {
            Some(picked) => {
                let wide = picked.stride.is_multiple_of(self.width);
                let alone = self.access_kind(picked.leaf) == AccessKind::Uniform;
                if alone && (wide || access_kind == AccessKind::Uniform) {
                    access_kind
                } else {
                    AccessKind::Scattered
                }
            }
            None => access_kind,
        }
    }

    /// Generates the test whether all conditions of a leaf hold at these positions.
    pub(super) fn inside(&self, writer: &mut Writer, leaf: usize, positions: &[&str]) -> String {
        let text = self.conditions(writer, &self.leaves[leaf].bounds, positions);
        writer.value("bool", &text.unwrap_or_else(|| "true".to_owned()))
    }

    fn conditions(&self, writer: &mut Writer, bounds: &[Bound], positions: &[&str]) -> Option<String> {
        let mut conditions = Vec::new();
        for bound in bounds {
            let at = self.space.offset(&bound.access, positions, self.index);
            let at = writer.value(self.index.name(), &at);
            // Positions are unsigned, so a negative position becomes a large number.
            conditions.push(format!("{at} < {}", self.index.number(bound.size)));
        }
        (!conditions.is_empty()).then(|| conditions.join(" && "))
    }

    /// Generates the offset of a leaf's element.
    fn address(&self, writer: &mut Writer, leaf: usize, positions: &[&str]) -> String {
        let it = &self.leaves[leaf];
        let offset = self.space.offset(&it.access, positions, self.index);
        let Some(picked) = &it.picked else { return offset };
        let position = self.element(writer, picked.leaf, positions);
        writer.need(Some("pick"));
        let name = self.index.name();
        let picked = writer.value(name, &format!("({name})pick({position}, {}ll)", picked.size))
            + &step(picked.stride, self.index);
        if offset == self.index.number(0) { picked } else { format!("{offset} + {picked}") }
    }

    /// Generates the value of one element, in the type in which it is computed.
    pub(super) fn element(&self, writer: &mut Writer, leaf: usize, positions: &[&str]) -> String {
        let it = &self.leaves[leaf];
        let guard = self.conditions(writer, &it.bounds, positions);
        let guard = guard.map(|text| writer.value("bool", &text));
        writer.need(scalar::prelude(it.dtype));
        let ty = Scalar::from_dtype(it.dtype);
        // If a condition does not hold, the address is computed but not read.
        let address = self.address(writer, leaf, positions);
        let text = scalar::widened(it.dtype, &format!("{}[{address}]", parameter(it.operand)));
        let text = match guard {
            Some(guard) => format!("{guard} ? {} : {}", parenthesised(&text), ty.number(0.0)),
            None => text,
        };
        writer.value(ty.name(), &text)
    }

    /// Generates the value of a vector, in the type in which it is stored.
    pub(super) fn vector(&self, writer: &mut Writer, leaf: usize, positions: &[&str]) -> String {
        let it = &self.leaves[leaf];
        let guard = self.conditions(writer, &it.bounds, positions);
        let guard = guard.map(|text| writer.value("bool", &text));
        writer.need(scalar::prelude(it.dtype));
        writer.need(Some("pack"));
        let address = self.address(writer, leaf, positions);
        let ty = format!("Pack<{}, {}>", scalar::memory(it.dtype), self.width);
        let text = format!("load<{}>({} + ({address}))", self.width, parameter(it.operand));
        let text = match guard {
            Some(guard) => format!("{guard} ? {text} : {ty}{{}}"),
            None => text,
        };
        writer.value(&ty, &text)
    }
}

fn step(stride: usize, index: Index) -> String {
    if stride == 1 { String::new() } else { format!(" * {}", index.number(stride)) }
}

fn parenthesised(text: &str) -> String {
    if text.contains(' ') { format!("({text})") } else { text.to_owned() }
}
