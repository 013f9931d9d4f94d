//! Progress of a run on standard error: plain lines, a live line on a terminal, or a log in kamino's format.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use kiln_engine::{EventSink, RunEvent, RunEventKind};
use kiln_prototype::journal::{Event, Outcome, Output};
use kiln_prototype::span::format_span;

use super::common::Common;
use super::connect::Now;
use super::values::{LogLevel, LogPrefix};
use crate::failure::Failure;

enum Format {
    /// kamino's: time, prefix, level.
    Log {
        prefix: Option<LogPrefix>,
        timestamps: bool,
    },
    Lines,
    /// Lines above one that changes.
    Live(ProgressBar),
}

/// Prints the events of a run, and appends its journal entries to a file.
pub(crate) struct Reporter {
    format: Format,
    level: LogLevel,
    now: Now,
    journal: Option<Mutex<File>>,
}

impl Reporter {
    pub(crate) fn new(common: &Common, journal: Option<&Path>, now: &Now) -> Result<Self, Failure> {
        let logs = common.log_level.is_some() || common.log_prefix.is_some() || common.log_timestamps;
        let format = if logs {
            Format::Log { prefix: common.log_prefix.clone(), timestamps: common.log_timestamps }
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            Format::Live(bar)
        } else {
            Format::Lines
        };
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let journal = match journal {
            Some(path) => Some(Mutex::new(open(path).map_err(|error| Failure::file(path, error))?)),
            None => None,
        };
        Ok(Self { format, level: common.log_level.unwrap_or_default(), now: now.clone(), journal })
    }

    /// Prints a line that belongs to no event.
    pub(crate) fn print(&self, level: LogLevel, text: &str) {
        self.print_at(self.now.as_ref()(), level, text);
    }

    fn print_at(&self, at: Timestamp, level: LogLevel, text: &str) {
        if level < self.level {
            return;
        }
        match &self.format {
            Format::Log { prefix, timestamps } => {
                let at = timestamps.then(|| log_time(at));
                let fields = at.into_iter().chain(prefix.as_ref().map(ToString::to_string));
                let line: Vec<String> = fields.chain([format!("{level}: {text}")]).collect();
                write_line(&line.join("\t"));
            }
            Format::Lines => write_line(text),
            Format::Live(bar) => bar.suspend(|| write_line(text)),
        }
    }

    /// Shows what the run is doing on the live line, or logs it at debug level.
    fn show(&self, at: Timestamp, text: String) {
        match &self.format {
            Format::Live(bar) => bar.set_message(text),
            Format::Log { .. } | Format::Lines => self.print_at(at, LogLevel::Debug, &text),
        }
    }

    /// Removes the live line.
    pub(crate) fn finish(&self) {
        if let Format::Live(bar) = &self.format {
            bar.finish_and_clear();
        }
    }

    /// Appends the event to the file of `--journal`, exactly as it is in the journal.
    fn copy(&self, event: &RunEvent) {
        let (Some(journal), Some(entry)) = (&self.journal, event.journal_entry()) else { return };
        let Ok(line) = serde_json::to_string(&entry) else { return };
        let mut file = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{line}") {
            self.print(LogLevel::Warning, &format!("the copy of the journal is incomplete: {error}"));
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl EventSink for Reporter {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.copy(&event);
        let RunEvent { at, pool, run, kind } = event;
        match kind {
            RunEventKind::Starting { step, holds } => {
                let holds: Vec<String> = holds.iter().map(ToString::to_string).collect();
                let holds = if holds.is_empty() { String::new() } else { format!("; holds {}", holds.join(", ")) };
                self.show(at, format!("{pool}: {step}{holds}"));
                self.print_at(at, LogLevel::Debug, &format!("{pool}: starting {step}{holds}"));
            }
            RunEventKind::Waiting { step, reason, percent, pause } => {
                let percent = percent.map(|percent| format!(" {percent:.0} %")).unwrap_or_default();
                self.show(at, format!("{pool}: {step}{percent}: {reason} (next check in {})", format_span(pause)));
            }
            RunEventKind::Recorded(event) => {
                if let Some((level, text)) = recorded(&event) {
                    self.print_at(at, level, &format!("{pool}: {text}"));
                }
            }
            // Without a run, notes are the progress of the operation.
            RunEventKind::Note(text) if run.is_none() => self.print_at(at, LogLevel::Info, &format!("{pool}: {text}")),
            RunEventKind::Note(text) => self.print_at(at, LogLevel::Warning, &format!("{pool}: {text}")),
            RunEventKind::Leased => self.print_at(at, LogLevel::Debug, &format!("{pool}: acquired the lease")),
            RunEventKind::Inspecting(node) => {
                self.print_at(at, LogLevel::Info, &format!("{pool}: inspecting node {node} with a read-only pod"));
            }
            RunEventKind::Reading(facts) => {
                let facts: Vec<String> = facts.iter().map(|fact| format!("{fact:?}").to_lowercase()).collect();
                self.print_at(at, LogLevel::Debug, &format!("{pool}: reading {}", facts.join(", ")));
            }
            RunEventKind::Acted { step } => self.print_at(at, LogLevel::Debug, &format!("{pool}: {step} acted")),
            RunEventKind::Drain(progress) => self.print_at(at, LogLevel::Info, &format!("{pool}: {progress}")),
        }
        Box::pin(std::future::ready(()))
    }
}

fn recorded(event: &Event) -> Option<(LogLevel, String)> {
    let info = |text: String| Some((LogLevel::Info, text));
    match event {
        Event::Opened { header } => {
            info(format!("creating version {} from node {}", header.version, header.donor.node))
        }
        Event::Resumed { who } => info(format!("resumed by {who}")),
        Event::Started { .. } => None,
        Event::Accepted { step, .. } => Some((LogLevel::Debug, format!("{step} accepted by Azure"))),
        Event::Succeeded { step, output: Some(Output::Note(text)) } => info(format!("{step} done: {text}")),
        Event::Succeeded { step, .. } => info(format!("{step} done")),
        Event::Failed { step, failure, permanent: true } => {
            Some((LogLevel::Error, format!("{step} failed permanently: {failure}")))
        }
        Event::Failed { step, failure, permanent: false } => {
            Some((LogLevel::Warning, format!("{step} failed and is retried: {failure}")))
        }
        Event::Closed { outcome } => match outcome {
            Outcome::Completed { version } => info(format!("new nodes are created from {version}")),
            Outcome::Failed { step, .. } => {
                Some((LogLevel::Error, format!("the run failed at {step}; all holds are released")))
            }
            Outcome::Rejected { version, .. } => {
                Some((LogLevel::Error, format!("version {version} is rejected: its canary did not become Ready")))
            }
        },
    }
}

/// As Python's logging writes it, with a comma before the milliseconds.
fn log_time(at: Timestamp) -> String {
    let at = jiff::tz::Offset::UTC.to_datetime(at);
    format!("{} {:02}:{:02}:{:02},{:03}", at.date(), at.hour(), at.minute(), at.second(), at.millisecond())
}

/// Ignores errors: standard error may be closed.
fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
