//! A transition to a document: everything that is read before anything is written.

use std::collections::BTreeSet;

use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::{CREDENTIAL, DOCUMENT, MANIFEST};
use kiln_node_plan::{Block, Desired, Manifest, Plan, State, Step, is_reserved};
use kiln_types::SecretBytes;

use crate::apply::facts::{self, KnownCredential};
use crate::apply::observe::observe;
use crate::apply::{Error, network_facts, store};
use crate::node::Node;
use crate::os::{self, Generations};

/// A planned transition to a document.
#[derive(Debug)]
pub struct Transition {
    /// The name of the new generation's folder.
    pub folder: String,
    pub desired: Desired,
    pub plan: Plan,
    /// Paths of unit files.
    pub units: BTreeSet<String>,
    /// The document that the link points at now.
    pub in_force: Option<NodeConfig>,
    /// Shared files that do not exist yet.
    pub new_texts: Vec<String>,
}

/// When a transition runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No service runs yet and the disk may be a donor's: nothing is compared with it, and nothing waits for writes to reach the disk.
    FirstBoot,
    /// The machine boots with the generation it had: services have yet to start, so kilnd neither waits for them nor reloads systemd.
    Boot,
    /// Services run.
    Live,
}

impl Transition {
    /// Plans a first boot. `given` is the join credential that came with the document.
    pub fn first(
        node: &Node,
        left: &State,
        wanted: &NodeConfig,
        folder: &str,
        given: Option<SecretBytes>,
    ) -> Result<Self, Error> {
        Self::plan(node, left, wanted, folder, Phase::FirstBoot, given)
    }

    /// Plans a transition on a node that was configured before.
    pub fn to(node: &Node, state: &State, wanted: &NodeConfig, folder: &str, phase: Phase) -> Result<Self, Error> {
        Self::plan(node, state, wanted, folder, phase, None)
    }

    fn plan(
        node: &Node,
        state: &State,
        wanted: &NodeConfig,
        folder: &str,
        phase: Phase,
        given: Option<SecretBytes>,
    ) -> Result<Self, Error> {
        let root = &node.root;
        let link = Generations::new(root).current()?;
        let manifest = load_manifest(node, state, link.as_deref())?;
        let credential = match &link {
            // A clone must not use its donor's credential.
            _ if phase == Phase::FirstBoot => KnownCredential::Given(given),
            Some(name) => {
                let kept = root.read_if_exists(format!("{}/{CREDENTIAL}", Generations::folder(name)))?;
                KnownCredential::Kept(kept.map(SecretBytes::new))
            }
            None => KnownCredential::Kept(None),
        };
        let mut facts = facts::gather(node, &wanted.spec.credential_from, credential)?;
        network_facts::gather(root, &wanted.spec, &mut facts)?;
        let desired = Desired::render(wanted, &facts)?;
        for file in &wanted.spec.files {
            let real = root.real_path(&file.path)?;
            if is_reserved(&real) {
                return Err(Error::Reserved { path: file.path.clone(), real });
            }
        }
        let in_force = match &link {
            Some(name) => store::document_or(root, name, wanted, desired.text(DOCUMENT))?,
            None => None,
        };
        let mut observed = observe(root, &desired, manifest)?;
        if in_force.as_ref() == Some(wanted) {
            // kilnd warned about a missing optional setting when the document was applied; it is not pending work.
            for setting in desired.kernel.iter().filter(|setting| setting.optional) {
                observed.settings.entry(setting.path.clone()).or_insert_with(|| setting.value.clone());
            }
        }
        // At a first boot the link may be the donor's, or that of an interrupted attempt.
        let compared = in_force.as_ref().filter(|_| phase != Phase::FirstBoot);
        let plan = Plan::new(compared, wanted, &desired, &observed);
        let units = desired.units().map(|file| file.path.clone()).collect();
        let is_new = |path: &String| !observed.texts.contains_key(path);
        let new_texts = desired.blocks.iter().map(|block| block.path.clone()).filter(is_new).collect();
        Ok(Self { folder: folder.to_owned(), desired, plan, units, in_force, new_texts })
    }

    /// Plans the removal of a generation: what was there before kiln is restored. Services are left alone.
    pub fn to_nothing(node: &Node, state: &State, removed: &Desired) -> Result<Self, os::Error> {
        let link = Generations::new(&node.root).current()?;
        let manifest = load_manifest(node, state, link.as_deref())?;
        let blocks = removed.blocks.iter().map(|block| Block { text: String::new(), ..block.clone() }).collect();
        let desired = Desired { blocks, ..Desired::default() };
        let observed = observe(&node.root, &desired, manifest)?;
        let mut plan = Plan::new(None, &NodeConfig::default(), &desired, &observed);
        plan.steps.retain(is_restore);
        let (units, new_texts) = (BTreeSet::new(), Vec::new());
        Ok(Self { folder: String::new(), desired, plan, units, in_force: None, new_texts })
    }
}

/// The manifest of the generation in force, merged with that of a generation whose transition was interrupted.
fn load_manifest(node: &Node, state: &State, link: Option<&str>) -> Result<Option<Manifest>, os::Error> {
    let read = |name: &str| -> Result<Option<Manifest>, os::Error> {
        let bytes = node.root.read_if_exists(format!("{}/{MANIFEST}", Generations::folder(name)))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    };
    let last = link.map(read).transpose()?.flatten();
    let intended = state.in_force().map(|generation| generation.folder.as_str()).filter(|folder| Some(*folder) != link);
    let interrupted = intended.map(read).transpose()?.flatten();
    Ok(match (last, interrupted) {
        (Some(last), Some(interrupted)) => Some(last.merge(interrupted)),
        (last, interrupted) => last.or(interrupted),
    })
}

/// Whether a step only restores something.
fn is_restore(step: &Step) -> bool {
    matches!(
        step,
        Step::RestoreFile { .. }
            | Step::EditFile { .. }
            | Step::SetKernel(_)
            | Step::BlockService { .. }
            | Step::RetireAccount { .. }
    )
}
