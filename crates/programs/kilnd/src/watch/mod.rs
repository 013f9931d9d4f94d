//! `kilnd watch`: commits or reverts the generation on trial, polls for new documents, executes deferred steps, and keeps the Node object up
//! to date.
//!
//! [`schedule`] decides which task is due; one loop executes them: [`gates`] and [`verdict`] end a trial, [`candidates`] handles documents,
//! [`cluster`] writes the [`condition`] and the [`requests`], and [`node_state`] follows the NodeState of the node. The loop wakes by time and by [`signals`]. Everything that matters is on disk, so
//! kilnd can be restarted at any time.

mod candidates;
mod cloud_init;
mod cluster;
mod condition;
mod gates;
mod node_state;
mod progress;
mod proxy;
mod requests;
mod schedule;
pub(crate) mod signals;
mod trial;
mod verdict;

use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::Duration;

use crate::apiserver::Severity;
use crate::os::notify::notify;
use crate::os::{Durability, Lock};
use crate::sources::{Imds, VmId, Wait as _};
use kiln_node_config::NodeConfig;
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Desired, Generation, Observed, Plan, Request, State};

use crate::apply::candidate::Candidate;
use crate::apply::{deferred, join_tokens, services, store};
use crate::apply::{load_state, switch_to};
use crate::boot::kind::BootKind;
use crate::node::Node;
use crate::status::{Outcome, Status};
use cloud_init::CloudInit;
use cluster::{CHECK, Cluster};
use condition::{CandidateOutcome, condition};
use gates::Heartbeat;
use node_state::Follower;
pub(crate) use node_state::Memory as NodeStateMemory;
use requests::Requests;
use schedule::{Schedule, Task, Timing};
use signals::Wake;
use trial::TrialStart;

/// Pending requests, across restarts.
const REQUESTS: &str = "/var/lib/kiln/requests.json";
/// The name of the file in earlier versions. Still read, so that an upgrade of kilnd loses no request.
const OLD_REQUESTS: &str = "/var/lib/kiln/wishes.json";
/// The longest sleep: a person may have applied a document meanwhile, and systemd's watchdog expects a message.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Pause before failed deferred work is tried again. A person usually has to fix the cause.
const RETRY: Duration = Duration::from_mins(1);
/// The content of [`REQUESTS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredRequests {
    /// The VM id: a clone ignores the requests of its donor.
    machine: Option<String>,
    /// The folder of the last generation whose requests were recorded.
    folder: Option<String>,
    #[serde(flatten)]
    requests: Requests,
}

/// The state of the loop.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each of which happens once")]
struct Watch<'n> {
    node: &'n Node,
    imds: Imds,
    schedule: Schedule,
    cluster: Cluster,
    stored: StoredRequests,
    candidate_outcome: CandidateOutcome,
    /// Hash and document of the generation in force.
    in_force: Option<(String, NodeConfig)>,
    /// The candidate that waits for its delay, and whether the cluster allowed it.
    waiting: Option<(Candidate, bool)>,
    /// The hash of the last polled bytes, to notice changes.
    last_polled: Option<String>,
    /// Whether a signal or the cluster requested the next poll.
    poll_requested: bool,
    /// The hash of the document that the cluster allows.
    allowed: Option<String>,
    /// The last value of the annotation that was ignored.
    ignored_consent: Option<String>,
    /// The last candidate that was applied, and whether the node was Ready before.
    was_ready: Option<(String, Option<bool>)>,
    heartbeat: Heartbeat,
    /// The trial that is checked now.
    trial: Option<TrialStart>,
    /// Why the trial of the first generation failed.
    overdue: Option<String>,
    /// The folder of the generation whose deferred steps were executed.
    finished: Option<String>,
    /// When failed deferred steps are tried again.
    finish_at: Duration,
    /// The folder of the generation after which the join tokens were removed.
    without_tokens: Option<String>,
    cloud_init: CloudInit,
    reported_ready: bool,
    /// When a gate failed first, and whether the image was checked because of it.
    failing_since: Option<Duration>,
    has_checked_image: bool,
    /// Whether missing host keys were generated.
    has_host_keys: bool,
    last_poll_error: Option<String>,
    follower: Follower,
}

