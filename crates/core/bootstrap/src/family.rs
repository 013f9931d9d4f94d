//! Families of images. A new family is a variant here, with its definitions.

use kiln_aks_formats::{Arch, KubernetesVersion};

use crate::derive::DeriveError;
use crate::resolve::Resolved;

/// A family of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Ubuntu 20.04, for FIPS without measured boot alone.
    Ubuntu2004,
    /// Ubuntu 22.04.
    Ubuntu2204,
    /// Ubuntu 24.04.
    Ubuntu2404,
    /// Azure Linux 2.
    AzureLinux2,
    /// Azure Linux 3.
    AzureLinux3,
    /// A gallery of one's own: the class names the image.
    Gallery,
    /// The newest image that the prototype operation made of a running node: the class names its definition.
    Prototype,
}

/// An image definition of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name in the gallery.
    pub name: &'static str,
    pub arch: Arch,
    /// The generation of machines.
    pub generation: u8,
}

const fn definition(name: &'static str, arch: Arch, generation: u8) -> Definition {
    Definition { name, arch, generation }
}

use Arch::{Amd64, Arm64};

impl Family {
    /// The family for inputs: by name, version, FIPS and measured boot.
    pub fn resolve(inputs: &Resolved) -> Result<Self, DeriveError> {
        let word = inputs.text("imageFamily");
        let fips = inputs.text("fipsMode") == "FIPS";
        let version = inputs.version()?;
        Self::of(word, &version, fips, inputs.is_true("trustedLaunch")).ok_or_else(|| DeriveError::Word {
            field: "imageFamily",
            word: word.to_owned(),
            known: "Ubuntu, Ubuntu2204, Ubuntu2404, AzureLinux, Gallery, Prototype",
        })
    }

    /// The family of that name.
    pub fn of(word: &str, version: &KubernetesVersion, fips: bool, trusted_launch: bool) -> Option<Self> {
        Some(match word {
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

    /// Its name.
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

    /// What the node's label says of its system.
    pub fn os_sku(self) -> &'static str {
        match self {
            Self::AzureLinux2 | Self::AzureLinux3 => "AzureLinux",
            _ => "Ubuntu",
        }
    }

    /// The community gallery that has it, and the name of its shared one.
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

    /// Its definitions, in the order in which they are tried.
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

    fn family(word: &str, version: &str, fips: bool, trusted: bool) -> Option<Family> {
        Family::of(word, &version.parse().unwrap(), fips, trusted)
    }

    #[test]
    fn a_name_without_a_number_follows_the_version() {
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
    fn every_family_of_azures_has_an_image_for_its_machines() {
        for family in [Family::Ubuntu2204, Family::Ubuntu2404, Family::AzureLinux3] {
            let definitions = family.definitions(false, false);
            assert_eq!(definitions.iter().filter(|d| d.arch == Arm64).count(), 1);
            assert_eq!(definitions[0].generation, 2);
            assert!(family.gallery().is_some());
        }
    }
}
