//! Reading facts.

use std::time::Duration;

use kiln_prototype::journal::StepFailure;
use kiln_prototype::observed::{CanaryView, Fact, Observed};
use kiln_prototype::run::Header;
use kiln_types::{ErrorClass, Instance, Node, NodeName, Provisioning, Readiness, Revision, Tags, VersionState};

use super::{DONOR, Machine, World};
use crate::fault::Fault;

impl World {
    /// Reads a fact.
    pub(crate) fn read(&mut self, fact: Fact, header: &Header, observed: &mut Observed) -> Result<(), StepFailure> {
        self.count(self.cost(fact), &format!("read {fact:?}"));
        match self.faults.draw(&format!("read {fact:?}")) {
            Some(Fault::Throttled) => return Err(StepFailure::new(ErrorClass::Throttled, "429 TooManyRequests")),
            Some(Fault::ServerError | Fault::LostResponse) => {
                return Err(StepFailure::new(ErrorClass::Transient, "503 ServerTimeout"));
            }
            Some(Fault::Permission) => return Err(StepFailure::new(ErrorClass::Permission, "403 AuthorizationFailed")),
            _ => {}
        }
        match fact {
            Fact::Blockers => {
                observed.blockers = Some(self.blockers.clone());
                observed.pool = Some(self.pool.clone());
                observed.instance = Some(self.donor().map(|donor| instance(DONOR, donor)));
            }
            Fact::Pool => observed.pool = Some(self.pool.clone()),
            Fact::Saved => observed.saved = Some(self.saved),
            Fact::Gallery => observed.gallery = Some(self.gallery.clone()),
            Fact::Definition => observed.definition = Some(self.definition.clone()),
            Fact::Versions => {
                observed.versions = Some(self.versions.values().map(|version| version.read.clone()).collect());
            }
            Fact::Snapshot => observed.snapshot = Some(self.snapshot.clone()),
            Fact::Instance => observed.instance = Some(self.donor().map(|donor| instance(DONOR, donor))),
            Fact::Node => observed.node = Some(self.node(&header.donor.node)),
            Fact::Instances => {
                observed.instances = Some(self.machines.iter().map(|(id, machine)| instance(*id, machine)).collect());
            }
            Fact::Canary => observed.canary = Some(self.canary_view()),
            Fact::Rejections(step) => observed.rejections = Some((step, self.definition.clone())),
        }
        Ok(())
    }

    /// The number of requests to Azure that the edge needs. Requests to Kubernetes do not count.
    fn cost(&self, fact: Fact) -> u32 {
        match fact {
            // The pool, the instance, its disk, the definition, and the caller's permissions.
            Fact::Blockers => 5,
            Fact::Saved | Fact::Node => 0,
            // The list lacks the replication state, so each incomplete version is read as well.
            Fact::Versions => 1 + u32::try_from(self.unfinished()).unwrap(),
            Fact::Canary => 1 + u32::from(self.canary.is_some()),
            Fact::Pool
            | Fact::Gallery
            | Fact::Definition
            | Fact::Rejections(_)
            | Fact::Snapshot
            | Fact::Instance
            | Fact::Instances => 1,
        }
    }

    fn unfinished(&self) -> usize {
        self.versions.values().filter(|version| version.read.state != VersionState::Succeeded).count()
    }

    /// Counts requests to Azure.
    pub(crate) fn count(&mut self, requests: u32, what: &str) {
        if requests > 0 {
            self.requests += requests;
            self.request_log.push(format!("{requests} {what}"));
        }
    }

    fn node(&self, name: &NodeName) -> Option<Node> {
        let node = self.nodes.get(name.as_str())?;
        let machine = self.machines.values().find(|machine| machine.node == name.as_str());
        let ready = machine.is_some_and(|machine| self.is_ready(machine));
        Some(Node {
            held_by: node.hold.as_ref().map(|(owner, ..)| owner.clone()),
            readiness: if ready { Readiness::Ready } else { Readiness::Unreported },
            boot_id: machine.map(|machine| format!("boot-{}", self.reported_boot(machine))),
            ..Node::new(name.clone())
        })
    }

    fn canary_view(&mut self) -> Option<CanaryView> {
        let canary = self.canary.as_ref()?;
        let joined = canary.up_since.is_some_and(|at| self.passed(at, self.pace.join));
        let ready =
            joined && self.canary_registers && self.versions.get(&canary.version).is_some_and(|version| version.joins);
        let join = jiff::SignedDuration::try_from(self.pace.join).unwrap();
        let view = CanaryView {
            deleting: canary.deleting,
            failed: canary.failed.clone(),
            ready,
            booted: canary.up_since.is_some(),
            registered: canary.up_since.filter(|_| joined && self.canary_registers).map(|at| at + join),
            pending: "its node did not register".to_owned(),
            ready_for: canary.up_since.filter(|_| ready).map_or(Duration::ZERO, |at| self.since(at)),
            smoke_test: canary.smoke_test.clone(),
        };
        if ready && let Some(version) = self.versions.get_mut(&self.canary.as_ref()?.version) {
            version.tested = true;
        }
        Some(view)
    }
}

fn instance(id: u32, machine: &Machine) -> Instance {
    Instance {
        id: id.to_string().parse().unwrap(),
        node_name: machine.node.clone(),
        vm_id: machine.vm_id.clone(),
        power: machine.power,
        agent_ready: machine.up_since.is_some(),
        provisioning: Provisioning::Succeeded,
        protection: machine.protection,
        runs: machine.runs.clone(),
        latest_model: true,
        os_disk: Some(format!("/disks/{id}")),
        revision: Some(Revision::new(format!("i{}", machine.etag))),
        zones: Vec::new(),
        tags: Tags::new(),
    }
}
