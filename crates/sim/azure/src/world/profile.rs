//! Durations of operations and boots. They are published figures where available; a world file can set each of them.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Durations of Azure's operations and of a VM's boot, in simulated seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Profile {
    /// Creation of a gallery. kamino's published log: 34 s.
    pub gallery: f64,
    /// Creation of an image definition. kamino: 33 s.
    pub definition: f64,
    /// Creation and replication of an image version. kamino: 5,291 s and 6,266 s.
    pub image_version: f64,
    /// Change of an existing version (`excludeFromLatest`, regions). Not published.
    pub version_update: f64,
    /// Snapshot of an OS disk. kamino: 6 s.
    pub snapshot: f64,
    /// Change of a scale set's model. kamino: 13 s.
    pub model_update: f64,
    /// Allocation and OS disk of a new VM. Together with `boot` it adds up to kamino's "ten new nodes in about 3.5 min".
    pub allocate: f64,
    /// `powerOff`. kamino: 152 s and 183 s.
    pub power_off: f64,
    /// `start` until the VM runs. kamino's donor was absent for 3 min 44 s, which includes the stop and the snapshot.
    pub start: f64,
    /// `deallocate`. Not published.
    pub deallocate: f64,
    /// `reimage` or upgrade of one instance to a new image. Not published.
    pub reimage: f64,
    /// Deletion of a resource. Not published.
    pub delete: f64,
    /// Update of an instance: protection, userData. Not published.
    pub instance_update: f64,
    /// The stages of a boot, in order.
    pub boot: Vec<Stage>,
}

/// A stage of a boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    pub name: String,
    pub seconds: f64,
    #[serde(default)]
    pub when: StageCondition,
}

/// The condition for a boot stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StageCondition {
    /// Every boot.
    #[default]
    Always,
    /// A first boot with custom data that has an effect.
    CustomData,
    /// A first boot with a Custom Script extension.
    Script,
    /// Once for each missing image of the pool, which is then present.
    Images,
    /// Once for each outdated package, which is then updated.
    Packages,
    /// A boot that installed packages.
    Reboot,
}

impl Default for Profile {
    fn default() -> Self {
        let stage = |name: &str, seconds, when| Stage { name: name.to_owned(), seconds, when };
        Self {
            gallery: 34.0,
            definition: 33.0,
            image_version: 6_266.0,
            version_update: 60.0,
            snapshot: 6.0,
            model_update: 13.0,
            allocate: 40.0,
            power_off: 183.0,
            start: 20.0,
            deallocate: 60.0,
            reimage: 60.0,
            delete: 30.0,
            instance_update: 8.0,
            // wait-online and cloud-final are from a published boot analysis of an AKS node; the script takes the rest of kamino's 3.5
            // minutes.
            boot: vec![
                stage("kernel", 6.0, StageCondition::Always),
                stage("network-online", 16.6, StageCondition::Always),
                stage("cloud-init", 11.7, StageCondition::CustomData),
                stage("script-extension", 130.0, StageCondition::Script),
                stage("kubelet", 5.0, StageCondition::Always),
            ],
        }
    }
}

impl Profile {
    /// Returns the name of the first value that is not a valid duration.
    pub(crate) fn first_invalid(&self) -> Option<String> {
        let named = [
            ("gallery", self.gallery),
            ("definition", self.definition),
            ("imageVersion", self.image_version),
            ("versionUpdate", self.version_update),
            ("snapshot", self.snapshot),
            ("modelUpdate", self.model_update),
            ("allocate", self.allocate),
            ("powerOff", self.power_off),
            ("start", self.start),
            ("deallocate", self.deallocate),
            ("reimage", self.reimage),
            ("delete", self.delete),
            ("instanceUpdate", self.instance_update),
        ];
        let named = named.into_iter().map(|(name, seconds)| (name.to_owned(), seconds));
        let stages = self.boot.iter().map(|stage| (format!("boot stage `{}`", stage.name), stage.seconds));
        // No Azure operation takes longer than a year.
        named.chain(stages).find(|(_, seconds)| !(0.0..=31_536_000.0).contains(seconds)).map(|(name, _)| name)
    }
}

/// Converts seconds of a profile.
pub(crate) fn seconds(value: f64) -> SignedDuration {
    SignedDuration::from_secs_f64(value)
}
