//! `kilnd boot`: at a first boot it finds the document and applies it; at later boots it puts the committed generation in force at once,
//! without a network.
//!
//! The gate is the file `/run/kiln/ready`. The units of kubelet and containerd have `ConditionPathExists=` on it, so they do not start on
//! a node whose configuration is missing, incomplete or another machine's. The file is in `/run` and therefore gone after every reboot: each
//! boot has to open the gate again. The file contains the kernel's id of the boot in which it was written. If that is this boot, the node is
//! live and `kilnd boot` changes nothing: a unit can be restarted at any time, by a person or by a package.
//!
//! [`kind`] is what `kilnd identity` decided about this boot, [`early_network`] lets a first boot reach the metadata service before the
//! image's network is up, [`programs`] checks that the image's own drop-ins do not win over kiln's, and [`platform`] fills in the host name and the first account if the document leaves them to the platform.

pub mod early_network;
pub mod kind;
pub mod platform;
pub mod programs;
pub mod retry;

use kiln_node_config::spec::CredentialKind;
use kiln_node_plan::layout::{CUSTOM_DATA, LOCK, READY};
use kiln_node_plan::{Admission, DesiredFile, Generation, Revert, State, Step};
use kiln_types::SecretBytes;

use crate::apply::candidate::{Candidate, CandidateError};
use crate::apply::transition::{Phase, Transition};
use crate::apply::{self, load_state, prune, services, store};
use crate::identity;
use crate::node::Node;
use crate::os::{self, Durability, Generations, Lock, notify, priority};
use crate::provisioning;
use crate::sources::{self, FoundDocument, NoDocument, Rules, VmId};
use crate::status::{Outcome, Status};
use early_network::EarlyNetwork;
use kind::BootKind;
use platform::Platform;
use programs::ForeignProgram;

/// Why a machine did not become a node. The gate stays closed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(transparent)]
    NoDocument(#[from] NoDocument),
    #[error("the document from {source_name} was rejected")]
    Rejected {
        source_name: String,
        #[source]
        source: CandidateError,
    },
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error(
        "this disk was cloned from machine {recorded}, and its identity was not reset on this machine ({machine})\nhint: run `kilnd identity`, or enable `kiln-identity.service`"
    )]
    Clone { recorded: String, machine: String },
    #[error(transparent)]
    ForeignProgram(#[from] ForeignProgram),
    #[error("cannot determine whether this disk was cloned: the VM id is unreadable")]
    Unknown(#[source] sources::Error),
}

impl BootError {
    /// Whether the machine needs another document or another image. Other causes may pass.
    pub fn is_final(&self) -> bool {
        let is_final = |error: &apply::Error| {
            matches!(
                error,
                apply::Error::Incompatible(_)
                    | apply::Error::Image(_)
                    | apply::Error::BadCredential { .. }
                    | apply::Error::CredentialExposed { .. }
                    | apply::Error::CredentialOwner { .. }
                    | apply::Error::NoCredential { .. }
            )
        };
        match self {
            Self::Rejected { .. } | Self::Clone { .. } | Self::ForeignProgram(_) => true,
            Self::Apply(error) => is_final(error),
            Self::NoDocument(_) | Self::Unknown(_) => false,
        }
    }
}

impl From<os::Error> for BootError {
    fn from(error: os::Error) -> Self {
        Self::Apply(error.into())
    }
}

/// Boots the machine as a node.
pub fn boot(node: &Node) -> Result<Status, BootError> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let (kind, id) = kind(node)?;
    let state = load_state(node)?;
    if state.in_force().is_some() && is_gate_open(node)? {
        return restart(node, &state, id.as_ref());
    }
    match kind {
        BootKind::Again if state.in_force().is_some() => later_boot(node, state),
        // A machine without a generation is configured from scratch, even if its VM id is recorded.
        _ => first_boot(node, &state, id.as_ref()),
    }
}

/// The kind of this boot, as `kilnd identity` recorded it, else from the VM ids. A clone that was not reset is an error.
fn kind(node: &Node) -> Result<(BootKind, Option<VmId>), BootError> {
    let machine = sources::vm_id(&node.endpoints);
    let recorded = identity::recorded(node)?;
    if let Some(record) = node.boot()? {
        let id = record.vm_id.and_then(|id| id.parse().ok()).or(machine.ok());
        // The kind is that of the start of this boot. Once the first boot has recorded this machine, it is over.
        let is_recorded = recorded.as_deref().is_some_and(|recorded| is_machine(recorded, id.as_ref()));
        return Ok((if is_recorded { BootKind::Again } else { record.kind }, id));
    }
    match (recorded, machine) {
        (None, machine) => Ok((BootKind::First, machine.ok())),
        (Some(recorded), Ok(machine)) => match recorded.parse::<VmId>() {
            Ok(id) if id.is_same_machine(&machine) => Ok((BootKind::Again, Some(machine))),
            _ => Err(BootError::Clone { recorded, machine: machine.to_string() }),
        },
        (Some(_), Err(error)) => Err(BootError::Unknown(error)),
    }
}

