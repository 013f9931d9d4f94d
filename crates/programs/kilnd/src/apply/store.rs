//! Stores the state and the id of the machine that owns the disk.

use crate::os::{Durability, Generations, Root};
use crate::sources::VmId;
use kiln_node_config::NodeConfig;
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::{CURRENT, DOCUMENT, ETC, STATE, VM_ID};
use kiln_node_plan::{Generation, State};

/// Only root may read the state: it names the sources of documents.
const MODE: u32 = 0o600;

/// The state, and whether it had to be recovered.
#[derive(Debug)]
pub struct Loaded {
    pub state: State,
    /// Why the state file was not used.
    pub recovered: Option<String>,
}

/// Reads the state. An unreadable file does not keep a node down while its generation exists: the link still names the generation in force,
/// which then counts as committed.
pub fn load(root: &Root) -> Result<Loaded, crate::os::Error> {
    let Some(bytes) = root.read_if_exists(STATE)? else {
        return Ok(Loaded { state: State::default(), recovered: None });
    };
    let error = match serde_json::from_slice(&bytes) {
        Ok(state) => return Ok(Loaded { state, recovered: None }),
        Err(error) => error,
    };
    let mut state = State::default();
    if let Some(folder) = Generations::new(root).current()?
        && let Some(config) = document(root, &folder)?
    {
        state.committed = Some(Generation {
            number: config.metadata.generation,
            hash: config.hash(),
            folder,
            source: "recovered".to_owned(),
        });
    }
    let recovered = Some(format!(
        "cannot parse `{STATE}` ({error}); the generation that `{CURRENT}` points at counts as committed"
    ));
    Ok(Loaded { state, recovered })
}

/// Writes the state.
pub fn save(root: &Root, state: &State, durability: Durability) -> Result<(), crate::os::Error> {
    root.write_all(&[DesiredFile::new(STATE, bytes(state), MODE)], durability)
}

/// Syncs everything that a first boot wrote, then records the machine's id. A boot that is interrupted before is a first boot again.
pub fn record_owner(root: &Root, id: Option<&VmId>) -> Result<(), crate::os::Error> {
    root.sync(&[ETC, STATE])?;
    match id {
        Some(id) => {
            let line = format!("{id}\n");
            root.write_all(&[DesiredFile::new(VM_ID, line, 0o644)], Durability::Now)
        }
        None => Ok(()),
    }
}

/// The document of a generation; none if it is missing or invalid.
pub fn document(root: &Root, folder: &str) -> Result<Option<NodeConfig>, crate::os::Error> {
    Ok(text(root, folder)?.and_then(|bytes| NodeConfig::parse(&bytes).ok()))
}

/// The same as [`document`], without parsing it again if its text is that of `likely`.
pub fn document_or(
    root: &Root,
    folder: &str,
    likely: &NodeConfig,
    likely_text: Option<&str>,
) -> Result<Option<NodeConfig>, crate::os::Error> {
    Ok(match text(root, folder)? {
        Some(bytes) if likely_text.is_some_and(|text| text.as_bytes() == bytes) => Some(likely.clone()),
        bytes => bytes.and_then(|bytes| NodeConfig::parse(&bytes).ok()),
    })
}

fn text(root: &Root, folder: &str) -> Result<Option<Vec<u8>>, crate::os::Error> {
    root.read_if_exists(format!("{}/{DOCUMENT}", Generations::folder(folder)))
}

fn bytes(state: &State) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(state).expect("state has string keys");
    text.push(b'\n');
    text
}
