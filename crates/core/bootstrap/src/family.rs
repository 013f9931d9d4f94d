//! Image families. To add one, add a variant here together with its image definitions.

use kiln_aks_formats::{Arch, KubernetesVersion};

use crate::derive::DeriveError;
use crate::resolve::Resolved;

/// An image family: an operating system release, or a source of custom images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Ubuntu 20.04, only for FIPS without trusted launch.
    Ubuntu2004,
    Ubuntu2204,
    Ubuntu2404,
    AzureLinux2,
    AzureLinux3,
    /// A custom gallery; the class sets `imageId`.
    Gallery,
    /// The newest version created by the prototype operation; the class sets `imageId` to the image definition.
    Prototype,
}

/// An image definition of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub arch: Arch,
    /// Hyper-V generation.
    pub generation: u8,
}

const fn definition(name: &'static str, arch: Arch, generation: u8) -> Definition {
    Definition { name, arch, generation }
}

use Arch::{Amd64, Arm64};

impl Family {
    /// Returns the family for resolved inputs.
    pub fn resolve(inputs: &Resolved) -> Result<Self, DeriveError> {
        let name = inputs.text("imageFamily");
        let fips = inputs.text("fipsMode") == "FIPS";
        let version = inputs.version()?;
        Self::from_name(name, &version, fips, inputs.is_true("trustedLaunch")).ok_or_else(|| DeriveError::Choice {
            field: "imageFamily",
            value: name.to_owned(),
            expected: "`Ubuntu`, `Ubuntu2204`, `Ubuntu2404`, `AzureLinux`, `Gallery` or `Prototype`",
        })
    }

    /// Returns the family for a name. `Ubuntu` and `AzureLinux` follow the Kubernetes version.
    pub fn from_name(name: &str, version: &KubernetesVersion, fips: bool, trusted_launch: bool) -> Option<Self> {
        Some(match name {
            "Ubuntu" if fips && !trusted_launch => Self::Ubuntu2004,
            "Ubuntu" if fips || trusted_launch || !version.at_least(34) => Self::Ubuntu2204,
            "Ubuntu" | "Ubuntu2404" => Self::Ubuntu2404,
            "Ubuntu2204" => Self::Ubuntu2204,
            "AzureLinux" if version.at_least(32) => Self::AzureLinux3,
            "AzureLinux" => Self::AzureLinux2,
            "Gallery" => Self::Gallery,
            "Prototype" => Self::Prototype,
            _ => return None,
        })
    }

    /// Returns the name with the release.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ubuntu2004 => "Ubuntu2004",
            Self::Ubuntu2204 => "Ubuntu2204",
            Self::Ubuntu2404 => "Ubuntu2404",
            Self::AzureLinux2 => "AzureLinux2",
            Self::AzureLinux3 => "AzureLinux3",
            Self::Gallery => "Gallery",
            Self::Prototype => "Prototype",
        }
    }

    /// Returns the value of the node label `os-sku`.
    pub fn os_sku(self) -> &'static str {
        match self {
            Self::AzureLinux2 | Self::AzureLinux3 => "AzureLinux",
            _ => "Ubuntu",
        }
    }

    /// Returns the names of the community gallery and of the shared gallery.
    pub fn gallery(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Ubuntu2004 | Self::Ubuntu2204 | Self::Ubuntu2404 => {
                Some(("AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2", "AKSUbuntu"))
            }
            Self::AzureLinux2 | Self::AzureLinux3 => {
                Some(("AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b", "AKSAzureLinux"))
            }
            Self::Gallery | Self::Prototype => None,
        }
    }

    /// Returns the image definitions in order of preference.
    pub fn definitions(self, fips: bool, trusted_launch: bool) -> &'static [Definition] {
        match (self, fips, trusted_launch) {
            (Self::Ubuntu2204, true, true) => const { &[definition("2204gen2fipsTLcontainerd", Amd64, 2)] },
            (Self::Ubuntu2204, _, true) => const { &[definition("2204gen2TLcontainerd", Amd64, 2)] },
            (Self::Ubuntu2204, _, _) => {
                const {
                    &[
                        definition("2204gen2containerd", Amd64, 2),
                        definition("2204containerd", Amd64, 1),
                        definition("2204gen2arm64containerd", Arm64, 2),
                    ]
                }
            }
            (Self::Ubuntu2404, _, true) => const { &[definition("2404gen2TLcontainerd", Amd64, 2)] },
            (Self::Ubuntu2404, _, _) => {
                const {
                    &[
                        definition("2404gen2containerd", Amd64, 2),
                        definition("2404containerd", Amd64, 1),
                        definition("2404gen2arm64containerd", Arm64, 2),
                    ]
                }
            }
            (Self::Ubuntu2004, _, _) => {
                const { &[definition("2004gen2fipscontainerd", Amd64, 2), definition("2004fipscontainerd", Amd64, 1)] }
            }
            (Self::AzureLinux3, true, _) => {
                const {
                    &[
                        definition("V3gen2fips", Amd64, 2),
                        definition("V3fips", Amd64, 1),
                        definition("V3gen2arm64fips", Arm64, 2),
                    ]
                }
            }
            (Self::AzureLinux3, _, true) => const { &[definition("V3gen2TL", Amd64, 2)] },
            (Self::AzureLinux3, _, _) => {
                const { &[definition("V3gen2", Amd64, 2), definition("V3", Amd64, 1), definition("V3gen2arm64", Arm64, 2)] }
            }
            (Self::AzureLinux2, _, _) => {
                const { &[definition("V2gen2", Amd64, 2), definition("V2", Amd64, 1), definition("V2gen2arm64", Arm64, 2)] }
            }
            (Self::Gallery | Self::Prototype, _, _) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &str, version: &str, fips: bool, trusted: bool) -> Option<Family> {
        Family::from_name(name, &version.parse().unwrap(), fips, trusted)
    }

    #[test]
    fn name_without_release_follows_the_kubernetes_version() {
        assert_eq!(family("Ubuntu", "1.33.9", false, false), Some(Family::Ubuntu2204));
        assert_eq!(family("Ubuntu", "1.34.0", false, false), Some(Family::Ubuntu2404));
        assert_eq!(family("Ubuntu", "1.34.0", false, true), Some(Family::Ubuntu2204));
        assert_eq!(family("Ubuntu", "1.34.0", true, false), Some(Family::Ubuntu2004));
        assert_eq!(family("Ubuntu", "1.34.0", true, true), Some(Family::Ubuntu2204));
        assert_eq!(family("AzureLinux", "1.31.0", false, false), Some(Family::AzureLinux2));
        assert_eq!(family("AzureLinux", "1.32.0", false, false), Some(Family::AzureLinux3));
        assert_eq!(family("Windows", "1.32.0", false, false), None);
    }

    #[test]
    fn azure_families_have_images_for_both_architectures() {
        for family in [Family::Ubuntu2204, Family::Ubuntu2404, Family::AzureLinux3] {
            let definitions = family.definitions(false, false);
            assert_eq!(definitions.iter().filter(|d| d.arch == Arm64).count(), 1);
            assert_eq!(definitions[0].generation, 2);
            assert!(family.gallery().is_some());
        }
    }
}
