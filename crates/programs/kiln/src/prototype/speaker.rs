//! What a run says while it goes on: lines on standard error, a live one only on a terminal, or a log in kamino's form.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use kiln_engine::{RunEventKind, RunEvent, EventSink};
use kiln_prototype::journal::{Entry, Event, Outcome, Output};
use kiln_prototype::span::format_span;

use super::common::Common;
use super::connect::Now;
use super::values::{LogLevel, LogPrefix};
use crate::failure::Failure;

/// How what happens is told.
enum Form {
    /// Lines in kamino's form: time, prefix, level.
    Log { prefix: Option<LogPrefix>, timestamps: bool },
    /// Plain lines.
    Lines,
    /// Plain lines above one that changes.
    Live(ProgressBar),
}

/// Tells people what happens.
pub(crate) struct Speaker {
    form: Form,
    level: LogLevel,
    now: Now,
    journal: Option<Mutex<File>>,
}

impl Speaker {
    /// `journal` gets a copy of each entry.
    pub(crate) fn new(common: &Common, journal: Option<&Path>, now: &Now) -> Result<Self, Failure> {
        let logs = common.log_level.is_some() || common.log_prefix.is_some() || common.log_timestamps;
        let form = if logs {
            Form::Log { prefix: common.log_prefix.clone(), timestamps: common.log_timestamps }
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            Form::Live(bar)
        } else {
            Form::Lines
        };
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let journal = match journal {
            Some(path) => Some(Mutex::new(open(path).map_err(|error| Failure::file(path, error))?)),
            None => None,
        };
        Ok(Self { form, level: common.log_level.unwrap_or_default(), now: now.clone(), journal })
    }

    /// Says one line.
    pub(crate) fn say(&self, level: LogLevel, text: &str) {
        if level < self.level {
            return;
        }
        match &self.form {
            Form::Log { prefix, timestamps } => {
                let at = timestamps.then(|| stamp(self.now.as_ref()()));
                let fields = at.into_iter().chain(prefix.as_ref().map(ToString::to_string));
                let line: Vec<String> = fields.chain([format!("{level}: {text}")]).collect();
                write_line(&line.join("\t"));
            }
            Form::Lines => write_line(text),
            Form::Live(bar) => bar.suspend(|| write_line(text)),
        }
    }

    /// What is being waited for.
    fn live(&self, text: String) {
        match &self.form {
            Form::Live(bar) => bar.set_message(text),
            Form::Log { .. } | Form::Lines => self.say(LogLevel::Debug, &text),
        }
    }

    /// Takes the live line away.
    pub(crate) fn finish(&self) {
        if let Form::Live(bar) = &self.form {
            bar.finish_and_clear();
        }
    }

    fn copy(&self, news: &RunEvent) {
        let (Some(journal), Some(run), RunEventKind::Recorded(event)) = (&self.journal, &news.run, &news.what) else {
            return;
        };
        let entry = Entry { run: run.clone(), at: self.now.as_ref()(), event: event.clone() };
        let Ok(line) = serde_json::to_string(&entry) else { return };
        let mut file = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{line}") {
            self.say(LogLevel::Warning, &format!("the copy of the journal is not complete: {error}"));
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.finish();
    }
}

impl EventSink for Speaker {
    fn record(&self, event: RunEvent) -> futures_util::future::BoxFuture<'_, ()> {
        self.copy(&news);
        let pool = &news.pool;
        match &news.what {
            RunEventKind::Starting { step, held } => {
                let held: Vec<String> = held.iter().map(ToString::to_string).collect();
                let holds = if held.is_empty() { String::new() } else { format!("; holds {}", held.join(", ")) };
                self.live(format!("{pool}: {step}{holds}"));
                self.say(LogLevel::Debug, &format!("{pool}: {step} begins{holds}"));
            }
            RunEventKind::Waiting { step, why, percent, pause } => {
                let percent = percent.map(|percent| format!(" {percent:.0} %")).unwrap_or_default();
                self.live(format!("{pool}: {step}{percent}: {why} (looks again in {})", format_span(*pause)));
            }
            RunEventKind::Recorded(event) => {
                if let Some((level, text)) = recorded(event) {
                    self.say(level, &format!("{pool}: {text}"));
                }
            }
            // What is said without a run is the operation's own account of itself.
            RunEventKind::Note(text) if news.run.is_none() => self.say(LogLevel::Info, &format!("{pool}: {text}")),
            other => {
                let (level, text) = plain(other);
                self.say(level, &format!("{pool}: {text}"));
            }
        }
        Box::pin(std::future::ready(()))
    }
}

fn recorded(event: &Event) -> Option<(LogLevel, String)> {
    let done = |text: String| Some((LogLevel::Info, text));
    match event {
        Event::Opened { header } => {
            let (version, donor) = (&header.version, &header.donor.node);
            done(format!("version {version} is made from node {donor}"))
        }
        Event::Resumed { who } => done(format!("goes on, by {who}")),
        Event::Started { .. } => None,
        Event::Accepted { step, .. } => Some((LogLevel::Debug, format!("{step} goes on in Azure"))),
        Event::Succeeded { step, output: Some(Output::Note(text)) } => done(format!("{step} done: {text}")),
        Event::Succeeded { step, .. } => done(format!("{step} done")),
        Event::Failed { step, failure, for_good: true } => {
            Some((LogLevel::Error, format!("{step} failed for good: {failure}")))
        }
        Event::Failed { step, failure, for_good: false } => {
            Some((LogLevel::Warning, format!("{step} failed and is tried again: {failure}")))
        }
        Event::Closed { outcome } => match outcome {
            Outcome::Completed { version } => done(format!("new nodes are made from {version}")),
            Outcome::Failed { step, .. } => Some((LogLevel::Error, format!("ended at {step}, all given back"))),
            Outcome::Rejected { version, .. } => {
                Some((LogLevel::Error, format!("nobody gets {version}: its canary did not join")))
            }
        },
    }
}

fn plain(what: &RunEventKind) -> (LogLevel, String) {
    match what {
        RunEventKind::Leased => (LogLevel::Debug, "is ours alone".to_owned()),
        RunEventKind::Inspecting(node) => {
            (LogLevel::Info, format!("reads the inside of node {node} by a pod that changes nothing"))
        }
        RunEventKind::Looking(facts) => {
            let facts: Vec<String> = facts.iter().map(|fact| format!("{fact:?}").to_lowercase()).collect();
            (LogLevel::Debug, format!("reads {}", facts.join(", ")))
        }
        RunEventKind::Acted { step } => (LogLevel::Debug, format!("{step} acted")),
        RunEventKind::Drain(progress) => (LogLevel::Info, progress.to_string()),
        RunEventKind::Note(text) => (LogLevel::Warning, text.clone()),
        RunEventKind::Starting { .. } | RunEventKind::Waiting { .. } | RunEventKind::Recorded(_) => {
            (LogLevel::Debug, String::new())
        }
    }
}

/// As Python's logging writes it: a comma before the milliseconds.
fn stamp(at: Timestamp) -> String {
    let at = jiff::tz::Offset::UTC.to_datetime(at);
    format!("{} {:02}:{:02}:{:02},{:03}", at.date(), at.hour(), at.minute(), at.second(), at.millisecond())
}

/// Who closed standard error does not want to read it.
fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
