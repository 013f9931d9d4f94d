//! Whether a donor would bring back what was just taken back.

use std::collections::BTreeMap;
use std::fmt;

use kiln_node_plan::Inspection;
use kiln_types::VersionNumber;
use serde::Serialize;

use super::bad::BadVersion;
use crate::diff::{VersionFacts, diff};
use crate::donor::NodeFacts;
use crate::provenance::Provenance;

/// What tells one patch level from another without its whole package list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// The hash of the package list.
    pub packages: Option<String>,
    pub kernel: Option<String>,
    /// Kubelet.
    pub kubelet: Option<String>,
    /// The container runtime.
    pub runtime: Option<String>,
}

impl Fingerprint {
    /// Of a version, as its tags say.
    pub fn of(version: &Provenance) -> Self {
        Self {
            packages: version.packages.clone(),
            kernel: version.kernel.clone(),
            kubelet: version.kubelet.clone(),
            runtime: version.runtime.clone(),
        }
    }

    /// Kernel, kubelet and runtime, without what the version before it had as well.
    #[must_use]
    pub fn brought(&self, before: Option<&Self>) -> Self {
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
pub struct Patch {
    /// What tells it from others.
    pub fingerprint: Fingerprint,
    /// Its packages, once it was inspected.
    pub packages: Option<BTreeMap<String, String>>,
}

impl Patch {
    /// What a node says of itself: enough for most, and nothing of its packages.
    pub fn of_node(node: &NodeFacts) -> Self {
        let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (kernel, kubelet, runtime) = (said(&node.kernel), said(&node.kubelet), said(&node.runtime));
        Self { fingerprint: Fingerprint { packages: None, kernel, kubelet, runtime }, packages: None }
    }

    /// What was found inside.
    pub fn of_inside(inside: &Inspection) -> Self {
        let fingerprint = Fingerprint {
            packages: Some(inside.package_hash()),
            kernel: Some(inside.kernel.clone()),
            kubelet: Some(inside.kubelet_version.clone()),
            runtime: Some(inside.runtime_version.clone()),
        };
        Self { fingerprint, packages: Some(inside.packages.clone()) }
    }
}

/// A bad version, with the contents of it and of the one before it where these are still known.
#[derive(Debug, Clone, Copy)]
pub struct Suspect<'a> {
    pub bad: &'a BadVersion,
    /// The contents of the version before it, and its own.
    pub contents: Option<(&'a VersionFacts, &'a VersionFacts)>,
}

impl<'a> Suspect<'a> {
    /// A bad version beside the contents that were kept. The one before it is the newest older one that was not bad itself.
    pub fn new(bad: &'a BadVersion, all_bad: &[BadVersion], kept: &'a [VersionFacts]) -> Self {
        let is_bad = |facts: &&VersionFacts| all_bad.iter().any(|bad| bad.number == facts.version);
        let own = kept.iter().find(|facts| facts.version == bad.number);
        let older = kept.iter().filter(|facts| facts.version < bad.number && !is_bad(facts));
        let before = older.max_by(|a, b| a.version.cmp(&b.version));
        Self { bad, contents: before.zip(own) }
    }
}

impl<'a> From<&'a BadVersion> for Suspect<'a> {
    fn from(bad: &'a BadVersion) -> Self {
        Self { bad, contents: None }
    }
}

/// A donor that would bring a bad patch back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SamePatch {
    /// The version that was taken back.
    pub version: VersionNumber,
    /// What the donor has in common with it.
    pub shared: Vec<String>,
}

impl fmt::Display for SamePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "has what {} was taken back for: {}", self.version, self.shared.join(", "))
    }
}

/// The bad version that a version made of this donor would repeat.
///
/// It repeats it when *all* that the bad version brought is there unchanged, whatever came on top. Once one of these things has changed it
/// may be the cure, and the canary and whoever lifted the hold judge that. Without package lists, kernel, kubelet and runtime stand for
/// them; where none of these changed, the hash of the list does.
pub fn same_patch<'a>(donor: &Patch, suspects: impl IntoIterator<Item = Suspect<'a>>) -> Option<SamePatch> {
    suspects.into_iter().find_map(|suspect| {
        let shared = by_contents(donor, suspect).unwrap_or_else(|| by_fingerprint(donor, &suspect.bad.brought));
        (!shared.is_empty()).then(|| SamePatch { version: suspect.bad.number.clone(), shared })
    })
}

