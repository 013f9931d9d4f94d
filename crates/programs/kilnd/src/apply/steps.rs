//! Executes the steps of a transition.

use kiln_node_plan::block::compose;
use kiln_node_plan::layout::{self, KUBELET_UNIT};
use kiln_node_plan::{DesiredFile, FileState, Owner, Step};

use crate::apply::transition::{Phase, Transition};
use crate::apply::{Error, ServiceError, deferred, enablement, pod_block, services};
use crate::node::Node;
use crate::os::{self, Durability, Generations, Root};

impl Phase {
    /// Whether writes have to be on disk before the next step. A first boot does not wait for the disk: if power fails, the next boot is
    /// a first boot again.
    pub fn durability(self) -> Durability {
        match self {
            Self::FirstBoot => Durability::Later,
            Self::Boot | Self::Live => Durability::Now,
        }
    }
}

impl Transition {
    /// Writes backups and the new generation's folder. Nothing that is in use changes.
    pub fn prepare(&self, node: &Node, phase: Phase) -> Result<(), Error> {
        for warning in &self.desired.warnings {
            node.log.warn(warning.clone());
        }
        for step in self.plan.steps.iter().filter(|step| is_preparation(step)) {
            node.log.step(&step.to_string(), || self.step(node, step, phase))?;
        }
        Ok(())
    }

    /// Executes the remaining steps, except the deferred ones.
    pub fn run(&self, node: &Node, phase: Phase) -> Result<(), Error> {
        self.run_steps(node, phase, Err)
    }

    /// Executes the remaining steps of a revert. A service that does not start must not leave files half restored, so the remaining steps
    /// are executed anyway. Returns the services that failed.
    pub fn run_revert(&self, node: &Node) -> Result<Vec<ServiceError>, Error> {
        let mut failed = Vec::new();
        self.run_steps(node, Phase::Live, |error| match error {
            Error::Service(service) => {
                failed.push(service);
                Ok(())
            }
            error => Err(error),
        })?;
        Ok(failed)
    }

    fn run_steps(
        &self,
        node: &Node,
        phase: Phase,
        mut on_error: impl FnMut(Error) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let steps: Vec<&Step> =
            self.plan.steps.iter().filter(|step| !is_preparation(step) && self.belongs_to(step, phase)).collect();
        let mut rest = steps.as_slice();
        while let Some(first) = rest.first() {
            // Adjacent files are written as a set, so that a full disk is noticed before the first of them changes.
            let files: Vec<&DesiredFile> = rest.iter().map_while(|step| file_of(step)).collect();
            if files.is_empty() {
                node.log.step(&first.to_string(), || self.step(node, first, phase)).or_else(&mut on_error)?;
                rest = &rest[1..];
            } else {
                let name = if files.len() == 1 { first.to_string() } else { format!("write {} files", files.len()) };
                node.log.step(&name, || node.root.write_all(&files, phase.durability()))?;
                rest = &rest[files.len()..];
            }
        }
        Ok(())
    }

    /// Executes the deferred steps. All of them are tried; the first error is returned.
    pub fn finish(&self, node: &Node) -> Result<(), Error> {
        let mut result = Ok(());
        for step in &self.plan.deferred {
            let done = node.log.step(&step.to_string(), || self.step(node, step, Phase::Live));
            result = result.and(done);
        }
        result
    }

    /// Whether a step is executed in this phase. During a boot kilnd leaves systemd alone: unit files, and steps that need systemd, wait for
    /// `kilnd watch`.
    fn belongs_to(&self, step: &Step, phase: Phase) -> bool {
        let is_unit = |path: &String| self.units.contains(path);
        match step {
            Step::WriteFile(file) => phase == Phase::Live || !is_unit(&file.path),
            Step::DaemonReload | Step::Enable { .. } | Step::Stop { .. } | Step::Start { .. } => phase == Phase::Live,
            // The kubelet is ordered after kiln-config.service and starts anyway.
            Step::Restart { unit } | Step::Reload { unit } => phase == Phase::Live || unit != KUBELET_UNIT,
            _ => true,
        }
    }

