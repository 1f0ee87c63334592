//! Subprocesses that answer: line by line, for the cost model `process`, or once, for the extractor `process`.
//!
//! A subprocess is started by the shell. A `Program` reads lines from its standard input, must write one line for each
//! of them before it reads the next, and ends when its input ends. If it writes anything else, does not answer in time,
//! or writes a line without an end, the result is an error with its command and the number of the line. A filter
//! reads all of its input and ends when it has written its answer.

use crate::cost::{Answer, AnswerError};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How to start a program, and how long to wait for its answers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Invocation {
    /// The command for the shell.
    pub command: String,
    /// The folder in which it runs; `None` for the current one.
    pub folder: Option<PathBuf>,
    /// The longest time that an answer may take.
    pub patience: Duration,
    /// The most bytes of an answer.
    pub longest: u64,
}

/// The time without an answer after which the user is told about the wait; half of the longest time that an answer may
/// take if that is less.
const NOTE: Duration = Duration::from_secs(5);
/// The interval of the checks whether a program that does not answer has ended.
const TICK: Duration = Duration::from_millis(100);
/// How long a program that has closed its output may take to end.
const ENDING: Duration = Duration::from_secs(1);
/// How long to wait at the end for lines that should not come: the least and the most time, and a multiple of the
/// mean time of an answer.
const REST: (Duration, Duration, u32) = (Duration::from_millis(20), Duration::from_secs(1), 4);
/// The number of unread lines after which a program has to wait. A few are enough to detect that it writes too
/// many.
const WAITING: usize = 4;

impl Invocation {
    /// The default for the seconds that an answer may take.
    pub const PATIENCE: u64 = 60;
    /// The most bytes of a short line, which answers one question.
    pub const LINE: u64 = 64 << 10;
    /// The most bytes of an answer to all questions at once.
    pub const WHOLE: u64 = 256 << 20;

    /// Makes an invocation that runs in the current folder.
    pub fn new(command: &str) -> Self {
        let patience = Duration::from_secs(Self::PATIENCE);
        Self { command: command.to_owned(), folder: None, patience, longest: Self::LINE }
    }

    fn at(&self, word: &str) -> PathBuf {
        self.folder.as_deref().unwrap_or(Path::new("")).join(word)
    }

    /// Returns the existing files that the command names, in the order of the command.
    pub fn files(&self) -> Vec<PathBuf> {
        let apart = |c: char| c.is_whitespace() || "'\";&|<>()=".contains(c);
        let words = self.command.split(apart).filter(|word| !word.is_empty());
        let mut files: Vec<PathBuf> = Vec::new();
        for file in words.map(|word| self.at(word)).filter(|file| file.is_file()) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
    }

    fn start(&self) -> Result<Child, AnswerError> {
        let mut command = Command::new("sh");
        command.args(["-c", &self.shell()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.as_os_str().is_empty()) {
            command.current_dir(folder);
        }
        command.spawn().map_err(|error| self.unstarted(&error))
    }

    fn unstarted(&self, why: &dyn std::fmt::Display) -> AnswerError {
        AnswerError::Start { command: self.command.clone(), why: why.to_string() }
    }

    /// Returns the text for the shell. If the command is a single program, it replaces the shell, so that no other
    /// process holds its input and output open.
    pub(crate) fn shell(&self) -> String {
        let command = &self.command;
        let more = command.contains(|c| ";&|<>(){}`!#\n".contains(c));
        let first = command.split_whitespace().next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        if more || first.is_empty() {
            command.clone()
        } else if first.contains('/') {
            if self.at(first).is_file() { format!("exec {command}") } else { command.clone() }
        } else if first.chars().all(plain) {
            // The shell finds programs, and knows which names are its own commands.
            format!("case $(command -v {first}) in /*) exec {command};; esac; {command}")
        } else {
            command.clone()
        }
    }
}

/// Sets the function that tells the user why they wait. Only the first call has an effect.
pub fn on_wait(say: fn(&str)) {
    let _ = SAY.set(say);
}

static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// A running program.
pub(crate) struct Program {
    how: Invocation,
    running: Mutex<Running>,
}

struct Running {
    /// The standard input, which is closed to end the program. Fields are dropped in this order, so it is closed before
    /// the program is killed.
    input: Option<ChildStdin>,
    child: Killed,
    said: Receiver<Said>,
    /// The number of lines that were sent to it.
    asked: u32,
    /// The total time of all answers except the first, which includes the start of the program.
    took: Duration,
}

/// What a program has written.
enum Said {
    Line(String),
    /// A line that is too long, or does not end.
    Long,
    Failed(std::io::Error),
}

impl Program {
    /// Starts a program.
    ///
    /// # Errors
    /// If there is no shell, or it cannot be started.
    pub(crate) fn start(how: &Invocation) -> Result<Self, AnswerError> {
        let mut child = how.start()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| how.unstarted(&"it has no output"))?;
        let (to, said) = sync_channel(WAITING);
        let longest = how.longest;
        std::thread::Builder::new()
            .spawn(move || listen(output, longest, &to))
            .map_err(|error| how.unstarted(&error))?;
        let running = Running { input, child: Killed(child), said, asked: 0, took: Duration::ZERO };
        Ok(Self { how: how.clone(), running: Mutex::new(running) })
    }

