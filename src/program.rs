//! A program outside that answers lines: what the cost model `process` asks.
//!
//! It is started with the shell, is given lines on its standard input, and must write a line for each, at
//! once. It ends with its input.

use crate::cost::Answer;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A program that runs.
pub struct Program {
    command: String,
    running: Mutex<Running>,
}

struct Running {
    child: Child,
    /// Closed when the program is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts a program.
    ///
    /// # Errors
    /// Where there is no shell, or it cannot be started.
    pub fn start(command: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("--process {command}: {error}");
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or_else(|| format!("--process {command}: it has no output"))?);
        Ok(Self { command: command.to_owned(), running: Mutex::new(Running { child, input, output }) })
    }
}

impl Answer for Program {
    fn answer(&self, line: &str) -> Result<String, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Running { child, input, output } = &mut *running;
        let mut answer = String::new();
        let asked = match input {
            Some(input) => writeln!(input, "{line}").and_then(|()| input.flush()),
            None => Ok(()),
        };
        match asked.and_then(|()| output.read_line(&mut answer)) {
            Ok(0) => {}
            Ok(_) => return Ok(answer),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(format!("the program `{}`: {error}", self.command)),
        }
        *input = None;
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(format!("the program `{}` ended before it answered ({how})", self.command))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        // One that does not end with its input is in nobody's way any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
