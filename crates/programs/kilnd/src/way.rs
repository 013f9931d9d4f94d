//! The way from what is on the machine to a document: everything that is read before anything is written.

use std::collections::BTreeSet;

use kiln_host::Generations;
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::{CREDENTIAL, DOCUMENT, MANIFEST};
use kiln_node_plan::{Block, Desired, Manifest, Plan, State, Step, Unfit};
use kiln_types::SecretBytes;

use crate::facts::{self, FactsError, Held};
use crate::node::Node;
use crate::observe::observe;
use crate::store;

/// The way to a document.
#[derive(Debug)]
pub struct Way {
    /// The name of the generation's folder.
    pub folder: String,
    /// What the document asks for.
    pub desired: Desired,
    /// What to do.
    pub plan: Plan,
    /// Paths of files that the service manager reads.
    pub units: BTreeSet<String>,
    /// The document that the link names now.
    pub in_force: Option<NodeConfig>,
    /// Files of others that kiln has a part of and that are not there yet.
    pub new_texts: Vec<String>,
}

/// What keeps a way from being known. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    /// The machine cannot be looked at.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
    /// Something that the document needs is not there.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// The document does not fit the machine.
    #[error("the document does not fit this machine")]
    Unfit(#[from] Unfit),
}

/// How a node gets somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nothing runs yet, and what is on the disk may be another machine's: nothing is compared with it, nothing waits for the disk.
    FirstBoot,
    /// The machine starts again with what it had: services are yet to start, so none is waited for and nothing is reloaded.
    Boot,
    /// Everything runs.
    Live,
}

impl Way {
    /// The way to the document of a first boot, and with what it is to join where that came with it.
    pub fn first(
        node: &Node,
        left: &State,
        wanted: &NodeConfig,
        folder: &str,
        given: Option<SecretBytes>,
    ) -> Result<Self, NoWay> {
        Self::with(node, left, wanted, folder, Pace::FirstBoot, given)
    }

    /// The way to a document in a folder of this name, for a node that has had one before.
    pub fn to(node: &Node, state: &State, wanted: &NodeConfig, folder: &str, pace: Pace) -> Result<Self, NoWay> {
        Self::with(node, state, wanted, folder, pace, None)
    }

    fn with(
        node: &Node,
        state: &State,
        wanted: &NodeConfig,
        folder: &str,
        pace: Pace,
        given: Option<SecretBytes>,
    ) -> Result<Self, NoWay> {
        let root = &node.root;
        let link = Generations::of(root).current()?;
        let manifest = remembered(node, state, link.as_deref())?;
        let held = match &link {
            // A clone has no business with what its donor joined with.
            _ if pace == Pace::FirstBoot => Held::Given(given),
            Some(name) => {
                let kept = root.read_if_there(&format!("{}/{CREDENTIAL}", Generations::folder(name)))?;
                Held::Kept(kept.map(SecretBytes::new))
            }
            None => Held::Kept(None),
        };
        let facts = facts::gather(node, &wanted.spec.credential_from, held)?;
        let desired = Desired::of(wanted, &facts)?;
        let in_force = match &link {
            Some(name) => store::document_or(root, name, wanted, desired.text(DOCUMENT))?,
            None => None,
        };
        let mut observed = observe(root, &desired, manifest)?;
        if in_force.as_ref() == Some(wanted) {
            // A setting that the kernel did not have when the document came was said then; it is no work of today.
            for setting in desired.kernel.iter().filter(|setting| setting.optional) {
                observed.settings.entry(setting.path.clone()).or_insert_with(|| setting.value.clone());
            }
        }
        // At a first boot the link may be the donor's, or that of an attempt that was cut off.
        let compared = in_force.as_ref().filter(|_| pace != Pace::FirstBoot);
        let plan = Plan::of(compared, wanted, &desired, &observed);
        let units = desired.units().map(|file| file.path.clone()).collect();
        let is_new = |path: &String| !observed.texts.contains_key(path);
        let new_texts = desired.blocks.iter().map(|block| block.path.clone()).filter(is_new).collect();
        Ok(Self { folder: folder.to_owned(), desired, plan, units, in_force, new_texts })
    }
}

/// What the generation in force remembers, with what one that was cut off on its way may have left.
fn remembered(node: &Node, state: &State, link: Option<&str>) -> Result<Option<Manifest>, kiln_host::Error> {
    let read = |name: &str| -> Result<Option<Manifest>, kiln_host::Error> {
        let bytes = node.root.read_if_there(&format!("{}/{MANIFEST}", Generations::folder(name)))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    };
    let last = link.map(read).transpose()?.flatten();
    let intended = state.in_force().map(|generation| generation.folder.as_str()).filter(|folder| Some(*folder) != link);
    let cut_off = intended.map(read).transpose()?.flatten();
    Ok(match (last, cut_off) {
        (Some(last), Some(cut_off)) => Some(last.merge(cut_off)),
        (last, cut_off) => last.or(cut_off),
    })
}

impl Way {
    /// The way to no document at all from one that was cut off: what stood there before kiln stands there again.
    pub fn to_nothing(node: &Node, state: &State, cut_off: &Desired) -> Result<Self, kiln_host::Error> {
        let link = Generations::of(&node.root).current()?;
        let manifest = remembered(node, state, link.as_deref())?;
        let blocks = cut_off.blocks.iter().map(|block| Block { text: String::new(), ..block.clone() }).collect();
        let desired = Desired { blocks, ..Desired::default() };
        let observed = observe(&node.root, &desired, manifest)?;
        let mut plan = Plan::of(None, &NodeConfig::default(), &desired, &observed);
        plan.steps.retain(is_return);
        let (units, new_texts) = (BTreeSet::new(), Vec::new());
        Ok(Self { folder: String::new(), desired, plan, units, in_force: None, new_texts })
    }
}

/// Whether a step only puts something back.
fn is_return(step: &Step) -> bool {
    matches!(
        step,
        Step::PutBack { .. } | Step::Edit { .. } | Step::Set(_) | Step::BlockMetadata { .. } | Step::Retire { .. }
    )
}
