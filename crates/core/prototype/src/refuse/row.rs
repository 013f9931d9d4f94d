//! The rows of the refuse list, as data: what each means, what to do about it, and who may wave it through.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// What lets a run go on all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Consent {
    /// Nothing: it would lose nodes.
    Never,
    /// `--force`.
    Force,
    /// `--allow-empty-pool`.
    AllowEmptyPool,
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// A changed recipe acts on running instances.
    UpgradePolicy,
    /// The cloud replaces OS disks by itself.
    AutomaticOsUpgrade,
    /// The cloud replaces instances that look unwell.
    AutomaticRepairs,
    /// The pool is of single machines.
    Flexible,
    /// AKS or Cluster API owns the pool.
    Managed,
    /// The pool is on hold after a roll back.
    OnHold,
    /// kamino works on the same pools.
    Kamino,
    /// Something may not be done.
    Permission,
    /// The donor is the pool's only node.
    PoolOfOne,
    /// The donor is not of the pool.
    NotInPool,
    /// Nothing ties the node to a machine.
    NoProviderId,
    /// This program runs on the donor.
    OwnNode,
    /// The donor runs Windows.
    Windows,
    /// The donor is of the control plane.
    ControlPlane,
    /// The donor is not Ready.
    NotReady,
    /// The donor's machine is not well.
    Machine,
    /// Another run holds the donor.
    Held,
    /// The donor comes from a version that was taken back.
    BadAncestor,
    /// The donor has the patch that was taken back.
    SamePatch,
    /// The OS disk lives on the host.
    EphemeralDisk,
    /// The OS disk cannot be read.
    NoDisk,
    /// The donor's inside could not be read.
    NotInspected,
    /// The donor's disk is nearly full.
    DiskFull,
    /// A mount that clones do not have holds up their boot.
    Fstab,
    /// The donor has an address of its own in its configuration.
    StaticAddress,
    /// The donor has its own name in unit files.
    HostName,
    /// Clones could not join.
    JoinCredential,
    /// The original recipe cannot be kept for the way back.
    Original,
    /// Machine and pool disagree on what the firmware vouches for.
    SecurityDiffers,
    /// No image of that kind can be made of a copy.
    SecurityType,
    /// The image line lacks the purchase plan.
    PurchasePlan,
    /// No image line can serve.
    Line,
    /// The image line would have too long a name.
    DefinitionName,
}

struct Text {
    row: Row,
    name: &'static str,
    consent: Consent,
    why: &'static str,
    next: &'static str,
}

const fn text(row: Row, name: &'static str, consent: Consent, why: &'static str, next: &'static str) -> Text {
    Text { row, name, consent, why, next }
}

use Consent::{AllowEmptyPool, Force, Never};

