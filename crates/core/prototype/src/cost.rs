//! The estimated storage cost of a pool's versions.

use std::fmt;

use serde::Serialize;

/// US cents per GiB and month.
///
/// Azure's list price of standard snapshots in its US regions, zone-redundant or local, has been 0.05 US$ for years, and gallery versions
/// are billed as such snapshots. Regions and contracts differ; the estimate only distinguishes five dollars from five hundred.
pub const CENTS_PER_GIB_MONTH: u64 = 5;

/// The estimated storage cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageCost {
    /// Per replica.
    pub gib: u64,
    /// Whether `gib` is the used part of the disk instead of its size.
    pub by_use: bool,
    /// Per version, in all regions.
    pub replicas: u64,
    pub versions: u64,
    /// US cents per month and version.
    pub cents_per_version: u64,
    /// US cents per month.
    pub cents: u64,
}

/// Estimates the cost of keeping versions. It is based on the used bytes if they are known, otherwise on the disk's size.
pub fn storage(size_gib: u32, used_bytes: Option<u64>, replicas: u32, regions: u32, versions: u32) -> StorageCost {
    const GIB: u64 = 1 << 30;
    let gib = used_bytes.map_or(u64::from(size_gib), |used| used.div_ceil(GIB));
    let replicas = u64::from(replicas) * u64::from(regions);
    let cents_per_version = gib * replicas * CENTS_PER_GIB_MONTH;
    StorageCost {
        gib,
        by_use: used_bytes.is_some(),
        replicas,
        versions: versions.into(),
        cents_per_version,
        cents: cents_per_version * u64::from(versions),
    }
}

fn dollars(cents: u64) -> String {
    format!("{}.{:02} US$", cents / 100, cents % 100)
}

impl fmt::Display for StorageCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let basis = if self.by_use { "used" } else { "of disk" };
        write!(
            f,
            "storage: about {} a month for {} versions of {} GiB {basis} with {} replicas each, {} per version (estimate at {} per GiB)",
            dollars(self.cents),
            self.versions,
            self.gib,
            self.replicas,
            dollars(self.cents_per_version),
            dollars(CENTS_PER_GIB_MONTH),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_used_gib_times_replicas_times_versions() {
        let cost = storage(128, Some(12 << 30), 3, 1, 3);
        assert_eq!((cost.gib, cost.cents_per_version, cost.cents), (12, 180, 540));
        let text = cost.to_string();
        assert!(
            text.starts_with("storage: about 5.40 US$ a month for 3 versions of 12 GiB used with 3 replicas"),
            "{text}"
        );
    }

    #[test]
    fn gib_are_rounded_up_and_unknown_use_is_the_whole_disk() {
        assert_eq!(storage(30, Some((10 << 30) + 1), 3, 1, 2).gib, 11);
        let whole = storage(30, None, 3, 2, 1);
        assert_eq!((whole.gib, whole.replicas, whole.by_use), (30, 6, false));
    }
}
