//! Formulas as lists of instructions, in which equal parts are computed only once.

use super::{Binary, Compare, Formula, Function, Unary};

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// The first operand of the function.
    X,
    /// The second operand of the function.
    Y,
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

    fn map(&self, change: impl Fn(Operand) -> Operand) -> Self {
        match self {
            Self::Unary(kind, operand) => Self::Unary(*kind, change(*operand)),
            Self::Binary(kind, operands) => Self::Binary(*kind, operands.map(change)),
            Self::If(compare, operands) => Self::If(*compare, operands.map(change)),
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
        program.result = program.add(formula, &[Operand::X, Operand::Y], &given);
        program.without_unread()
    }

    /// Returns the program of a function with these parameters.
    pub fn for_function(function: Function, parameters: &[f64]) -> Self {
        Self::new(function.formula(), parameters)
    }

    /// Returns the program with `x` and `y` exchanged.
    #[must_use]
    pub fn swapped(self) -> Self {
        let swap = |operand: Operand| match operand {
            Operand::X => Operand::Y,
            Operand::Y => Operand::X,
            other => other,
        };
        let instructions = self.instructions.iter().map(|one| one.map(swap)).collect();
        Self { instructions, result: swap(self.result) }
    }

    /// Returns the primitive of two operands that the whole program is; `None` for any other program.
    pub fn primitive(&self) -> Option<Binary> {
        match &self.instructions[..] {
            [Instruction::Binary(kind, [Operand::X, Operand::Y])] if self.result == Operand::Result(0) => {
                Some(*kind)
            }
            _ => None,
        }
    }

    fn add(&mut self, formula: &Formula, operands: &[Operand], given: &[Operand]) -> Operand {
        let number = Operand::Number(f64::NAN);
        let part = |program: &mut Self, part: &Formula| program.add(part, operands, given);
        let instruction = match formula {
            Formula::X => return operands.first().copied().unwrap_or(number),
            Formula::Y => return operands.get(1).copied().unwrap_or(number),
            Formula::Parameter(at, _) => return given.get(*at).copied().unwrap_or(number),
            Formula::Number(number) => return Operand::Number(*number),
            Formula::Call(function, parts, parameters) => {
                let parts: Vec<Operand> = parts.iter().map(|one| part(self, one)).collect();
                let parameters: Vec<Operand> = parameters.iter().map(|one| part(self, one)).collect();
                return self.add(function.formula(), &parts, &parameters);
            }
            Formula::Unary(kind, a) => Instruction::Unary(*kind, part(self, a)),
            Formula::Binary(kind, parts) => {
                Instruction::Binary(*kind, parts.each_ref().map(|one| part(self, one)))
            }
            Formula::If(compare, parts) => {
                Instruction::If(*compare, parts.each_ref().map(|one| part(self, one)))
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
        let instructions = instructions.map(|(instruction, _)| instruction.map(moved));
        Self { instructions: instructions.collect(), result: moved(self.result) }
    }
}

/// Returns the result of an instruction if it is known: all operands are constants, the condition of a choice is
/// constant, or a bound is infinite and so bounds nothing.
fn known(instruction: &Instruction) -> Option<Operand> {
    let number = |operand: &Operand| match operand {
        Operand::Number(number) => Some(*number),
        _ => None,
    };
    Some(match instruction {
        Instruction::Unary(kind, a) => Operand::Number(kind.evaluate(number(a)?)),
        Instruction::Binary(Binary::Max, [a, Operand::Number(f64::NEG_INFINITY)]) => *a,
        Instruction::Binary(Binary::Min, [a, Operand::Number(f64::INFINITY)]) => *a,
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
