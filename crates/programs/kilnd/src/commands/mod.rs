//! The commands: what each prints, and its exit code.

pub mod check_image;
pub mod disable;
pub mod enable;
pub mod freeze;
pub mod inspect;
pub mod install;
pub(crate) mod plan;
pub mod seal;
pub mod support;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use kiln_node_config::{NodeConfig, ParseError};
use kiln_node_plan::layout::{self, STATUS};
use kiln_node_plan::{Admission, CloudService, Manifest, PlanAction, State};
use serde_json::{Value, json};

use crate::apply::candidate::{Candidate, CandidateError};
use crate::apply::rollback::{self, RollbackError};
use crate::apply::{self, ApplyError, Consent};
use crate::args::Output;
use crate::log::{error_chain, error_hints, error_line};
use crate::node::Node;
use crate::os::host_network_pods;
use crate::sources::VmId;
use crate::status::{FollowedNodeState, Outcome, PodBlocks, Status, short};
use crate::watch::NodeStateMemory;
use crate::{boot, provisioning, sources};

/// Success, or nothing to do.
pub const DONE: u8 = 0;
/// The command failed and nothing changed.
pub const FAILED: u8 = 1;
/// The document waits for the cluster.
pub const REQUESTED: u8 = 3;
/// An earlier generation is in force again.
pub const REVERTED: u8 = 4;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// The exit code.
    pub code: u8,
    /// Standard output.
    pub text: String,
}