    /// Makes an error. `what` continues the sentence after the program's name.
    fn wrong(&self, what: impl Into<String>) -> AnswerError {
        AnswerError::Broken { command: self.how.command.clone(), what: what.into() }
    }

    /// Makes the error that the program ended.
    fn ended(&self, how: String) -> AnswerError {
        AnswerError::Ended { command: self.how.command.clone(), how }
    }

    /// Makes the error of a line that nobody asked for.
    fn unasked(&self, said: &Said, asked: u32) -> AnswerError {
        match said {
            Said::Line(line) => self.wrong(format!(
                "wrote a line that nobody had asked for, after {asked} answer(s): `{}`; it must write one line for \
                 each that it reads",
                short(line)
            )),
            other => self.failed(other),
        }
    }

    fn failed(&self, said: &Said) -> AnswerError {
        match said {
            Said::Line(line) => self.wrong(format!("answered `{}`", short(line))),
            Said::Long => self.wrong(format!(
                "wrote {} bytes without an end of line: an answer is one line of JSON",
                self.how.longest
            )),
            Said::Failed(error) => self.wrong(format!("cannot be read from: {error}")),
        }
    }
}

/// Starts a program, gives it a text, and returns what it writes until it ends.
///
/// # Errors
/// If it cannot be started, does not end in time, ends with a failure, or writes more than it may or no UTF-8.
pub(crate) fn filter(how: &Invocation, input: String) -> Result<String, AnswerError> {
    let broken = |what: String| AnswerError::Broken { command: how.command.clone(), what };
    let mut child = how.start()?;
    let (mut to, from) = (child.stdin.take(), child.stdout.take());
    let (send, answer) = sync_channel(1);
    let longest = how.longest;
    let spawned = std::thread::Builder::new().spawn(move || {
        // A program that answers before it has read everything closes its input, which is no mistake.
        let write = move || to.as_mut().map_or(Ok(()), |to| to.write_all(input.as_bytes()));
        let writer = std::thread::spawn(write);
        let mut bytes = Vec::new();
        let read = from.map_or(Ok(0), |from| from.take(longest + 1).read_to_end(&mut bytes));
        let _ = send.send(read.map(|_| bytes));
        drop(writer);
    });
    let mut child = Killed(child);
    spawned.map_err(|error| how.unstarted(&error))?;
    let start = Instant::now();
    let bytes = match answer.recv_timeout(how.patience) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(broken(format!("cannot be read from: {error}"))),
        Err(_) => {
            let (command, seconds) = (how.command.clone(), how.patience.as_secs());
            return Err(AnswerError::Running { command, seconds });
        }
    };
    if bytes.len() as u64 > longest {
        return Err(broken(format!("wrote more than {longest} bytes")));
    }
    match child.wait(how.patience.saturating_sub(start.elapsed()).max(ENDING)) {
        Ok(Some(status)) if status.success() => {}
        Ok(Some(status)) => {
            return Err(AnswerError::Ended {
                command: how.command.clone(),
                how: format!("failed ({status})"),
            });
        }
        Ok(None) => {
            let (command, seconds) = (how.command.clone(), how.patience.as_secs());
            return Err(AnswerError::Running { command, seconds });
        }
        Err(error) => return Err(broken(format!("cannot be waited for: {error}"))),
    }
    String::from_utf8(bytes).map_err(|_| broken("wrote bytes that are not UTF-8".to_owned()))
}

