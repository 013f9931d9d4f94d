//! Follows the NodeState of this node, where the cluster has one.
//!
//! The [`listener`] is a thread that watches the object and wakes the loop with [`News`]. The loop [decides](decide) what to do with the spec:
//! read the NodeConfig that it names, wait for the cluster, or reboot. The document then takes the same way as one from user data
//! (`super::candidates`). While a document is assigned, user data is ignored; the node [remembers](memory) that on disk. After each turn of the
//! loop the [status](report) is compared with the last status that was sent, and sent if it differs.

mod boot_times;
mod decide;
mod listener;
mod memory;
mod pause;
mod report;

use std::sync::mpsc::Sender;
use std::time::Duration;

use kiln_node_config::Effect;
use kiln_node_config::node_state::{BootTimes, Condition, NodeStateSpec, NodeStateStatus, RequestedAction};
use kiln_node_plan::{Plan, Request, State};

use super::Watch;
use super::condition::CandidateOutcome;
use super::progress::GateResult;
use super::signals::Wake;
use crate::apiserver::{Node as Object, NodeState, Severity};
use crate::apply::candidate::Candidate;
use crate::apply::{load_state, rollback};
use crate::identity::ancestry;
use crate::log::error_line;
use crate::node::Node;
use crate::os::clock;
use crate::os::systemd::Systemd;
use crate::redact::patterns::redact;
use crate::status::Outcome;
use decide::{Assessment, Next};
use listener::Handle;
pub(crate) use listener::News;
pub(crate) use memory::Memory;

/// The source of documents, as the status shows it.
const SOURCE: &str = "NodeState";
/// Pause before a NodeConfig that could not be read is read again, and before a status that could not be sent is sent again.
const RETRY: Duration = Duration::from_secs(10);
/// Pause before a status that the API server refused is sent again.
const FORBIDDEN: Duration = Duration::from_mins(5);
/// Pause before a reboot that systemd refused is requested again.
const REBOOT_RETRY: Duration = Duration::from_mins(1);
/// Time limit of a request to systemd.
const SYSTEMD: Duration = Duration::from_secs(10);
/// The longest sleep of the loop while the node has a NodeState: also what other processes change on the node is reported within two seconds.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(1500);

/// The NodeState, and what the loop knows about it.
#[derive(Debug)]
pub(super) struct Follower {
    loop_: Sender<Wake>,
    listener: Option<Handle>,
    /// How many listeners were started.
    started: u64,
    memory: Memory,
    /// The object, since the listener has read it.
    seen: Option<Seen>,
    assessed: Option<Assessment>,
    /// The action that the assigned document waits for, and its effect.
    needed: Option<RequestedAction>,
    effect: Option<Effect>,
    /// Why the assigned document cannot be read.
    problem: Option<String>,
    read_at: Duration,
    reboot_at: Duration,
    /// The last results of the gates.
    pub(super) gates: Vec<(String, GateResult)>,
    boot_times: BootTimes,
    image_version: String,
    send_at: Duration,
    /// Whether the watch is interrupted.
    is_interrupted: bool,
    /// The last line about the NodeState, and the last error about its status, each logged once.
    last_line: Option<String>,
    last_send_error: Option<String>,
}

#[derive(Debug)]
struct Seen {
    uid: String,
    generation: i64,
    spec: NodeStateSpec,
    /// The status that was sent last, or that the object had when it was read first.
    sent: NodeStateStatus,
}

impl Follower {
    pub(super) fn new(node: &Node, loop_: Sender<Wake>, machine: Option<&str>) -> Self {
        let versions = ancestry::read(&node.root).map(|transfers| ancestry::versions(&transfers)).unwrap_or_default();
        Self {
            loop_,
            listener: None,
            started: 0,
            memory: Memory::load(node, machine),
            seen: None,
            assessed: None,
            needed: None,
            effect: None,
            problem: None,
            read_at: Duration::ZERO,
            reboot_at: Duration::ZERO,
            gates: Vec::new(),
            boot_times: boot_times::load(node),
            image_version: versions.into_iter().next_back().map(|ancestor| ancestor.image_version).unwrap_or_default(),
            send_at: Duration::ZERO,
            is_interrupted: false,
            last_line: None,
            last_send_error: None,
        }
    }

    /// Whether a document is assigned, so that user data is ignored.
    pub(super) fn is_assigned(&self) -> bool {
        self.memory.desired.is_some()
    }

