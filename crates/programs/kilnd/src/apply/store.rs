//! What outlives a restart: which generation holds, and the machine that the disk belongs to.

use crate::os::{Durability, Generations, Placed, Root};
use crate::sources::VmId;
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::{CURRENT, DOCUMENT, ETC, STATE, VM_ID};
use kiln_node_plan::{Generation, State};

/// Only root reads these: they say where a document came from.
const MODE: u32 = 0o600;

/// What the disk remembers, and whether it had to be pieced together.
#[derive(Debug)]
pub struct Loaded {
    /// What the node remembers.
    pub state: State,
    /// Why it is not what was written, where it is not.
    pub recovered: Option<String>,
}

/// Reads what the node remembers. A file that cannot be read is no reason to leave a node down while its generation is there: the link
/// still says which one holds, and that one is taken for good.
pub fn load(root: &Root) -> Result<Loaded, crate::os::Error> {
    let Some(bytes) = root.read_if_there(STATE)? else {
        return Ok(Loaded { state: State::default(), recovered: None });
    };
    let error = match serde_json::from_slice(&bytes) {
        Ok(state) => return Ok(Loaded { state, recovered: None }),
        Err(error) => error,
    };
    let mut state = State::default();
    if let Some(folder) = Generations::of(root).current()?
        && let Some(config) = document(root, &folder)?
    {
        state.committed = Some(Generation {
            number: config.metadata.generation,
            hash: config.hash(),
            folder,
            source: "recovered".to_owned(),
        });
    }
    let recovered = Some(format!("`{STATE}` cannot be read ({error}); what `{CURRENT}` names is taken for good"));
    Ok(Loaded { state, recovered })
}

/// Writes what the node remembers.
pub fn save(root: &Root, state: &State, durability: Durability) -> Result<(), crate::os::Error> {
    root.write_all(&[Placed::new(STATE, &bytes(state), MODE)], durability)
}

/// Makes everything durable that a first boot wrote, and then says whose disk this is: what is cut off before that is a first boot again.
pub fn settle(root: &Root, id: Option<&VmId>) -> Result<(), crate::os::Error> {
    root.sync(&[ETC, STATE])?;
    match id {
        Some(id) => {
            let line = format!("{id}\n");
            root.write_all(&[Placed::new(VM_ID, line.as_bytes(), 0o644)], Durability::Now)
        }
        None => Ok(()),
    }
}

/// The document of a generation; none where its folder is gone or holds another thing.
pub fn document(root: &Root, folder: &str) -> Result<Option<NodeConfig>, crate::os::Error> {
    Ok(text(root, folder)?.and_then(|bytes| NodeConfig::parse(&bytes).ok()))
}

/// The same, with a document at hand that it may well be: the same text is not read again.
pub fn document_or(
    root: &Root,
    folder: &str,
    likely: &NodeConfig,
    its_text: Option<&str>,
) -> Result<Option<NodeConfig>, crate::os::Error> {
    Ok(match text(root, folder)? {
        Some(bytes) if its_text.is_some_and(|text| text.as_bytes() == bytes) => Some(likely.clone()),
        bytes => bytes.and_then(|bytes| NodeConfig::parse(&bytes).ok()),
    })
}

fn text(root: &Root, folder: &str) -> Result<Option<Vec<u8>>, crate::os::Error> {
    root.read_if_there(&format!("{}/{DOCUMENT}", Generations::folder(folder)))
}

fn bytes(state: &State) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(state).expect("a state has text for names");
    text.push(b'\n');
    text
}