const TABLE: [Text; 33] = [
    text(
        Row::UpgradePolicy,
        "upgrade-policy",
        Never,
        "a changed model may take down all machines at the same time",
        "set it to Manual: `az vmss update --set upgradePolicy.mode=Manual`",
    ),
    text(
        Row::AutomaticOsUpgrade,
        "automatic-os-upgrade",
        Never,
        "Azure would replace OS disks, and with them the nodes, by itself",
        "turn it off: `az vmss update --enable-auto-os-upgrade false`",
    ),
    text(
        Row::AutomaticRepairs,
        "automatic-repairs",
        Never,
        "a stopped donor looks unhealthy and would be replaced",
        "turn it off for the run: `az vmss update --enable-automatic-repairs false`",
    ),
    text(
        Row::Flexible,
        "flexible",
        Never,
        "its machines are not made from one model",
        "use a scale set of orchestration mode Uniform",
    ),
    text(
        Row::Managed,
        "managed",
        Force,
        "its owner sets the model back and replaces nodes as it likes",
        "leave it to its owner, or say `--force`",
    ),
    text(
        Row::OnHold,
        "on-hold",
        Never,
        "a person took a version back and has not said that it is over",
        "when it is: `kiln prototype rollback --lift-hold`",
    ),
    text(
        Row::Kamino,
        "kamino",
        Never,
        "two operators on one pool take each other's donors away",
        "delete or suspend it",
    ),
    text(
        Row::Permission,
        "permission",
        Never,
        "the run would stop half-way",
        "grant it, then see `kiln prototype check-access`",
    ),
    text(
        Row::PoolOfOne,
        "pool-of-one",
        AllowEmptyPool,
        "while it is away its pods have nowhere to go",
        "add a node first, or say `--allow-empty-pool`",
    ),
    text(
        Row::NotInPool,
        "not-in-pool",
        Never,
        "only an instance of a scale set can be its prototype",
        "name a node of the pool by `--target-node`",
    ),
    text(
        Row::NoProviderId,
        "no-provider-id",
        Never,
        "nothing says which machine it is",
        "let the cloud controller manager initialise it, or name another node",
    ),
    text(
        Row::OwnNode,
        "own-node",
        Never,
        "powering it off would end this run",
        "name another node, or run this elsewhere",
    ),
    text(Row::Windows, "windows", Never, "only Linux nodes can be cloned", "name a Linux pool"),
    text(
        Row::ControlPlane,
        "control-plane",
        Never,
        "clones of it would be further control planes",
        "name a node of a worker pool",
    ),
    text(
        Row::NotReady,
        "not-ready",
        Never,
        "only a node that works is worth cloning",
        "name a Ready node, or wait for this one",
    ),
    text(
        Row::Machine,
        "machine",
        Never,
        "a machine that is not well makes clones that are not",
        "name another node, or see what `az vmss get-instance-view` says",
    ),
    text(
        Row::Held,
        "held",
        Never,
        "that run would find the donor changed under it",
        "wait for it, or go on with it: `kiln prototype resume`",
    ),
    text(
        Row::BadAncestor,
        "bad-ancestor",
        Never,
        "its clones would have what was taken back",
        "name a node of another version; `kiln prototype refresh` replaces such nodes",
    ),
    text(
        Row::SamePatch,
        "same-patch",
        Force,
        "its clones would have what was taken back",
        "patch the node further, or say `--force`",
    ),
    text(
        Row::EphemeralDisk,
        "ephemeral-disk",
        Never,
        "such a disk is gone once the machine is off, and cannot be copied",
        "use a pool with managed OS disks",
    ),
    text(
        Row::NoDisk,
        "no-disk",
        Never,
        "there is nothing to copy",
        "name another node, or grant `Microsoft.Compute/disks/read`",
    ),
    text(
        Row::NotInspected,
        "not-inspected",
        Never,
        "clones would copy what nobody has looked at",
        "see why the inspection failed, then try again",
    ),
    text(
        Row::DiskFull,
        "disk-full",
        Never,
        "clones would be under disk pressure from their first minute",
        "clean the donor, or name another node",
    ),
    text(
        Row::Fstab,
        "fstab",
        Never,
        "clones do not have that disk and would wait for it at boot",
        "add `nofail` to these lines of /etc/fstab",
    ),
    text(
        Row::StaticAddress,
        "static-address",
        Never,
        "every clone would claim the donor's address",
        "let DHCP give it",
    ),
    text(
        Row::HostName,
        "host-name",
        Never,
        "every clone would call itself by the donor's name",
        "use `%H` or `$(hostname)` there",
    ),
    text(Row::JoinCredential, "join-credential", Never, "no clone could join later", "see the reason"),
    text(
        Row::Original,
        "original",
        Force,
        "without it `rollback --to original` is impossible",
        "keep the recipe by the tool that made the pool and say `--force`",
    ),
    text(
        Row::SecurityDiffers,
        "security-differs",
        Never,
        "new machines of the pool would not boot what is copied from this one",
        "replace the node, then name the new one",
    ),
    text(
        Row::SecurityType,
        "security-type",
        Never,
        "a version of that kind cannot be made of a snapshot",
        "use a pool of type Standard or TrustedLaunch",
    ),
    text(
        Row::PurchasePlan,
        "purchase-plan",
        Never,
        "no machine of that plan can be made from an image that does not name it",
        "delete the image definition, so that it is made anew with the plan",
    ),
    text(
        Row::Line,
        "line",
        Never,
        "an image definition cannot change in generation, architecture or security type",
        "delete the definitions that do not fit",
    ),
    text(
        Row::DefinitionName,
        "line-name",
        Never,
        "an image definition's name has at most 80 characters",
        "use a pool with a shorter name",
    ),
];

impl Row {
    /// All rows, in the order in which they are checked.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|text| text.row)
    }

    fn text(self) -> &'static Text {
        TABLE.iter().find(|text| text.row == self).expect("every row has a text; a test sees to it")
    }

    /// Its name in JSON and on pages.
    pub fn name(self) -> &'static str {
        self.text().name
    }

    /// What lets a run go on all the same.
    pub fn consent(self) -> Consent {
        self.text().consent
    }

    /// Why it speaks against a run.
    pub fn why(self) -> &'static str {
        self.text().why
    }

    /// What to do about it.
    pub fn next(self) -> &'static str {
        self.text().next
    }

    /// The refusal, with what was found.
    pub fn found(self, found: impl Into<String>) -> Refusal {
        Refusal { row: self, found: found.into() }
    }
}

/// A row that applies, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub row: Row,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.found, self.row.why(), self.row.next())
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Refusal", 5)?;
        fields.serialize_field("row", &self.row)?;
        fields.serialize_field("found", &self.found)?;
        fields.serialize_field("why", self.row.why())?;
        fields.serialize_field("next", self.row.next())?;
        fields.serialize_field("consent", &self.row.consent())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_stands_once_in_the_table_and_says_what_to_do() {
        let rows: Vec<Row> = Row::all().collect();
        // The last variant: a new one without a text makes this fail.
        assert_eq!(rows.len(), Row::DefinitionName as usize + 1);
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
        assert_eq!(rows.iter().map(|row| row.name()).collect::<BTreeSet<_>>().len(), rows.len());
        assert!(rows.is_sorted());
        assert!(rows.iter().all(|row| !row.why().is_empty() && !row.next().is_empty()));
    }

    #[test]
    fn few_rows_can_be_waved_through() {
        let waved: Vec<(Row, Consent)> =
            Row::all().map(|row| (row, row.consent())).filter(|(_, consent)| *consent != Never).collect();
        assert_eq!(
            waved,
            [(Row::Managed, Force), (Row::PoolOfOne, AllowEmptyPool), (Row::SamePatch, Force), (Row::Original, Force)]
        );
    }

    #[test]
    fn a_refusal_says_what_was_found_why_it_matters_and_what_to_do() {
        let refusal = Row::OwnNode.found("this program runs on `node0`");
        assert_eq!(
            refusal.to_string(),
            "this program runs on `node0`: powering it off would end this run; name another node, or run this elsewhere"
        );
        let json = serde_json::to_value(&refusal).unwrap();
        assert_eq!((json["row"].as_str(), json["consent"].as_str()), (Some("own-node"), Some("never")));
    }
}
