//! Whether a donor has the changes for which a version was rejected.

use std::collections::BTreeMap;
use std::fmt;

use kiln_types::{Inspection, Node, VersionNumber};
use serde::Serialize;

use super::rejected::RejectedVersion;
use crate::diff::{VersionFacts, diff};
use crate::provenance::Provenance;

/// Identifies a patch level without its whole package list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// The hash of the package list.
    pub packages: Option<String>,
    pub kernel: Option<String>,
    pub kubelet: Option<String>,
    pub runtime: Option<String>,
}

impl Fingerprint {
    /// The fingerprint of a version, from its tags.
    pub fn from_provenance(version: &Provenance) -> Self {
        Self {
            packages: version.packages.clone(),
            kernel: version.kernel.clone(),
            kubelet: version.kubelet.clone(),
            runtime: version.runtime.clone(),
        }
    }

    /// The fingerprint without the kernel, kubelet and runtime that the version before it also has.
    #[must_use]
    pub fn without(&self, before: Option<&Self>) -> Self {
        let new = |own: &Option<String>, old: Option<&Option<String>>| {
            own.clone().filter(|own| old.and_then(Option::as_ref) != Some(own))
        };
        Self {
            packages: self.packages.clone(),
            kernel: new(&self.kernel, before.map(|b| &b.kernel)),
            kubelet: new(&self.kubelet, before.map(|b| &b.kubelet)),
            runtime: new(&self.runtime, before.map(|b| &b.runtime)),
        }
    }
}

/// The patch level of a donor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchLevel {
    pub fingerprint: Fingerprint,
    /// Known once the donor was inspected.
    pub packages: Option<BTreeMap<String, String>>,
}

impl PatchLevel {
    /// The patch level that a node reports. It does not include packages.
    pub fn from_node(node: &Node) -> Self {
        let reported = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let system = &node.system;
        let (kernel, kubelet, runtime) =
            (reported(&system.kernel), reported(&system.kubelet), reported(&system.runtime));
        Self { fingerprint: Fingerprint { packages: None, kernel, kubelet, runtime }, packages: None }
    }

    /// The patch level that an inspection found.
    pub fn from_inspection(inspection: &Inspection) -> Self {
        let fingerprint = Fingerprint {
            packages: Some(inspection.package_hash()),
            kernel: Some(inspection.kernel.clone()),
            kubelet: Some(inspection.kubelet_version.clone()),
            runtime: Some(inspection.runtime_version.clone()),
        };
        Self { fingerprint, packages: Some(inspection.packages.clone()) }
    }
}

/// A rejected version, with its stored contents and those of the version before it, if they are known.
#[derive(Debug, Clone, Copy)]
pub struct RejectedEvidence<'a> {
    pub rejected: &'a RejectedVersion,
    /// The contents of the version before it and its own.
    pub contents: Option<(&'a VersionFacts, &'a VersionFacts)>,
}

impl<'a> RejectedEvidence<'a> {
    /// Finds the stored contents of a rejected version. The version before it is the newest older one that was not rejected itself.
    pub fn new(rejected: &'a RejectedVersion, all: &[RejectedVersion], kept: &'a [VersionFacts]) -> Self {
        let is_rejected = |facts: &&VersionFacts| all.iter().any(|one| one.number == facts.version);
        let own = kept.iter().find(|facts| facts.version == rejected.number);
        let older = kept.iter().filter(|facts| facts.version < rejected.number && !is_rejected(facts));
        let before = older.max_by(|a, b| a.version.cmp(&b.version));
        Self { rejected, contents: before.zip(own) }
    }
}

impl<'a> From<&'a RejectedVersion> for RejectedEvidence<'a> {
    fn from(rejected: &'a RejectedVersion) -> Self {
        Self { rejected, contents: None }
    }
}

/// A donor with the changes of a rejected version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SamePatch {
    /// The rejected version.
    pub version: VersionNumber,
    /// The changes that both have.
    pub shared: Vec<String>,
}

impl fmt::Display for SamePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "has the changes for which version {} was rejected: {}", self.version, self.shared.join(", "))
    }
}

/// The rejected version that a new version from this donor would repeat.
///
/// It repeats it if *all* changes that the rejected version introduced are present unchanged, whatever else was installed. Once one of
/// them has changed, that may be the fix; whether it is, the canary and the person who unpaused the pool decide. Without package lists,
/// kernel, kubelet and runtime are compared, and if none of these changed, the hash of the list.
pub fn same_patch<'a>(
    donor: &PatchLevel,
    evidence: impl IntoIterator<Item = RejectedEvidence<'a>>,
) -> Option<SamePatch> {
    evidence.into_iter().find_map(|evidence| {
        let shared =
            by_contents(donor, evidence).unwrap_or_else(|| by_fingerprint(donor, &evidence.rejected.introduced));
        (!shared.is_empty()).then(|| SamePatch { version: evidence.rejected.number.clone(), shared })
    })
}

