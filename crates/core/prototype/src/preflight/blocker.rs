//! The kinds of blockers, as data: name, reason, remedy, and the consent that accepts it.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::run::RunOptions;

/// What a user may accept, with one option each. A run stores the options in its journal, so that a resumed run has the same consents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Consent {
    /// No option: the run could lose nodes.
    Never,
    ForcedPods,
    EmptyPool,
    ManagedPool,
    RejectedPatch,
    LostOriginal,
}

impl Consent {
    /// Every consent that has an option.
    pub const ALL: [Self; 5] =
        [Self::ForcedPods, Self::EmptyPool, Self::ManagedPool, Self::RejectedPatch, Self::LostOriginal];

    /// The option of the command line.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::ForcedPods => Some("--force"),
            Self::EmptyPool => Some("--allow-empty-pool"),
            Self::ManagedPool => Some("--allow-managed-pool"),
            Self::RejectedPatch => Some("--allow-rejected-patch"),
            Self::LostOriginal => Some("--no-original"),
        }
    }

    /// What a run does without, if the user consents.
    pub fn waives(self) -> &'static str {
        match self {
            Self::Never => "nothing",
            Self::ForcedPods => {
                "PodDisruptionBudgets and grace periods of pods that the drain leaves; they are force-deleted"
            }
            Self::EmptyPool => "a second node of the pool for the donor's pods",
            Self::ManagedPool => "the pool's owner, which may reset the model and replace nodes at any time",
            Self::RejectedPatch => "the rejection of a version with the same packages",
            Self::LostOriginal => "`rollback --to original`",
        }
    }

    /// Whether a run with these options can need the consent. With `--live` the donor's pods stay where they are.
    pub fn applies(self, options: &RunOptions) -> bool {
        !(options.live && matches!(self, Self::ForcedPods | Self::EmptyPool))
    }

    /// Whether a run's options include the consent.
    pub fn is_given(self, options: &RunOptions) -> bool {
        match self {
            Self::Never => false,
            Self::ForcedPods => options.force,
            Self::EmptyPool => options.allow_empty_pool,
            Self::ManagedPool => options.allow_managed_pool,
            Self::RejectedPatch => options.allow_rejected_patch,
            Self::LostOriginal => options.no_original,
        }
    }
}

/// A kind of blocker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockerKind {
    UpgradePolicy,
    AutomaticOsUpgrade,
    AutomaticRepairs,
    Flexible,
    /// AKS or Cluster API owns the pool.
    Managed,
    Paused,
    /// kamino works on the same pools.
    Kamino,
    /// kured is rebooting a node.
    Kured,
    Permission,
    /// A lock prevents changes or deletions.
    Locked,
    /// The version cannot be replicated to a region.
    Regions,
    PoolOfOne,
    NotInPool,
    NoProviderId,
    OwnNode,
    Windows,
    ControlPlane,
    NotReady,
    /// The donor's instance is not running or is being changed.
    Instance,
    Held,
    RejectedAncestor,
    SamePatch,
    /// Today's version exists and was created from another node.
    OtherDonor,
    EphemeralDisk,
    NoDisk,
    NotInspected,
    DiskFull,
    /// A mount that clones lack delays their boot.
    Fstab,
    StaticAddress,
    /// The kubelet of the donor has a fixed address.
    NodeIp,
    /// The donor's unit files contain its own name.
    HostName,
    /// The donor's container runtime is not containerd.
    Runtime,
    /// The donor has patches that only a reboot activates.
    PendingReboot,
    JoinCredential,
    /// The canary would lack the secret parts of the recipe that clones join by.
    CanarySecrets,
    /// The original recipe cannot be saved.
    Original,
    /// The protected settings of an extension of the original recipe are not known.
    ProtectedSettings,
    /// An extension encrypted the file system of the disk with a key of its own.
    DiskEncryption,
    /// Instance and pool have different security types.
    SecurityDiffers,
    /// No version of this security type can be created from a snapshot.
    SecurityType,
    PurchasePlan,
    /// No image definition can be used or created.
    Definition,
    DefinitionName,
}

struct Text {
    kind: BlockerKind,
    name: &'static str,
    consent: Consent,
    reason: &'static str,
    remedy: &'static str,
}