    fn step(&self, node: &Node, step: &Step, phase: Phase) -> Result<(), Error> {
        let (root, durability) = (&node.root, phase.durability());
        match step {
            Step::BackUp { path } => back_up(root, path, durability)?,
            Step::WriteGeneration => {
                Generations::new(root).write(&self.folder, &self.plan.folder(&self.desired), durability)?;
            }
            Step::WriteFile(file) => root.write_all(&[file], durability)?,
            Step::RestoreFile { path, before } => restore(root, path, before, durability)?,
            Step::EditFile { path, text } => edit(root, path, self.block(path), text, durability)?,
            Step::SetKernel(setting) => match root.set_kernel(&setting.path, &setting.value) {
                Err(error) if error.is_not_found() && setting.optional => {
                    let module = setting.module.map(|module| format!(": its module `{module}` is not loaded"));
                    node.log.warn(format!(
                        "the kernel has no setting `{}` yet{}",
                        setting.path,
                        module.unwrap_or_default()
                    ));
                }
                Err(error) if error.is_not_found() => {
                    let path = setting.path.clone();
                    return Err(match setting.module {
                        Some(module) => Error::ModuleNotLoaded { path, module },
                        None => Error::NoSetting(path),
                    });
                }
                done => done?,
            },
            Step::BlockService { service, block } => pod_block::set_blocked(root, *service, *block)?,
            Step::SetHostName { name } => {
                root.write_all(&[DesiredFile::plain("/etc/hostname", format!("{name}\n"))], durability)?;
                root.set_host_name(name)?;
            }
            Step::SetAccount(account) => root.set_account(account, durability)?,
            Step::RetireAccount { name } => root.retire(name, durability)?,
            Step::SwitchGeneration => Generations::new(root).switch_to(&self.folder, durability)?,
            Step::Enable { unit, enabled } => enablement::set_enabled(root, unit, *enabled, durability)?,
            Step::DeleteFile { path } => {
                root.remove(path, durability)?;
            }
            Step::DaemonReload
            | Step::Stop { .. }
            | Step::Start { .. }
            | Step::Reload { .. }
            | Step::Restart { .. } => {
                services::run(node, step, phase).map_err(Error::Service)?;
            }
            Step::GrowRoot if root.is_host() => deferred::grow_root()?,
            Step::GrowRoot => {}
            Step::Swap { path, mib } => deferred::swap(node, path, *mib)?,
            Step::Mount(mount) => deferred::mount(node, mount)?,
            // The cluster drains the node first.
            Step::Reboot => node.log.info("the machine reboots when the cluster allows it"),
        }
        Ok(())
    }
}

impl Transition {
    /// The text of kiln's block in a file.
    fn block(&self, path: &str) -> Option<&str> {
        self.desired.blocks.iter().find(|block| block.path == path).map(|block| block.text.as_str())
    }
}

fn file_of(step: &Step) -> Option<&DesiredFile> {
    if let Step::WriteFile(file) = step { Some(file) } else { None }
}

fn is_preparation(step: &Step) -> bool {
    matches!(step, Step::BackUp { .. } | Step::WriteGeneration)
}

fn back_up(root: &Root, path: &str, durability: Durability) -> Result<(), os::Error> {
    let bytes = root.read(path)?;
    // Only root may read the copy, whatever the mode of the original.
    root.write_all(&[DesiredFile::new(layout::before(path), bytes, 0o600)], durability)
}

fn restore(root: &Root, path: &str, before: &FileState, durability: Durability) -> Result<(), Error> {
    match before {
        FileState::Absent | FileState::Other => {
            root.remove(path, durability)?;
        }
        FileState::Link { target } => root.replace_link(path, target, durability)?,
        FileState::File { mode, owner, .. } => {
            let bytes = root.read_if_exists(layout::before(path))?;
            let bytes = bytes.ok_or_else(|| Error::BackupMissing(path.to_owned()))?;
            root.write_all(&[DesiredFile::new(path, bytes, *mode).owned_by(owner.clone())], durability)?;
        }
    }
    Ok(())
}

/// Rewrites a file of another program; owner and permissions stay. The file is read again, because at boot other agents write such files too:
/// a line that cloud-init added after kilnd made its plan must not get lost.
fn edit(root: &Root, path: &str, block: Option<&str>, planned: &str, durability: Durability) -> Result<(), os::Error> {
    let now = root.read_if_exists(path)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = block.map_or_else(|| planned.to_owned(), |block| compose(&now.unwrap_or_default(), block));
    let (mode, owner) = match root.file_state(path)? {
        FileState::File { mode, owner, .. } => (mode, owner),
        _ => (0o644, Owner::root()),
    };
    root.write_all(&[DesiredFile::new(path, text, mode).owned_by(owner)], durability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_keeps_lines_that_another_program_added_after_the_plan() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        let planned = compose("a\n", "kiln\n");
        std::fs::create_dir(folder.path().join("etc")).expect("a folder");
        std::fs::write(folder.path().join("etc/fstab"), "a\nby cloud-init\n").expect("written");
        edit(&root, "/etc/fstab", Some("kiln\n"), &planned, Durability::Later).expect("edited");
        let text = std::fs::read_to_string(folder.path().join("etc/fstab")).expect("read");
        assert_eq!(text, "a\nby cloud-init\n# kiln: begin\nkiln\n# kiln: end\n");
    }
}
