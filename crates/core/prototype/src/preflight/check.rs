//! Which blockers apply.

use std::fmt;

use kiln_types::{
    FileLine, ImageVersion, Inspection, JoinMode, Lock, OperatingSystem, Orchestration, PowerState, Provisioning,
    SecurityType, UpgradeMode, VersionState, same_region,
};
use serde::Serialize;

use super::blocker::{Blocker, BlockerKind as Kind};
use super::definition::{DefinitionChoice, DefinitionRequirements, MAX_NAME, choose_definition};
use super::input::{OriginalState, PreflightInput};
use super::pending_reboot::pending_reboot;
use crate::join::choose_join;
use crate::latest::{day_of, version_of};
use crate::provenance::{ancestors_of, not_of_this_donor, other_donor};
use crate::rollback::{self, PatchLevel, Pause, RejectedEvidence, same_patch};

/// The part of a donor's disk that must be free. The kubelet evicts pods below 10 % of `nodefs`, and a clone starts with the donor's disk.
pub const MIN_FREE_PERCENT: u64 = 10;

/// The result of the preflight check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightReport {
    pub blockers: Vec<Blocker>,
    pub warnings: Vec<Warning>,
}

/// Something that does not block a run but that the user should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Warning {
    /// A blocker that the user accepted.
    Accepted(Blocker),
    /// The pool is being changed; with the cloud's name of the state.
    PoolBusy(String),
    NoFirstBootUnit,
    /// The locks could not be read, for this reason.
    LocksUnread(String),
}

impl PreflightReport {
    /// Whether nothing blocks the run.
    pub fn is_clear(&self) -> bool {
        self.blockers.is_empty()
    }
}

/// Checks a donor for all kinds of blockers.
pub fn check(input: PreflightInput<'_>) -> PreflightReport {
    let all = [
        pool_blockers(&input),
        owner_blockers(&input),
        node_blockers(&input),
        ancestry_blockers(&input),
        version_blockers(&input),
        disk_blockers(&input),
        inspection_blockers(&input),
    ];
    let is_accepted = |blocker: &Blocker| blocker.kind.consent().is_given(input.options);
    let (accepted, mut blockers): (Vec<Blocker>, Vec<Blocker>) = all.into_iter().flatten().partition(is_accepted);
    blockers.sort_by_key(|blocker| blocker.kind);
    let mut warnings: Vec<Warning> = accepted.into_iter().map(Warning::Accepted).collect();
    if let Provisioning::InProgress(state) = &input.pool.provisioning {
        warnings.push(Warning::PoolBusy(state.clone()));
    }
    if let Err(reason) = input.locks {
        warnings.push(Warning::LocksUnread(reason.to_owned()));
    }
    if input.inspection.is_ok_and(|inspection| inspection.first_boot_unit.is_none()) {
        warnings.push(Warning::NoFirstBootUnit);
    }
    PreflightReport { blockers, warnings }
}

fn when(applies: bool, kind: Kind, found: impl Into<String>) -> Option<Blocker> {
    applies.then(|| kind.found(found))
}

fn pool_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let pool = input.pool;
    let mode = match &pool.upgrade_mode {
        UpgradeMode::Manual => None,
        UpgradeMode::Other(mode) => Some(mode.clone()),
        other => Some(format!("{other:?}")),
    };
    let blockers = [
        mode.map(|mode| Kind::UpgradePolicy.found(format!("the upgrade policy of `{}` is {mode}", pool.name))),
        when(pool.automatic_os_upgrade, Kind::AutomaticOsUpgrade, "automatic OS upgrades are enabled"),
        // These do not matter to a donor that keeps running.
        when(pool.automatic_repairs && !input.options.live, Kind::AutomaticRepairs, "automatic repairs are enabled"),
        when(
            pool.orchestration == Orchestration::Flexible,
            Kind::Flexible,
            format!("`{}` is a Flexible scale set", pool.name),
        ),
        when(pool.ephemeral_os_disk, Kind::EphemeralDisk, "the OS disk is ephemeral"),
        when(pool.capacity <= 1 && !input.options.live, Kind::PoolOfOne, format!("`{}` has one node", pool.name)),
    ];
    blockers.into_iter().flatten().collect()
}

