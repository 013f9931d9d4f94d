//! The steps of a run and the holds that they acquire and release.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A step of a run. The variants are in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Check for blockers before anything changes.
    Preflight,
    /// Tag the scale set with the run.
    Claim,
    /// Save the original recipe for `rollback --to original`.
    SaveRecipe,
    /// Create the gallery.
    Gallery,
    /// Create the image definition.
    Definition,
    /// Delete versions that failed or are to be replaced.
    ClearFailed,
    /// Find out whether today's version or snapshot exists.
    Survey,
    /// Cordon the donor and disable its scale-down, in one write.
    HoldNode,
    /// Protect the donor's instance from the scale set.
    Protect,
    Drain,
    /// Install the unit that resets a clone's identity.
    FirstBoot,
    PowerOff,
    /// Freeze the running donor's file systems, create the snapshot, and thaw them.
    LiveSnapshot,
    Snapshot,
    /// Verify that the donor's file systems are not frozen.
    Thaw,
    Start,
    /// Wait until the donor is Ready.
    AwaitReady,
    /// Restore the instance's protection.
    Unprotect,
    /// Restore the donor's cordon and annotation.
    ReleaseNode,
    /// Create the version, excluded.
    Publish,
    DeleteSnapshot,
    CreateCanary,
    /// Wait until the canary's node is Ready.
    AwaitCanary,
    /// Record on the image definition that the canary failed.
    Reject,
    DeleteCanary,
    /// Include the version: from here on `latest` resolves to it.
    Include,
    /// Point the scale set's model at the image.
    Model,
    /// Replace the custom data of new nodes by custom data without effect.
    StripData,
    /// Remove the bootstrap scripts of new nodes.
    StripScripts,
    /// Delete versions beyond the history.
    Prune,
    AddNodes,
    /// Empty the scale set's run tag.
    ReleaseClaim,
}

/// Something of the user's that a run changes temporarily.
///
/// Holds are a stack in the order of the variants: a hold that is acquired later is released earlier, on success as on failure. A hold
/// counts as acquired as soon as its step is *started* in the journal, before the request is sent, because a process that dies in between
/// cannot know whether the request arrived. Every release therefore reads the resource first and does nothing if there is nothing to
/// release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hold {
    Claim,
    /// Cordon and autoscaler annotation of the donor.
    Node,
    /// Azure's protection of the donor's instance.
    Protection,
    /// The donor's node is not Ready.
    Absence,
    /// The donor's machine is off.
    Power,
    /// The running donor's file systems are frozen.
    Frozen,
    Canary,
}