/// Runs until systemd stops the service.
pub fn run(node: &Node) -> std::io::Result<()> {
    let (sender, wakes) = signals::listen()?;
    let machine = crate::sources::vm_id(&node.endpoints).ok();
    let mut watch = Watch::new(node, machine.as_ref(), sender);
    // Fails outside systemd.
    let _ = notify("READY=1");
    loop {
        let now = node.wait.now();
        let sleep = match watch.run_due(now) {
            Ok(()) => watch.schedule.next_wake().saturating_sub(node.wait.now()).min(watch.longest_sleep()),
            Err(error) => {
                node.log.error(&format!("cannot read the state: {error}"));
                LONGEST_SLEEP
            }
        };
        let _ = notify(&format!("WATCHDOG=1\nSTATUS={}", watch.status_line()));
        match wakes.recv_timeout(sleep / node.wait.scale) {
            Ok(Wake::Poll) => {
                node.log.info("SIGHUP received: polling for a document");
                watch.poll_requested = true;
                watch.schedule.poll_at(node.wait.now());
            }
            Ok(Wake::NodeState(number, news)) => watch.hear(number, news, node.wait.now()),
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => {
                let _ = notify("STOPPING=1");
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl<'n> Watch<'n> {
    fn new(node: &'n Node, machine: Option<&VmId>, sender: Sender<Wake>) -> Self {
        let seed = machine.map_or(0, VmId::number);
        let mut watch = Self {
            node,
            imds: Imds::new(&node.endpoints.imds, seed),
            schedule: Schedule::new(node.wait.now(), seed),
            cluster: Cluster::default(),
            stored: stored_requests(node, machine.map(VmId::as_str)),
            candidate_outcome: CandidateOutcome::None,
            in_force: None,
            waiting: None,
            last_polled: None,
            poll_requested: false,
            allowed: None,
            ignored_consent: None,
            was_ready: None,
            heartbeat: Heartbeat::default(),
            trial: TrialStart::recorded(node),
            overdue: None,
            finished: None,
            finish_at: Duration::ZERO,
            without_tokens: None,
            cloud_init: CloudInit::observe(&node.root),
            reported_ready: false,
            failing_since: None,
            has_checked_image: false,
            has_host_keys: false,
            last_poll_error: None,
            follower: Follower::new(node, sender, machine.map(VmId::as_str)),
        };
        watch.stored.requests.note_boot(&node.boot_id());
        watch
    }

    /// Executes all tasks that are due.
    fn run_due(&mut self, now: Duration) -> Result<(), crate::os::Error> {
        let state = load_state(self.node)?;
        self.follow_state(&state, now);
        self.listen_to_node_state();
        self.follow_node_state(&state, now);
        let timing = self.in_force.as_ref().map_or_else(Timing::default, |(_, config)| Timing::from_config(config));
        for task in self.schedule.due(now, timing) {
            match task {
                Task::CheckGates => self.check_gates(now, timing),
                Task::SyncNode => self.sync_node(now),
                Task::Poll => self.poll(now),
                Task::Apply => self.apply(now),
            }
        }
        self.report_node_state(self.node.wait.now());
        Ok(())
    }

    fn longest_sleep(&self) -> Duration {
        if self.follower.is_following() { node_state::LONGEST_SLEEP } else { LONGEST_SLEEP }
    }

    /// Follows the generation in force, which another process may have changed.
    fn follow_state(&mut self, state: &State, now: Duration) {
        match state.trial.as_ref().map(|trial| trial.generation.hash.clone()) {
            None => {
                self.forget_trial();
                self.schedule.set_trial(None);
                self.cluster.set_previous(self.node, None);
            }
            Some(hash) if self.schedule.trial_since().is_some_and(|(checked, _)| checked == hash) => {}
            Some(hash) => self.start_trial(state, &hash, now),
        }
        let Some(generation) = state.in_force() else { return };
        if self.in_force.as_ref().is_none_or(|(hash, _)| *hash != generation.hash) {
            let Ok(Some(config)) = store::document(&self.node.root, &generation.folder) else { return };
            self.cluster.set_document(self.node, &config);
            self.in_force = Some((generation.hash.clone(), config));
            (self.heartbeat, self.overdue) = (Heartbeat::default(), None);
            self.schedule.sync_now(now);
        }
        self.record_requests(generation);
        if self.cloud_init.has_ended(&self.node.root) {
            self.finished = None;
        }
        if self.finished.as_ref() != Some(&generation.folder) && now >= self.finish_at {
            self.finish(state, generation, now);
        }
        if state.trial.is_none() && self.without_tokens.as_ref() != Some(&generation.folder) {
            self.remove_tokens(&generation.folder.clone());
        }
    }

    fn forget_trial(&mut self) {
        if self.trial.take().is_some() {
            TrialStart::forget(self.node);
        }
    }

    /// Removes the join tokens once a generation is committed and the kubelet has its certificate.
    fn remove_tokens(&mut self, folder: &str) {
        let Ok(_lock) = Lock::take(&self.node.root, LOCK) else { return };
        match join_tokens::remove(&self.node.root) {
            Ok(true) => self.without_tokens = Some(folder.to_owned()),
            // The kubelet has not joined yet.
            Ok(false) => {}
            Err(error) => {
                self.node.log.warn(format!("cannot remove the join token: {error}"));
                self.without_tokens = Some(folder.to_owned());
            }
        }
    }

    /// Starts or continues to check a generation on trial.
    fn start_trial(&mut self, state: &State, hash: &str, now: Duration) {
        let was_ready =
            self.was_ready.take().filter(|(applied, _)| applied == hash).and_then(|(_, was_ready)| was_ready);
        let trial = TrialStart::load(self.node, hash, now, was_ready);
        self.schedule.set_trial(Some((hash, trial.since(now))));
        let previous = state.committed.as_ref();
        let previous = previous.and_then(|previous| store::document(&self.node.root, &previous.folder).ok().flatten());
        self.cluster.set_previous(self.node, previous.as_ref());
        self.trial = Some(trial);
    }

    /// Records the requests that result from the change since the last recorded generation.
    fn record_requests(&mut self, generation: &Generation) {
        let Some((_, config)) =
            self.in_force.as_ref().filter(|_| self.stored.folder.as_ref() != Some(&generation.folder))
        else {
            return;
        };
        let before =
            self.stored.folder.as_ref().and_then(|folder| store::document(&self.node.root, folder).ok().flatten());
        // Requests only depend on the two documents.
        let plan = Plan::new(before.as_ref(), config, &Desired::default(), &Observed::default());
        self.stored.requests.add(&plan.requests);
        self.stored.folder = Some(generation.folder.clone());
        self.save_requests();
    }

    fn save_requests(&self) {
        let bytes = serde_json::to_vec(&self.stored).expect("requests have string keys");
        if let Err(error) = self.node.root.write_all(&[DesiredFile::new(REQUESTS, &bytes, 0o600)], Durability::Now) {
            self.node
                .log
                .warn(format!("cannot save the requests to the cluster, so a restart of kilnd loses them: {error}"));
        }
    }

    /// Executes the deferred steps, and restores what others changed since the boot.
    fn finish(&mut self, state: &State, generation: &Generation, now: Duration) {
        let Some((_, config)) = self.in_force.as_ref() else { return };
        // The process that holds the lock does this too.
        let Ok(_lock) = Lock::take(&self.node.root, LOCK) else { return };
        match switch_to(self.node, state, config, &generation.folder) {
            Ok(requests) => {
                self.finished = Some(generation.folder.clone());
                if requests.contains(&Request::Reboot) {
                    self.request_reboot(generation, now);
                }
                self.generate_host_keys();
            }
            Err(error) => {
                let causes = crate::log::error_line(&error);
                self.node.log.error(&format!("generation {} is not fully applied: {causes}", generation.number));
                self.report(Outcome::Failed, Some(&causes));
                self.finish_at = now + RETRY;
            }
        }
    }

    /// Requests a reboot because the running kernel lacks an argument. The first document of a machine is in force before a request is
    /// possible.
    fn request_reboot(&mut self, generation: &Generation, now: Duration) {
        let boot = self.node.boot_id();
        if !self.stored.requests.request_reboot(generation.number, &generation.hash, &boot) {
            let what = "the machine has rebooted, but the kernel still lacks an argument of the document";
            return self.node.log.warn(format!("{what}; check that the boot loader reads `/etc/default/grub.d`"));
        }
        self.save_requests();
        self.announce(
            Severity::Normal,
            "KilnPending",
            &format!("the kernel arguments of generation {} need a reboot", generation.number),
        );
        self.schedule.sync_now(now);
    }

    /// Generates the host keys that a first boot left out because they take long and only old clients need them.
    fn generate_host_keys(&mut self) {
        let new = self.node.boot().ok().flatten().is_some_and(|boot| boot.kind != BootKind::Again);
        if std::mem::replace(&mut self.has_host_keys, true) || !new || !self.node.root.is_host() {
            return;
        }
        let made =
            self.node.log.step("generate the remaining host keys", || deferred::generate_host_keys(&self.node.root));
        let reloaded = match made {
            Ok(true) => services::reload_sshd(self.node),
            Ok(false) => Ok(()),
            Err(error) => return self.node.log.warn(format!("cannot generate the remaining host keys: {error}")),
        };
        if let Err(error) = reloaded {
            self.node.log.warn(format!("cannot reload sshd, so it does not use its new host keys yet: {error}"));
        }
    }

    /// Updates the Node object and reads the annotations of the cluster.
    fn sync_node(&mut self, now: Duration) {
        self.report_ready();
        let Ok(state) = load_state(self.node) else { return };
        let (candidate, overdue) = (&self.candidate_outcome, self.overdue.as_deref());
        let in_force = state.in_force().map(|now| format!("{} {}", now.number, now.hash));
        let before = self.stored.clone();
        let object = self.cluster.sync(self.node, &mut self.stored.requests, |requests| {
            (condition(&state, requests, candidate, overdue), in_force)
        });
        if self.stored != before {
            self.save_requests();
        }
        let Some(object) = object else { return };
        self.note_boot_times(&object);
        let annotation = object.annotations.get(cluster::ALLOW);
        let allowed = annotation.and_then(|value| cluster::allowed_hash(value));
        if let Some(value) = annotation.filter(|_| allowed.is_none())
            && self.ignored_consent.as_ref() != Some(value)
        {
            self.node.log.warn(format!(
                "ignoring the annotation `{}={value}`: it has no hash of a document; copy the hash from the annotation of the pending request",
                cluster::ALLOW
            ));
            self.ignored_consent = Some(value.clone());
        }
        let granted = allowed != self.allowed && allowed.is_some();
        self.allowed = allowed;
        if self.schedule.note_annotation(now, object.annotations.get(CHECK).map(String::as_str)) || granted {
            self.node.log.info("the cluster requested a poll for a document");
            self.poll_requested = true;
            self.schedule.poll_at(now);
        }
    }

    fn announce(&mut self, severity: Severity, reason: &str, message: &str) {
        match severity {
            Severity::Normal => self.node.log.info(message),
            Severity::Warning => self.node.log.error(message),
        }
        self.cluster.queue_event(severity, reason, message);
    }

    fn report(&self, outcome: Outcome, failure: Option<&str>) {
        let Ok(state) = load_state(self.node) else { return };
        let mut status = Status::new("watch", outcome, &state);
        status.pending = self.stored.requests.lines();
        status.failures.extend(failure.map(str::to_owned));
        self.node.report(status);
    }

    /// One line for `systemctl status`.
    fn status_line(&self) -> String {
        match (&self.in_force, &self.overdue) {
            (None, _) => "no generation is in force".to_owned(),
            (Some((_, config)), None) => format!("generation {} is in force", config.metadata.generation),
            (Some((_, config)), Some(why)) => format!("generation {} is not healthy {why}", config.metadata.generation),
        }
    }
}

/// The requests of this machine from before the start of kilnd.
fn stored_requests(node: &Node, machine: Option<&str>) -> StoredRequests {
    let read = [REQUESTS, OLD_REQUESTS].iter().find_map(|path| node.root.read_if_exists(path).ok().flatten());
    let written: StoredRequests = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    if written.machine.as_deref() == machine {
        return written;
    }
    StoredRequests { machine: machine.map(str::to_owned), ..StoredRequests::default() }
}
