//! Hotfixes of the node controller. A node upgrades only to a build of the same day with a higher patch number.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file that names the current hotfixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pointer {
    /// Build for all nodes, if `hotfixes` is empty.
    pub version: String,
    pub scripts_version: String,
    /// Build per day.
    pub hotfixes: BTreeMap<String, String>,
}

/// A text that is not a build number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid build `{0}`; expected `YYYYMM.DD.PATCH`")]
pub struct BadBuild(pub String);

impl Pointer {
    /// Parses the file. A blank file names no hotfixes.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        if text.trim().is_empty() { Ok(Self::default()) } else { serde_json::from_str(text) }
    }

    /// Returns the hotfix for a node with the given build. If `hotfixes` is not empty, days that it does not list have none.
    pub fn for_build(&self, current: &str) -> String {
        if self.hotfixes.is_empty() {
            return self.version.clone();
        }
        day(current).ok().and_then(|day| self.hotfixes.get(&day)).cloned().unwrap_or_default()
    }
}

/// Returns the day of a build: `202604.01` for `202604.01.1`.
pub fn day(build: &str) -> Result<String, BadBuild> {
    match build.trim().split('.').collect::<Vec<_>>()[..] {
        [month, day, patch] if ![month, day, patch].contains(&"") => Ok(format!("{month}.{day}")),
        _ => Err(BadBuild(build.to_owned())),
    }
}

/// Whether a node with build `current` upgrades to `hotfix`.
pub fn should_upgrade(current: &str, hotfix: &str) -> Result<bool, BadBuild> {
    let patch = |build: &str| {
        let last = build.trim().rsplit('.').next().unwrap_or_default();
        let number = last.split('-').next().unwrap_or_default();
        number.parse::<u32>().map_err(|_| BadBuild(build.to_owned()))
    };
    let same_day = day(current)? == day(hotfix)?;
    Ok(same_day && patch(hotfix)? > patch(current)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_only_to_later_builds_of_the_same_day() {
        assert_eq!(should_upgrade("202604.01.0", "202604.01.1-1"), Ok(true));
        assert_eq!(should_upgrade("202604.01.2", "202604.01.1"), Ok(false));
        assert_eq!(should_upgrade("202604.15.0", "202604.01.1"), Ok(false));
        assert_eq!(should_upgrade("dev", "202604.01.1"), Err(BadBuild("dev".to_owned())));
    }

    #[test]
    fn hotfixes_per_day_override_the_single_version() {
        let pointer =
            Pointer::read(r#"{"version": "202604.01.9", "hotfixes": {"202604.01": "202604.01.1"}, "sha256": "x"}"#)
                .unwrap();
        assert_eq!(pointer.for_build("202604.01.0"), "202604.01.1");
        assert_eq!(pointer.for_build("202606.09.0"), "");
        assert_eq!(pointer.for_build("dev"), "");
        assert_eq!(Pointer::read(" \n").unwrap(), Pointer::default());
        assert!(Pointer::read("not json").is_err());
    }
}
