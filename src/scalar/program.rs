//! Formulas as lists of instructions, in which equal parts are computed only once.

use super::{Binary, Compare, Formula, Function, Unary};

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// The argument of the function.
    X,
    /// A constant.
    Number(f64),
    /// The result of the instruction with this index.
    Result(usize),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// A primitive of one operand.
    Unary(Unary, Operand),
    /// A primitive of two operands.
    Binary(Binary, [Operand; 2]),
    /// A choice: the third operand if the comparison of the first two holds, otherwise the fourth.
    If(Compare, [Operand; 4]),
}

impl Instruction {
    /// Returns the operands.
    pub fn operands(&self) -> &[Operand] {
        match self {
            Self::Unary(_, operand) => std::slice::from_ref(operand),
            Self::Binary(_, operands) => operands,
            Self::If(_, operands) => operands,
        }
    }
}

/// A formula with the values of its parameters, as instructions. Each instruction comes after those whose results it
/// reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// The value of the formula.
    pub result: Operand,
}

impl Program {
    /// Returns the program of a formula with these parameters.
    pub fn new(formula: &Formula, parameters: &[f64]) -> Self {
        let mut program = Self { instructions: Vec::new(), result: Operand::X };
        let given: Vec<Operand> = parameters.iter().map(|value| Operand::Number(*value)).collect();
        program.result = program.add(formula, Operand::X, &given);
        program.without_unread()
    }

    /// Returns the program of a function with these parameters.
    pub fn for_function(function: Function, parameters: &[f64]) -> Self {
        Self::new(function.formula(), parameters)
    }

    fn add(&mut self, formula: &Formula, x: Operand, given: &[Operand]) -> Operand {
        let instruction = match formula {
            Formula::X => return x,
            Formula::Parameter(at, _) => return given.get(*at).copied().unwrap_or(Operand::Number(f64::NAN)),
            Formula::Number(number) => return Operand::Number(*number),
            Formula::Call(function, a, parameters) => {
                let a = self.add(a, x, given);
                let parameters: Vec<Operand> = parameters.iter().map(|one| self.add(one, x, given)).collect();
                return self.add(function.formula(), a, &parameters);
            }
            Formula::Unary(kind, a) => Instruction::Unary(*kind, self.add(a, x, given)),
            Formula::Binary(kind, parts) => {
                Instruction::Binary(*kind, parts.each_ref().map(|part| self.add(part, x, given)))
            }
            Formula::If(compare, parts) => {
                Instruction::If(*compare, parts.each_ref().map(|part| self.add(part, x, given)))
            }
        };
        if let Some(value) = known(&instruction) {
            return value;
        }
        let at = self.instructions.iter().position(|one| *one == instruction).unwrap_or_else(|| {
            self.instructions.push(instruction);
            self.instructions.len() - 1
        });
        Operand::Result(at)
    }

    /// Removes instructions whose results are never read, such as those for a choice whose condition is constant.
    fn without_unread(self) -> Self {
        let mut read = vec![false; self.instructions.len()];
        let note = |operand: &Operand, read: &mut Vec<bool>| {
            if let Operand::Result(at) = operand {
                read[*at] = true;
            }
        };
        note(&self.result, &mut read);
        for at in (0..self.instructions.len()).rev() {
            if read[at] {
                self.instructions[at].operands().iter().for_each(|operand| note(operand, &mut read));
            }
        }
        let mut places = Vec::with_capacity(read.len());
        let mut kept = 0;
        for read in &read {
            places.push(kept);
            kept += usize::from(*read);
        }
        let moved = |operand: Operand| match operand {
            Operand::Result(at) => Operand::Result(places[at]),
            other => other,
        };
        let instructions = self.instructions.iter().zip(&read).filter(|(_, read)| **read);
        let instructions = instructions.map(|(instruction, _)| match instruction {
            Instruction::Unary(kind, a) => Instruction::Unary(*kind, moved(*a)),
            Instruction::Binary(kind, parts) => Instruction::Binary(*kind, parts.map(moved)),
            Instruction::If(compare, parts) => Instruction::If(*compare, parts.map(moved)),
        });
        Self { instructions: instructions.collect(), result: moved(self.result) }
    }
}

/// Returns the result of an instruction if it is known: all operands are constants, or the condition of a choice is
/// constant.
fn known(instruction: &Instruction) -> Option<Operand> {
    let number = |operand: &Operand| match operand {
        Operand::Number(number) => Some(*number),
        _ => None,
    };
    Some(match instruction {
        Instruction::Unary(kind, a) => Operand::Number(kind.evaluate(number(a)?)),
        Instruction::Binary(kind, [a, b]) => Operand::Number(kind.evaluate(number(a)?, number(b)?)),
        Instruction::If(compare, [a, b, then, otherwise]) => {
            if compare.holds(&number(a)?, &number(b)?) {
                *then
            } else {
                *otherwise
            }
        }
    })
}