/// `None` if the contents are not known or do not differ.
fn by_contents(donor: &PatchLevel, evidence: RejectedEvidence<'_>) -> Option<Vec<String>> {
    let ((before, rejected), packages) = (evidence.contents?, donor.packages.as_ref()?);
    let change = diff(before, rejected);
    let system = |name: &str| match name {
        "kernel" => donor.fingerprint.kernel.as_ref(),
        "kubelet" => donor.fingerprint.kubelet.as_ref(),
        "runtime" => donor.fingerprint.runtime.as_ref(),
        _ => None,
    };
    // The name of the release follows from the packages.
    let of_system = change.system.iter().filter(|c| c.name != "os").map(|c| (c, system(&c.name)));
    let of_packages = change.packages.iter().map(|c| (c, packages.get(&c.name)));
    let all: Vec<_> = of_system.chain(of_packages).collect();
    if all.is_empty() {
        return None;
    }
    let same = all.iter().all(|(change, has)| change.after.as_ref() == *has);
    let name = |change: &crate::diff::Change| match &change.after {
        Some(after) => format!("{} {after}", change.name),
        None => format!("no {}", change.name),
    };
    Some(if same { all.iter().map(|(change, _)| name(change)).collect() } else { Vec::new() })
}

fn by_fingerprint(donor: &PatchLevel, introduced: &Fingerprint) -> Vec<String> {
    let has = &donor.fingerprint;
    if introduced.packages.is_some() && introduced.packages == has.packages {
        return vec!["the same packages".to_owned()];
    }
    let parts = [
        ("kernel", &introduced.kernel, &has.kernel),
        ("kubelet", &introduced.kubelet, &has.kubelet),
        ("runtime", &introduced.runtime, &has.runtime),
    ];
    let new: Vec<_> = parts.into_iter().filter(|(_, introduced, _)| introduced.is_some()).collect();
    let same = new.iter().all(|(_, introduced, has)| introduced == has);
    let text = |(name, introduced, _): &(&str, &Option<String>, &Option<String>)| {
        format!("{name} {}", introduced.as_deref().unwrap_or_default())
    };
    if same { new.iter().map(text).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{inspection, number};

    fn rejected() -> RejectedVersion {
        let own = PatchLevel::from_inspection(&inspection()).fingerprint;
        let before = Fingerprint { kernel: Some("5.4.0-1032-azure".into()), ..own.clone() };
        RejectedVersion { number: number("2026.11.15"), introduced: own.without(Some(&before)) }
    }

    fn donor(change: impl FnOnce(&mut Inspection)) -> PatchLevel {
        let mut inspection = inspection();
        change(&mut inspection);
        PatchLevel::from_inspection(&inspection)
    }

    fn repeats(donor: &PatchLevel) -> Option<Vec<String>> {
        same_patch(donor, [RejectedEvidence::from(&rejected())]).map(|same| same.shared)
    }

    #[test]
    fn unchanged_parts_are_not_introduced() {
        assert_eq!(rejected().introduced.kernel.as_deref(), Some("5.4.0-1036-azure"));
        assert_eq!((rejected().introduced.kubelet, rejected().introduced.runtime), (None, None));
    }

    #[test]
    fn same_packages_are_the_same_patch() {
        assert_eq!(repeats(&donor(|_| ())).unwrap(), ["the same packages"]);
    }

    #[test]
    fn further_package_does_not_change_the_kernel() {
        let on_top = donor(|inspection| _ = inspection.packages.insert("vim".into(), "8.0".into()));
        assert_eq!(repeats(&on_top).unwrap(), ["kernel 5.4.0-1036-azure"]);
    }

    #[test]
    fn newer_kernel_is_a_different_patch() {
        let newer = donor(|inspection| {
            inspection.kernel = "5.4.0-1040-azure".into();
            inspection.packages.insert("linux-image-azure".into(), "5.4.0.1040.42".into());
        });
        assert_eq!(repeats(&newer), None);
    }

    #[test]
    fn rejected_version_without_a_fingerprint_matches_no_donor() {
        let silent = RejectedVersion { introduced: Fingerprint::default(), ..rejected() };
        assert_eq!(same_patch(&donor(|_| ()), [RejectedEvidence::from(&silent)]), None);
    }

    #[test]
    fn package_lists_distinguish_a_fix_from_further_packages() {
        let facts = |inspection: &Inspection, version| VersionFacts::new(number(version), inspection);
        let mut before = inspection();
        before.packages.insert("curl".into(), "7.57.0".into());
        let (before, after) = (facts(&before, "2026.11.08"), facts(&inspection(), "2026.11.15"));
        let silent = RejectedVersion { introduced: Fingerprint::default(), ..rejected() };
        let check = |donor: &PatchLevel| {
            same_patch(donor, [RejectedEvidence { rejected: &silent, contents: Some((&before, &after)) }])
                .map(|same| same.shared)
        };
        let on_top = donor(|inspection| _ = inspection.packages.insert("bash".into(), "4.5".into()));
        assert_eq!(check(&on_top).unwrap(), ["curl 7.58.0"]);
        assert_eq!(check(&donor(|inspection| _ = inspection.packages.insert("curl".into(), "7.58.1".into()))), None);
        assert_eq!(check(&donor(|inspection| _ = inspection.packages.remove("curl"))), None);
    }
}