fn regions(input: &PreflightInput<'_>) -> Option<Blocker> {
    let options = input.options;
    if !input.unknown_regions.is_empty() {
        return Some(Kind::Regions.found(format!("unknown regions: {}", input.unknown_regions.join(", "))));
    }
    let others = options.target_regions.keys().any(|name| !same_region(name, &input.pool.location));
    let set = options.disk_encryption_set.as_ref().or(input.disk.and_then(|disk| disk.encryption_set.as_ref()));
    set.filter(|_| others).map(|_| {
        Kind::Regions.found("the version is encrypted with a disk encryption set, which exists in one region only")
    })
}

fn owner_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let pauses = input.definitions.iter().filter_map(|definition| Pause::read(&definition.tags));
    let pause = pauses.into_iter().find(|pause| pause.is_active(input.today));
    let original = match input.original {
        OriginalState::Lost(reason) => {
            Some(Kind::Original.found(format!("the original recipe cannot be saved ({reason})")))
        }
        OriginalState::Saved | OriginalState::CanBeSaved => None,
    };
    let original = match input.inspection.map(|inspection| choose_join(input.options.join, inspection, input.pool)) {
        // The model keeps its custom data and scripts.
        Ok(Ok(JoinMode::Recipe)) => None,
        _ => original,
    };
    let (jobs, kured, missing) = (input.kamino_jobs, input.kured_locks, input.missing_permissions);
    let lock = |lock: &Lock| format!("{} lock `{}` on `{}`", lock.level, lock.name, lock.scope);
    let locks: Vec<String> = input.locks.unwrap_or_default().iter().map(lock).collect();
    let blockers = [
        owner(input).map(|owner| Kind::Managed.found(owner)),
        pause.map(|pause| Kind::Paused.found(format!("the pool is {pause}"))),
        when(!jobs.is_empty(), Kind::Kamino, format!("kamino is running ({})", jobs.join(", "))),
        when(!kured.is_empty(), Kind::Kured, kured.join(", ")),
        when(!missing.is_empty(), Kind::Permission, format!("missing permissions: {}", missing.join(", "))),
        when(!locks.is_empty(), Kind::Locked, locks.join(", ")),
        regions(input),
        original,
        protected_settings(input),
    ];
    blockers.into_iter().flatten().collect()
}

/// The script extensions that the run would remove for good, because their protected settings are not known.
fn protected_settings(input: &PreflightInput<'_>) -> Option<Blocker> {
    let join = input.inspection.ok().map(|inspection| choose_join(input.options.join, inspection, input.pool));
    if join == Some(Ok(JoinMode::Recipe)) {
        // The extensions stay in the model.
        return None;
    }
    let given = &input.options.protected_settings_of;
    let is_given = |name: &str| given.iter().any(|given| given.eq_ignore_ascii_case(name));
    let lost = input.pool.recipe.extensions.iter().filter(|extension| extension.loses_protected_settings());
    let lost: Vec<String> =
        lost.filter(|extension| !is_given(&extension.name)).map(|extension| format!("`{}`", extension.name)).collect();
    let found = format!("the run removes extension {}, which may have protected settings", lost.join(", "));
    when(!lost.is_empty(), Kind::ProtectedSettings, found)
}

/// The program that owns the pool, by the labels, annotations and tags that it sets.
///
/// `kubernetes.azure.com/cluster` alone does not mean AKS, because AKS Engine sets it too. On AKS its value is the resource group that AKS
/// creates, `MC_…`.
fn owner(input: &PreflightInput<'_>) -> Option<String> {
    const AKS_LABELS: [&str; 3] =
        ["kubernetes.azure.com/mode", "kubernetes.azure.com/node-image-version", "kubernetes.azure.com/nodepool-type"];
    let (tags, node) = (&input.pool.tags, input.node);
    let group = node.labels.get("kubernetes.azure.com/cluster").filter(|group| group.starts_with("MC_"));
    let aks_tag = tags.keys().find(|key| key.to_ascii_lowercase().starts_with("aks-managed-"));
    let aks_label = AKS_LABELS.iter().find(|label| node.labels.contains_key(**label)).map(ToString::to_string);
    if let Some(mark) = aks_tag.cloned().or(aks_label).or_else(|| group.cloned()) {
        return Some(format!("AKS manages the pool (`{mark}`)"));
    }
    let capi_tag =
        tags.keys().find(|key| key.to_ascii_lowercase().starts_with("sigs.k8s.io_cluster-api-provider-azure"));
    let capi = node.annotations.keys().chain(node.labels.keys()).find(|key| {
        key.split_once('/')
            .is_some_and(|(domain, _)| domain == "cluster.x-k8s.io" || domain.ends_with(".cluster.x-k8s.io"))
    });
    capi_tag.or(capi).map(|mark| format!("Cluster API manages the pool (`{mark}`)"))
}

