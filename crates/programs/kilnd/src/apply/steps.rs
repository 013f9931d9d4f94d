//! Doing what a plan says, one step after the other.

use crate::os::{Durability, Generations, Placed, Root};
use kiln_node_plan::layout::{self, KUBELET_UNIT};
use kiln_node_plan::{Artifact, Before, Step};

use crate::apply::deferred::{self, LateError};
use crate::apply::enablement;
use crate::apply::metadata_block;
use crate::apply::services::{self, ServiceError};
use crate::apply::transition::{Pace, Way};
use crate::node::Node;

/// A step that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The machine says no.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
    /// The kernel has no such setting.
    #[error("the kernel has no setting `{0}`; a module that brings it goes into `spec.os.kernelModules`")]
    NoSetting(String),
    /// What stood there before kiln is lost.
    #[error("what stood at `{0}` before kiln is not in `{copy}` any more", copy = layout::before(.0))]
    Lost(String),
    /// A service does not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A disk or a swap file.
    #[error(transparent)]
    Late(#[from] LateError),
}

impl Pace {
    /// When what is written is to be on the disk.
    pub fn durability(self) -> Durability {
        match self {
            Self::FirstBoot => Durability::Later,
            Self::Boot | Self::Live => Durability::Now,
        }
    }
}

impl Way {
    /// What is done before anything changes for anybody: copies are kept, and the generation's folder is written.
    pub fn prepare(&self, node: &Node, pace: Pace) -> Result<(), ActError> {
        for step in self.plan.steps.iter().filter(|step| is_preparation(step)) {
            node.journal.step(&step.to_string(), || self.step(node, step, pace))?;
        }
        Ok(())
    }

    /// Everything after that, up to what waits for the kubelet.
    pub fn go(&self, node: &Node, pace: Pace) -> Result<(), ActError> {
        self.walk(node, pace, Err)
    }

    /// The same on the way back: a service that does not come up is no reason to leave files half way. Says which did not.
    pub fn go_back(&self, node: &Node) -> Result<Vec<ServiceError>, ActError> {
        let mut down = Vec::new();
        self.walk(node, Pace::Live, |error| match error {
            ActError::Service(service) => {
                down.push(service);
                Ok(())
            }
            error => Err(error),
        })?;
        Ok(down)
    }

    fn walk(
        &self,
        node: &Node,
        pace: Pace,
        mut on_error: impl FnMut(ActError) -> Result<(), ActError>,
    ) -> Result<(), ActError> {
        let todo: Vec<&Step> =
            self.plan.steps.iter().filter(|step| !is_preparation(step) && self.belongs(step, pace)).collect();
        let mut rest = todo.as_slice();
        while let Some(first) = rest.first() {
            // Neighbouring files are prepared together, so that a full disk is found before the first of them changes.
            let files: Vec<&Artifact> = rest.iter().map_while(|step| file_of(step)).collect();
            if files.is_empty() {
                node.journal.step(&first.to_string(), || self.step(node, first, pace)).or_else(&mut on_error)?;
                rest = &rest[1..];
            } else {
                let name = if files.len() == 1 { first.to_string() } else { format!("write {} files", files.len()) };
                let placed: Vec<Placed<'_>> = files.iter().map(|file| Placed::from(*file)).collect();
                node.journal.step(&name, || node.root.write_all(&placed, pace.durability()))?;
                rest = &rest[files.len()..];
            }
        }
        Ok(())
    }

    /// What waited for the kubelet. Each part is tried: a disk that cannot be mounted is no reason not to grow another.
    pub fn finish(&self, node: &Node) -> Result<(), ActError> {
        let mut failed = Ok(());
        for step in &self.plan.late {
            let done = node.journal.step(&step.to_string(), || self.step(node, step, Pace::Live));
            failed = failed.and(done);
        }
        failed
    }

    /// Whether a step is taken at this pace. At a start the service manager is left alone: files that it reads, and what needs it, wait
    /// for `watch`.
    fn belongs(&self, step: &Step, pace: Pace) -> bool {
        let is_unit = |path: &String| self.units.contains(path);
        match step {
            Step::Put(file) => pace == Pace::Live || !is_unit(&file.path),
            Step::DaemonReload | Step::Enable { .. } | Step::Stop { .. } | Step::Start { .. } => pace == Pace::Live,
            // The kubelet is ordered after us.
            Step::Restart { unit } | Step::Reload { unit } => pace == Pace::Live || unit != KUBELET_UNIT,
            _ => true,
        }
    }