    /// Whether the node has a NodeState.
    pub(super) fn is_following(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether the cluster allows exactly this document.
    pub(super) fn allows(&self, hash: &str) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.spec.allow.as_deref() == Some(hash))
    }

    /// Reads the assigned document again, at this time.
    pub(super) fn read_again(&mut self, at: Duration) {
        (self.assessed, self.read_at) = (None, at);
    }

    fn log_once(&mut self, node: &Node, line: String) {
        if self.last_line.as_ref() != Some(&line) {
            node.log.info(&line);
            self.last_line = Some(line);
        }
    }

    /// Records a new object. Returns the spec before.
    fn see(&mut self, state: NodeState) -> Option<NodeStateSpec> {
        let NodeState { uid, generation, spec, status } = state;
        match self.seen.take() {
            Some(seen) if seen.uid == uid => {
                self.seen = Some(Seen { uid, generation, spec, sent: seen.sent });
                Some(seen.spec)
            }
            before => {
                self.send_at = Duration::ZERO;
                self.seen = Some(Seen { uid, generation, spec, sent: status });
                before.map(|seen| seen.spec)
            }
        }
    }
}

impl Watch<'_> {
    /// Starts a listener for the API server of the document in force, unless it runs already.
    pub(super) fn listen_to_node_state(&mut self) {
        let Some((target, name)) = self.cluster.target() else { return };
        let follower = &mut self.follower;
        if follower.listener.as_ref().is_some_and(|listener| listener.is_for(target, name)) {
            return;
        }
        follower.listener = None;
        follower.started += 1;
        let (number, loop_) = (follower.started, follower.loop_.clone());
        match Handle::start(number, target, name, loop_, self.node.wait, self.schedule.seed()) {
            Ok(handle) => follower.listener = Some(handle),
            Err(error) => self.node.log.warn(format!("cannot follow the NodeState of this node: {error}")),
        }
    }

    /// Handles news of a listener.
    pub(super) fn hear(&mut self, number: u64, news: News, now: Duration) {
        let Some(listener) = self.follower.listener.as_ref().filter(|listener| listener.number == number) else {
            return;
        };
        let name = listener.name().to_owned();
        if matches!(news, News::State(_) | News::Watching) && std::mem::take(&mut self.follower.is_interrupted) {
            self.node.log.info("the watch of the NodeState continues");
            self.follower.send_at = now;
        }
        match news {
            News::State(Some(state)) => {
                let (allow, is_assigned) = (state.spec.allow.clone(), state.spec.desired.is_some());
                let before = self.follower.see(*state);
                if before.is_none() {
                    self.follower.log_once(self.node, format!("following the NodeState `{name}`"));
                }
                self.assign(now, Some(name));
                let allowed_before = before.and_then(|before| before.allow);
                if !is_assigned && allow.is_some() && allow != allowed_before {
                    // A document in user data may wait for it.
                    self.poll_requested = true;
                    self.schedule.poll_at(now);
                }
            }
            News::State(None) => {
                if self.follower.seen.take().is_some() || self.follower.memory.name.is_some() {
                    self.follower.log_once(self.node, format!("the NodeState `{name}` does not exist any more"));
                }
                self.assign(now, None);
            }
            News::NoFleet(why) => {
                let user_data = if self.follower.is_assigned() { "" } else { "; polling user data" };
                self.follower.log_once(self.node, format!("no NodeState for this node ({why}){user_data}"));
            }
            News::Outage(why) => {
                // Other clusters have no NodeState, and the outage is logged for the Node object.
                let is_known = self.follower.seen.is_some() || self.follower.memory.name.is_some();
                if is_known && !std::mem::replace(&mut self.follower.is_interrupted, true) {
                    self.node.log.info(&format!("cannot watch the NodeState: {why}"));
                }
            }
            News::Watching => {}
        }
    }

    /// Records what the NodeState assigns, on disk too.
    fn assign(&mut self, now: Duration, name: Option<String>) {
        let before = self.follower.memory.clone();
        let desired = self.follower.seen.as_ref().and_then(|seen| seen.spec.desired.clone());
        let is_new = self.follower.memory.assign(desired.as_ref());
        self.follower.memory.name = name;
        if is_new {
            self.drop_waiting();
            self.candidate_outcome = CandidateOutcome::None;
            self.follower.read_again(now);
            (self.follower.needed, self.follower.effect, self.follower.problem) = (None, None, None);
            if let Some(desired) = &desired {
                let (config, digest) = (&desired.node_config, crate::status::short(&desired.digest));
                self.node.log.info(&format!("the cluster assigns NodeConfig `{config}` ({digest})"));
                // A failure before this assignment does not count.
                if let Err(error) = rollback::clear_rejection(self.node, &desired.digest) {
                    self.node.log.warn(format!("cannot forget the rejection of the assigned document: {error}"));
                }
            } else {
                self.node.log.info("the cluster assigns no document: user data counts again");
                self.last_polled = None;
                self.schedule.poll_at(now);
            }
            self.schedule.sync_now(now);
        }
        self.save_memory(&before);
    }

    fn save_memory(&mut self, before: &Memory) {
        if self.follower.memory == *before {
            return;
        }
        if let Err(error) = self.follower.memory.save(self.node) {
            let what = "cannot record the NodeState, so a restart of kilnd would forget it";
            self.node.log.warn(format!("{what}: {error}"));
        }
    }

    /// Does what the NodeState asks for.
    pub(super) fn follow_node_state(&mut self, state: &State, now: Duration) {
        let before = self.follower.memory.clone();
        self.follower.memory.note_state(state);
        self.save_memory(&before);
        let Some(seen) = &self.follower.seen else { return };
        let (spec, boot) = (seen.spec.clone(), self.node.boot_id());
        match decide::next(&spec, &self.follower.memory, state, self.follower.assessed.as_ref()) {
            Next::Read(assessment) if now >= self.follower.read_at => self.read_assigned(now, assessment),
            Next::Read(_) | Next::Wait | Next::UserData => {}
        }
        if decide::must_reboot(&spec, &boot, &self.follower.memory) && now >= self.follower.reboot_at {
            self.reboot(now, boot);
        }
    }

    /// Reads the assigned document and assesses it. What another attempt can change is tried again.
    fn read_assigned(&mut self, now: Duration, assessment: Assessment) {
        let (name, digest) = (assessment.node_config.clone(), assessment.assignment.digest.clone());
        let Some(client) = self.cluster.client() else { return };
        if !decide::is_name(&name) {
            return self.fail_assigned(now, &digest, "the name of the NodeConfig is invalid");
        }
        let document = match client.node_config(&name) {
            Ok(document) => document,
            Err(error) => {
                let why = if error.is_missing() { "it does not exist".to_owned() } else { error_line(&error) };
                let problem = format!("cannot read NodeConfig `{name}`: {why}");
                if self.follower.problem.as_ref() != Some(&problem) {
                    self.node.log.info(&problem);
                }
                (self.follower.problem, self.follower.read_at) = (Some(problem), now + RETRY);
                return;
            }
        };
        self.follower.problem = None;
        self.follower.assessed = Some(assessment);
        match Candidate::read(self.node, document.as_bytes(), SOURCE) {
            Ok(candidate) if candidate.hash == digest => self.assess(now, candidate.into_assigned(), true),
            Ok(candidate) => {
                let found = crate::status::short(&candidate.hash);
                let wanted = crate::status::short(&digest);
                let why = format!("NodeConfig `{name}` has the digest {found}, but {wanted} is assigned");
                self.fail_assigned(now, &digest, &why);
            }
            Err(error) => self.fail_assigned(now, &digest, &error_line(&error)),
        }
    }

    /// Rejects the assigned document. It is not tried again until it is assigned again.
    fn fail_assigned(&mut self, now: Duration, digest: &str, why: &str) {
        self.reject(now, true, why);
        self.note_failure(digest, why);
    }

    /// Records that the assigned document failed.
    pub(super) fn note_failure(&mut self, digest: &str, why: &str) {
        let before = self.follower.memory.clone();
        self.follower.memory.fail(digest, &redact(why));
        self.save_memory(&before);
    }

    /// Handles an assigned document that may be applied, as far as the cluster has to allow it. Returns whether it may be applied now, and
    /// whether the cluster allowed it.
    pub(super) fn admit_assigned(&mut self, candidate: &Candidate, plan: &Plan) -> Option<bool> {
        self.follower.effect = Some(plan.effect);
        let needed = decide::needed(plan);
        let is_allowed = self.follower.allows(&candidate.hash) || self.allowed.as_deref() == Some(&candidate.hash);
        if needed.is_none() || (is_allowed && needed != Some(RequestedAction::Replace)) {
            self.follower.needed = None;
            return Some(needed.is_some());
        }
        self.follower.needed = needed;
        let number = candidate.config.metadata.generation;
        let request = match needed {
            Some(RequestedAction::Drain) => vec![Request::Drain],
            Some(RequestedAction::Reboot) => vec![Request::Reboot],
            Some(RequestedAction::Replace) => vec![Request::Replace],
            Some(RequestedAction::Apply) | None => plan.requests.clone(),
        };
        self.stored.requests.wait_for(&request, number, &candidate.hash);
        self.save_requests();
        let what = needed.map_or("", |needed| match needed {
            RequestedAction::Apply => "permission",
            RequestedAction::Drain => "a drain",
            RequestedAction::Reboot => "a reboot",
            RequestedAction::Replace => "a new node",
        });
        self.announce(Severity::Normal, "KilnPending", &format!("generation {number} waits for {what}"));
        self.report(Outcome::Requested, None);
        None
    }

    /// Reboots the machine. Recorded first, so that no failure can make it a loop.
    fn reboot(&mut self, now: Duration, boot: String) {
        let before = self.follower.memory.clone();
        self.follower.memory.rebooted = Some(boot);
        self.save_memory(&before);
        self.announce(Severity::Normal, "KilnReboot", "rebooting: the cluster requested it");
        // Post the event before the network is gone.
        self.sync_node(now);
        let error = match &self.node.systemd {
            Some(socket) => Systemd::new(socket, SYSTEMD).reboot().err().map(|error| error_line(&error)),
            None => Some("systemd is not available".to_owned()),
        };
        if let Some(error) = error {
            self.node.log.error(&format!("cannot reboot: {error}"));
            let failed = self.follower.memory.clone();
            self.follower.memory.rebooted = before.rebooted;
            self.save_memory(&failed);
            self.follower.reboot_at = now + REBOOT_RETRY;
        }
    }

    /// Completes the milestones of this boot, if they are reported.
    pub(super) fn note_boot_times(&mut self, object: &Object) {
        if self.follower.is_following() {
            boot_times::complete(self.node, &mut self.follower.boot_times, Some(object));
        }
    }

    /// Sends the status if it differs from the last one.
    pub(super) fn report_node_state(&mut self, now: Duration) {
        let Some(seen) = self.follower.seen.as_ref().filter(|_| now >= self.follower.send_at) else { return };
        let Ok(state) = load_state(self.node) else { return };
        let Some(client) = self.cluster.client() else { return };
        let status = self.node_state_status(seen, &state, &seen.sent.conditions);
        if status == seen.sent {
            return;
        }
        let result = client.report_node_state(&status);
        let follower = &mut self.follower;
        match result {
            Ok(()) => {
                follower.last_send_error = None;
                if let Some(seen) = &mut follower.seen {
                    seen.sent = status;
                }
            }
            Err(error) => {
                let pause = if error.is_forbidden() || error.is_missing() { FORBIDDEN } else { RETRY };
                let error = error_line(&error);
                if follower.last_send_error.as_ref() != Some(&error) {
                    self.node.log.info(&format!("cannot write the status of the NodeState: {error}"));
                }
                (follower.last_send_error, follower.send_at) = (Some(error), now + pause);
            }
        }
    }

    fn node_state_status(&self, seen: &Seen, state: &State, before: &[Condition]) -> NodeStateStatus {
        let follower = &self.follower;
        let waiting = self.waiting.as_ref().map(|(candidate, _)| &candidate.hash);
        let desired = seen.spec.desired.as_ref();
        let boot_id = self.node.boot_id();
        let facts = report::Facts {
            generation: seen.generation,
            desired,
            memory: &follower.memory,
            state,
            requests: &self.stored.requests,
            needed: follower.needed,
            effect: follower.effect,
            is_waiting: waiting.is_some() && waiting == desired.map(|desired| &desired.digest),
            problem: follower.problem.as_deref(),
            overdue: self.overdue.as_deref(),
            gates: &follower.gates,
            boot_id: &boot_id,
            image_version: &follower.image_version,
            boot: Some(&follower.boot_times),
        };
        report::status(facts, before, &clock::rfc3339(clock::wall()))
    }
}
