//! Which rows apply.

use std::fmt;

use kiln_node_plan::{Inspection, FileLine, clone_credential};
use kiln_types::{OperatingSystem, Orchestration, PowerState, Provisioning, SecurityType, UpgradeMode};
use serde::Serialize;

use super::definition::{DefinitionChoice, MOST_NAME, Wanted, choose_definition};
use super::facts::{Original, Preflight};
use super::row::{Consent, Refusal, Row};
use crate::back::{self, Hold, Patch, Suspect, same_patch};
use crate::latest::version_of;
use crate::provenance::lineage;

/// A donor must leave so much of its disk free, in percent: kubelet evicts pods below 10 % of `nodefs`, and a clone starts where its donor
/// stopped.
pub const LEAST_FREE_PERCENT: u64 = 10;

/// What preflight found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What stops the run.
    pub refusals: Vec<Refusal>,
    /// What does not, and should be known.
    pub warnings: Vec<Warning>,
}

/// What should be known before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Warning {
    /// A row that was waved through.
    Overridden(Refusal),
    /// Somebody is changing the pool.
    PoolBusy(String),
    /// The image has no first-boot unit.
    NoFirstBootUnit,
}

impl Verdict {
    /// Whether the run may go on.
    pub fn allows(&self) -> bool {
        self.refusals.is_empty()
    }
}

/// Holds a donor against every row.
pub fn check(facts: Preflight<'_>) -> Verdict {
    let rows =
        [of_pool(&facts), of_operators(&facts), of_node(&facts), of_past(&facts), of_disk(&facts), of_inside(&facts)];
    let waved = |refusal: &Refusal| match refusal.row.consent() {
        Consent::Never => false,
        Consent::Force => facts.force,
        Consent::AllowEmptyPool => facts.allow_empty_pool,
    };
    let (waved, mut refusals): (Vec<Refusal>, Vec<Refusal>) = rows.into_iter().flatten().partition(waved);
    refusals.sort_by_key(|refusal| refusal.row);
    let mut warnings: Vec<Warning> = waved.into_iter().map(Warning::Overridden).collect();
    if let Provisioning::InProgress(word) = &facts.pool.provisioning {
        warnings.push(Warning::PoolBusy(word.clone()));
    }
    if facts.inside.is_ok_and(|inside| inside.first_boot_unit.is_none()) {
        warnings.push(Warning::NoFirstBootUnit);
    }
    Verdict { refusals, warnings }
}

fn when(applies: bool, row: Row, found: impl Into<String>) -> Option<Refusal> {
    applies.then(|| row.found(found))
}

fn of_pool(facts: &Preflight<'_>) -> Vec<Refusal> {
    let pool = facts.pool;
    let mode = match &pool.upgrade_mode {
        UpgradeMode::Manual => None,
        UpgradeMode::Other(word) => Some(word.clone()),
        other => Some(format!("{other:?}")),
    };
    let rows = [
        mode.map(|mode| Row::UpgradePolicy.found(format!("the upgrade policy of `{}` is {mode}", pool.name))),
        when(pool.automatic_os_upgrade, Row::AutomaticOsUpgrade, "automatic OS upgrades are on"),
        when(pool.automatic_repairs, Row::AutomaticRepairs, "automatic repairs are on"),
        when(
            pool.orchestration == Orchestration::Flexible,
            Row::Flexible,
            format!("`{}` is a Flexible scale set", pool.name),
        ),
        when(pool.ephemeral_os_disk, Row::EphemeralDisk, "the OS disk is ephemeral"),
        when(pool.capacity <= 1, Row::PoolOfOne, format!("`{}` has one node", pool.name)),
    ];
    rows.into_iter().flatten().collect()
}

