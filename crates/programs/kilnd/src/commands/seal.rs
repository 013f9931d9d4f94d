//! `kilnd seal`: removes the identity from a disk that becomes an image, by the same list as the reset of a clone, or verifies it.

use crate::os::{Durability, Root};
use kiln_node_plan::layout::{CURRENT, GENERATIONS, STATE, VM_ID};
use kiln_node_plan::{DesiredFile, Treatment};
use kiln_types::JoinCredential;
use serde::Serialize;

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity::{self, INITIATOR, IQN_PREFIX, IdentityError, MACHINE_ID, UNINITIALIZED, items, join};
use crate::node::Node;

/// Replaced instead of deleted.
const REPLACED: [&str; 2] = [MACHINE_ID, INITIATOR];

/// Why a disk was not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("cannot determine how this node joined ({why}), so machines with this image may fail to join")]
    Credential { why: String },
}

impl From<crate::os::Error> for SealError {
    fn from(error: crate::os::Error) -> Self {
        Self::Identity(error.into())
    }
}

/// Identity that an image must not contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the item.
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
        let mut result = CommandResult { code, text: list(&found, output) };
        if !check && !found.is_empty() && output == Output::Text {
            result.text.push_str("nothing was changed\nhint: run `kilnd seal --yes` to delete all of this\n");
        }
        return result;
    }
    match seal(node) {
        Ok(()) => {
            let text =
                if output == Output::Json { "{\"sealed\":true}\n" } else { "sealed; shut down the machine now\n" };
            CommandResult { code: DONE, text: text.to_owned() }
        }
        Err(error) => fail(node, &error),
    }
}

/// The identity on this disk.
pub fn find(root: &Root) -> Result<Vec<Finding>, SealError> {
    let mut found = Vec::new();
    for item in items::all(root)?.into_iter().filter(|item| item.treatment != Treatment::Keep) {
        for path in item.paths_with_identity(root)? {
            found.push(Finding { item: item.name.clone(), path: path.to_string_lossy().into_owned() });
        }
    }
    for (item, path) in
        [("owner", VM_ID), ("kiln state", STATE), ("kiln generation", CURRENT), ("kiln generation", GENERATIONS)]
    {
        if root.kind(path)?.is_some() {
            found.push(Finding { item: item.to_owned(), path: path.to_owned() });
        }
    }
    match join::credential(root)? {
        Some(JoinCredential::BootstrapToken { token_id, .. }) => {
            found.push(Finding { item: "join credential".to_owned(), path: format!("bootstrap token {token_id}") });
        }
        Some(JoinCredential::NodeCertificate { path }) => {
            found.push(Finding { item: "join credential".to_owned(), path });
        }
        _ => {}
    }
    for (path, _) in join::credential_files(root)?.into_iter().filter(|(_, is_token)| *is_token) {
        found.push(Finding { item: "join credential".to_owned(), path });
    }
    Ok(found)
}

/// Deletes the identity. The recorded owner is deleted last: if kilnd is interrupted, the disk is still that of the same machine or of a clone,
/// never a disk without an owner but with an old identity.
pub fn seal(node: &Node) -> Result<(), SealError> {
    let root = &node.root;
    if let Some(JoinCredential::Unknown { why }) = join::credential(root)? {
        return Err(SealError::Credential { why });
    }
    let cleaned =
        node.log.step("delete the identity", || identity::clean(root, &REPLACED, |line| node.log.info(line)))?;
    node.log.info(&format!("seal: {}; {}", cleaned.items.join(", "), cleaned.credential));
    let machine_id = format!("{UNINITIALIZED}\n");
    let mut files = vec![DesiredFile::new(MACHINE_ID, machine_id, 0o444)];
    let named = root.read_if_exists(INITIATOR)?.unwrap_or_default();
    if String::from_utf8_lossy(&named).contains(IQN_PREFIX) {
        // As in the package: a name is generated at the next start.
        files.push(DesiredFile::new(INITIATOR, b"GenerateName=yes\n", 0o600));
    }
    root.write_all(&files, Durability::Now)?;
    root.remove(CURRENT, Durability::Later)?;
    root.remove_tree(GENERATIONS)?;
    root.sync(&["/"])?;
    root.remove(VM_ID, Durability::Now)?;
    Ok(())
}

fn list(found: &[Finding], output: Output) -> String {
    if output == Output::Json {
        return format!("{}\n", serde_json::json!({ "sealed": found.is_empty(), "found": found }));
    }
    if found.is_empty() {
        return "sealed\n".to_owned();
    }
    found.iter().fold(String::new(), |text, one| text + &format!("{}: {}\n", one.item, one.path))
}

fn fail(node: &Node, error: &SealError) -> CommandResult {
    node.log.report(error);
    CommandResult { code: FAILED, text: String::new() }
}
