//! `cargo xtask cuda-checks [WORD…]`: everything that can be checked of the backend `cuda` without a device.
//!
//! There are five checks. The first needs a C++ compiler, the second NVIDIA's libraries (`cargo xtask
//! cuda-libraries`), the third NVIDIA's compiler and disassembler (`cargo xtask nvrtc`), the fourth a C++ compiler, and
//! the fifth a C compiler and Linux with namespaces for users. One whose needs are absent fails and says so. Words go to
//! Cargo, such as `--features ovolo/ilp`.

use super::gpu;
use super::python::root;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long all of them may take, once they are built.
const LIMIT: Duration = Duration::from_secs(600);

/// The tests of a package, and words that choose among them.
struct Tests {
    /// Words of Cargo that choose a program of tests.
    program: &'static [&'static str],
    /// Words for the program.
    words: &'static [&'static str],
}

const fn cuda(words: &'static [&'static str]) -> Tests {
    Tests { program: &["--test", "cuda"], words }
}

const fn library(words: &'static [&'static str]) -> Tests {
    Tests { program: &["--lib"], words }
}

/// A check: its name, and what it runs, with variables.
struct Check {
    name: &'static str,
    tests: &'static [Tests],
    variables: &'static [(&'static str, &'static str)],
}

const CXX: (&str, &str) = ("OVOLO_REQUIRE_CXX", "1");
const NVRTC: (&str, &str) = ("OVOLO_REQUIRE_NVRTC", "1");

/// The checks that are tests.
const CHECKS: &[Check] = &[
    Check {
        name: "plans and libraries on a stand-in for the driver",
        tests: &[cuda(&["device::"]), cuda(&["library::"]), cuda(&["fresh::"]), cuda(&["harness::"])],
        variables: &[CXX, NVRTC],
    },
    Check {
        name: "cuDNN with described devices",
        tests: &[library(&["survey::"]), library(&["--ignored", "the_library_"])],
        variables: &[],
    },
    Check {
        name: "machine code of kernels for sm_80, 89, 90 and 120",
        tests: &[cuda(&["machine_code::"])],
        variables: &[NVRTC, ("OVOLO_TEST_ARCHITECTURES", "all")],
    },
    Check {
        name: "values of kernels, under the checks of the C++ compiler",
        tests: &[cuda(&["values::"])],
        variables: &[CXX, ("OVOLO_TEST_SANITIZE", "1")],
    },
];

/// The name of the check that is not a test.
const REHEARSAL: &str = "the kit for a device, without network and without a device";

/// Runs all of them.
pub fn run(words: &[String]) -> Result<(), String> {
    let start = Instant::now();
    // Building is not part of the checks.
    for program in [&["--test", "cuda"][..], &["--lib"]] {
        cargo(program, words, &["--no-run"])?;
    }
    let programs = gpu::built(words)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    let (all, mut failed, mut lines) = (Since::now(), 0, Vec::new());
    let mut note = |name: &str, since: Since, result: Result<(), String>| {
        let said = match &result {
            Ok(()) => "passed".to_owned(),
            Err(why) => format!("FAILED: {why}"),
        };
        failed += usize::from(result.is_err());
        let Since { start, used } = since;
        let used = processors() - used;
        lines.push(format!(
            "{:>6.1} s, {used:>6.1} s of processors  {name}: {said}",
            start.elapsed().as_secs_f64()
        ));
        println!("{}", lines[lines.len() - 1]);
    };
    for check in CHECKS {
        let since = Since::now();
        let run = |tests: &Tests| tests.run(words, check.variables);
        note(check.name, since, check.tests.iter().try_for_each(run));
    }
    let since = Since::now();
    note(REHEARSAL, since, gpu::rehearse(&programs));
    let (took, used) = (all.start.elapsed(), processors() - all.used);
    println!("\n{}\n{:>6.1} s, {used:>6.1} s of processors  in total", lines.join("\n"), took.as_secs_f64());
    if took > LIMIT {
        println!("this is more than {} minutes", LIMIT.as_secs() / 60);
    }
    if failed > 0 { Err(format!("{failed} of {} checks failed", CHECKS.len() + 1)) } else { Ok(()) }
}

/// When a check began, and how many seconds of processors its predecessors had used.
struct Since {
    start: Instant,
    used: f64,
}

impl Since {
    fn now() -> Self {
        Self { start: Instant::now(), used: processors() }
    }
}

/// Returns the seconds of processors that ended processes of this one have used, which other work on the machine hardly
/// changes; zero where the system does not tell.
fn processors() -> f64 {
    /// Linux counts in hundredths of a second for programs, on every processor.
    const EACH: f64 = 0.01;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces. The first field after it is the third of all.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    // The user and the system time of ended processes: fields 16 and 17.
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * EACH
}

impl Tests {
    /// Runs the tests. An error if one fails, or if none runs.
    fn run(&self, words: &[String], variables: &[(&str, &str)]) -> Result<(), String> {
        let mut command = command(self.program, words);
        let output = command.arg("--").args(self.words).envs(variables.iter().copied()).output();
        let output = output.map_err(|error| format!("cargo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let title = self.words.join(" ");
        if !output.status.success() {
            println!("{said}{}", String::from_utf8_lossy(&output.stderr));
            return Err(format!("`{title}` failed"));
        }
        match passed(&said) {
            0 => Err(format!("`{title}` names no test that ran")),
            count => {
                println!("          {title}: {count} passed");
                Ok(())
            }
        }
    }
}

/// Returns how many tests passed, of all programs that Cargo ran.
fn passed(said: &str) -> usize {
    let counts = said.lines().filter(|line| line.starts_with("test result: ok."));
    counts.filter_map(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok()).sum()
}

fn command(program: &[&str], words: &[String]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(["test", "--release", "--workspace"]).args(words).args(program);
    command
}

fn cargo(program: &[&str], words: &[String], more: &[&str]) -> Result<(), String> {
    super::python::command(command(program, words).args(more))
}
