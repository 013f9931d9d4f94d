//! Changes between two image versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kiln_types::{Inspection, VersionNumber};
use serde::{Deserialize, Serialize};

/// The contents of an image version, from the inspection of its donor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionFacts {
    pub version: VersionNumber,
    pub kernel: String,
    pub kubelet: String,
    pub runtime: String,
    pub os: String,
    /// Versions by package name.
    pub packages: BTreeMap<String, String>,
    /// Cached container images.
    #[serde(default)]
    pub images: BTreeSet<String>,
}

impl VersionFacts {
    /// The contents of a version that is created from an inspected donor.
    pub fn new(version: VersionNumber, donor: &Inspection) -> Self {
        Self {
            version,
            kernel: donor.kernel.clone(),
            kubelet: donor.kubelet_version.clone(),
            runtime: donor.runtime_version.clone(),
            os: donor.os_release.clone(),
            packages: donor.packages.clone(),
            images: donor.cached_images.iter().cloned().collect(),
        }
    }
}

/// A changed item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub name: String,
    /// Absent if the item was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Absent if the item was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The changes from one version to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    pub from: VersionNumber,
    pub to: VersionNumber,
    /// Changes of kernel, kubelet, runtime and distribution.
    pub system: Vec<Change>,
    /// Sorted by name.
    pub packages: Vec<Change>,
    pub images_added: Vec<String>,
    pub images_removed: Vec<String>,
}

/// Compares two versions.
pub fn diff(from: &VersionFacts, to: &VersionFacts) -> Diff {
    let system = [
        ("kernel", &from.kernel, &to.kernel),
        ("kubelet", &from.kubelet, &to.kubelet),
        ("runtime", &from.runtime, &to.runtime),
        ("os", &from.os, &to.os),
    ];
    let names: BTreeSet<&String> = from.packages.keys().chain(to.packages.keys()).collect();
    let package = |name: &String| Change {
        name: name.clone(),
        before: from.packages.get(name).cloned(),
        after: to.packages.get(name).cloned(),
    };
    Diff {
        from: from.version.clone(),
        to: to.version.clone(),
        system: system
            .into_iter()
            .filter(|(_, before, after)| before != after)
            .map(|(name, before, after)| Change {
                name: name.to_owned(),
                before: Some(before.clone()),
                after: Some(after.clone()),
            })
            .collect(),
        packages: names.into_iter().map(package).filter(|change| change.before != change.after).collect(),
        images_added: to.images.difference(&from.images).cloned().collect(),
        images_removed: from.images.difference(&to.images).cloned().collect(),
    }
}

impl Diff {
    /// Whether the versions have the same contents.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty()
            && self.packages.is_empty()
            && self.images_added.is_empty()
            && self.images_removed.is_empty()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {} {before} -> {after}", self.name),
            (None, Some(after)) => write!(f, "+ {} {after}", self.name),
            (Some(before), None) => write!(f, "- {} {before}", self.name),
            (None, None) => write!(f, "  {}", self.name),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "{} and {} have the same contents", self.from, self.to);
        }
        let count = |of: fn(&Change) -> bool| self.packages.iter().filter(|change| of(change)).count();
        let changed = count(|c| c.before.is_some() && c.after.is_some());
        let (added, removed) = (count(|c| c.before.is_none()), count(|c| c.after.is_none()));
        writeln!(f, "{} -> {}", self.from, self.to)?;
        for change in &self.system {
            writeln!(f, "{change}")?;
        }
        writeln!(f, "packages: {changed} changed, {added} added, {removed} removed")?;
        for change in &self.packages {
            writeln!(f, "{change}")?;
        }
        writeln!(f, "images: {} added, {} removed", self.images_added.len(), self.images_removed.len())?;
        self.images_added.iter().try_for_each(|image| writeln!(f, "+ {image}"))?;
        self.images_removed.iter().try_for_each(|image| writeln!(f, "- {image}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, kernel: &str, packages: &[(&str, &str)], images: &[&str]) -> VersionFacts {
        VersionFacts {
            version: version.parse().unwrap(),
            kernel: kernel.into(),
            kubelet: "v1.19.6".into(),
            runtime: "containerd://1.4.3".into(),
            os: "Ubuntu 18.04.5 LTS".into(),
            packages: packages.iter().map(|(name, version)| ((*name).into(), (*version).into())).collect(),
            images: images.iter().map(|image| (*image).to_owned()).collect(),
        }
    }

    fn old() -> VersionFacts {
        facts("2026.11.08", "5.4.0-1032-azure", &[("bash", "4.4"), ("curl", "7.58"), ("ftp", "0.17")], &["a:1", "b:1"])
    }

    fn new() -> VersionFacts {
        facts("2026.11.15", "5.4.0-1036-azure", &[("bash", "4.4"), ("curl", "7.59"), ("zstd", "1.3")], &["b:1", "c:2"])
    }

    #[test]
    fn added_removed_and_changed_items_are_distinguished() {
        let text = diff(&old(), &new()).to_string();
        assert_eq!(
            text,
            "2026.11.08 -> 2026.11.15\n\
             ~ kernel 5.4.0-1032-azure -> 5.4.0-1036-azure\n\
             packages: 1 changed, 1 added, 1 removed\n\
             ~ curl 7.58 -> 7.59\n- ftp 0.17\n+ zstd 1.3\n\
             images: 1 added, 1 removed\n+ c:2\n- a:1\n"
        );
    }

    #[test]
    fn json_has_the_same_changes_as_the_text() {
        let json = serde_json::to_value(diff(&old(), &new())).unwrap();
        assert_eq!(json["system"][0]["after"], "5.4.0-1036-azure");
        assert_eq!(json["packages"][1], serde_json::json!({"name": "ftp", "before": "0.17"}));
        assert_eq!(json["imagesAdded"], serde_json::json!(["c:2"]));
    }

    #[test]
    fn versions_with_the_same_contents_have_no_changes() {
        let again = VersionFacts { version: "2026.11.16".parse().unwrap(), ..new() };
        let none = diff(&new(), &again);
        assert!(none.is_empty());
        assert_eq!(none.to_string(), "2026.11.15 and 2026.11.16 have the same contents\n");
    }

    #[test]
    fn swapping_the_versions_swaps_every_change() {
        let (there, back) = (diff(&old(), &new()), diff(&new(), &old()));
        let turned: Vec<Change> =
            back.packages.into_iter().map(|c| Change { before: c.after, after: c.before, ..c }).collect();
        assert_eq!(there.packages, turned);
        assert_eq!((there.images_added, there.images_removed), (back.images_removed, back.images_added));
    }
}
