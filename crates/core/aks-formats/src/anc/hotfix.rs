//! Which newer build of the node controller a node may take: only one of the same day with a higher number.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file that points to newer builds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pointer {
    /// The build for everybody, where no map is given.
    pub version: String,
    /// The build of the scripts.
    pub scripts_version: String,
    /// The build for each day.
    pub hotfixes: BTreeMap<String, String>,
}

/// A text that is no build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no build: YYYYMM.DD.PATCH is")]
pub struct BadBuild(pub String);

impl Pointer {
    /// Reads the file; blank means that it points nowhere.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        if text.trim().is_empty() { Ok(Self::default()) } else { serde_json::from_str(text) }
    }

    /// The build for a node with this one. The map wins; a day that it does not list has none.
    pub fn for_build(&self, current: &str) -> String {
        if self.hotfixes.is_empty() {
            return self.version.clone();
        }
        day(current).ok().and_then(|day| self.hotfixes.get(&day)).cloned().unwrap_or_default()
    }
}

/// The day of a build: `202604.01` of `202604.01.1`.
pub fn day(build: &str) -> Result<String, BadBuild> {
    match build.trim().split('.').collect::<Vec<_>>()[..] {
        [month, day, patch] if ![month, day, patch].contains(&"") => Ok(format!("{month}.{day}")),
        _ => Err(BadBuild(build.to_owned())),
    }
}

/// Whether a node with this build takes that one.
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
    fn only_a_later_build_of_the_same_day_is_taken() {
        assert_eq!(should_upgrade("202604.01.0", "202604.01.1-1"), Ok(true));
        assert_eq!(should_upgrade("202604.01.2", "202604.01.1"), Ok(false));
        assert_eq!(should_upgrade("202604.15.0", "202604.01.1"), Ok(false));
        assert_eq!(should_upgrade("dev", "202604.01.1"), Err(BadBuild("dev".to_owned())));
    }

    #[test]
    fn a_map_of_days_wins_over_a_single_build() {
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