/// Whether a recorded VM id is that of this machine.
fn is_machine(recorded: &str, machine: Option<&VmId>) -> bool {
    let same = |machine: &VmId| recorded.parse::<VmId>().is_ok_and(|id| id.is_same_machine(machine));
    machine.is_some_and(same)
}

/// Whether the gate was opened in this boot.
fn is_gate_open(node: &Node) -> Result<bool, os::Error> {
    let boot = node.boot_id();
    let written = node.root.read_if_exists(READY)?.unwrap_or_default();
    Ok(!boot.is_empty() && written == boot.as_bytes())
}

/// A restart of the unit on a live node. Only what an interrupted boot left undone is done.
fn restart(node: &Node, state: &State, id: Option<&VmId>) -> Result<Status, BootError> {
    node.log.info("the gate is open: nothing to do");
    notify_ready(node);
    if let Err(error) = services::start_skipped_kubelet(node) {
        node.log.warn(format!("cannot start the kubelet: {error}"));
    }
    let recorded = identity::recorded(node)?;
    if id.is_some() && !recorded.as_deref().is_some_and(|recorded| is_machine(recorded, id)) {
        record_owner(node, id);
    }
    Ok(Status::new("boot", Outcome::Unchanged, state))
}

fn record_owner(node: &Node, id: Option<&VmId>) {
    if let Err(error) = store::record_owner(&node.root, id) {
        node.log.warn(format!("cannot record the VM id, so the next boot is a first boot again: {error}"));
    }
}

/// A first boot. Nothing waits for the disk before the kubelet may start. The VM id is recorded last: a boot that is interrupted before
/// that is a first boot again.
///
/// `left` is the state that an interrupted attempt or a donor left behind. It does not rank the document; it only locates the manifests
/// that know what was on the disk before kiln.
fn first_boot(node: &Node, left: &State, id: Option<&VmId>) -> Result<Status, BootError> {
    let seed = id.map_or(0, VmId::number);
    // Kept until the end of the boot: the platform's metadata is read over the same network.
    let network = EarlyNetwork::new(node, seed);
    let found = node.log.step("find the document", || {
        let mut announce = || provisioning::report_preprovisioned(node);
        sources::find_announced(&node.endpoints, Rules::IMDS, &network, seed, &mut announce)
            .or_else(|error| saved_custom_data(node).ok_or(error))
    })?;
    for lookup in &found.lookups {
        node.log.info(&format!("{}: {}", lookup.source, lookup.result));
    }
    let source = found.source.to_string();
    let candidate = Candidate::read(node, &found.document, &source)
        .map_err(|error| BootError::Rejected { source_name: source.clone(), source: error })?;
    let mut state = first_state(left, &candidate)
        .map_err(|error| BootError::Rejected { source_name: source.clone(), source: error })?;
    let credential = found.credential.clone();
    if credential.is_some() && candidate.config.spec.credential_from.kind != CredentialKind::CustomData {
        node.log.warn("the credential in the custom data is not used: `spec.credentialFrom` names another source");
    }
    let plan = || Transition::first(node, left, &candidate.config, &candidate.folder(), credential);
    let transition = node.log.step("plan", plan)?;
    transition.prepare(node, Phase::FirstBoot)?;
    candidate.start_trial(&mut state, &node.boot_id());
    store::save(&node.root, &state, Durability::Later)?;
    transition.run(node, Phase::FirstBoot)?;
    let platform = Platform::query(node, &found, &candidate.config, &network, seed);
    platform.apply(node, &candidate.config)?;
    for field in candidate.config.unknown_fields() {
        node.log.warn(format!("unknown field `{field}` is ignored"));
    }
    open_gate(node)?;
    // The kubelet starts now. The rest is for later boots.
    if let Err(error) = save_custom_data(node, &found) {
        node.log.warn(format!("cannot save the custom data: {error}"));
    }
    record_owner(node, id);
    platform.note_image(node, id);
    prune(node, &state);
    let mut status = Status::new("boot", Outcome::Applied, &state);
    status.pending = transition.plan.requests.iter().map(ToString::to_string).collect();
    Ok(status)
}

