//! What a start of the machine needs: at the first one the document is found and put in force; at later ones what was in force is, at
//! once and without a network.

use kiln_guest::{Found, NotFound, Rules, VmId};
use kiln_host::{Durability, Generations, Lock, Placed, notify, priority};
use kiln_node_config::spec::CredentialKind;
use kiln_node_plan::layout::{CUSTOM_DATA, LOCK, READY, VM_ID};
use kiln_node_plan::{Generation, Return, State, Step};
use kiln_types::SecretBytes;

use crate::act::ActError;
use crate::apply::{NotThere, prune, remembered};
use crate::boot_kind::BootKind;
use crate::network::Early;
use crate::node::Node;
use crate::offer::{NotTaken, Offered};
use crate::platform::Platform;
use crate::status::{Outcome, Status};
use crate::way::{NoWay, Pace, Way};
use crate::{services, store};

/// What keeps a machine from becoming a node. The gate stays shut.
#[derive(Debug, thiserror::Error)]
pub enum NotBooted {
    /// Nobody has a document.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The document is not taken.
    #[error("the document from {source_name} is not taken")]
    NotTaken {
        /// Where it was.
        source_name: String,
        #[source]
        source: NotTaken,
    },
    /// There is no way to it.
    #[error(transparent)]
    NoWay(#[from] NoWay),
    /// A step failed.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The disk belongs to another machine, and nobody reset it.
    #[error(
        "the disk belongs to the machine {recorded} and this is {machine}; `kilnd identity` makes a clone a machine of its own and must run first"
    )]
    Clone {
        /// The recorded id.
        recorded: String,
        /// This machine's.
        machine: String,
    },
    /// Nobody can say whether this is a clone.
    #[error("the disk belongs to a machine, and whether this is it cannot be told")]
    Unknown(#[source] kiln_guest::GuestError),
    /// The node's own files cannot be read or written.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
}

impl From<NotThere> for NotBooted {
    fn from(error: NotThere) -> Self {
        match error {
            NotThere::NoWay(error) => Self::NoWay(error),
            NotThere::Act(error) => Self::Act(error),
        }
    }
}

/// Starts a machine as a node.
pub fn boot(node: &Node) -> Result<Status, NotBooted> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let (kind, id) = kind(node)?;
    let state = remembered(node)?;
    match kind {
        BootKind::Again if state.in_force().is_some() => again(node, state),
        // A machine that forgot everything but its name is as good as new.
        _ => first(node, &state, id.as_ref()),
    }
}

/// What this boot is: by `kilnd identity`, else by the ids themselves. A clone that nobody reset goes no further.
fn kind(node: &Node) -> Result<(BootKind, Option<VmId>), NotBooted> {
    let machine = kiln_guest::vm_id(&node.endpoints);
    if let Some(record) = node.boot()? {
        return Ok((record.kind, record.vm_id.and_then(|id| id.parse().ok()).or(machine.ok())));
    }
    let recorded = node.root.read_if_there(VM_ID)?;
    let recorded = recorded.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|id| !id.is_empty());
    match (recorded, machine) {
        (None, machine) => Ok((BootKind::First, machine.ok())),
        (Some(recorded), Ok(machine)) => match recorded.parse::<VmId>() {
            Ok(id) if id.is_same_machine(&machine) => Ok((BootKind::Again, Some(machine))),
            _ => Err(NotBooted::Clone { recorded, machine: machine.to_string() }),
        },
        (Some(_), Err(error)) => Err(NotBooted::Unknown(error)),
    }
}

/// The first boot of a machine. Nothing waits for the disk before the kubelet may start, and whose disk it is comes last: what is cut off
/// before that is a first boot again.
///
/// `left` is what an attempt that was cut off, or a donor, left of a state: it does not rank, it only says where to look for what stood
/// there before.
fn first(node: &Node, left: &State, id: Option<&VmId>) -> Result<Status, NotBooted> {
    let chance = id.map_or(0, VmId::number);
    // Until the end of this: what the platform says besides is asked for over the same network.
    let network = Early::of(node, chance);
    let found = node.journal.step("find the document", || {
        kiln_guest::find(&node.endpoints, Rules::IMDS, &network, chance).or_else(|lost| kept(node).ok_or(lost))
    })?;
    for look in &found.looked {
        node.journal.say(&format!("{}: {}", look.source, look.found));
    }
    let source = found.source.to_string();
    let offered = Offered::read(&node.root, &found.document, &source)
        .map_err(|error| NotBooted::NotTaken { source_name: source.clone(), source: error })?;
    let mut state = State::default();
    let folder = offered.folder();
    let given = found.credential.clone();
    if given.is_some() && offered.config.spec.credential_from.kind != CredentialKind::CustomData {
        node.journal.warn("the credential beside the document is not used: `spec.credentialFrom` says another place");
    }
    let way = node.journal.step("plan", || Way::first(node, left, &offered.config, &folder, given))?;
    way.prepare(node, Pace::FirstBoot)?;
    state.tried(Generation {
        number: offered.config.metadata.generation,
        hash: offered.hash.clone(),
        folder,
        source: offered.source.clone(),
    });
    store::save(&node.root, &state, Durability::Later)?;
    way.go(node, Pace::FirstBoot)?;
    let platform = Platform::of(node, &found, &offered.config, &network, chance);
    platform.settle(node, &offered.config)?;
    for field in offered.config.unknown_fields() {
        node.journal.warn(format!("`{field}` is not known to this version and does nothing"));
    }
    open(node)?;
    // From here on the kubelet starts; what follows is for the next time.
    if let Err(error) = keep(node, &found) {
        node.journal.warn(format!("the custom data is not kept: {error}"));
    }
    if let Err(error) = store::settle(&node.root, id) {
        node.journal.warn(format!("the next start is a first boot again: {error}"));
    }
    platform.note_image(node, id);
    prune(node, &state);
    let mut status = Status::of("boot", Outcome::Applied, &state);
    status.pending = way.plan.asks.iter().map(ToString::to_string).collect();
    Ok(status)
}