    fn step(&self, node: &Node, step: &Step, pace: Pace) -> Result<(), ActError> {
        let (root, durability) = (&node.root, pace.durability());
        match step {
            Step::Keep { path } => keep(root, path, durability)?,
            Step::WriteGeneration => {
                Generations::of(root).write(&self.folder, &self.plan.folder(&self.desired), durability)?;
            }
            Step::Put(file) => root.write_all(&[Placed::from(file)], durability)?,
            Step::PutBack { path, before } => put_back(root, path, before, durability)?,
            Step::Edit { path, text } => edit(root, path, text, durability)?,
            Step::Set(setting) => match root.set_kernel(&setting.path, &setting.value) {
                Err(error) if error.is_not_found() && setting.optional => {
                    node.journal.warn(format!("the kernel has no setting `{}` yet", setting.path));
                }
                Err(error) if error.is_not_found() => return Err(ActError::NoSetting(setting.path.clone())),
                done => done?,
            },
            Step::BlockMetadata { block } => metadata_block::set_blocked(root, *block)?,
            Step::HostName { name } => {
                let line = format!("{name}\n");
                root.write_all(&[Placed::new("/etc/hostname", line.as_bytes(), 0o644)], durability)?;
                root.set_host_name(name)?;
            }
            Step::Account(account) => root.set_account(account, durability)?,
            Step::Retire { name } => root.retire(name, durability)?,
            Step::Flip => Generations::of(root).flip(&self.folder, durability)?,
            Step::Enable { unit, enabled } => enablement::set(root, unit, *enabled, durability)?,
            Step::Discard { path } => {
                root.remove(path, durability)?;
            }
            Step::DaemonReload
            | Step::Stop { .. }
            | Step::Start { .. }
            | Step::Reload { .. }
            | Step::Restart { .. } => {
                services::act(node, step, pace)?;
            }
            Step::GrowRoot if root.is_host() => deferred::grow_root()?,
            Step::GrowRoot => {}
            Step::Swap { path, mib } => deferred::swap(node, path, *mib)?,
            Step::Mount(mount) => deferred::mount(node, mount)?,
            // The cluster restarts machines, after their pods have left.
            Step::Reboot => node.journal.say("the machine restarts when the cluster says so"),
        }
        Ok(())
    }
}

fn file_of(step: &Step) -> Option<&Artifact> {
    if let Step::Put(file) = step { Some(file) } else { None }
}

fn is_preparation(step: &Step) -> bool {
    matches!(step, Step::Keep { .. } | Step::WriteGeneration)
}

fn keep(root: &Root, path: &str, durability: Durability) -> Result<(), crate::os::Error> {
    let bytes = root.read(path)?;
    // Only the superuser looks at it, whoever could look at the file.
    root.write_all(&[Placed::new(&layout::before(path), &bytes, 0o600)], durability)
}

fn put_back(root: &Root, path: &str, before: &Before, durability: Durability) -> Result<(), ActError> {
    match before {
        Before::Absent => {
            root.remove(path, durability)?;
        }
        Before::Link { target } => root.flip(path, target, durability)?,
        Before::File { mode, owner, .. } => {
            let bytes = root.read_if_there(&layout::before(path))?.ok_or_else(|| ActError::Lost(path.to_owned()))?;
            let file = Placed { user: &owner.user, group: &owner.group, ..Placed::new(path, &bytes, *mode) };
            root.write_all(&[file], durability)?;
        }
    }
    Ok(())
}

/// Writes a file that belongs to somebody else; owner and permissions stay as they are.
fn edit(root: &Root, path: &str, text: &str, durability: Durability) -> Result<(), crate::os::Error> {
    let (mode, user, group) = match root.look(path)? {
        crate::os::Found::File { mode, uid, gid, .. } => (mode, uid.to_string(), gid.to_string()),
        _ => (0o644, "root".to_owned(), "root".to_owned()),
    };
    let file = Placed { user: &user, group: &group, ..Placed::new(path, text.as_bytes(), mode) };
    root.write_all(&[file], durability)
}