use Step::{
    AddNodes, AwaitCanary, AwaitReady, Claim, ClearFailed, CreateCanary, Definition, DeleteCanary, DeleteSnapshot,
    Drain, FirstBoot, Gallery, HoldNode, Include, LiveSnapshot, Model, PowerOff, Preflight, Protect, Prune, Publish,
    Reject, ReleaseClaim, ReleaseNode, SaveRecipe, Snapshot, Start, StripData, StripScripts, Survey, Thaw, Unprotect,
};

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 32] = [
        Preflight,
        Claim,
        SaveRecipe,
        Gallery,
        Definition,
        ClearFailed,
        Survey,
        HoldNode,
        Protect,
        Drain,
        FirstBoot,
        PowerOff,
        LiveSnapshot,
        Snapshot,
        Thaw,
        Start,
        AwaitReady,
        Unprotect,
        ReleaseNode,
        Publish,
        DeleteSnapshot,
        CreateCanary,
        AwaitCanary,
        Reject,
        DeleteCanary,
        Include,
        Model,
        StripData,
        StripScripts,
        Prune,
        AddNodes,
        ReleaseClaim,
    ];

    /// The holds that the step acquires. Powering off acquires two: the machine has to be started, and its node has to become Ready.
    pub fn acquires(self) -> impl Iterator<Item = Hold> {
        Hold::ALL.into_iter().filter(move |hold| hold.acquired_by() == self)
    }

    /// The hold that the step releases.
    pub fn releases(self) -> Option<Hold> {
        Hold::ALL.into_iter().find(|hold| hold.released_by() == self)
    }

    /// Whether the step takes the donor away, copies its disk or brings it back. A run that finds today's snapshot or version skips
    /// these steps.
    pub fn is_donor_step(self) -> bool {
        (HoldNode..=ReleaseNode).contains(&self)
    }

    /// Whether a failure of the step ends the run. Up to the snapshot any failure releases everything; afterwards the run only goes
    /// forward.
    pub fn is_up_to_snapshot(self) -> bool {
        self <= Snapshot
    }

    /// Whether the step is done as soon as its request, or the operation that it started, has succeeded. All other steps read the resource
    /// again. Trusted are steps
    ///
    /// - whose effect cannot be read back, or is in the response (the tags of a scale set);
    /// - whose effect the edge has seen itself: a deletion succeeds only if the resource is gone;
    /// - whose effect the next step needs and reads: the step that awaits the donor starts it again if it is off, and the step that awaits the
    ///   canary creates it again if it does not exist.
    pub fn trusts_response(self) -> bool {
        matches!(
            self,
            Claim
                | SaveRecipe
                | Gallery
                | Definition
                | Protect
                | Drain
                | FirstBoot
                | Thaw
                | Start
                | Unprotect
                | DeleteSnapshot
                | CreateCanary
                | DeleteCanary
                | StripData
                | ReleaseClaim
        )
    }

    /// The name in commands, journals and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Preflight => "preflight",
            Claim => "claim",
            SaveRecipe => "save-recipe",
            Gallery => "gallery",
            Definition => "definition",
            ClearFailed => "clear-failed",
            Survey => "survey",
            HoldNode => "hold-node",
            Protect => "protect",
            Drain => "drain",
            FirstBoot => "first-boot",
            PowerOff => "power-off",
            LiveSnapshot => "live-snapshot",
            Snapshot => "snapshot",
            Thaw => "thaw",
            Start => "start",
            AwaitReady => "await-ready",
            Unprotect => "unprotect",
            ReleaseNode => "release-node",
            Publish => "publish",
            DeleteSnapshot => "delete-snapshot",
            CreateCanary => "create-canary",
            AwaitCanary => "await-canary",
            Reject => "reject",
            DeleteCanary => "delete-canary",
            Include => "include",
            Model => "model",
            StripData => "strip-data",
            StripScripts => "strip-scripts",
            Prune => "prune",
            AddNodes => "add-nodes",
            ReleaseClaim => "release-claim",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Hold {
    /// All holds, in the order in which they are acquired.
    pub const ALL: [Self; 7] =
        [Self::Claim, Self::Node, Self::Protection, Self::Absence, Self::Power, Self::Frozen, Self::Canary];

    /// The step that acquires it.
    pub fn acquired_by(self) -> Step {
        match self {
            Self::Claim => Claim,
            Self::Node => HoldNode,
            Self::Protection => Protect,
            Self::Absence | Self::Power => PowerOff,
            Self::Frozen => LiveSnapshot,
            Self::Canary => CreateCanary,
        }
    }

    /// The step that releases it.
    pub fn released_by(self) -> Step {
        match self {
            Self::Claim => ReleaseClaim,
            Self::Node => ReleaseNode,
            Self::Protection => Unprotect,
            Self::Absence => AwaitReady,
            Self::Power => Start,
            Self::Frozen => Thaw,
            Self::Canary => DeleteCanary,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Claim => "the scale set's run tag",
            Self::Node => "the node's cordon and autoscaler annotation",
            Self::Protection => "the instance's protection",
            Self::Absence => "the node's absence",
            Self::Power => "the stopped machine",
            Self::Frozen => "the frozen file systems",
            Self::Canary => "the canary's scale set",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_steps_and_holds_are_complete_and_in_order() {
        assert!(Step::ALL.is_sorted() && Hold::ALL.is_sorted());
        assert_eq!(Step::ALL.iter().collect::<std::collections::BTreeSet<_>>().len(), 32);
        assert_eq!(Step::ALL.map(|step| step as usize), std::array::from_fn::<usize, 32, _>(|index| index));
    }

    #[test]
    fn every_hold_is_released_by_a_later_step() {
        for hold in Hold::ALL {
            assert!(hold.acquired_by() < hold.released_by(), "{hold}");
            assert!(hold.acquired_by().acquires().any(|acquired| acquired == hold));
            assert_eq!(hold.released_by().releases(), Some(hold));
        }
    }
}
