//! Everything outside that a command may touch, made once from the command line.

use std::path::{Path, PathBuf};

use crate::os::{Durability, Placed, Root};
use crate::sources::Endpoints;
use kiln_node_plan::layout::{BOOT, STATUS};

use crate::args::Places;
use crate::boot::kind::BootRecord;
use crate::log::Journal;
use crate::sources::Scaled;
use crate::status::Status;

/// The port that nobody may use: asked for, it is refused at once.
const NOBODY: &str = "http://127.0.0.1:1";

/// A node and its surroundings.
#[derive(Debug)]
pub struct Node {
    pub root: Root,
    /// Where it asks its platform.
    pub endpoints: Endpoints,
    /// Where PID 1 listens; a folder that nobody booted has none.
    pub systemd: Option<PathBuf>,
    /// Where the kernel describes its links; without it nothing is put on them.
    pub links: Option<PathBuf>,
    pub wait: Scaled,
    /// Where it says what it does.
    pub journal: Journal,
}

impl Node {
    /// Opens the root; touches nothing else.
    pub fn open(places: &Places) -> Result<Self, crate::os::Error> {
        let root = Root::open(&places.root)?;
        let usual = usual_endpoints(&root);
        let endpoints = Endpoints {
            imds: places.imds.clone().unwrap_or(usual.imds),
            wire_server: places.wire_server.clone().unwrap_or(usual.wire_server),
            dmi: places.dmi.clone().unwrap_or(usual.dmi),
            cd: if places.cd.is_empty() { usual.cd } else { places.cd.clone() },
            credentials: places.credentials.clone().unwrap_or(usual.credentials),
        };
        // systemd connects standard error to its journal and says so.
        let levels = std::env::var_os("JOURNAL_STREAM").is_some();
        Ok(Self {
            root,
            endpoints,
            systemd: places.systemd.clone(),
            links: places.links.clone(),
            wait: Scaled { scale: places.time_scale },
            journal: Journal::new(now, levels),
        })
    }

    /// What `kilnd identity` said of this boot; nothing where it did not run.
    pub fn boot(&self) -> Result<Option<BootRecord>, crate::os::Error> {
        let bytes = self.root.read_if_there(BOOT)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Replaces the status with this one, and adds what the journal collected. A status that cannot be written is said and is no failure
    /// of what it reports.
    pub fn report(&self, mut status: Status) -> Status {
        status.boot = self.boot().ok().flatten().map(|record| record.kind.as_str().to_owned());
        status.steps = self.journal.take_steps();
        status.warnings.extend(self.journal.take_warnings());
        let bytes = status.to_json();
        if let Err(error) = self.root.write_all(&[Placed::new(STATUS, &bytes, 0o644)], Durability::Later) {
            self.journal.fail(&format!("the status cannot be written: {error}"));
        }
        status
    }
}

/// Where a machine asks. The services of this machine's platform speak of this machine and not of a folder on it, so that a folder has
/// none unless somebody names them; and what lies in files lies below the folder.
fn usual_endpoints(root: &Root) -> Endpoints {
    let usual = Endpoints::default();
    if root.is_host() {
        return usual;
    }
    let below = |path: &Path| root.path().join(path.strip_prefix("/").unwrap_or(path));
    Endpoints {
        imds: NOBODY.to_owned(),
        wire_server: NOBODY.to_owned(),
        dmi: below(&usual.dmi),
        cd: usual.cd.iter().map(|path| below(path)).collect(),
        credentials: below(&usual.credentials),
    }
}

fn now() -> u64 {
    u64::try_from(crate::os::clock::boot_time().as_micros()).unwrap_or(u64::MAX)
}