/// Keeps the custom data of this machine: the medium goes, and who is cut off before the end looks for it again, as `kilnd inspect` does.
fn keep(node: &Node, found: &Found) -> Result<(), kiln_host::Error> {
    match found.ovf.as_ref().and_then(|ovf| ovf.custom_data.as_ref()) {
        Some(bytes) => node.root.write_all(&[Placed::new(CUSTOM_DATA, bytes.expose(), 0o600)], Durability::Later),
        None => Ok(()),
    }
}

/// What a first boot that was cut off had kept. A clone has nothing of its donor's there: `kilnd identity` took it away.
fn kept(node: &Node) -> Option<Found> {
    let bytes = node.root.read_if_there(CUSTOM_DATA).ok().flatten()?;
    kiln_guest::find_kept(SecretBytes::new(bytes))
}

/// A later boot: what was in force is. A file that cannot be put right is said, and the kubelet starts all the same, since it ran with
/// this before; only a link that names another generation keeps the gate shut.
fn again(node: &Node, mut state: State) -> Result<Status, NotBooted> {
    let before = state.clone();
    let returned = state.restarted();
    if state != before {
        store::save(&node.root, &state, Durability::Now)?;
    }
    let outcome = match returned {
        Some(Return::To(generation)) => {
            node.journal
                .warn(format!("generation {} is in force again: the one on trial saw two restarts", generation.number));
            Outcome::Returned
        }
        _ => Outcome::Verified,
    };
    if let Some(generation) = state.in_force()
        && let Err(error) = node.journal.step("verify", || verify(node, &state, generation))
    {
        if Generations::of(&node.root).current()?.as_deref() != Some(&generation.folder) {
            return Err(error);
        }
        node.journal.warn(format!("not everything is as the document says: {error}"));
    }
    open(node)?;
    Ok(Status::of("boot", outcome, &state))
}

fn verify(node: &Node, state: &State, generation: &Generation) -> Result<(), NotBooted> {
    let Some(config) = store::document(&node.root, &generation.folder)? else {
        let path = format!("{}/config.json", Generations::folder(&generation.folder));
        return Err(kiln_host::Error::Path { path, why: "the generation in force is gone, or cannot be read" }.into());
    };
    let way = Way::to(node, state, &config, &generation.folder, Pace::Boot)?;
    // Settings of the kernel and rules of its routing last until the next start, and who went back finds everything otherwise.
    let link = Generations::of(&node.root).current()?;
    let lasts = |step: &&Step| !matches!(step, Step::Set(_) | Step::BlockMetadata { .. } | Step::HostName { .. });
    let left = way.plan.steps.iter().filter(lasts);
    if link.as_deref() == Some(&generation.folder) {
        left.for_each(|step| node.journal.warn(format!("not as it was left: {step}")));
    }
    way.prepare(node, Pace::Boot)?;
    way.go(node, Pace::Boot)?;
    Ok(())
}

/// Opens the gate, tells systemd, and starts the kubelet where its turn has passed.
fn open(node: &Node) -> Result<(), NotBooted> {
    node.root.write_all(&[Placed::new(READY, b"", 0o644)], Durability::Later)?;
    if let Err(error) = notify::notify("READY=1\nSTATUS=the configuration is in force") {
        node.journal.warn(format!("systemd was not told: {error}"));
    }
    // The unit lets this program go first, because the kubelet waits for it. Now it does not any more: PID 1 is to start it at once, and
    // what is left to write can wait.
    if let Err(error) = priority::give_way() {
        node.journal.warn(format!("the kubelet may start later than it could: {error}"));
    }
    if let Err(error) = services::open_gate(node) {
        node.journal.warn(format!("the kubelet was not started: {error}"));
    }
    Ok(())
}
