//! What each command prints and how it ends.

pub mod inspect;
pub mod install;
mod plan;
pub mod seal;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use kiln_node_config::{NodeConfig, ParseError};
use kiln_node_plan::layout::STATUS;
use kiln_node_plan::{Offer, State, Verdict};
use serde_json::{Value, json};

use crate::apply::candidate::Offered;
use crate::apply::rollback::{self, NotBack};
use crate::apply::{self, Consent, NotApplied};
use crate::args::Output;
use crate::boot;
use crate::log::chain;
use crate::node::Node;
use crate::status::{Outcome, Status, short};

/// Done, or nothing to do.
pub const DONE: u8 = 0;
/// Failed, and nothing changed.
pub const FAILED: u8 = 1;
/// The cluster must do something.
pub const ASKED: u8 = 3;
/// An earlier generation is in force again.
pub const CAME_BACK: u8 = 4;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The exit code.
    pub code: u8,
    /// What goes to standard output.
    pub text: String,
}

impl Ending {
    fn of(code: u8, output: Output, status: &Status) -> Self {
        let text = match output {
            Output::Text => status.to_text(),
            Output::Json => String::from_utf8_lossy(&status.to_json()).into_owned(),
        };
        Self { code, text }
    }

    fn json(code: u8, value: &Value) -> Self {
        Self { code, text: format!("{value:#}\n") }
    }
}

/// Puts a document in force.
pub fn apply(node: &Node, config: &Path, force: bool, output: Output) -> Ending {
    let offered = match offered(node, config) {
        Ok(offered) => offered,
        Err(failures) => return fail(node, "apply", output, FAILED, failures, None),
    };
    for field in offered.config.unknown_fields() {
        node.journal.warn(format!("`{field}` is not known to this version and does nothing"));
    }
    let consent = if force { Consent::Person } else { Consent::Offer };
    match apply::apply(node, &offered, consent) {
        Ok(applied) => {
            let code = if applied.needs_cluster() { ASKED } else { DONE };
            let mut status = applied.status("apply");
            if status.outcome == Outcome::Asked {
                status.next = Some(next_of_asked(&applied));
            }
            // Nothing to do is nothing to write.
            let status = if status.outcome == Outcome::Unchanged { status } else { node.report(status) };
            Ending::of(code, output, &status)
        }
        Err(error) => {
            let code = if matches!(error, NotApplied::CameBack { .. }) { CAME_BACK } else { FAILED };
            fail(node, "apply", output, code, chain(&error), None)
        }
    }
}

fn next_of_asked(applied: &apply::Applied) -> String {
    match applied.plan.verdict() {
        Verdict::Paused => "`spec.update.paused` is set: the document is only reported".to_owned(),
        _ => "the cluster allows it, or `kilnd apply --force` does it now".to_owned(),
    }
}

/// Shows what `apply` would do.
pub fn plan(node: &Node, config: &Path, output: Output) -> Ending {
    let offered = match offered(node, config) {
        Ok(offered) => offered,
        Err(failures) => return say_failed(node, output, FAILED, &failures),
    };
    match apply::plan(node, &offered) {
        Ok((offer, way)) => {
            let asks = way.plan.verdict() == Verdict::Ask && !matches!(offer, Offer::InForce);
            let code = if asks { ASKED } else { DONE };
            match output {
                Output::Text => Ending { code, text: plan::plan(&offered, &offer, &way) },
                Output::Json => Ending::json(code, &plan::plan_json(&offered, &offer, &way)),
            }
        }
        Err(error) => say_failed(node, output, FAILED, &chain(&error)),
    }
}

/// Starts the machine as a node.
pub fn boot(node: &Node, output: Output) -> Ending {
    match boot::boot(node) {
        Ok(status) => Ending::of(DONE, output, &node.report(status)),
        Err(error) => {
            let next = "kubelet stays down until a document is in force; `kilnd boot` is tried again by systemd";
            fail(node, "boot", output, FAILED, chain(&error), Some(next))
        }
    }
}

/// Goes back to an earlier generation.
pub fn rollback(node: &Node, to: Option<u64>, output: Output) -> Ending {
    match rollback::to(node, to) {
        Ok(back) => Ending::of(DONE, output, &node.report(Status::of("rollback", Outcome::Returned, &back.state))),
        Err(NotBack::InForce(number)) => {
            node.journal.say(&format!("generation {number} is in force"));
            status(node, output)
        }
        Err(error @ (NotBack::Nothing | NotBack::NoSuch { .. } | NotBack::NothingBefore { .. })) => {
            say_failed(node, output, FAILED, &chain(&error))
        }
        Err(error) => fail(node, "rollback", output, FAILED, chain(&error), None),
    }
}

