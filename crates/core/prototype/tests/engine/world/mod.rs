//! A small model of Azure and a cluster with its own clock: one pool, its donor, a gallery, a journal.

mod act;
mod others;
mod read;
mod time;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kiln_types::{
    DefinitionName, Failure, Gallery, ImageDefinition, ImageSource, ImageVersion, Pool, PowerState, Protection,
    SmokeTest, Snapshot, ThawReport, VersionNumber,
};

pub(crate) use others::{CreatedInstance, machine, node, node_name};

use kiln_prototype::journal::Entry;

use crate::fault::Faults;

/// A machine of the pool and its node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    pub(crate) vm_id: String,
    pub(crate) node: String,
    pub(crate) power: PowerState,
    pub(crate) protection: Protection,
    pub(crate) runs: ImageSource,
    pub(crate) etag: u64,
    pub(crate) boot: u32,
    /// The start of its kubelet, if the machine is up, and its last stop.
    pub(crate) up_since: Option<Timestamp>,
    pub(crate) down_since: Option<Timestamp>,
    /// The node does not become Ready after a stop.
    pub(crate) broken: bool,
}

/// A node object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) cordoned: bool,
    pub(crate) autoscaler: Option<String>,
    /// The owner of the hold, and the previous cordon and annotation.
    pub(crate) hold: Option<(String, bool, Option<String>)>,
    pub(crate) pods: u32,
    pub(crate) first_boot: bool,
}

/// A version, with properties that only this model knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    pub(crate) read: ImageVersion,
    /// Instances of this version join the cluster.
    pub(crate) joins: bool,
    /// A canary of this version became Ready, or the version was in use before the run.
    pub(crate) tested: bool,
}

/// The canary's pool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CanaryPool {
    pub(crate) version: VersionNumber,
    pub(crate) up_since: Option<Timestamp>,
    pub(crate) deleting: bool,
    pub(crate) failed: Option<String>,
    pub(crate) smoke_test: Option<SmokeTest>,
}

/// The effect of an operation at its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Stopped(PowerState),
    Started(PowerState),
    SnapshotMade,
    SnapshotGone,
    VersionMade(VersionNumber),
    VersionGone(VersionNumber),
    Included(VersionNumber),
    CanaryMade,
    CanaryGone,
    ExtensionGone(String),
    Nothing,
}

/// A long operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) ends: Timestamp,
    pub(crate) effect: Option<Effect>,
    pub(crate) fails: Option<Failure>,
    pub(crate) forgotten: bool,
}

/// Durations of Azure's operations and of a node's join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    pub(crate) power: Duration,
    pub(crate) write: Duration,
    pub(crate) snapshot: Duration,
    pub(crate) publish: Duration,
    pub(crate) join: Duration,
}

impl Pace {
    /// Durations from kamino's log.
    pub(crate) const USUAL: Self = Self {
        power: Duration::from_secs(152),
        write: Duration::from_secs(13),
        snapshot: Duration::from_secs(6),
        publish: Duration::from_secs(5_291),
        join: Duration::from_mins(1),
    };
    /// The machine is off and on again before the node becomes NotReady.
    pub(crate) const QUICK: Self = Self {
        power: Duration::from_secs(4),
        write: Duration::from_secs(1),
        snapshot: Duration::from_secs(1),
        publish: Duration::from_mins(5),
        join: Duration::from_mins(1),
    };
    pub(crate) const INSTANT: Self = Self {
        power: Duration::ZERO,
        write: Duration::ZERO,
        snapshot: Duration::ZERO,
        publish: Duration::ZERO,
        join: Duration::ZERO,
    };
}

