//! Tests of `src/scalar.rs`.

use ovolo::error::{Diagnostics, Source};
use ovolo::scalar::{
    Binary, Domain, Function, Instruction, Operand, Program, built_in, built_in_of_two, read,
};

/// Returns values for the parameters of a function. None of them is a special case.
fn parameters(function: Function) -> Vec<f64> {
    let value = |name: &str| match name {
        "min" => -0.7,
        "max" => 1.1,
        _ => 0.3,
    };
    function.parameters().iter().map(|one| value(one.name)).collect()
}

/// Ovolo's own functions of one and of two operands.
fn all() -> impl Iterator<Item = Function> {
    built_in().iter().chain(built_in_of_two()).copied()
}

fn table(text: &str) -> Result<Vec<Function>, String> {
    let mut found = Diagnostics::new();
    let functions = read(&Source::new("ops/mine.ron", text), &all().collect::<Vec<_>>(), &mut found);
    if found.is_empty() { Ok(functions) } else { Err(found.to_string()) }
}

#[test]
fn slopes_are_those_of_small_steps() {
    const STEP: f64 = 1e-6;
    let mut count = 0;
    for function in built_in() {
        let parameters = parameters(*function);
        for x in [-3.2, -1.3, -0.4, 0.35, 0.9, 1.7, 4.1] {
            let value = |x: f64| function.evaluate(&parameters, &[x]);
            let step = (value(x + STEP) - value(x - STEP)) / (2.0 * STEP);
            if step.is_nan() {
                continue;
            }
            for (way, slope) in [
                ("the table", function.slope(&parameters, 0, &[x])),
                ("the formula", function.formula().derivative().evaluate(&parameters, &[x])),
            ] {
                let close = (slope - step).abs() < 1e-6 * step.abs().max(1.0);
                assert!(close, "{function} at {x} by {way}: {slope} and {step}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn slopes_for_two_operands_are_those_of_small_steps() {
    const STEP: f64 = 1e-6;
    let numbers = built_in_of_two().iter().filter(|function| function.domain() == Domain::Numbers);
    for (function, fmod) in numbers.flat_map(|function| [(function, 0.0), (function, 1.0)]) {
        for pair in [[0.7, 1.9], [2.3, 0.4], [1.1, 3.2], [2.6, 1.5]] {
            for operand in 0..2 {
                let moved = |by: f64| {
                    let mut pair = pair;
                    pair[operand] += by;
                    function.evaluate(&[fmod], &pair)
                };
                let step = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let slope = function.slope(&[fmod], operand, &pair);
                let close = (slope - step).abs() < 1e-6 * step.abs().max(1.0);
                assert!(close, "{function} at {pair:?} by operand {operand}: {slope} and {step}");
            }
        }
    }
}

#[test]
fn equal_operands_of_a_minimum_share_its_slope() {
    for name in ["min", "max"] {
        let function = built_in_of_two().iter().find(|function| function.name() == name).unwrap();
        assert_eq!([0, 1].map(|operand| function.slope(&[], operand, &[2.0, 2.0])), [0.5, 0.5]);
    }
}

#[test]
fn every_primitive_of_two_operands_is_a_function() {
    let primitives: Vec<Binary> = built_in_of_two()
        .iter()
        .flat_map(|function| [0.0, 1.0].map(|fmod| function.primitive(&[fmod])))
        .flatten()
        .collect();
    for kind in Binary::ALL {
        assert!(primitives.contains(kind), "{kind:?}");
    }
}

#[test]
fn a_wrong_claim_about_the_order_of_operands_is_a_mistake() {
    let text = r#"[Function(name: "mine", doc: "", formula: "x - y", commutative: true)]"#;
    let said = table(text).unwrap_err();
    assert!(said.contains("the value for x = 1, y = 2 is -1, and 1 with them swapped"), "{said}");
    let text = r#"[Function(name: "rsub", doc: "", formula: "x + y")]"#;
    let said = table(text).unwrap_err();
    assert!(said.contains("there are two functions named `rsub`"), "{said}");
}

#[test]
fn a_written_formula_reads_as_the_same_one() {
    for function in all() {
        let derivatives = (0..function.operands()).map(|operand| function.derivative(operand));
        for formula in [function.formula()].into_iter().chain(derivatives) {
            let parameters: String = function
                .parameters()
                .iter()
                .map(|one| format!(r#"Parameter(name: "{}", default: 1.0, doc: ""), "#, one.name))
                .collect();
            let again = table(&format!(
                r#"[Function(name: "again", doc: "", parameters: [{parameters}], formula: "{formula}")]"#
            ));
            assert_eq!(again.map(|again| again[0].formula()), Ok(formula), "{function}: {formula}");
        }
    }
}

#[test]
fn a_program_computes_what_its_formula_says() {
    for function in all() {
        let parameters = parameters(function);
        let program = Program::for_function(function, &parameters);
        for x in [-40.0, -1.5, -0.0, 0.25, 3.0, f64::INFINITY, f64::NAN] {
            let y = 0.75 - x;
            let mut results: Vec<f64> = Vec::new();
            let value = |operand: &Operand, results: &[f64]| match operand {
                Operand::X => x,
                Operand::Y => y,
                Operand::Number(number) => *number,
                Operand::Result(at) => results[*at],
            };
            for instruction in &program.instructions {
                let operands: Vec<f64> =
                    instruction.operands().iter().map(|operand| value(operand, &results)).collect();
                results.push(match instruction {
                    Instruction::Unary(kind, _) => kind.evaluate(operands[0]),
                    Instruction::Binary(kind, _) => kind.evaluate(operands[0], operands[1]),
                    Instruction::If(compare, _) => {
                        operands[if compare.holds(&operands[0], &operands[1]) { 2 } else { 3 }]
                    }
                });
            }
            let (got, want) = (value(&program.result, &results), function.evaluate(&parameters, &[x, y]));
            assert!(got == want || got.is_nan() && want.is_nan(), "{function}({x}): {got} and {want}");
        }
    }
}

#[test]
fn what_is_the_same_is_computed_once() {
    let mish = built_in().iter().find(|function| function.name() == "mish").unwrap();
    assert_eq!(mish.primitives(), ["max", "abs", "neg", "exp", "log1p", "add", "tanh", "mul"]);
}

#[test]
fn a_formula_may_name_functions_before_it_with_their_parameters() {
    let text = r#"[
        Function(name: "half-elu", doc: "elu with half its depth", formula: "elu(x, 0.5)"),
        Function(name: "twice", doc: "two of them", formula: "2 * half-elu(x)"),
    ]"#;
    let functions = table(text).unwrap();
    assert_eq!(functions[1].evaluate(&[], &[-1.0]), (-1.0_f64).exp_m1());
    assert_eq!(functions[1].slope(&[], 0, &[-1.0]), (-1.0_f64).exp());
}

#[test]
fn mistakes_are_pointed_at() {
    let cases = [
        ("x * tnah(x)", "`tnah` is not known", "did you mean `tanh`?", "tnah"),
        ("exp(x", "expected `)`", "after the last argument", ""),
        ("x-y", "`x-y` is not known", "write blanks around the sign: `x - y`", "x-y"),
        ("min(x)", "`min` takes two arguments, not 1", "give it two arguments", "min"),
        ("if(x, 1, 2)", "a comparison is expected", "write `if(a < b, then, else)`", ""),
        ("x 2", "the formula has ended here", "write an operator", "2"),
        ("elu(x, x)", "a parameter of `elu` depends on `x`", "parameters are numbers", "elu"),
        ("x + ", "a value is expected", "write `x`", ""),
        ("1.2.3 * x", "this is no number", "write digits", "1.2.3"),
    ];
    for (formula, message, help, place) in cases {
        let said = table(&format!(r#"[Function(name: "mine", doc: "", formula: "{formula}")]"#)).unwrap_err();
        assert!(said.contains(message) && said.contains(help), "{formula}: {said}");
        let carets = said.matches('^').count();
        assert_eq!(carets, place.len().max(1), "{formula}: {said}");
    }
}

#[test]
fn names_are_taken_once_and_in_kebab_case() {
    let said = table(r#"[Function(name: "relu", doc: "", formula: "x")]"#).unwrap_err();
    assert!(said.contains("there are two functions named `relu`"), "{said}");
    let said = table(r#"[Function(name: "My fun", doc: "", formula: "x")]"#).unwrap_err();
    assert!(said.contains("`My fun` is not in kebab case"), "{said}");
    let text = r#"[Function(name: "mine", doc: "", parameters: [Parameter(name: "x", default: 1.0, doc: "")], formula: "x")]"#;
    let said = table(text).unwrap_err();
    assert!(said.contains("`x` is the name of something else"), "{said}");
}
