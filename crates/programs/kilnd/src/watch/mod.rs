//! `kilnd watch`: confirms what is on trial or takes it back, notices new documents, does what can wait, and tells the cluster.
//!
//! [`schedule`] decides when what is due; one loop does it. The loop is woken by time and by signals ([`signals`]), and what it finds it
//! finds again after a restart: nothing that matters is only in memory.

mod candidates;
mod cluster;
mod condition;
mod gates;
mod proxy;
mod requests;
mod schedule;
mod signals;
mod trial;

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::apiserver::Severity;
use crate::os::notify::notify;
use crate::os::{Durability, Lock, Placed};
use crate::sources::{Imds, VmId, Wait as _};
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Ask, Desired, Generation, Observed, Plan, State};

use crate::apply::candidate::Offered;
use crate::apply::rollback;
use crate::apply::{deferred, services, store};
use crate::apply::{go_to, remembered};
use crate::boot::kind::BootKind;
use crate::node::Node;
use crate::status::{Outcome, Status};
use cluster::{CHECK, Cluster};
use condition::{News, condition};
use gates::Pulse;
use requests::Wishes;
use schedule::{Act, Held, Rhythm, Schedule, Trial};
use signals::Wake;

/// What the node remembers of what it asked the cluster for.
const WISHES: &str = "/var/lib/kiln/wishes.json";
/// The longest sleep: somebody may have put a document in force by hand meanwhile, and the service manager wants to hear of us.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// How long late work that failed waits: what is in its way is a person's to move.
const AGAIN: Duration = Duration::from_mins(1);
/// The kernel's number of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the file of wishes holds: the wishes, whose they are, and up to which generation they go.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Asked {
    /// The machine: a clone has no business with what its donor asked for.
    machine: Option<String>,
    /// The folder of the generation whose wishes are in here.
    folder: Option<String>,
    #[serde(flatten)]
    wishes: Wishes,
}

/// What the loop knows.
struct Watch<'n> {
    node: &'n Node,
    imds: Imds,
    schedule: Schedule,
    cluster: Cluster,
    asked: Asked,
    news: News,
    /// The document in force, by its hash.
    in_force: Option<(String, NodeConfig)>,
    /// The document that waits for its turn, and whether the cluster made room for it.
    held: Option<(Offered, bool)>,
    /// The hash of the bytes that were looked at last: the same bytes say nothing new.
    seen: Option<String>,
    /// Somebody asked for the next look.
    asked_for: bool,
    /// The document's number that the cluster has made room for.
    allowed: Option<u64>,
    pulse: Pulse,
    /// Why the first generation is not healthy.
    overdue: Option<String>,
    /// The generation whose late work was done.
    finished: Option<String>,
    /// When late work that failed is tried again.
    finish_at: Duration,
    reported_ready: bool,
    /// Host keys that could wait were seen to.
    keyed: bool,
    last_look_error: Option<String>,
}

