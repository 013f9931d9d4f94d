//! The state of cloud and cluster, as read for one decision.

use jiff::Timestamp;
use kiln_types::{Gallery, ImageDefinition, ImageVersion, Instance, Node, Pool, Snapshot};

use crate::action::Action;
use crate::step::Step;

/// Something that can be read, with one request or a list of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// The result of the preflight check. Reading it may fill in other facts on the way.
    Blockers,
    Pool,
    /// Whether the original recipe is saved.
    Saved,
    Gallery,
    Definition,
    Versions,
    Snapshot,
    /// The donor in the cloud.
    Instance,
    /// The donor in the cluster.
    Node,
    /// All instances of the pool.
    Instances,
    /// The canary's scale set and its node.
    Canary,
    /// The pause and the rejected versions on the image definition. A step that lets new nodes get the version reads them itself, right
    /// before it acts, because a person may have rolled back since any earlier read.
    Rejections(Step),
}

/// The facts that were read. `None` means "not read"; a resource that does not exist is `Some(None)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub blockers: Option<Vec<String>>,
    pub pool: Option<Pool>,
    pub saved: Option<bool>,
    pub gallery: Option<Option<Gallery>>,
    pub definition: Option<Option<ImageDefinition>>,
    pub versions: Option<Vec<ImageVersion>>,
    pub snapshot: Option<Option<Snapshot>>,
    pub instance: Option<Option<Instance>>,
    pub node: Option<Option<Node>>,
    pub instances: Option<Vec<Instance>>,
    pub canary: Option<Option<CanaryView>>,
    /// The image definition, and the step that read it.
    pub rejections: Option<(Step, Option<ImageDefinition>)>,
    /// The step that the engine has just waited for.
    pub waited: Option<Step>,
}

/// The facts about a canary that decisions need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CanaryView {
    /// Its scale set is being deleted.
    pub deleting: bool,
    /// Why its creation failed, in the cloud's words.
    pub failed: Option<String>,
    /// Its node is Ready.
    pub ready: bool,
    /// The VM agent on its machine has reported, so its disk boots.
    pub booted: bool,
    /// When its node was first seen registered.
    pub registered: Option<Timestamp>,
    /// Why its node is not Ready yet.
    pub pending: String,
}

impl Observed {
    /// Forgets what an action may have changed. Draining, installing and freezing take long enough that everything may have changed meanwhile.
    pub fn forget(&mut self, action: &Action) {
        match action {
            Action::TagPool { .. }
            | Action::SetRecipe { .. }
            | Action::RemoveExtension(_)
            | Action::AddInstances { .. } => (self.pool, self.instances) = (None, None),
            Action::SaveRecipe => self.saved = None,
            Action::CreateGallery(_) => self.gallery = None,
            Action::CreateDefinition(_) | Action::TagDefinition { .. } => self.definition = None,
            Action::DeleteVersion(_) | Action::Publish(_) | Action::Include(_) => self.versions = None,
            Action::HoldNode | Action::ReleaseNode => self.node = None,
            Action::SetProtection { .. } | Action::RestoreProtection(_) => {
                (self.instance, self.instances) = (None, None);
            }
            Action::PowerOff(_) | Action::Start => {
                (self.instance, self.instances, self.node) = (None, None, None);
            }
            // The instance is read again, to see whether it was off all the time.
            Action::Snapshot(_) => (self.snapshot, self.instance) = (None, None),
            Action::DeleteSnapshot => self.snapshot = None,
            Action::CreateCanary(_) | Action::DeleteCanary => self.canary = None,
            Action::Drain | Action::InstallFirstBoot | Action::LiveSnapshot(_) | Action::Thaw => {
                *self = Self::default();
            }
        }
    }

    /// Forgets what may have changed while the engine waited for a step. A snapshot that the run has created is still needed after the donor
    /// is back, and a version cannot be created from it if it was deleted.
    pub fn forget_after_wait(&mut self, step: Step) {
        let snapshot = self.snapshot.take().filter(|_| matches!(step, Step::Start | Step::AwaitReady));
        *self = Self { snapshot, waited: Some(step), ..Self::default() };
    }

    pub(crate) fn blockers(&self) -> Result<&[String], Fact> {
        self.blockers.as_deref().ok_or(Fact::Blockers)
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

    pub(crate) fn definition(&self) -> Result<Option<&ImageDefinition>, Fact> {
        self.definition.as_ref().map(Option::as_ref).ok_or(Fact::Definition)
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

    pub(crate) fn node(&self) -> Result<Option<&Node>, Fact> {
        self.node.as_ref().map(Option::as_ref).ok_or(Fact::Node)
    }

    pub(crate) fn instances(&self) -> Result<&[Instance], Fact> {
        self.instances.as_deref().ok_or(Fact::Instances)
    }

    pub(crate) fn canary(&self) -> Result<Option<&CanaryView>, Fact> {
        self.canary.as_ref().map(Option::as_ref).ok_or(Fact::Canary)
    }

    pub(crate) fn rejections(&self, step: Step) -> Result<Option<&ImageDefinition>, Fact> {
        let read = self.rejections.as_ref().filter(|(by, _)| *by == step);
        read.map(|(_, definition)| definition.as_ref()).ok_or(Fact::Rejections(step))
    }

    /// Whether a fact was read.
    pub fn knows(&self, fact: Fact) -> bool {
        match fact {
            Fact::Blockers => self.blockers.is_some(),
            Fact::Pool => self.pool.is_some(),
            Fact::Saved => self.saved.is_some(),
            Fact::Gallery => self.gallery.is_some(),
            Fact::Definition => self.definition.is_some(),
            Fact::Versions => self.versions.is_some(),
            Fact::Snapshot => self.snapshot.is_some(),
            Fact::Instance => self.instance.is_some(),
            Fact::Node => self.node.is_some(),
            Fact::Instances => self.instances.is_some(),
            Fact::Canary => self.canary.is_some(),
            Fact::Rejections(step) => self.rejections.as_ref().is_some_and(|(by, _)| *by == step),
        }
    }
}