fn node_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let node = input.node;
    let windows = node.is_windows() || input.pool.operating_system == OperatingSystem::Windows;
    let holder = node.held_by.as_deref().filter(|run| input.own_run != Some(run));
    let instance = input.instance.and_then(|instance| match (&instance.provisioning, instance.power) {
        (Provisioning::Succeeded, PowerState::Running) => None,
        (Provisioning::Succeeded, power) => Some(format!("the instance of `{}` is {power:?}", node.name)),
        (Provisioning::InProgress(state), _) => {
            Some(format!("the instance of `{}` is being changed ({state})", node.name))
        }
        _ => Some(format!("the last change of the instance of `{}` failed", node.name)),
    });
    let blockers = [
        when(
            input.instance.is_none(),
            Kind::NotInPool,
            format!("`{}` is not an instance of `{}`", node.name, input.pool.name),
        ),
        when(
            node.provider_id.as_deref().is_none_or(str::is_empty),
            Kind::NoProviderId,
            format!("`{}` has no provider ID", node.name),
        ),
        when(input.own_node == Some(node.name.as_str()), Kind::OwnNode, format!("kiln runs on `{}`", node.name)),
        when(windows, Kind::Windows, format!("`{}` runs Windows", node.name)),
        when(node.is_control_plane(), Kind::ControlPlane, format!("`{}` is a control-plane node", node.name)),
        when(!node.is_ready(), Kind::NotReady, format!("`{}` is not Ready", node.name)),
        instance.map(|found| Kind::Instance.found(found)),
        holder.map(|run| Kind::Held.found(format!("`{}` is held by run {run}", node.name))),
    ];
    blockers.into_iter().flatten().collect()
}

fn ancestry_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    for definition in input.definitions {
        let rejected = rollback::rejected_numbers(&definition.tags);
        let runs = input.instance.and_then(|instance| version_of(&instance.runs, &definition.name));
        let ancestors = runs.map(|runs| ancestors_of(runs, input.versions)).unwrap_or_default();
        if let Some(ancestor) = ancestors.iter().find(|version| rejected.contains(version)) {
            let found = format!("`{}` descends from version {ancestor}, which was rejected", input.node.name);
            blockers.push(Kind::RejectedAncestor.found(found));
        }
        let rejected = rollback::describe_rejected(&definition.tags, input.versions);
        let patch = input.inspection.map_or_else(|_| PatchLevel::from_node(input.node), PatchLevel::from_inspection);
        let evidence = rejected.iter().map(|one| RejectedEvidence::new(one, &rejected, input.contents));
        if let Some(same) = same_patch(&patch, evidence) {
            blockers.push(Kind::SamePatch.found(format!("`{}` {same}", input.node.name)));
        }
    }
    blockers
}

/// A version has the number of its day, so the disk of a second donor needs another day, or the place of the first.
fn version_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let is_today = |version: &&ImageVersion| {
        // A run deletes failed versions first.
        let stays = !matches!(version.state, VersionState::Failed | VersionState::Deleting);
        stays && day_of(&version.number) == Some(input.today)
    };
    let today = input.versions.iter().find(is_today).filter(|_| !input.options.replace_today);
    let other = today.and_then(|today| Some((&today.number, other_donor(&today.tags, &input.node.name)?)));
    other.map(|(number, other)| Kind::OtherDonor.found(not_of_this_donor(number, &other))).into_iter().collect()
}

