//! How long things take in the world. The figures are published ones where there are any; a world file can set each.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Durations of Azure's operations and of a VM's boot, in seconds of world time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Profile {
    /// Making a gallery. kamino's published log: 34 s.
    pub gallery: f64,
    /// Making an image definition. kamino: 33 s.
    pub definition: f64,
    /// Making and replicating an image version. kamino: 5,291 s and 6,266 s.
    pub image_version: f64,
    /// A change of an existing version (`excludeFromLatest`, regions). Not published.
    pub version_update: f64,
    /// A snapshot of an OS disk. kamino: 6 s.
    pub snapshot: f64,
    /// A change of a scale set's model. kamino: 13 s.
    pub model_update: f64,
    /// Until Azure has a machine running: allocation and OS disk. With `boot` it makes kamino's "ten new nodes in about 3.5 min".
    pub allocate: f64,
    /// `powerOff`. kamino: 152 s and 183 s.
    pub power_off: f64,
    /// `start` until the machine runs. kamino's donor was away for 3 min 44 s, less the stop and the snapshot.
    pub start: f64,
    /// `deallocate`. Not published.
    pub deallocate: f64,
    /// `reimage` or an upgrade of one instance to a new image. Not published.
    pub reimage: f64,
    /// Deleting a resource. Not published.
    pub delete: f64,
    /// An instance's own update: protection, userData. Not published.
    pub instance_update: f64,
    /// The stages of a boot, in order.
    pub boot: Vec<Stage>,
}

/// One stage of a boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// What people call it.
    pub name: String,
    /// How long it takes.
    pub seconds: f64,
    /// When it takes place.
    #[serde(default)]
    pub when: When,
}

/// What a stage depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Every boot.
    #[default]
    Always,
    /// A first boot with custom data that does something.
    CustomData,
    /// A first boot with a Custom Script extension.
    Script,
    /// Once for each image of the pool that is not on the disk; afterwards it is.
    Images,
    /// Once for each package that has a newer version; afterwards it has that.
    Packages,
    /// A boot that had packages to install.
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
            // wait-online and cloud-final are those of a published analysis of an AKS node's boot; the script is what is left of kamino's 3.5 minutes.
            boot: vec![
                stage("kernel", 6.0, When::Always),
                stage("network-online", 16.6, When::Always),
                stage("cloud-init", 11.7, When::CustomData),
                stage("script-extension", 130.0, When::Script),
                stage("kubelet", 5.0, When::Always),
            ],
        }
    }
}

impl Profile {
    /// The first figure that is no duration, by its name.
    pub(crate) fn invalid(&self) -> Option<String> {
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
        // A year is longer than anything that Azure does.
        named.chain(stages).find(|(_, seconds)| !(0.0..=31_536_000.0).contains(seconds)).map(|(name, _)| name)
    }
}

/// Seconds of a profile as a duration.
pub(crate) fn seconds(value: f64) -> SignedDuration {
    SignedDuration::from_secs_f64(value)
}