/// The state that a first boot starts with. Only the record of signed documents is kept, if it is this machine's: an interrupted first boot
/// must not accept an older document than the one it was interrupted with.
fn first_state(left: &State, candidate: &Candidate) -> Result<State, CandidateError> {
    let Some(signed) = &candidate.signed else { return Ok(State::default()) };
    let state = State { signed: left.signed_by(&signed.machine).cloned(), ..State::default() };
    match candidate.admission(&state) {
        Admission::Replayed { by } => {
            Err(CandidateError::Replayed { number: candidate.config.metadata.generation, by })
        }
        _ => Ok(state),
    }
}

/// Saves the custom data of this machine. Azure detaches the provisioning media, but an interrupted first boot and `kilnd inspect` need it.
fn save_custom_data(node: &Node, found: &FoundDocument) -> Result<(), os::Error> {
    match found.ovf.as_ref().and_then(|ovf| ovf.custom_data.as_ref()) {
        Some(bytes) => node.root.write_all(&[DesiredFile::secret(CUSTOM_DATA, bytes.clone())], Durability::Later),
        None => Ok(()),
    }
}

/// The document in custom data that an interrupted first boot saved. A clone has none: `kilnd identity` removes the donor's.
fn saved_custom_data(node: &Node) -> Option<FoundDocument> {
    let bytes = node.root.read_if_exists(CUSTOM_DATA).ok().flatten()?;
    sources::find_saved(SecretBytes::new(bytes))
}

/// A later boot puts the generation of the state in force. If a file cannot be restored, kilnd warns and the kubelet starts anyway, since it
/// ran with this state before. A link to another generation keeps the gate closed, and so does a missing disk on which the kubelet keeps its
/// data: it would start on the OS disk.
fn later_boot(node: &Node, mut state: State) -> Result<Status, BootError> {
    let before = state.clone();
    let revert = state.note_boot(&node.boot_id());
    if state != before {
        store::save(&node.root, &state, Durability::Now)?;
    }
    let outcome = match revert {
        Some(Revert::To(generation)) => {
            node.log.warn(format!(
                "reverted to generation {}: the machine rebooted twice during the trial",
                generation.number
            ));
            Outcome::Reverted
        }
        _ => Outcome::Verified,
    };
    if let Some(generation) = state.in_force()
        && let Err(error) = node.log.step("verify", || verify(node, &state, generation))
    {
        let is_in_force = Generations::new(&node.root).current()?.as_deref() == Some(&generation.folder);
        if !is_in_force || matches!(&error, BootError::Apply(error) if error.is_early_mount()) {
            return Err(error);
        }
        node.log.warn(format!("the node differs from its document: {error}"));
    }
    open_gate(node)?;
    Ok(Status::new("boot", outcome, &state))
}

fn verify(node: &Node, state: &State, generation: &Generation) -> Result<(), BootError> {
    let Some(config) = store::document(&node.root, &generation.folder)? else {
        let path = format!("{}/config.json", Generations::folder(&generation.folder));
        return Err(
            os::Error::Path { path, why: "the document of the generation in force is missing or unreadable" }.into()
        );
    };
    let transition = Transition::to(node, state, &config, &generation.folder, Phase::Boot)?;
    // Kernel settings and routing rules do not survive a reboot, and after a revert everything differs. Other differences are worth a warning.
    let link = Generations::new(&node.root).current()?;
    let is_persistent =
        |step: &&Step| !matches!(step, Step::SetKernel(_) | Step::BlockService { .. } | Step::SetHostName { .. });
    if link.as_deref() == Some(&generation.folder) {
        for step in transition.plan.steps.iter().filter(is_persistent) {
            node.log.warn(format!("changed since the last boot: {step}"));
        }
    }
    transition.prepare(node, Phase::Boot)?;
    transition.run(node, Phase::Boot)?;
    Ok(())
}

fn notify_ready(node: &Node) {
    if let Err(error) = notify::notify("READY=1\nSTATUS=the configuration is in force") {
        node.log.warn(format!("cannot notify systemd: {error}"));
    }
}

/// Opens the gate, notifies systemd, and starts the kubelet if systemd has skipped it already. The gate stays closed if kubelet or containerd
/// would not run with the configuration that is in force now.
fn open_gate(node: &Node) -> Result<(), BootError> {
    programs::check(node)?;
    node.root.write_all(&[DesiredFile::new(READY, node.boot_id(), 0o644)], Durability::Later)?;
    notify_ready(node);
    // The unit has a high priority because the kubelet waits for kilnd. From here on the kubelet does not wait any more, so systemd goes
    // first and the remaining writes can take longer.
    if let Err(error) = priority::lower() {
        node.log.warn(format!("cannot lower the priority of kilnd: {error}"));
    }
    if let Err(error) = services::start_kubelet(node) {
        node.log.warn(format!("cannot start the kubelet: {error}"));
    }
    Ok(())
}