const fn text(
    kind: BlockerKind,
    name: &'static str,
    consent: Consent,
    reason: &'static str,
    remedy: &'static str,
) -> Text {
    Text { kind, name, consent, reason, remedy }
}

use BlockerKind as Kind;
use Consent::{EmptyPool, LostOriginal, ManagedPool, Never, RejectedPatch};

const TABLE: [Text; 43] = [
    text(
        Kind::UpgradePolicy,
        "upgrade-policy",
        Never,
        "a changed model could restart all instances at the same time",
        "set the policy to Manual: `az vmss update --set upgradePolicy.mode=Manual`",
    ),
    text(
        Kind::AutomaticOsUpgrade,
        "automatic-os-upgrade",
        Never,
        "Azure would replace OS disks, and with them the nodes, on its own",
        "disable it: `az vmss update --enable-auto-os-upgrade false`",
    ),
    text(
        Kind::AutomaticRepairs,
        "automatic-repairs",
        Never,
        "Azure would replace the stopped donor as unhealthy",
        "disable them for the run: `az vmss update --enable-automatic-repairs false`",
    ),
    text(
        Kind::Flexible,
        "flexible",
        Never,
        "its instances are not created from one model",
        "use a scale set with orchestration mode Uniform",
    ),
    text(
        Kind::Managed,
        "managed",
        ManagedPool,
        "its owner resets the model and replaces nodes at any time",
        "leave the pool to its owner, or use `--allow-managed-pool`",
    ),
    text(
        Kind::Paused,
        "paused",
        Never,
        "a version was rolled back and the pool has not been unpaused since",
        "unpause it: `kiln prototype rollback --unpause`",
    ),
    text(
        Kind::Kamino,
        "kamino",
        Never,
        "two tools on one pool would stop each other's donors",
        "delete or suspend its jobs",
    ),
    text(
        Kind::Kured,
        "kured",
        Never,
        "two nodes would be away at the same time",
        "run again when the node is back; kured keeps the lock of a node that does not return until the annotation \
         `weave.works/kured-node-lock` of its DaemonSet is removed",
    ),
    text(
        Kind::Permission,
        "permission",
        Never,
        "the run would fail halfway",
        "grant the permissions, then run `kiln prototype check-access`",
    ),
    text(
        Kind::Locked,
        "locked",
        Never,
        "the run could not delete its canary, its snapshot and old versions, or could not change anything",
        "remove the lock for the run: `az lock delete`",
    ),
    text(
        Kind::Regions,
        "regions",
        Never,
        "the version could not be created, after the donor was stopped for its snapshot",
        "correct `--target-regions`; `az account list-locations` lists the names",
    ),
    text(
        Kind::PoolOfOne,
        "pool-of-one",
        EmptyPool,
        "its pods have no other node of the pool to move to",
        "add a node first, or use `--allow-empty-pool`",
    ),
    text(
        Kind::NotInPool,
        "not-in-pool",
        Never,
        "only an instance of a scale set can be its prototype",
        "use `--target-node` with a node of the pool",
    ),
    text(
        Kind::NoProviderId,
        "no-provider-id",
        Never,
        "the node cannot be matched to an instance",
        "wait until the cloud controller manager has initialised it, or use another node",
    ),
    text(
        Kind::OwnNode,
        "own-node",
        Never,
        "powering it off would end this run",
        "use another node, or run kiln elsewhere",
    ),
    text(Kind::Windows, "windows", Never, "only Linux nodes can be cloned", "use a Linux pool"),
    text(
        Kind::ControlPlane,
        "control-plane",
        Never,
        "its clones would be further control planes",
        "use a node of a worker pool",
    ),
    text(
        Kind::NotReady,
        "not-ready",
        Never,
        "clones of a node that does not work would not work either",
        "use a Ready node, or wait for this one",
    ),
    text(
        Kind::Instance,
        "instance",
        Never,
        "the instance must be running and unchanged while it is copied",
        "use another node, or check `az vmss get-instance-view`",
    ),
    text(
        Kind::Held,
        "held",
        Never,
        "two runs cannot use the same donor",
        "wait for the other run, or resume it: `kiln prototype resume`",
    ),
    text(
        Kind::RejectedAncestor,
        "rejected-ancestor",
        Never,
        "its clones would contain the rejected changes",
        "use a node of another version; `kiln prototype refresh` replaces such nodes",
    ),
    text(
        Kind::SamePatch,
        "same-patch",
        RejectedPatch,
        "its clones would contain the rejected changes",
        "install further patches on the node, or use `--allow-rejected-patch`",
    ),
    text(
        Kind::OtherDonor,
        "other-donor",
        Never,
        "the run would end with the disk of the other node",
        "run again tomorrow, or roll the version back and use `--replace-today`",
    ),
    text(
        Kind::EphemeralDisk,
        "ephemeral-disk",
        Never,
        "an ephemeral disk is lost when the instance stops and cannot be copied",
        "use a pool with managed OS disks",
    ),
    text(
        Kind::NoDisk,
        "no-disk",
        Never,
        "without it there is nothing to copy",
        "use another node, or grant `Microsoft.Compute/disks/read`",
    ),
    text(
        Kind::NotInspected,
        "not-inspected",
        Never,
        "clones would contain whatever is on the donor's disk",
        "fix the cause of the failed inspection, then try again",
    ),
    text(
        Kind::DiskFull,
        "disk-full",
        Never,
        "clones would be under disk pressure from the start",
        "free disk space on the donor, or use another node",
    ),
    text(
        Kind::Fstab,
        "fstab",
        Never,
        "clones do not have that disk and would wait for it at boot",
        "add `nofail` to these lines of /etc/fstab",
    ),
    text(
        Kind::StaticAddress,
        "static-address",
        Never,
        "every clone would claim the donor's address",
        "configure the address by DHCP",
    ),
    text(
        Kind::NodeIp,
        "node-ip",
        Never,
        "every clone would register with the donor's address",
        "remove `--node-ip` there and restart the kubelet: without it the kubelet uses the machine's own address",
    ),
    text(
        Kind::HostName,
        "host-name",
        Never,
        "every clone would use the donor's name",
        "use `%H` or `$(hostname)` there",
    ),
    text(
        Kind::Runtime,
        "runtime",
        Never,
        "kiln only knows how to reset the state of containerd on a clone",
        "use a node that runs containerd",
    ),
    text(
        Kind::PendingReboot,
        "pending-reboot",
        Never,
        "clones would boot software that the donor has never run",
        "reboot the donor, or use another node",
    ),
    text(
        Kind::JoinCredential,
        "join-credential",
        Never,
        "clones could not join the cluster",
        "change how nodes of this pool join, or how clones join with `--join`",
    ),
    text(
        Kind::CanarySecrets,
        "canary-secrets",
        Never,
        "the canary could not join the cluster",
        "store the pool's custom data in a Secret and use `--canary-secret`, or use `--no-canary`",
    ),
    text(
        Kind::Original,
        "original",
        LostOriginal,
        "without it `rollback --to original` is impossible",
        "keep the recipe with the tool that created the pool and use `--no-original`",
    ),
    text(
        Kind::ProtectedSettings,
        "protected-settings",
        LostOriginal,
        "Azure never returns them, so `rollback --to original` would restore the extension without its command",
        "give them with `--protected-settings` or `--protected-settings-secret` (`{}` if there are none), or use `--no-original`",
    ),
    text(
        Kind::DiskEncryption,
        "disk-encryption",
        Never,
        "a clone could not unlock the copy, whose key belongs to the donor's disk",
        "use encryption at host or a disk encryption set instead",
    ),
    text(
        Kind::SecurityDiffers,
        "security-differs",
        Never,
        "new instances of the pool could not boot a copy of this disk",
        "replace the node, then use the new one",
    ),
    text(
        Kind::SecurityType,
        "security-type",
        Never,
        "a version of this type cannot be created from a snapshot",
        "use a pool of type Standard or TrustedLaunch",
    ),
    text(
        Kind::PurchasePlan,
        "purchase-plan",
        Never,
        "instances with a purchase plan need an image definition with the same plan",
        "delete the image definition, so that a run creates it with the plan",
    ),
    text(
        Kind::Definition,
        "definition",
        Never,
        "generation, architecture, security type and features of an image definition cannot change",
        "delete the definitions that do not match",
    ),
    text(
        Kind::DefinitionName,
        "definition-name",
        Never,
        "the name of an image definition has at most 80 characters",
        "use a pool with a shorter name",
    ),
];

