//! Entries of `/etc/fstab`, and which of them delay a clone's boot.

use serde::{Deserialize, Serialize};

/// An entry of `/etc/fstab`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FstabEntry {
    pub device: String,
    pub mount_point: String,
    /// The device is identified by a UUID that another disk does not have.
    pub by_uuid: bool,
    /// The boot continues without it.
    pub nofail: bool,
    pub is_root: bool,
}

impl FstabEntry {
    /// Whether a machine with only a copy of the OS disk waits for this mount until it times out. Root and boot partitions are on the OS disk,
    /// and a copy has the same UUIDs.
    pub fn holds_up_a_clone(&self) -> bool {
        let on_os_disk = self.is_root || ["/boot", "/boot/efi"].contains(&self.mount_point.as_str());
        self.by_uuid && !self.nofail && !on_os_disk
    }
}

/// Parses the file; comments and malformed lines are skipped, as by `mount`.
pub fn parse(text: &str) -> Vec<FstabEntry> {
    text.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<FstabEntry> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split_whitespace();
    let (device, mount_point) = (fields.next()?, fields.next()?);
    let options = fields.nth(1).unwrap_or("defaults");
    let by_uuid = ["UUID=", "PARTUUID=", "/dev/disk/by-uuid/", "/dev/disk/by-partuuid/"]
        .iter()
        .any(|prefix| device.starts_with(prefix));
    Some(FstabEntry {
        device: device.to_owned(),
        mount_point: mount_point.to_owned(),
        by_uuid,
        nofail: options.split(',').any(|option| option == "nofail" || option == "noauto"),
        is_root: mount_point == "/",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_data_disks_by_uuid_delay_a_clone() {
        let text = "# made by the installer\n\
                    UUID=1111 / ext4 defaults,discard 0 1\n\
                    LABEL=UEFI /boot/efi vfat umask=0077 0 1\n\
                    UUID=2222 /boot ext4 defaults 0 1\n\
                    \n\
                    UUID=3333 /data ext4 defaults 0 2\n\
                    UUID=4444 /logs ext4 defaults,nofail 0 2\n\
                    /dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail 0 2\n\
                    lonely\n";
        let all = parse(text);
        assert_eq!(all.len(), 6);
        let delaying: Vec<&str> =
            all.iter().filter(|entry| entry.holds_up_a_clone()).map(|entry| entry.mount_point.as_str()).collect();
        assert_eq!(delaying, ["/data"]);
        assert!(all[0].is_root && all[0].by_uuid && !all[0].nofail);
    }

    #[test]
    fn missing_options_are_defaults() {
        let all = parse("UUID=5 /srv xfs\n");
        assert!(all[0].holds_up_a_clone());
    }
}