/// Sends on the lines of a program, each of at most so many bytes, until it closes its output.
fn listen(output: ChildStdout, longest: u64, to: &SyncSender<Said>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let said = match output.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.len() as u64 == longest && !line.ends_with(b"\n") => Said::Long,
            Ok(_) => Said::Line(String::from_utf8_lossy(&line).into_owned()),
            Err(error) => Said::Failed(error),
        };
        let goes_on = matches!(said, Said::Line(_));
        if to.send(said).is_err() || !goes_on {
            return;
        }
    }
}

/// Returns the beginning of a line, for a message.
fn short(line: &str) -> String {
    const MOST: usize = 120;
    let line = line.trim_end();
    let cut: String = line.chars().take(MOST).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

impl Running {
    /// Returns how the program ended, in words. It may still be running without its output.
    fn end(&mut self) -> String {
        self.input = None;
        match self.child.wait(ENDING) {
            Ok(Some(status)) => format!("ended before it answered ({status})"),
            Ok(None) => "closed its input or output before it answered, and runs on".to_owned(),
            Err(error) => format!("ended before it answered ({error})"),
        }
    }

    /// Waits for the next line; `None` if the program closed its output. An error if no line comes in time.
    fn listen(
        &mut self,
        patience: Duration,
        mut note: impl FnMut(Duration),
    ) -> Result<Option<Said>, RecvTimeoutError> {
        let start = Instant::now();
        let mut noted = false;
        loop {
            let left = patience.saturating_sub(start.elapsed());
            match self.said.recv_timeout(left.min(TICK)) {
                Ok(said) => return Ok(Some(said)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(RecvTimeoutError::Timeout),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // After the program has ended, another process may still hold its output open.
            if matches!(self.child.0.try_wait(), Ok(Some(_))) {
                return Ok(self.said.recv_timeout(TICK).ok());
            }
            let due = NOTE.min(patience / 2);
            if !noted && start.elapsed() >= due {
                noted = true;
                note(due);
            }
        }
    }
}

impl Answer for Program {
    fn answer(&self, line: &str) -> Result<String, AnswerError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(said) = running.said.try_recv() {
            return Err(self.unasked(&said, running.asked));
        }
        let start = Instant::now();
        let asked = match &mut running.input {
            Some(input) => writeln!(input, "{line}").and_then(|()| input.flush()),
            None => Err(ErrorKind::BrokenPipe.into()),
        };
        match asked {
            Ok(()) => running.asked += 1,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(self.ended(running.end())),
            Err(error) => return Err(self.wrong(format!("cannot be written to: {error}"))),
        }
        let number = running.asked;
        let said = running.listen(self.how.patience, |waited| {
            if let Some(say) = SAY.get() {
                say(&format!(
                    "the program `{}` has not answered line {number} for {} s; it may take {} s (--process-timeout)",
                    self.how.command,
                    waited.as_secs_f64(),
                    self.how.patience.as_secs()
                ));
            }
        });
        match said {
            Ok(Some(Said::Line(answer))) => {
                if number > 1 {
                    running.took += start.elapsed();
                }
                Ok(answer)
            }
            Ok(Some(other)) => Err(self.failed(&other)),
            Ok(None) => Err(self.ended(running.end())),
            Err(_) => {
                running.input = None;
                Err(AnswerError::Silent {
                    command: self.how.command.clone(),
                    line: number,
                    seconds: self.how.patience.as_secs(),
                })
            }
        }
    }

    fn rest(&self) -> Result<(), AnswerError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.asked == 0 || running.input.is_none() {
            return Ok(());
        }
        let (least, most, times) = REST;
        let usual = running.took / running.asked;
        match running.said.recv_timeout((usual * times).clamp(least, most)) {
            Ok(said) => Err(self.unasked(&said, running.asked)),
            Err(_) => Ok(()),
        }
    }
}

/// A child that is killed when nobody needs it any more.
struct Killed(Child);

impl Killed {
    /// Waits until the child has ended; `None` if it has not within this time.
    fn wait(&mut self, patience: Duration) -> std::io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            match self.0.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if start.elapsed() < patience => std::thread::sleep(TICK / 10),
                None => return Ok(None),
            }
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
