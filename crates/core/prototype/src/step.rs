//! The steps of a run, in their order, and what each holds and needs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A step. The order of the variants is the order in which they are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Refuse what would hurt, before anything is touched.
    Preflight,
    /// The pool bears the name of the run.
    Claim,
    /// The recipe that the pool was made with is kept for the way back.
    SaveRecipe,
    /// The gallery exists.
    Gallery,
    /// The image line exists.
    Line,
    /// Versions that failed, or that are to be replaced, are gone.
    ClearFailed,
    /// Is there a version of today, or a copy of today's disk?
    Survey,
    /// The donor is kept from the autoscaler and cordoned, in one write.
    HoldNode,
    /// The donor is kept from the scale set.
    Protect,
    /// Pods left the donor.
    Drain,
    /// A clone of the donor will reset its identity.
    FirstBoot,
    /// The donor is off.
    PowerOff,
    /// The donor's disk is copied.
    Snapshot,
    /// The donor is on.
    Start,
    /// The donor is Ready.
    AwaitReady,
    /// The scale set may do what it could.
    Unprotect,
    /// The node is as schedulable and as removable as it was.
    ReleaseNode,
    /// The version is made, for nobody to get.
    Publish,
    /// The copy is gone.
    DeleteSnapshot,
    /// A throw-away machine of exactly this version is asked for.
    Try,
    /// It joined.
    AwaitCanary,
    /// It did not, and the line says so for later runs.
    Condemn,
    /// The throw-away machine is gone.
    DeleteCanary,
    /// The version is what `latest` means.
    Include,
    /// New nodes come from the line.
    Model,
    /// New nodes get custom data that does nothing.
    StripData,
    /// New nodes run no bootstrap script.
    StripScripts,
    /// Versions beyond the history are gone.
    Prune,
    /// The pool grew.
    AddNodes,
    /// The pool no longer bears the name of the run.
    Disclaim,
}

/// What a run holds of other people's things. The order is that of the stack: what comes later is taken later and given back earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Held {
    Claim,
    /// Cordon and autoscaler annotation of the donor.
    Node,
    /// Azure's protection of the donor.
    Protection,
    /// The donor is not Ready.
    Absence,
    /// The donor is off.
    Power,
    /// The throw-away machine.
    Canary,
}

use Step::{
    AddNodes, AwaitCanary, AwaitReady, Claim, ClearFailed, Condemn, DeleteCanary, DeleteSnapshot, Disclaim, Drain,
    FirstBoot, Gallery, HoldNode, Include, Line, Model, PowerOff, Preflight, Protect, Prune, Publish, ReleaseNode,
    SaveRecipe, Snapshot, Start, StripData, StripScripts, Survey, Try, Unprotect,
};

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 30] = [
        Preflight,
        Claim,
        SaveRecipe,
        Gallery,
        Line,
        ClearFailed,
        Survey,
        HoldNode,
        Protect,
        Drain,
        FirstBoot,
        PowerOff,
        Snapshot,
        Start,
        AwaitReady,
        Unprotect,
        ReleaseNode,
        Publish,
        DeleteSnapshot,
        Try,
        AwaitCanary,
        Condemn,
        DeleteCanary,
        Include,
        Model,
        StripData,
        StripScripts,
        Prune,
        AddNodes,
        Disclaim,
    ];

    /// What is held from the moment at which the step is begun. A stopped machine is two things: it has to be started, and then to come back.
    pub fn takes(self) -> impl Iterator<Item = Held> {
        Held::ALL.into_iter().filter(move |held| held.taken_by() == self)
    }

    /// What the step gives back.
    pub fn gives_back(self) -> Option<Held> {
        Held::ALL.into_iter().find(|held| held.given_back_by() == self)
    }

    /// The steps that take the donor away and copy its disk. A run that finds today's copy or today's version leaves them out.
    pub fn is_of_the_bracket(self) -> bool {
        (HoldNode..=ReleaseNode).contains(&self)
    }

    /// Before the copy exists a failure takes everything back. Afterwards the run goes forward.
    pub fn comes_before_the_copy(self) -> bool {
        self <= Snapshot
    }

    /// What counts as done when the act, or the operation that it began, said so: what cannot be read back, and what the answer itself shows.
    /// A resource that was just made is in the answer, and so is one that was written over what was read. Of deletions only what is read
    /// afterwards counts.
    pub fn is_taken_at_its_word(self) -> bool {
        matches!(self, SaveRecipe | Gallery | Line | Protect | Drain | FirstBoot | Unprotect | StripData | Disclaim)
    }

    /// The name in commands, journals and pages.
    pub fn name(self) -> &'static str {
        match self {
            Preflight => "preflight",
            Claim => "claim",
            SaveRecipe => "save-recipe",
            Gallery => "gallery",
            Line => "line",
            ClearFailed => "clear-failed",
            Survey => "survey",
            HoldNode => "hold-node",
            Protect => "protect",
            Drain => "drain",
            FirstBoot => "first-boot",
            PowerOff => "power-off",
            Snapshot => "snapshot",
            Start => "start",
            AwaitReady => "await-ready",
            Unprotect => "unprotect",
            ReleaseNode => "release-node",
            Publish => "publish",
            DeleteSnapshot => "delete-snapshot",
            Try => "try",
            AwaitCanary => "await-canary",
            Condemn => "condemn",
            DeleteCanary => "delete-canary",
            Include => "include",
            Model => "model",
            StripData => "strip-data",
            StripScripts => "strip-scripts",
            Prune => "prune",
            AddNodes => "add-nodes",
            Disclaim => "disclaim",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Held {
    /// All, the first taken first.
    pub const ALL: [Self; 6] = [Self::Claim, Self::Node, Self::Protection, Self::Absence, Self::Power, Self::Canary];

    /// The step that takes it.
    pub fn taken_by(self) -> Step {
        match self {
            Self::Claim => Claim,
            Self::Node => HoldNode,
            Self::Protection => Protect,
            Self::Absence | Self::Power => PowerOff,
            Self::Canary => Try,
        }
    }

    /// The step that gives it back.
    pub fn given_back_by(self) -> Step {
        match self {
            Self::Claim => Disclaim,
            Self::Node => ReleaseNode,
            Self::Protection => Unprotect,
            Self::Absence => AwaitReady,
            Self::Power => Start,
            Self::Canary => DeleteCanary,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Claim => "the scale set's run tag",
            Self::Node => "the node's cordon and autoscaler annotation",
            Self::Protection => "the instance's protection",
            Self::Absence => "the node's absence",
            Self::Power => "the stopped machine",
            Self::Canary => "the canary's scale set",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_all_steps_is_in_their_order_and_complete() {
        assert!(Step::ALL.is_sorted() && Held::ALL.is_sorted());
        assert_eq!(Step::ALL.iter().collect::<std::collections::BTreeSet<_>>().len(), 30);
        assert_eq!(Step::ALL.map(|step| step as usize), std::array::from_fn::<usize, 30, _>(|index| index));
    }

    #[test]
    fn what_a_step_takes_a_later_step_gives_back() {
        for held in Held::ALL {
            assert!(held.taken_by() < held.given_back_by(), "{held}");
            assert!(held.taken_by().takes().any(|taken| taken == held));
            assert_eq!(held.given_back_by().gives_back(), Some(held));
        }
    }
}
