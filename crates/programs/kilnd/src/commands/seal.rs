//! Preparing a disk to become an image: the same list as a clone's first boot, done before instead of after; and seeing that it was.

use crate::os::{Durability, Root};
use kiln_node_plan::layout::{CURRENT, GENERATIONS, STATE, VM_ID};
use kiln_node_plan::{DesiredFile, Treatment};
use kiln_types::JoinCredential;
use serde::Serialize;

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity::{self, INITIATOR, IQN_PREFIX, IdentityError, MACHINE_ID, UNINITIALIZED, items, join};
use crate::log::error_chain;
use crate::node::Node;

/// Written over rather than removed; the host name of an image is nobody's.
const REPLACED: [&str; 3] = [MACHINE_ID, INITIATOR, "/etc/netplan/50-cloud-init.yaml"];

/// Why a disk is not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Its identity cannot be taken away.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No machine made of it could join.
    #[error("how this node joined is unknown ({why}); a machine of this image may not join")]
    Credential {
        /// What was found.
        why: String,
    },
}

impl From<crate::os::Error> for SealError {
    fn from(error: crate::os::Error) -> Self {
        Self::Identity(error.into())
    }
}

/// Something that an image must not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The item of the list, or what it is.
    pub item: String,
    pub path: String,
}

/// `kilnd seal`.
pub fn run(node: &Node, yes: bool, check: bool, output: Output) -> CommandResult {
    let found = match find(&node.root) {
        Ok(found) => found,
        Err(error) => return fail(node, &error),
    };
    if check || !yes {
        let code = if found.is_empty() { DONE } else { FAILED };
        let mut ending = CommandResult { code, text: tell(&found, output) };
        if !check && !found.is_empty() && output == Output::Text {
            ending.text.push_str("nothing was changed; `kilnd seal --yes` takes all of this away\n");
        }
        return ending;
    }
    match seal(node) {
        Ok(()) => {
            let text =
                if output == Output::Json { "{\"sealed\":true}\n" } else { "sealed: shut the machine down now\n" };
            CommandResult { code: DONE, text: text.to_owned() }
        }
        Err(error) => fail(node, &error),
    }
}

/// Everything that an image must not have and this disk has.
pub fn find(root: &Root) -> Result<Vec<Finding>, SealError> {
    let mut found = Vec::new();
    for item in items::all(root)?.into_iter().filter(|item| item.treatment != Treatment::Keep) {
        for path in item.telling(root)? {
            found.push(Finding { item: item.name.clone(), path });
        }
    }
    for (item, path) in
        [("owner", VM_ID), ("kiln state", STATE), ("kiln generation", CURRENT), ("kiln generation", GENERATIONS)]
    {
        if root.kind(path)?.is_some() {
            found.push(Finding { item: item.to_owned(), path: path.to_owned() });
        }
    }
    if let Some(JoinCredential::BootstrapToken { token_id, .. }) = join::credential(root)? {
        found.push(Finding { item: "join credential".to_owned(), path: format!("bootstrap token {token_id}") });
    }
    for (path, _) in join::named(root)?.into_iter().filter(|(_, is_token)| *is_token) {
        found.push(Finding { item: "join credential".to_owned(), path });
    }
    Ok(found)
}

/// Takes the identity away. Whose disk it is goes last: what is cut off before that is the same machine, or a clone, and never a new disk
/// with an old identity.
pub fn seal(node: &Node) -> Result<(), SealError> {
    let root = &node.root;
    if let Some(JoinCredential::Unknown { why }) = join::credential(root)? {
        return Err(SealError::Credential { why });
    }
    let cleaned =
        node.log.step("take the identity away", || identity::clean(root, &REPLACED, |line| node.log.info(line)))?;
    node.log.info(&format!("seal: {}; {}", cleaned.items.join(", "), cleaned.credential));
    let machine_id = format!("{UNINITIALIZED}\n");
    let mut files = vec![DesiredFile::new(MACHINE_ID, machine_id, 0o444)];
    let named = root.read_if_exists(INITIATOR)?.unwrap_or_default();
    if String::from_utf8_lossy(&named).contains(IQN_PREFIX) {
        // What the package itself puts there: its start draws a name.
        files.push(DesiredFile::new(INITIATOR, b"GenerateName=yes\n", 0o600));
    }
    root.write_all(&files, Durability::Now)?;
    identity::neutralise(root)?;
    root.remove(CURRENT, Durability::Later)?;
    root.remove_tree(GENERATIONS)?;
    root.sync(&["/"])?;
    root.remove(VM_ID, Durability::Now)?;
    Ok(())
}

fn tell(found: &[Finding], output: Output) -> String {
    if output == Output::Json {
        return format!("{}\n", serde_json::json!({ "sealed": found.is_empty(), "found": found }));
    }
    if found.is_empty() {
        return "sealed\n".to_owned();
    }
    found.iter().fold(String::new(), |text, one| text + &format!("{}: {}\n", one.item, one.path))
}

fn fail(node: &Node, error: &SealError) -> CommandResult {
    node.log.error(&format!("seal: {}", error_chain(error).join(": ")));
    CommandResult { code: FAILED, text: String::new() }
}