impl CommandResult {
    fn new(code: u8, output: Output, status: &Status) -> Self {
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

/// A document that could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("cannot read `{name}`")]
    Io {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Candidate(#[from] CandidateError),
}

/// `kilnd apply`.
pub fn apply(node: &Node, config: &Path, force: bool, output: Output) -> CommandResult {
    let candidate = match read_candidate(node, config) {
        Ok(candidate) => candidate,
        Err(error) => return fail(node, "apply", output, FAILED, &error, None),
    };
    for field in candidate.config.unknown_fields() {
        node.log.warn(format!("unknown field `{field}` is ignored"));
    }
    let consent = if force { Consent::Forced } else { Consent::Automatic };
    match apply::apply(node, &candidate, consent) {
        Ok(applied) => {
            let code = if applied.needs_cluster() { REQUESTED } else { DONE };
            let mut status = applied.status("apply");
            if status.outcome == Outcome::Requested {
                status.next = Some(hint_for_requests(&applied));
            }
            // Without a change not even the status is written.
            let status = if status.outcome == Outcome::Unchanged { status } else { node.report(status) };
            CommandResult::new(code, output, &status)
        }
        Err(error) => {
            let code = if matches!(error, ApplyError::Reverted { .. }) { REVERTED } else { FAILED };
            fail(node, "apply", output, code, &error, None)
        }
    }
}

fn hint_for_requests(applied: &apply::Applied) -> String {
    match applied.plan.action() {
        PlanAction::Paused => "`spec.update.paused` is set, so the changes are only reported".to_owned(),
        _ => "wait until the cluster allows it, or run `kilnd apply --force` to apply it now".to_owned(),
    }
}

/// `kilnd plan`.
pub fn plan(node: &Node, config: &Path, output: Output) -> CommandResult {
    let candidate = match read_candidate(node, config) {
        Ok(candidate) => candidate,
        Err(error) => return fail_without_status(node, output, FAILED, &error),
    };
    match apply::plan(node, &candidate) {
        Ok((admission, transition)) => {
            let requests = transition.plan.action() == PlanAction::Request && admission != Admission::InForce;
            let code = if requests { REQUESTED } else { DONE };
            match output {
                Output::Text => CommandResult { code, text: plan::to_text(&candidate, &admission, &transition) },
                Output::Json => CommandResult::json(code, &plan::to_json(&candidate, &admission, &transition)),
            }
        }
        Err(error) => fail_without_status(node, output, FAILED, &error),
    }
}

/// `kilnd boot`.
pub fn boot(node: &Node, output: Output) -> CommandResult {
    match boot::boot(node) {
        // A restart of the unit on a live node: not even the status is written.
        Ok(status) if status.outcome == Outcome::Unchanged => CommandResult::new(DONE, output, &status),
        Ok(status) => CommandResult::new(DONE, output, &node.report(status)),
        Err(error) => {
            let next = "the kubelet does not start until a document is in force; systemd runs `kilnd boot` again";
            provisioning::announce_failure(node, &failure_sentence(node, &error), error.is_final());
            let result = fail(node, "boot", output, FAILED, &error, Some(next));
            boot::retry::wait(node, &error);
            result
        }
    }
}

/// Why this machine does not become a node, in one sentence: the error, and the first thing that is wrong with the image.
fn failure_sentence(node: &Node, error: &dyn Error) -> String {
    let cause = error_line(error);
    // Other roots have no boot to check.
    let image = node.root.is_host().then(|| check_image::report(node).sentence()).flatten();
    let image = image.map(|image| format!("; also, {image}")).unwrap_or_default();
    format!("this machine does not become a node: {cause}{image}")
}

/// `kilnd rollback`.
pub fn rollback(node: &Node, to: Option<u64>, output: Output) -> CommandResult {
    match rollback::roll_back(node, to) {
        Ok(done) => {
            let status = Status::new("rollback", Outcome::Reverted, &done.state);
            CommandResult::new(DONE, output, &node.report(status))
        }
        Err(error @ RollbackError::InForce(_)) => {
            node.log.info(&error.to_string());
            status(node, output)
        }
        Err(
            error @ (RollbackError::NoGeneration | RollbackError::NotFound { .. } | RollbackError::NoPrevious { .. }),
        ) => fail_without_status(node, output, FAILED, &error),
        Err(error) => fail(node, "rollback", output, FAILED, &error, None),
    }
}

/// `kilnd status`.
pub fn status(node: &Node, output: Output) -> CommandResult {
    let state = match apply::load_state(node) {
        Ok(state) => state,
        Err(error) => return fail_without_status(node, output, FAILED, &error),
    };
    let last = node.root.read_if_exists(STATUS).ok().flatten();
    let last: Option<Status> = last.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let now = Status::new("status", Outcome::Unchanged, &state);
    // The status file describes the last command; the state is authoritative for the generation in force.
    let status = match last {
        Some(last) => Status {
            generation: now.generation,
            on_trial: now.on_trial,
            previous: now.previous,
            rejected: now.rejected,
            ..last
        },
        None => now,
    };
    let status = Status { node_state: followed_node_state(node), pod_blocks: pod_blocks(node), ..status };
    CommandResult::new(DONE, output, &status)
}

/// The NodeState that `kilnd watch` follows on this machine.
fn followed_node_state(node: &Node) -> Option<FollowedNodeState> {
    let machine = sources::vm_id(&node.endpoints).ok();
    let memory = NodeStateMemory::load(node, machine.as_ref().map(VmId::as_str));
    let failure = memory.failure().map(str::to_owned);
    Some(FollowedNodeState { name: memory.name?, desired: memory.desired, failure })
}

/// What pods cannot reach in the generation in force; none if nothing is blocked.
fn pod_blocks(node: &Node) -> Option<PodBlocks> {
    let manifest = node.root.read_if_exists(layout::current(layout::MANIFEST)).ok().flatten()?;
    let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
    let services: Vec<String> =
        CloudService::ALL.iter().filter(|service| manifest.blocks(**service)).map(ToString::to_string).collect();
    if services.is_empty() {
        return None;
    }
    let exempt = if node.root.is_host() {
        host_network_pods(Path::new("/proc"), Path::new("/var/log/pods"))
    } else {
        Vec::new()
    };
    Some(PodBlocks { services, exempt })
}

/// `kilnd config check`: reports every problem of a document.
pub fn config_check(file: &Path, output: Output) -> CommandResult {
    let problems = match read(file) {
        Err(error) => vec![(String::new(), format!("cannot read the file: {error}"))],
        Ok(bytes) => match sources::decode(&bytes) {
            Err(error) => vec![(String::new(), error_line(&error))],
            Ok(decoded) => match NodeConfig::parse(&decoded.document) {
                Ok(config) => return valid(file, &config, output),
                Err(ParseError::Invalid(invalid)) => {
                    invalid.0.into_iter().map(|violation| (violation.path, violation.reason)).collect()
                }
                Err(error) => vec![(String::new(), error_line(&error))],
            },
        },
    };
    match output {
        Output::Json => {
            let problems: Vec<Value> =
                problems.iter().map(|(path, reason)| json!({"path": path, "reason": reason})).collect();
            CommandResult::json(FAILED, &json!({"valid": false, "problems": problems}))
        }
        Output::Text => {
            let line = |(path, reason): &(String, String)| match path.as_str() {
                "" => format!("{}: {reason}\n", display_name(file)),
                path => format!("{}: {path}: {reason}\n", display_name(file)),
            };
            CommandResult { code: FAILED, text: problems.iter().map(line).collect() }
        }
    }
}

fn valid(file: &Path, config: &NodeConfig, output: Output) -> CommandResult {
    let unknown = config.unknown_fields();
    let (number, hash) = (config.metadata.generation, config.hash());
    match output {
        Output::Json => CommandResult::json(
            DONE,
            &json!({"valid": true, "generation": number, "hash": hash, "signed": config.signature.is_some(), "unknownFields": unknown}),
        ),
        Output::Text => {
            let mut text = format!("{}: valid, generation {number} ({})\n", display_name(file), short(&hash));
            for field in unknown {
                _ = writeln!(text, "unknown field `{field}` is ignored");
            }
            CommandResult { code: DONE, text }
        }
    }
}

fn read_candidate(node: &Node, config: &Path) -> Result<Candidate, ReadError> {
    let name = display_name(config);
    match read(config) {
        Ok(bytes) => Ok(Candidate::read(node, &bytes, &name)?),
        Err(source) => Err(ReadError::Io { name, source }),
    }
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file.as_os_str() != "-" {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn display_name(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reports an error and records it in the status. `next` is what happens next if the error has no hint.
fn fail(node: &Node, command: &str, output: Output, code: u8, error: &dyn Error, next: Option<&str>) -> CommandResult {
    let state = apply::load_state(node).unwrap_or_else(|_| State::default());
    let outcome = if code == REVERTED { Outcome::Reverted } else { Outcome::Failed };
    let mut status = Status::new(command, outcome, &state);
    node.log.report(error);
    status.failures = error_chain(error);
    status.next = next.map(str::to_owned).or_else(|| error_hints(error).into_iter().next());
    let status = node.report(status);
    match output {
        Output::Text => CommandResult { code, text: String::new() },
        Output::Json => CommandResult::new(code, output, &status),
    }
}

/// Reports an error of a command that changes nothing. The status stays as it is.
fn fail_without_status(node: &Node, output: Output, code: u8, error: &dyn Error) -> CommandResult {
    node.log.report(error);
    match output {
        Output::Text => CommandResult { code, text: String::new() },
        Output::Json => CommandResult::json(code, &json!({"failures": error_chain(error)})),
    }
}