/// The state of Azure and the cluster.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) pace: Pace,
    pub(crate) pool: Pool,
    pub(crate) etag: u64,
    /// The recipe has the custom data that bootstraps a node of the old image.
    pub(crate) bootstraps: bool,
    /// Clones join only by running the recipe.
    pub(crate) needs_recipe: bool,
    pub(crate) machines: BTreeMap<u32, Machine>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) gallery: Option<Gallery>,
    pub(crate) definition: Option<ImageDefinition>,
    pub(crate) definition_name: DefinitionName,
    pub(crate) versions: BTreeMap<VersionNumber, Version>,
    pub(crate) snapshot: Option<Snapshot>,
    /// The snapshot was created while the donor was off or frozen, and contains the first-boot unit.
    pub(crate) snapshot_is_good: bool,
    /// The donor's file systems were frozen, and nobody has verified that they are thawed.
    pub(crate) maybe_frozen: bool,
    /// The report of the last freeze.
    pub(crate) freeze: ThawReport,
    pub(crate) canary: Option<CanaryPool>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) saved: bool,
    pub(crate) blockers: Vec<String>,
    /// The region has zones.
    pub(crate) zones: bool,
    /// Clones of the donor's disk do not boot.
    pub(crate) bad_disk: bool,
    /// The canary's network reaches the API server.
    pub(crate) canary_registers: bool,
    pub(crate) needs_canary: bool,
    pub(crate) created: Vec<CreatedInstance>,
    pub(crate) additions: u32,
    /// Violated invariants.
    pub(crate) violations: Vec<String>,
    /// Requests to Azure.
    pub(crate) requests: u32,
    /// Reads and actions, each with its number of requests.
    pub(crate) request_log: Vec<String>,
    /// Names of actions, in order.
    pub(crate) acts: Vec<String>,
    pub(crate) journal: Journal,
    pub(crate) lease: Option<(String, Timestamp)>,
    pub(crate) faults: Faults,
}

/// The journal in the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<Entry>,
    pub(crate) revision: u64,
}

impl Journal {
    /// The stored lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|entry| serde_json::to_string(entry).unwrap())
    }
}

/// The donor's id in the pool.
pub(crate) const DONOR: u32 = 0;

impl World {
    pub(crate) fn donor(&self) -> Option<&Machine> {
        self.machines.get(&DONOR)
    }

    pub(crate) fn donor_node(&self) -> Option<&Node> {
        self.donor().and_then(|donor| self.nodes.get(&donor.node))
    }

    /// Whether the node is Ready. A stopped machine stays Ready until its missing heartbeat is noticed.
    pub(crate) fn is_ready(&self, machine: &Machine) -> bool {
        let grace = Duration::from_secs(40);
        let not_noticed_yet = machine.down_since.is_some_and(|at| !self.passed(at, grace));
        self.reports(machine) || not_noticed_yet
    }

    /// Whether the kubelet is running, regardless of the node's condition.
    pub(crate) fn reports(&self, machine: &Machine) -> bool {
        machine.up_since.is_some_and(|at| self.passed(at, self.pace.join))
    }

    /// The boot that its node last reported.
    pub(crate) fn reported_boot(&self, machine: &Machine) -> u32 {
        if self.reports(machine) {
            machine.boot
        } else {
            machine.boot.saturating_sub(u32::from(machine.up_since.is_some()))
        }
    }

    pub(crate) fn since(&self, at: Timestamp) -> Duration {
        self.now.duration_since(at).try_into().unwrap_or_default()
    }

    pub(crate) fn passed(&self, since: Timestamp, span: Duration) -> bool {
        self.now.duration_since(since) >= span.try_into().unwrap()
    }

    /// The latest usable version. Implemented again here, so that the tests do not rely on the code under test.
    pub(crate) fn latest(&self) -> Option<&Version> {
        let usable = |version: &&Version| {
            version.read.state == kiln_types::VersionState::Succeeded
                && !version.read.excluded
                && version.read.regions.iter().all(|region| region.complete && !region.excluded)
        };
        self.versions.values().rev().find(usable)
    }

    /// Records a violated invariant unless `kept`.
    pub(crate) fn require(&mut self, kept: bool, violation: impl Into<String>) {
        if !kept {
            self.violations.push(violation.into());
        }
    }
}