/// Shows what is in force, and what was last done.
pub fn status(node: &Node, output: Output) -> Ending {
    let state = match apply::remembered(node) {
        Ok(state) => state,
        Err(error) => return say_failed(node, output, FAILED, &chain(&error)),
    };
    let last = node.root.read_if_there(STATUS).ok().flatten();
    let last: Option<Status> = last.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let now = Status::of("status", Outcome::Unchanged, &state);
    // What was last done is told by whoever did it; what is in force is told by the node's memory.
    let status = match last {
        Some(last) => Status {
            generation: now.generation,
            on_trial: now.on_trial,
            previous: now.previous,
            refused: now.refused,
            ..last
        },
        None => now,
    };
    Ending::of(DONE, output, &status)
}

/// Says everything that is wrong with a document.
pub fn config_check(file: &Path, output: Output) -> Ending {
    let problems = match read(file) {
        Err(error) => vec![(String::new(), format!("it cannot be read: {error}"))],
        Ok(bytes) => match crate::sources::decode(&bytes) {
            Err(error) => vec![(String::new(), chain(&error).join(": "))],
            Ok(decoded) => match NodeConfig::parse(&decoded.document) {
                Ok(config) => return good(file, &config, output),
                Err(ParseError::Invalid(invalid)) => {
                    invalid.0.into_iter().map(|violation| (violation.path, violation.reason)).collect()
                }
                Err(error) => vec![(String::new(), chain(&error).join(": "))],
            },
        },
    };
    match output {
        Output::Json => {
            let problems: Vec<Value> =
                problems.iter().map(|(path, reason)| json!({"path": path, "reason": reason})).collect();
            Ending::json(FAILED, &json!({"valid": false, "problems": problems}))
        }
        Output::Text => {
            let line = |(path, reason): &(String, String)| match path.as_str() {
                "" => format!("{}: {reason}\n", named(file)),
                path => format!("{}: {path}: {reason}\n", named(file)),
            };
            Ending { code: FAILED, text: problems.iter().map(line).collect() }
        }
    }
}

fn good(file: &Path, config: &NodeConfig, output: Output) -> Ending {
    let unknown = config.unknown_fields();
    let (number, hash) = (config.metadata.generation, config.hash());
    match output {
        Output::Json => Ending::json(
            DONE,
            &json!({"valid": true, "generation": number, "hash": hash, "signed": config.signature.is_some(), "unknownFields": unknown}),
        ),
        Output::Text => {
            let mut text = format!("{}: good, generation {number} ({})\n", named(file), short(&hash));
            for field in unknown {
                _ = writeln!(text, "`{field}` is not known to this version and does nothing");
            }
            Ending { code: DONE, text }
        }
    }
}

fn offered(node: &Node, config: &Path) -> Result<Offered, Vec<String>> {
    let source = named(config);
    let bytes = read(config).map_err(|error| vec![format!("`{source}` cannot be read: {error}")])?;
    Offered::read(&node.root, &bytes, &source).map_err(|error| chain(&error))
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file.as_os_str() != "-" {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What people call it.
fn named(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

/// A failure that the status remembers.
fn fail(node: &Node, command: &str, output: Output, code: u8, failures: Vec<String>, next: Option<&str>) -> Ending {
    let state = apply::remembered(node).unwrap_or_else(|_| State::default());
    let outcome = if code == CAME_BACK { Outcome::Returned } else { Outcome::Failed };
    let mut status = Status::of(command, outcome, &state);
    node.journal.fail(&format!("kilnd: {}", failures.join(": ")));
    status.failures = failures;
    status.next = next.map(str::to_owned);
    let status = node.report(status);
    match output {
        Output::Text => Ending { code, text: String::new() },
        Output::Json => Ending::of(code, output, &status),
    }
}

/// A failure of a command that changes nothing and so leaves the status alone.
fn say_failed(node: &Node, output: Output, code: u8, failures: &[String]) -> Ending {
    node.journal.fail(&format!("kilnd: {}", failures.join(": ")));
    match output {
        Output::Text => Ending { code, text: String::new() },
        Output::Json => Ending::json(code, &json!({"failures": failures})),
    }
}
