//! What was read of the outside, for one decision.

use kiln_types::{Gallery, ImageDefinition, ImageVersion, Instance, Pool, Snapshot};

use crate::action::Action;

/// A thing that can be read. Each is one question to one outside system, or a page of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// What speaks against the run. Who reads this may fill in what else was read on the way.
    Refusals,
    Pool,
    /// Whether the recipe before the first run is kept.
    Saved,
    Gallery,
    Line,
    Versions,
    /// The copy of the donor's disk.
    Snapshot,
    /// The donor as the cloud sees it.
    Instance,
    /// The donor as Kubernetes sees it.
    Node,
    /// All instances of the pool.
    Instances,
    /// The throw-away pool, and its node.
    Canary,
}

/// What was read. `None` is "not read"; a thing that was looked for and does not exist is `Some(None)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Reasons, empty when there is none.
    pub refusals: Option<Vec<String>>,
    pub pool: Option<Pool>,
    /// Whether the recipe before the first run is kept.
    pub saved: Option<bool>,
    pub gallery: Option<Option<Gallery>>,
    pub line: Option<Option<ImageDefinition>>,
    pub versions: Option<Vec<ImageVersion>>,
    pub snapshot: Option<Option<Snapshot>>,
    /// The donor as the cloud sees it.
    pub instance: Option<Option<Instance>>,
    /// The donor as Kubernetes sees it.
    pub node: Option<Option<NodeView>>,
    /// All instances.
    pub instances: Option<Vec<Instance>>,
    /// The throw-away pool.
    pub canary: Option<Option<CanaryView>>,
}

/// What decisions need of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    /// The run that holds it, by its own mark.
    pub held_by: Option<String>,
    /// Kubelet says that it works, and was heard of lately.
    pub ready: bool,
    /// What its condition says when it does not.
    pub why_not: String,
    /// Changes with each boot.
    pub boot: Option<String>,
}

/// What decisions need of a canary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CanaryView {
    /// The pool is being deleted.
    pub leaving: bool,
    /// Making it failed, with the cloud's words.
    pub failed: Option<String>,
    /// Its node is Ready.
    pub ready: bool,
    /// What is missing when it is not.
    pub why_not: String,
}

impl Observed {
    /// Forgets what an act may have changed. What takes long lets everything else change meanwhile; so does waiting, after which a driver
    /// begins with nothing.
    pub fn forget(&mut self, action: &Action) {
        match action {
            Action::TagPool { .. }
            | Action::SetRecipe { .. }
            | Action::RemoveExtension(_)
            | Action::AddInstances { .. } => (self.pool, self.instances) = (None, None),
            Action::SaveRecipe => self.saved = None,
            Action::CreateGallery(_) => self.gallery = None,
            Action::CreateDefinition(_) | Action::TagDefinition { .. } => self.line = None,
            Action::DeleteVersion(_) | Action::Publish(_) | Action::Include(_) => self.versions = None,
            Action::HoldNode | Action::ReleaseNode => self.node = None,
            Action::SetProtection { .. } => (self.instance, self.instances) = (None, None),
            Action::PowerOff(_) | Action::Start => {
                (self.instance, self.instances, self.node) = (None, None, None);
            }
            // Whether the machine was off all the while is seen afterwards.
            Action::Snapshot(_) => (self.snapshot, self.instance) = (None, None),
            Action::DeleteSnapshot => self.snapshot = None,
            Action::CreateCanary(_) | Action::DeleteCanary => self.canary = None,
            Action::Drain | Action::InstallFirstBoot => *self = Self::default(),
        }
    }

    pub(crate) fn refusals(&self) -> Result<&[String], Fact> {
        self.refusals.as_deref().ok_or(Fact::Refusals)
    }

    pub(crate) fn pool(&self) -> Result<&Pool, Fact> {
        self.pool.as_ref().ok_or(Fact::Pool)
    }

    pub(crate) fn saved(&self) -> Result<bool, Fact> {
        self.saved.ok_or(Fact::Saved)
    }

    pub(crate) fn gallery(&self) -> Result<Option<&Gallery>, Fact> {
        self.gallery.as_ref().map(Option::as_ref).ok_or(Fact::Gallery)
    }

    pub(crate) fn line(&self) -> Result<Option<&ImageDefinition>, Fact> {
        self.line.as_ref().map(Option::as_ref).ok_or(Fact::Line)
    }

    pub(crate) fn versions(&self) -> Result<&[ImageVersion], Fact> {
        self.versions.as_deref().ok_or(Fact::Versions)
    }

    pub(crate) fn snapshot(&self) -> Result<Option<&Snapshot>, Fact> {
        self.snapshot.as_ref().map(Option::as_ref).ok_or(Fact::Snapshot)
    }

    pub(crate) fn instance(&self) -> Result<Option<&Instance>, Fact> {
        self.instance.as_ref().map(Option::as_ref).ok_or(Fact::Instance)
    }

    pub(crate) fn node(&self) -> Result<Option<&NodeView>, Fact> {
        self.node.as_ref().map(Option::as_ref).ok_or(Fact::Node)
    }

    pub(crate) fn instances(&self) -> Result<&[Instance], Fact> {
        self.instances.as_deref().ok_or(Fact::Instances)
    }

    pub(crate) fn canary(&self) -> Result<Option<&CanaryView>, Fact> {
        self.canary.as_ref().map(Option::as_ref).ok_or(Fact::Canary)
    }

    /// Whether a fact was read.
    pub fn knows(&self, fact: Fact) -> bool {
        match fact {
            Fact::Refusals => self.refusals.is_some(),
            Fact::Pool => self.pool.is_some(),
            Fact::Saved => self.saved.is_some(),
            Fact::Gallery => self.gallery.is_some(),
            Fact::Line => self.line.is_some(),
            Fact::Versions => self.versions.is_some(),
            Fact::Snapshot => self.snapshot.is_some(),
            Fact::Instance => self.instance.is_some(),
            Fact::Node => self.node.is_some(),
            Fact::Instances => self.instances.is_some(),
            Fact::Canary => self.canary.is_some(),
        }
    }
}