impl BlockerKind {
    /// All kinds, in the order in which they are checked.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|text| text.kind)
    }

    fn text(self) -> &'static Text {
        TABLE.iter().find(|text| text.kind == self).expect("a test checks that every kind has a text")
    }

    /// The name in JSON and documentation.
    pub fn name(self) -> &'static str {
        self.text().name
    }

    /// The consent that accepts it.
    pub fn consent(self) -> Consent {
        self.text().consent
    }

    /// Why it blocks a run.
    pub fn reason(self) -> &'static str {
        self.text().reason
    }

    /// How to remove it.
    pub fn remedy(self) -> &'static str {
        self.text().remedy
    }

    /// A blocker of this kind, with what was found.
    pub fn found(self, found: impl Into<String>) -> Blocker {
        Blocker { kind: self, found: found.into() }
    }
}

/// A reason why a run must not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub kind: BlockerKind,
    pub found: String,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.found, self.kind.reason(), self.kind.remedy())
    }
}

impl Serialize for BlockerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for Blocker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Blocker", 5)?;
        fields.serialize_field("kind", &self.kind)?;
        fields.serialize_field("found", &self.found)?;
        fields.serialize_field("reason", self.kind.reason())?;
        fields.serialize_field("remedy", self.kind.remedy())?;
        fields.serialize_field("consent", &self.kind.consent())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_in_the_table_once_with_a_remedy() {
        let kinds: Vec<Kind> = Kind::all().collect();
        // The last variant: a new one without a text makes this fail.
        assert_eq!(kinds.len(), Kind::DefinitionName as usize + 1);
        assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), kinds.len());
        assert_eq!(kinds.iter().map(|kind| kind.name()).collect::<BTreeSet<_>>().len(), kinds.len());
        assert!(kinds.is_sorted());
        assert!(kinds.iter().all(|kind| !kind.reason().is_empty() && !kind.remedy().is_empty()));
    }

    #[test]
    fn few_blockers_can_be_accepted() {
        let accepted: Vec<(Kind, Consent)> =
            Kind::all().map(|kind| (kind, kind.consent())).filter(|(_, consent)| *consent != Never).collect();
        assert_eq!(
            accepted,
            [
                (Kind::Managed, ManagedPool),
                (Kind::PoolOfOne, EmptyPool),
                (Kind::SamePatch, RejectedPatch),
                (Kind::Original, LostOriginal),
                (Kind::ProtectedSettings, LostOriginal)
            ]
        );
    }

    #[test]
    fn each_consent_has_its_own_option_and_accepts_nothing_else() {
        let give = |flag: &str| RunOptions {
            force: flag == "--force",
            allow_empty_pool: flag == "--allow-empty-pool",
            allow_managed_pool: flag == "--allow-managed-pool",
            allow_rejected_patch: flag == "--allow-rejected-patch",
            no_original: flag == "--no-original",
            ..RunOptions::default()
        };
        for consent in Consent::ALL {
            let options = give(consent.flag().unwrap());
            let given: Vec<Consent> = Consent::ALL.into_iter().filter(|other| other.is_given(&options)).collect();
            assert_eq!(given, [consent]);
        }
        for kind in Kind::all().filter(|kind| kind.consent() != Never) {
            assert!(kind.remedy().contains(kind.consent().flag().unwrap()), "{}", kind.remedy());
        }
    }

    #[test]
    fn blocker_shows_what_was_found_the_reason_and_the_remedy() {
        let blocker = Kind::OwnNode.found("kiln runs on `node0`");
        assert_eq!(
            blocker.to_string(),
            "kiln runs on `node0`: powering it off would end this run; use another node, or run kiln elsewhere"
        );
        let json = serde_json::to_value(&blocker).unwrap();
        assert_eq!((json["kind"].as_str(), json["consent"].as_str()), (Some("own-node"), Some("never")));
    }
}