fn of_operators(facts: &Preflight<'_>) -> Vec<Refusal> {
    let owner = owner(facts);
    let line = facts.lines.iter().filter_map(|line| Hold::read(&line.tags)).find(|hold| hold.blocks(facts.today));
    let original = match facts.original {
        Original::Lost(why) => Some(Row::Original.found(format!("the original recipe cannot be kept ({why})"))),
        Original::Saved | Original::CanBeSaved => None,
    };
    let rows = [
        owner.map(|owner| Row::Managed.found(owner)),
        line.map(|hold| Row::OnHold.found(format!("the pool is {hold}"))),
        when(!facts.kamino.is_empty(), Row::Kamino, format!("kamino is alive ({})", facts.kamino.join(", "))),
        when(!facts.missing.is_empty(), Row::Permission, format!("not allowed: {}", facts.missing.join(", "))),
        original,
    ];
    rows.into_iter().flatten().collect()
}

/// Who owns the pool, by the marks that they leave.
///
/// `kubernetes.azure.com/cluster` alone is no such mark: AKS Engine sets it too. On AKS its value is the resource group that AKS makes, `MC_…`.
fn owner(facts: &Preflight<'_>) -> Option<String> {
    const AKS_LABELS: [&str; 3] =
        ["kubernetes.azure.com/mode", "kubernetes.azure.com/node-image-version", "kubernetes.azure.com/nodepool-type"];
    let (tags, node) = (&facts.pool.tags, facts.node);
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

fn of_node(facts: &Preflight<'_>) -> Vec<Refusal> {
    let node = facts.node;
    let windows = node.windows || facts.pool.operating_system == OperatingSystem::Windows;
    let holder = node.held_by.as_deref().filter(|run| facts.own_run != Some(run));
    let machine = facts.instance.and_then(|instance| match (&instance.provisioning, instance.power) {
        (Provisioning::Succeeded, PowerState::Running) => None,
        (Provisioning::Succeeded, power) => Some(format!("the machine of `{}` is {power:?}", node.name)),
        (Provisioning::InProgress(word), _) => {
            Some(format!("the machine of `{}` is being changed ({word})", node.name))
        }
        _ => Some(format!("the last change of the machine of `{}` failed", node.name)),
    });
    let rows = [
        when(
            facts.instance.is_none(),
            Row::NotInPool,
            format!("`{}` is no instance of `{}`", node.name, facts.pool.name),
        ),
        when(
            node.provider_id.as_deref().is_none_or(str::is_empty),
            Row::NoProviderId,
            format!("`{}` has no provider id", node.name),
        ),
        when(facts.own_node == Some(node.name.as_str()), Row::OwnNode, format!("this program runs on `{}`", node.name)),
        when(windows, Row::Windows, format!("`{}` runs Windows", node.name)),
        when(node.is_control_plane(), Row::ControlPlane, format!("`{}` is of the control plane", node.name)),
        when(!node.ready, Row::NotReady, format!("`{}` is not Ready", node.name)),
        machine.map(|machine| Row::Machine.found(machine)),
        holder.map(|run| Row::Held.found(format!("run {run} holds `{}`", node.name))),
    ];
    rows.into_iter().flatten().collect()
}

fn of_past(facts: &Preflight<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for line in facts.lines {
        let bad = back::numbers(&line.tags);
        let runs = facts.instance.and_then(|instance| version_of(&instance.runs, &line.name));
        let ancestors = runs.map(|runs| lineage(runs, facts.versions)).unwrap_or_default();
        if let Some(ancestor) = ancestors.iter().find(|version| bad.contains(version)) {
            let found = format!("`{}` descends from version {ancestor}, which was taken back", facts.node.name);
            refusals.push(Row::BadAncestor.found(found));
        }
        let known = back::known(&line.tags, facts.versions);
        let patch = facts.inside.map_or_else(|_| Patch::of_node(facts.node), Patch::of_inside);
        let suspects = known.iter().map(|bad| Suspect::new(bad, &known, facts.contents));
        if let Some(same) = same_patch(&patch, suspects) {
            refusals.push(Row::SamePatch.found(format!("`{}` {same}", facts.node.name)));
        }
    }
    refusals
}

fn of_disk(facts: &Preflight<'_>) -> Vec<Refusal> {
    let Some(disk) = facts.disk else {
        let unread = !facts.pool.ephemeral_os_disk && facts.instance.is_some();
        let found = format!("the OS disk of `{}` cannot be read", facts.node.name);
        return when(unread, Row::NoDisk, found).into_iter().collect();
    };
    if let SecurityType::Confidential | SecurityType::Other(_) = disk.security_type {
        return vec![Row::SecurityType.found(format!("the OS disk is of security type {:?}", disk.security_type))];
    }
    if disk.security_type != facts.pool.security_type {
        let (pool, disk) = (&facts.pool.security_type, &disk.security_type);
        return vec![Row::SecurityDiffers.found(format!("the pool is {pool:?}, the donor's OS disk {disk:?}"))];
    }
    let wanted = Wanted::of(disk, facts.pool);
    let chosen = match choose_definition(facts.definition_name, &wanted, facts.lines, &facts.pool.recipe.image) {
        DefinitionChoice::Use(line) if wanted.plan.is_some() && line.plan != wanted.plan => {
            let plan = wanted.plan.map(|plan| plan.name).unwrap_or_default();
            let found = format!("the pool's plan `{plan}` is not that of image definition `{}`", line.name.definition);
            Some(Row::PurchasePlan.found(found))
        }
        DefinitionChoice::Create(name) if name.definition.len() > MOST_NAME => {
            let length = name.definition.len();
            Some(
                Row::DefinitionName
                    .found(format!("image definition `{}` would have {length} characters", name.definition)),
            )
        }
        DefinitionChoice::Use(_) | DefinitionChoice::Create(_) => None,
        DefinitionChoice::Taken(all) => {
            let each = all.iter().map(|(name, misfits)| {
                let reasons: Vec<String> = misfits.iter().map(ToString::to_string).collect();
                format!("`{}` ({})", name.definition, reasons.join(", "))
            });
            Some(Row::Line.found(format!("no image definition fits: {}", each.collect::<Vec<_>>().join(", "))))
        }
    };
    chosen.into_iter().collect()
}

fn of_inside(facts: &Preflight<'_>) -> Vec<Refusal> {
    let inside: &Inspection = match facts.inside {
        Ok(inside) => inside,
        Err(why) => {
            return vec![Row::NotInspected.found(format!("the inside of `{}` is unknown ({why})", facts.node.name))];
        }
    };
    let disk = inside.disk;
    let full = disk.free_bytes().saturating_mul(100) < disk.size_bytes.saturating_mul(LEAST_FREE_PERCENT);
    let free = (disk.free_bytes().saturating_mul(100)).checked_div(disk.size_bytes).unwrap_or(0);
    let mounts: Vec<&str> =
        inside.fstab.iter().filter(|entry| entry.holds_up_a_clone()).map(|entry| entry.mount_point.as_str()).collect();
    let rows = [
        when(full, Row::DiskFull, format!("{free} % of the donor's disk is free, of at least {LEAST_FREE_PERCENT} %")),
        when(!mounts.is_empty(), Row::Fstab, format!("mounted by UUID without `nofail`: {}", mounts.join(", "))),
        at(&inside.static_addresses, Row::StaticAddress, "an address of its own"),
        at(&inside.literal_host_names, Row::HostName, "its own name"),
        clone_credential(&inside.join_credential).err().map(|why| Row::JoinCredential.found(why.to_string())),
    ];
    rows.into_iter().flatten().collect()
}

fn at(places: &[FileLine], row: Row, what: &str) -> Option<Refusal> {
    let paths: Vec<&str> = places.iter().map(|place| place.path.as_str()).collect();
    when(!paths.is_empty(), row, format!("the donor has {what} in {}", paths.join(", ")))
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overridden(refusal) => write!(f, "going on although {}: {}", refusal.found, refusal.row.why()),
            Self::PoolBusy(word) => {
                write!(f, "somebody is changing the pool ({word}); the run waits for it where it must")
            }
            Self::NoFirstBootUnit => {
                f.write_str("the donor has no first-boot unit; a pod will install it and change nothing else")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusals.iter().try_for_each(|refusal| writeln!(f, "refused: {refusal}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
