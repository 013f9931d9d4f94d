//! Network interfaces that the host provides.

use std::fs;
use std::path::Path;

/// Drivers of interfaces on which the host's services are reachable. An SR-IOV virtual function that shares the MAC address has another driver
/// and does not reach them.
const DRIVERS: [&str; 2] = ["hv_netvsc", "virtio_net"];
/// `ARPHRD_ETHER`.
const ETHERNET: &str = "1";

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub hardware: [u8; 6],
}

/// The interfaces of the host that have their final names, by index.
///
/// `links` is `/sys/class/net`. `udev` is udev's database: an interface that is in use cannot be renamed, so kilnd waits until udev has
/// processed it.
pub fn ready(links: &Path, udev: &Path) -> Vec<Link> {
    let Ok(entries) = fs::read_dir(links) else { return Vec::new() };
    let mut found: Vec<Link> = entries.flatten().filter_map(|entry| link(&entry.path())).collect();
    found.retain(|link| {
        fs::read_to_string(udev.join(format!("n{}", link.index))).is_ok_and(|record| is_named(&record, &link.name))
    });
    found.sort_by_key(|link| link.index);
    found
}

/// Whether udev's record shows that an interface keeps this name. During a rename the record has no new name yet; afterwards it has both until
/// the rename event was processed.
fn is_named(record: &str, name: &str) -> bool {
    let property =
        |key: &str| record.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
    let is_processed = record.lines().any(|line| line.starts_with("I:"));
    property("ID_NET_NAME") == Some(name) || (is_processed && property("ID_RENAMING").is_none())
}

fn link(folder: &Path) -> Option<Link> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let driver = fs::read_link(folder.join("device/driver")).ok()?;
    let is_host_driver = driver.file_name().is_some_and(|name| DRIVERS.iter().any(|known| name == *known));
    // A member of a bond or bridge.
    let is_member = folder.join("master").symlink_metadata().is_ok();
    if !is_host_driver || is_member || read("type")? != ETHERNET {
        return None;
    }
    Some(Link {
        index: read("ifindex")?.parse().ok()?,
        name: folder.file_name()?.to_str()?.to_owned(),
        hardware: hardware(&read("address")?)?,
    })
}

fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            fs::create_dir_all(folder.path().join("data")).expect("made");
            Self(folder)
        }

        fn link(&self, index: u32, name: &str, driver: &str) -> std::path::PathBuf {
            let link = self.0.path().join("net").join(name);
            fs::create_dir_all(link.join("device")).expect("made");
            symlink(format!("../../../bus/x/drivers/{driver}"), link.join("device/driver")).expect("linked");
            for (file, content) in
                [("type", "1\n"), ("ifindex", &format!("{index}\n")), ("address", "52:54:00:12:34:56\n")]
            {
                fs::write(link.join(file), content).expect("written");
            }
            link
        }

        fn name(&self, index: u32) {
            fs::write(self.0.path().join(format!("data/n{index}")), "I:1\n").expect("written");
        }

        fn ready(&self) -> Vec<String> {
            let (links, udev) = (self.0.path().join("net"), self.0.path().join("data"));
            ready(&links, &udev).into_iter().map(|link| link.name).collect()
        }
    }

    #[test]
    fn interfaces_are_ready_after_udev_and_ordered_by_index() {
        let machine = Machine::new();
        assert_eq!(machine.ready(), [""; 0]);
        machine.link(10, "eth1", "hv_netvsc");
        machine.link(2, "eth0", "virtio_net");
        assert_eq!(machine.ready(), [""; 0]);
        machine.name(10);
        assert_eq!(machine.ready(), ["eth1"]);
        machine.name(2);
        assert_eq!(machine.ready(), ["eth0", "eth1"]);
    }

    #[test]
    fn interface_being_renamed_is_not_ready() {
        assert!(!is_named("", "eth0"));
        assert!(!is_named("E:ID_RENAMING=1\n", "eth0"));
        assert!(!is_named("I:7\nE:ID_NET_NAME=enp0s1\nE:ID_RENAMING=1\n", "eth0"));
        assert!(is_named("I:7\nE:ID_NET_NAME=enp0s1\nE:ID_RENAMING=1\n", "enp0s1"));
        assert!(is_named("I:7\nE:ID_NET_NAME=enp0s1\n", "enp0s1"));
        assert!(is_named("I:7\nE:ID_BUS=pci\n", "eth0"), "no rename");
    }

    #[test]
    fn other_interfaces_are_ignored() {
        let machine = Machine::new();
        machine.link(2, "vf", "mlx5_core");
        symlink("../bond0", machine.link(3, "part", "virtio_net").join("master")).expect("linked");
        fs::write(machine.link(4, "infiniband", "virtio_net").join("type"), "32\n").expect("written");
        fs::write(machine.link(5, "odd", "virtio_net").join("address"), "52:54\n").expect("written");
        fs::create_dir_all(machine.0.path().join("net/lo")).expect("made");
        (1..=5).for_each(|index| machine.name(index));
        assert_eq!(machine.ready(), [""; 0]);
    }
}