/// None where the contents do not tell.
fn by_contents(donor: &Patch, suspect: Suspect<'_>) -> Option<Vec<String>> {
    let ((before, bad), packages) = (suspect.contents?, donor.packages.as_ref()?);
    let change = diff(before, bad);
    let system = |name: &str| match name {
        "kernel" => donor.fingerprint.kernel.as_ref(),
        "kubelet" => donor.fingerprint.kubelet.as_ref(),
        "runtime" => donor.fingerprint.runtime.as_ref(),
        _ => None,
    };
    // The release's name follows from the packages.
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

fn by_fingerprint(donor: &Patch, brought: &Fingerprint) -> Vec<String> {
    let has = &donor.fingerprint;
    if brought.packages.is_some() && brought.packages == has.packages {
        return vec!["the same packages".to_owned()];
    }
    let parts = [
        ("kernel", &brought.kernel, &has.kernel),
        ("kubelet", &brought.kubelet, &has.kubelet),
        ("runtime", &brought.runtime, &has.runtime),
    ];
    let new: Vec<_> = parts.into_iter().filter(|(_, brought, _)| brought.is_some()).collect();
    let same = new.iter().all(|(_, brought, has)| brought == has);
    let text = |(name, brought, _): &(&str, &Option<String>, &Option<String>)| {
        format!("{name} {}", brought.as_deref().unwrap_or_default())
    };
    if same { new.iter().map(text).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{inspection, number};

    fn bad() -> BadVersion {
        let brought = Patch::of_inside(&inspection()).fingerprint;
        let before = Fingerprint { kernel: Some("5.4.0-1032-azure".into()), ..brought.clone() };
        BadVersion { number: number("2026.11.15"), brought: brought.brought(Some(&before)) }
    }

    fn donor(change: impl FnOnce(&mut Inspection)) -> Patch {
        let mut inside = inspection();
        change(&mut inside);
        Patch::of_inside(&inside)
    }

    fn repeats(donor: &Patch) -> Option<Vec<String>> {
        same_patch(donor, [Suspect::from(&bad())]).map(|same| same.shared)
    }

    #[test]
    fn what_was_the_same_before_is_not_what_a_version_brought() {
        assert_eq!(bad().brought.kernel.as_deref(), Some("5.4.0-1036-azure"));
        assert_eq!((bad().brought.kubelet, bad().brought.runtime), (None, None));
    }

    #[test]
    fn the_same_packages_are_the_same_patch() {
        assert_eq!(repeats(&donor(|_| ())).unwrap(), ["the same packages"]);
    }

    #[test]
    fn another_package_on_top_does_not_make_the_kernel_another() {
        let on_top = donor(|inside| _ = inside.packages.insert("vim".into(), "8.0".into()));
        assert_eq!(repeats(&on_top).unwrap(), ["kernel 5.4.0-1036-azure"]);
    }

    #[test]
    fn a_newer_kernel_is_another_patch() {
        let newer = donor(|inside| {
            inside.kernel = "5.4.0-1040-azure".into();
            inside.packages.insert("linux-image-azure".into(), "5.4.0.1040.42".into());
        });
        assert_eq!(repeats(&newer), None);
    }

    #[test]
    fn a_bad_version_that_says_nothing_of_itself_is_nobodys_patch() {
        let silent = BadVersion { brought: Fingerprint::default(), ..bad() };
        assert_eq!(same_patch(&donor(|_| ()), [Suspect::from(&silent)]), None);
    }

    #[test]
    fn package_lists_tell_a_cured_package_from_another_one_on_top() {
        let facts = |inside: &Inspection, version| VersionFacts::of(number(version), inside);
        let mut before = inspection();
        before.packages.insert("curl".into(), "7.57.0".into());
        let (before, after) = (facts(&before, "2026.11.08"), facts(&inspection(), "2026.11.15"));
        let silent = BadVersion { brought: Fingerprint::default(), ..bad() };
        let check = |donor: &Patch| {
            same_patch(donor, [Suspect { bad: &silent, contents: Some((&before, &after)) }]).map(|same| same.shared)
        };
        let on_top = donor(|inside| _ = inside.packages.insert("bash".into(), "4.5".into()));
        assert_eq!(check(&on_top).unwrap(), ["curl 7.58.0"]);
        assert_eq!(check(&donor(|inside| _ = inside.packages.insert("curl".into(), "7.58.1".into()))), None);
        assert_eq!(check(&donor(|inside| _ = inside.packages.remove("curl"))), None);
    }
}