/// Watches until the service manager asks to end.
pub fn run(node: &Node) -> std::io::Result<()> {
    let wakes = signals::listen()?;
    let machine = crate::sources::vm_id(&node.endpoints).ok();
    let mut watch = Watch::new(node, machine.as_ref());
    // There is nobody to tell where nobody listens.
    let _ = notify("READY=1");
    loop {
        let now = node.wait.now();
        let sleep = match watch.turn(now) {
            Ok(()) => watch.schedule.wake().saturating_sub(node.wait.now()).min(LONGEST_SLEEP),
            Err(error) => {
                node.journal.fail(&format!("what the node remembers cannot be read: {error}"));
                LONGEST_SLEEP
            }
        };
        let _ = notify(&format!("WATCHDOG=1\nSTATUS={}", watch.line()));
        match wakes.recv_timeout(sleep / node.wait.scale) {
            Ok(Wake::Look) => {
                node.journal.say("asked to look for a document");
                watch.asked_for = true;
                watch.schedule.look_now(node.wait.now());
            }
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => {
                let _ = notify("STOPPING=1");
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl<'n> Watch<'n> {
    fn new(node: &'n Node, machine: Option<&VmId>) -> Self {
        let chance = machine.map_or(0, VmId::number);
        let mut watch = Self {
            node,
            imds: Imds::new(&node.endpoints.imds, chance),
            schedule: Schedule::new(node.wait.now(), chance),
            cluster: Cluster::default(),
            asked: asked(node, machine.map(VmId::as_str)),
            news: News::None,
            in_force: None,
            held: None,
            seen: None,
            asked_for: false,
            allowed: None,
            pulse: Pulse::default(),
            overdue: None,
            finished: None,
            finish_at: Duration::ZERO,
            reported_ready: false,
            keyed: false,
            last_look_error: None,
        };
        watch.asked.wishes.booted(&watch.boot());
        watch
    }

    /// The kernel's number of this boot.
    fn boot(&self) -> String {
        let bytes = self.node.root.read_if_there(BOOT_ID).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Does everything that is due.
    fn turn(&mut self, now: Duration) -> Result<(), crate::os::Error> {
        let state = remembered(self.node)?;
        self.keep_up(&state, now);
        let rhythm = self.in_force.as_ref().map_or_else(Rhythm::default, |(_, config)| Rhythm::of(config));
        for act in self.schedule.due(now, rhythm) {
            match act {
                Act::Probe => self.probe(now, rhythm),
                Act::ReadNode => self.tell(now),
                Act::Look => self.look(now),
                Act::Apply => self.apply(now),
            }
        }
        Ok(())
    }

    /// Follows what is in force, whoever put it there.
    fn keep_up(&mut self, state: &State, now: Duration) {
        let trial = state.trial.as_ref().map(|trial| trial.generation.hash.clone());
        match &trial {
            None => self.schedule.on_trial(None),
            Some(hash) => self.schedule.on_trial(Some((hash, trial::since(self.node, hash, now)))),
        }
        let Some(generation) = state.in_force() else { return };
        if self.in_force.as_ref().is_none_or(|(hash, _)| *hash != generation.hash) {
            let Ok(Some(config)) = store::document(&self.node.root, &generation.folder) else { return };
            self.cluster.follow(self.node, &config);
            self.in_force = Some((generation.hash.clone(), config));
            (self.pulse, self.overdue) = (Pulse::default(), None);
            self.schedule.tell_now(now);
        }
        self.count(generation);
        if self.finished.as_ref() != Some(&generation.folder) && now >= self.finish_at {
            self.finish(state, generation, now);
        }
    }

    /// Writes down what changed for the cluster since the last generation that was written down.
    fn count(&mut self, generation: &Generation) {
        let Some((_, config)) =
            self.in_force.as_ref().filter(|_| self.asked.folder.as_ref() != Some(&generation.folder))
        else {
            return;
        };
        let before =
            self.asked.folder.as_ref().and_then(|folder| store::document(&self.node.root, folder).ok().flatten());
        // Wishes follow from the documents alone.
        let plan = Plan::of(before.as_ref(), config, &Desired::default(), &Observed::default());
        self.asked.wishes.add(&plan.asks);
        self.asked.folder = Some(generation.folder.clone());
        self.save_wishes();
    }

    fn save_wishes(&self) {
        let bytes = serde_json::to_vec(&self.asked).expect("wishes have text for names");
        if let Err(error) = self.node.root.write_all(&[Placed::new(WISHES, &bytes, 0o600)], Durability::Now) {
            self.node.journal.warn(format!("what the cluster is asked for is lost with this process: {error}"));
        }
    }

    /// Does what waited for the kubelet, and puts right what others changed since the start.
    fn finish(&mut self, state: &State, generation: &Generation, now: Duration) {
        let Some((_, config)) = self.in_force.as_ref() else { return };
        // Somebody is at work: what they do includes this.
        let Ok(_lock) = Lock::take(&self.node.root, LOCK) else { return };
        match go_to(self.node, state, config, &generation.folder) {
            Ok(asks) => {
                self.finished = Some(generation.folder.clone());
                if asks.contains(&Ask::Reboot) {
                    self.wait_for_start(generation, now);
                }
                self.host_keys();
            }
            Err(error) => {
                let causes = crate::log::chain(&error).join(": ");
                self.node.journal.fail(&format!("generation {} is not wholly in force: {causes}", generation.number));
                self.report(Outcome::Failed, Some(&causes));
                self.finish_at = now + AGAIN;
            }
        }
    }

    /// The kernel runs without an argument that it is to have: the first document of a machine is in force before anybody could ask.
    fn wait_for_start(&mut self, generation: &Generation, now: Duration) {
        let boot = self.boot();
        if !self.asked.wishes.restart(generation.number, &generation.hash, &boot) {
            let what =
                "the machine has restarted for it, and the kernel still runs without an argument of the document";
            return self.node.journal.warn(format!("{what}: does its boot loader read `/etc/default/grub.d`?"));
        }
        self.save_wishes();
        self.say(
            Severity::Normal,
            "KilnPending",
            &format!("the kernel arguments of generation {} need a restart", generation.number),
        );
        self.schedule.tell_now(now);
    }

    /// A machine that is new made one host key at once; the others, which old clients want, come now. A folder has no sshd.
    fn host_keys(&mut self) {
        let new = self.node.boot().ok().flatten().is_some_and(|boot| boot.kind != BootKind::Again);
        if std::mem::replace(&mut self.keyed, true) || !new || !self.node.root.is_host() {
            return;
        }
        let made = self.node.journal.step("make the other host keys", || deferred::make_host_keys(&self.node.root));
        let heard = match made {
            Ok(true) => services::tell_sshd(self.node),
            Ok(false) => Ok(()),
            Err(error) => return self.node.journal.warn(format!("sshd has one host key only: {error}")),
        };
        if let Err(error) = heard {
            self.node.journal.warn(format!("sshd does not know of its new host keys yet: {error}"));
        }
    }

    fn probe(&mut self, now: Duration, rhythm: Rhythm) {
        let Some((hash, config)) = self.in_force.clone() else { return };
        let held = gates::look(self.node, &config, self.cluster.client(), &mut self.pulse);
        match self.schedule.probed(now, rhythm, &held) {
            Trial::Undecided => {
                if let Some(why) = &mut self.overdue {
                    *why = open(&held);
                }
            }
            Trial::Good => self.good(now, &hash),
            Trial::Failed(reason) => self.failed(now, &hash, &reason),
        }
    }

    fn good(&mut self, now: Duration, hash: &str) {
        self.schedule.tell_now(now);
        if !self.is_on_trial(hash) {
            return;
        }
        match rollback::confirmed(self.node) {
            Ok(state) => {
                self.overdue = None;
                let number = state.in_force().map_or(0, |generation| generation.number);
                self.say(Severity::Normal, "KilnConfirmed", &format!("generation {number} is good"));
                self.report(Outcome::Verified, None);
            }
            // Still on trial by what the node remembers, so that the next turn looks again.
            Err(error) => self.node.journal.fail(&format!("the trial cannot be ended: {error}")),
        }
    }

    fn failed(&mut self, now: Duration, hash: &str, reason: &str) {
        self.schedule.tell_now(now);
        if !self.is_on_trial(hash) {
            return;
        }
        match rollback::failed(self.node, reason) {
            Ok(Some(back)) => {
                let number = back.from.map_or(0, |generation| generation.number);
                self.news = News::CameBack(format!("generation {number} came back {reason}"));
                let line =
                    format!("generation {number} came back {reason}; generation {} is in force again", back.to.number);
                self.say(Severity::Warning, "KilnCameBack", &line);
                self.finished = Some(back.to.folder);
                self.report(Outcome::Returned, Some(reason));
            }
            Ok(None) => {
                self.schedule.overdue();
                self.overdue = Some(reason.to_owned());
                let line = format!("not healthy {reason}; there is no generation to go back to");
                self.say(Severity::Warning, "KilnUnhealthy", &line);
                self.report(Outcome::Failed, Some(reason));
            }
            Err(error) => {
                let causes = crate::log::chain(&error).join(": ");
                self.news = News::Failed(format!("the way back failed: {causes}"));
                self.say(Severity::Warning, "KilnStuck", &format!("{reason}; the way back failed: {causes}"));
                self.report(Outcome::Failed, Some(&causes));
            }
        }
    }

    /// Somebody may have put another generation in force while the gates were looked at.
    fn is_on_trial(&self, hash: &str) -> bool {
        let state = remembered(self.node);
        state.is_ok_and(|state| state.trial.is_some_and(|trial| trial.generation.hash == hash))
    }

    /// Makes the node's object say what is, and hears what it asks.
    fn tell(&mut self, now: Duration) {
        self.ready();
        let Ok(state) = remembered(self.node) else { return };
        let (news, overdue) = (&self.news, self.overdue.as_deref());
        let in_force = state.in_force().map(|now| format!("{} {}", now.number, now.hash));
        let before = self.asked.clone();
        let object = self
            .cluster
            .tell(self.node, &mut self.asked.wishes, |wishes| (condition(&state, wishes, news, overdue), in_force));
        if self.asked != before {
            self.save_wishes();
        }
        let Some(object) = object else { return };
        let allowed = object.annotations.get(cluster::ALLOW).and_then(|number| number.trim().parse().ok());
        let granted = allowed != self.allowed && allowed.is_some();
        self.allowed = allowed;
        if self.schedule.asked(now, object.annotations.get(CHECK).map(String::as_str)) || granted {
            self.node.journal.say("the cluster asks to look for a document");
            self.asked_for = true;
            self.schedule.look_now(now);
        }
    }

    fn say(&mut self, severity: Severity, reason: &str, message: &str) {
        match severity {
            Severity::Normal => self.node.journal.say(message),
            Severity::Warning => self.node.journal.fail(message),
        }
        self.cluster.happened(severity, reason, message);
    }

    fn report(&self, outcome: Outcome, failure: Option<&str>) {
        let Ok(state) = remembered(self.node) else { return };
        let mut status = Status::of("watch", outcome, &state);
        status.pending = self.asked.wishes.lines();
        status.failures.extend(failure.map(str::to_owned));
        self.node.report(status);
    }

    /// One line for `systemctl status`.
    fn line(&self) -> String {
        match (&self.in_force, &self.overdue) {
            (None, _) => "no document is in force".to_owned(),
            (Some((_, config)), None) => format!("generation {} is in force", config.metadata.generation),
            (Some((_, config)), Some(why)) => format!("generation {} is not healthy {why}", config.metadata.generation),
        }
    }
}

/// What this machine asked for before the program started.
fn asked(node: &Node, machine: Option<&str>) -> Asked {
    let read = node.root.read_if_there(WISHES).ok().flatten();
    let written: Asked = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    if written.machine.as_deref() == machine {
        return written;
    }
    Asked { machine: machine.map(str::to_owned), ..Asked::default() }
}

fn open(held: &[(String, Held)]) -> String {
    let open = held.iter().filter_map(|(name, held)| match held {
        Held::Yes => None,
        Held::No(why) | Held::Unknown(why) => Some(format!("{name}: {why}")),
    });
    open.collect::<Vec<_>>().join("; ")
}
