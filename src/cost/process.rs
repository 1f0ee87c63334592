//! The model `process`: another program prices each kernel.
//!
//! The program reads a line of JSON with the features of a kernel by name, and answers with a line `{"seconds":
//! 1.2e-5}`, or `{"seconds": null}` for a kernel that it does not know. It is asked once for each kernel. In batches it
//! reads a line with a list of kernels, and answers with a line that has a list of as many answers. How lines are sent and
//! received is not part of this module.

use super::{CostModel, FEATURES, FeatureValue, Machine, PriceList, PriceModel, Query, key};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a program does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// It cannot be started.
    #[error("the program `{command}` cannot be started: {why}")]
    Start {
        /// The command.
        command: String,
        /// The error of the system.
        why: String,
    },
    /// It ended, or closed its input or output, before it answered.
    #[error("the program `{command}` {how}")]
    Ended {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// It did not answer in time.
    #[error(
        "the program `{command}` has not answered line {line} within {seconds} s: it must write a line for each that it reads, and flush it; --process-timeout gives it longer"
    )]
    Silent {
        /// The command.
        command: String,
        /// The number of the line that was sent to it, from 1.
        line: u32,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// It did not end in time.
    #[error(
        "the program `{command}` has not ended within {seconds} s: it must read its input to the end, write its answer, and end; --extractor-timeout gives it longer"
    )]
    Running {
        /// The command.
        command: String,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// It wrote something that is not an answer, or reading from it or writing to it failed.
    #[error("the program `{command}` {what}")]
    Broken {
        /// The command.
        command: String,
        /// What it did.
        what: String,
    },
}

/// Answers a line with a line.
pub(crate) trait Answer: Send + Sync {
    /// Returns the answer.
    ///
    /// # Errors
    /// The reason why there is none, with the name of the program.
    fn answer(&self, line: &str) -> Result<String, AnswerError>;

    /// Checks that the program wrote nothing besides its answers.
    ///
    /// # Errors
    /// The text that it wrote, with the name of the program.
    fn rest(&self) -> Result<(), AnswerError> {
        Ok(())
    }
}

/// The model `process`.
pub struct Process {
    /// The prices of copies.
    copies: PriceModel,
    program: Arc<dyn Answer>,
    /// Whether the program prices kernels in batches.
    batch: bool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    seconds: FxHashMap<String, Option<f64>>,
    /// The kernels of a batch that has begun, each once, in the order of the first question.
    gathered: Option<Gathered>,
    /// The first invalid answer.
    trouble: Option<String>,
}

#[derive(Default)]
struct Gathered {
    lines: Vec<String>,
    seen: FxHashSet<String>,
}

/// An answer. The field `seconds` is required, and may be `null`.
#[derive(Deserialize)]
struct Said {
    #[serde(deserialize_with = "Option::deserialize")]
    seconds: Option<f64>,
}

impl Process {
    /// Uses this program for kernels, and a price list at the machine's speeds for copies.
    pub(crate) fn new(
        machine: &Machine,
        prices: Arc<PriceList>,
        program: Arc<dyn Answer>,
        batch: bool,
    ) -> Self {
        let copies = PriceModel::new("process", *machine, prices);
        Self { copies, program, batch, known: Mutex::default() }
    }

    /// Asks for the price of one kernel.
    pub(crate) fn ask(&self, line: &str) -> Result<Option<f64>, String> {
        if self.batch {
            return Ok(self.ask_all(&[line.to_owned()])?[0]);
        }
        let answer = self.program.answer(line).map_err(|why| why.to_string())?;
        let wrong = |why: &str| format!("the program answered `{}`, {why}", answer.trim_end());
        let form = "which is not of the form {\"seconds\": NUMBER or null}";
        let said: Said = serde_json::from_str(&answer).map_err(|_| wrong(form))?;
        said.price().map_err(wrong)
    }

    /// Asks for the prices of several kernels at once.
    pub(crate) fn ask_all(&self, lines: &[String]) -> Result<Vec<Option<f64>>, String> {
        let answer = self.program.answer(&format!("[{}]", lines.join(","))).map_err(|why| why.to_string())?;
        let form = "of the form [{\"seconds\": NUMBER or null}, …]";
        let said: Vec<Said> = serde_json::from_str(&answer).map_err(|error| {
            format!("the program answered a batch with a line that is not {form}: {error}")
        })?;
        if said.len() != lines.len() {
            let (given, wanted) = (said.len(), lines.len());
            return Err(format!("the program answered a batch of {wanted} kernels with {given} answers"));
        }
        let priced = said.iter().enumerate().map(|(at, said)| {
            said.price()
                .map_err(|why| format!("the program's answer {at} of a batch is {:?}, {why}", said.seconds))
        });
        priced.collect()
    }
}

impl Said {
    fn price(&self) -> Result<Option<f64>, &'static str> {
        match self.seconds {
            Some(seconds) if seconds < 0.0 => Err("which is a negative time"),
            seconds => Ok(seconds),
        }
    }
}

impl CostModel for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        if query.contract.view_of.is_some() {
            return Some(0.0);
        }
        let features: serde_json::Map<String, serde_json::Value> = FEATURES
            .iter()
            .map(|feature| {
                let value = match feature.value(query) {
                    FeatureValue::Number(number) => number.into(),
                    FeatureValue::Text(text) => text.into(),
                };
                (feature.name.to_owned(), value)
            })
            .collect();
        let line = serde_json::Value::from(features).to_string();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gathered) = &mut known.gathered {
            if gathered.seen.insert(line.clone()) {
                gathered.lines.push(line);
            }
            return Some(0.0);
        }
        if let Some(seconds) = known.seconds.get(&line) {
            return *seconds;
        }
        if known.trouble.is_some() {
            return None; // What failed once is not asked again: each answer would have to wait for it.
        }
        let seconds = self.ask(&line).unwrap_or_else(|why| {
            known.trouble = Some(format!("{why}; it was asked for {}", key(query)));
            None
        });
        known.seconds.insert(line, seconds);
        seconds
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.copies.copy(bytes)
    }

    fn begin_batch(&self) -> bool {
        if self.batch {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.gathered = Some(Gathered::default());
        }
        self.batch
    }

    fn end_batch(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Gathered { lines, .. }) = known.gathered.take() else { return };
        let new: Vec<String> = lines.into_iter().filter(|line| !known.seconds.contains_key(line)).collect();
        if new.is_empty() || known.trouble.is_some() {
            return;
        }
        match self.ask_all(&new) {
            Ok(prices) => known.seconds.extend(new.into_iter().zip(prices)),
            Err(why) => known.trouble = Some(why),
        }
    }

    fn trouble(&self) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.trouble.is_none() {
            known.trouble = self.program.rest().err().map(|why| why.to_string());
        }
        known.trouble.clone()
    }

    fn lacking(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.trouble.clone().unwrap_or_else(|| "its program must know every kernel".to_owned())
    }
}