fn disk_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let Some(disk) = input.disk else {
        let unread = !input.pool.ephemeral_os_disk && input.instance.is_some();
        let found = format!("the OS disk of `{}` cannot be read", input.node.name);
        return when(unread, Kind::NoDisk, found).into_iter().collect();
    };
    if disk.encrypted_by_extension {
        return vec![Kind::DiskEncryption.found("the OS disk is encrypted with Azure Disk Encryption")];
    }
    if let SecurityType::Confidential | SecurityType::Other(_) = disk.security_type {
        return vec![Kind::SecurityType.found(format!("the OS disk has security type {:?}", disk.security_type))];
    }
    if disk.security_type != input.pool.security_type {
        let (pool, disk) = (&input.pool.security_type, &disk.security_type);
        return vec![Kind::SecurityDiffers.found(format!("the pool is {pool:?}, the donor's OS disk {disk:?}"))];
    }
    let wanted = DefinitionRequirements::new(disk, input.pool);
    let image = &input.pool.recipe.image;
    let blocker = match choose_definition(input.definition_name, &wanted, input.definitions, image) {
        DefinitionChoice::Use(definition) if wanted.plan.is_some() && definition.plan != wanted.plan => {
            let plan = wanted.plan.map(|plan| plan.name).unwrap_or_default();
            let name = &definition.name.definition;
            Some(Kind::PurchasePlan.found(format!("image definition `{name}` lacks the pool's purchase plan `{plan}`")))
        }
        DefinitionChoice::Create(name) if name.definition.len() > MAX_NAME => {
            let length = name.definition.len();
            let found = format!("the name of image definition `{}` would have {length} characters", name.definition);
            Some(Kind::DefinitionName.found(found))
        }
        DefinitionChoice::Use(_) | DefinitionChoice::Create(_) => None,
        DefinitionChoice::Taken(all) => {
            let each = all.iter().map(|(name, mismatches)| {
                let reasons: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
                format!("`{}` ({})", name.definition, reasons.join(", "))
            });
            let each = each.collect::<Vec<_>>().join(", ");
            Some(Kind::Definition.found(format!("no image definition matches: {each}")))
        }
    };
    blocker.into_iter().collect()
}

fn inspection_blockers(input: &PreflightInput<'_>) -> Vec<Blocker> {
    let inspection: &Inspection = match input.inspection {
        Ok(inspection) => inspection,
        Err(reason) => {
            let found = format!("`{}` could not be inspected ({reason})", input.node.name);
            return vec![Kind::NotInspected.found(found)];
        }
    };
    let disk = inspection.disk;
    let full = disk.free_bytes().saturating_mul(100) < disk.size_bytes.saturating_mul(MIN_FREE_PERCENT);
    let free = (disk.free_bytes().saturating_mul(100)).checked_div(disk.size_bytes).unwrap_or(0);
    let delaying = inspection.fstab.iter().filter(|entry| entry.holds_up_a_clone());
    let mounts: Vec<&str> = delaying.map(|entry| entry.mount_point.as_str()).collect();
    let runtime = [&inspection.runtime_version, &input.node.system.runtime];
    let is_other = |runtime: &&&String| runtime.contains("://") && !runtime.starts_with("containerd://");
    let blockers = [
        when(
            full,
            Kind::DiskFull,
            format!("{free} % of the donor's disk is free; at least {MIN_FREE_PERCENT} % needed"),
        ),
        when(!mounts.is_empty(), Kind::Fstab, format!("mounted by UUID without `nofail`: {}", mounts.join(", "))),
        in_files(&inspection.static_addresses, Kind::StaticAddress, "a static address"),
        in_files(&inspection.node_ips, Kind::NodeIp, "a fixed `--node-ip`"),
        in_files(&inspection.literal_host_names, Kind::HostName, "its own name"),
        runtime.iter().find(is_other).map(|runtime| Kind::Runtime.found(format!("the donor runs {runtime}"))),
        pending_reboot(inspection).map(|found| Kind::PendingReboot.found(found)),
        join_blocker(input, inspection),
    ];
    blockers.into_iter().flatten().collect()
}

fn join_blocker(input: &PreflightInput<'_>, inspection: &Inspection) -> Option<Blocker> {
    match choose_join(input.options.join, inspection, input.pool) {
        Err(refusal) => Some(Kind::JoinCredential.found(refusal.to_string())),
        Ok(JoinMode::Recipe) if input.options.canary => {
            let missing = input.canary_secrets.err()?;
            Some(Kind::CanarySecrets.found(format!("clones join by the pool's recipe, and {missing}")))
        }
        Ok(JoinMode::Certificate | JoinMode::Recipe) => None,
    }
}

fn in_files(places: &[FileLine], kind: Kind, what: &str) -> Option<Blocker> {
    let paths: Vec<&str> = places.iter().map(|place| place.path.as_str()).collect();
    when(!paths.is_empty(), kind, format!("the donor has {what} in {}", paths.join(", ")))
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(blocker) => write!(f, "accepted: {}: {}", blocker.found, blocker.kind.reason()),
            Self::PoolBusy(state) => {
                write!(f, "the pool is being changed ({state}); the run waits for it where necessary")
            }
            Self::LocksUnread(reason) => {
                write!(f, "locks could not be read, and the run fails at the first one ({reason})")
            }
            Self::NoFirstBootUnit => {
                f.write_str("the donor has no first-boot unit; a pod will install it and change nothing else")
            }
        }
    }
}

impl fmt::Display for PreflightReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blockers.iter().try_for_each(|blocker| writeln!(f, "blocked: {blocker}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
