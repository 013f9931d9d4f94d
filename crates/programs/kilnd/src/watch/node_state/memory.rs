//! The memory of a NodeState across restarts, reboots and outages of the API server.

use kiln_node_config::node_state::{Desired, Reverted};
use kiln_node_plan::layout::NODE_STATE;
use kiln_node_plan::{DesiredFile, State};
use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::os::{self, Durability};

/// A document, and when it was assigned. Another time makes it another assignment of the same document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Assignment {
    pub(crate) digest: String,
    pub(crate) since: String,
}

impl From<&Desired> for Assignment {
    fn from(desired: &Desired) -> Self {
        Self { digest: desired.digest.clone(), since: desired.since.clone() }
    }
}

/// The content of [`NODE_STATE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Memory {
    /// The VM id: a clone ignores the NodeState of its donor.
    machine: Option<String>,
    /// The name of the NodeState; none if the node has none.
    pub(crate) name: Option<String>,
    /// The assigned document. While there is one, documents in user data are ignored.
    pub(crate) desired: Option<Desired>,
    /// The assignment that was put in force. If another document is in force now, a person applied it.
    pub(crate) applied: Option<Assignment>,
    /// The assignment that failed, and why. It is not tried again.
    pub(crate) failed: Option<(Assignment, String)>,
    /// The boot in which the cluster requested a reboot that was started.
    pub(crate) rebooted: Option<String>,
}

impl Memory {
    /// Reads the memory of this machine.
    pub(crate) fn load(node: &Node, machine: Option<&str>) -> Self {
        let read = node.root.read_if_exists(NODE_STATE).ok().flatten();
        let written: Option<Self> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let machine = machine.map(str::to_owned);
        written.filter(|written| written.machine == machine).unwrap_or(Self { machine, ..Self::default() })
    }

    /// Writes it to the disk.
    pub(super) fn save(&self, node: &Node) -> Result<(), os::Error> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("memory has string keys");
        bytes.push(b'\n');
        node.root.write_all(&[DesiredFile::new(NODE_STATE, &bytes, 0o600)], Durability::Now)
    }

    /// Records what the NodeState assigns. Returns whether this is another assignment than before.
    pub(super) fn assign(&mut self, desired: Option<&Desired>) -> bool {
        let before = self.assignment();
        self.desired = desired.cloned();
        if self.assignment() == before {
            return false;
        }
        (self.applied, self.failed) = (None, None);
        true
    }

    /// The current assignment.
    pub(super) fn assignment(&self) -> Option<Assignment> {
        self.desired.as_ref().map(Assignment::from)
    }

    /// Why the current assignment failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        let (failed, reason) = self.failed.as_ref()?;
        (Some(failed) == self.assignment().as_ref()).then_some(reason)
    }

    /// Records that the current assignment failed, if it is of this document.
    pub(super) fn fail(&mut self, digest: &str, reason: &str) {
        if let Some(assignment) = self.assignment().filter(|assignment| assignment.digest == digest) {
            self.failed = Some((assignment, reason.to_owned()));
        }
    }

    /// Follows the state: the assigned document is in force, or was reverted or rolled back.
    pub(super) fn note_state(&mut self, state: &State) {
        let Some(assignment) = self.assignment() else { return };
        if state.in_force().is_some_and(|now| now.hash == assignment.digest) {
            (self.applied, self.failed) = (Some(assignment), None);
        } else if self.failure().is_none()
            && let Some(rejection) = state.rejected.iter().rfind(|rejection| rejection.hash == assignment.digest)
        {
            let reason = rejection.reason.clone();
            self.fail(&assignment.digest, &reason);
        }
    }

    /// The last document that failed on this node.
    pub(super) fn reverted(&self, state: &State) -> Option<Reverted> {
        let failed = self.failed.as_ref();
        let failed = failed.map(|(failed, reason)| (failed.digest.clone(), reason.clone()));
        let rejected = || state.rejected.last().map(|rejection| (rejection.hash.clone(), rejection.reason.clone()));
        failed.or_else(rejected).map(|(digest, reason)| Reverted { digest, reason })
    }
}

#[cfg(test)]
mod tests {
    use kiln_node_plan::Generation;

    use super::*;

    fn desired(digest: &str, since: &str) -> Desired {
        Desired { digest: digest.to_owned(), since: since.to_owned(), ..Desired::default() }
    }

    fn generation(number: u64) -> Generation {
        let (hash, folder, source) = (format!("h{number}"), number.to_string(), "NodeState".to_owned());
        Generation { number, hash, folder, source }
    }

    #[test]
    fn failure_lasts_until_the_document_is_assigned_again() {
        let mut memory = Memory::default();
        assert!(memory.assign(Some(&desired("a", "1"))));
        memory.fail("b", "of another document");
        assert_eq!(memory.failure(), None);
        memory.fail("a", "invalid");
        assert_eq!(memory.failure(), Some("invalid"));
        let wave = Desired { wave: 2, ..desired("a", "1") };
        assert!(!memory.assign(Some(&wave)), "the same assignment");
        assert_eq!(memory.failure(), Some("invalid"));
        assert!(memory.assign(Some(&desired("a", "2"))));
        assert_eq!(memory.failure(), None);
        assert!(memory.assign(None) && !memory.assign(None));
    }

    #[test]
    fn reverted_trial_is_a_failure_and_a_document_in_force_is_not() {
        let mut state = State::default();
        state.start_trial(generation(1), "boot");
        state.commit();
        let mut memory = Memory::default();
        memory.assign(Some(&desired("h2", "1")));
        memory.note_state(&state);
        assert_eq!((memory.failure(), memory.applied.as_ref()), (None, None));
        state.start_trial(generation(2), "boot");
        memory.note_state(&state);
        assert_eq!(memory.applied, memory.assignment());
        state.fail_trial("no kubelet");
        memory.note_state(&state);
        assert_eq!(memory.failure(), Some("no kubelet"));
        let reverted = memory.reverted(&State::default()).map(|reverted| reverted.reason);
        assert_eq!(reverted.as_deref(), Some("no kubelet"), "also if the state has forgotten it");
        state.start_trial(generation(2), "boot");
        memory.note_state(&state);
        assert_eq!(memory.failure(), None, "a person applied it");
    }
}
