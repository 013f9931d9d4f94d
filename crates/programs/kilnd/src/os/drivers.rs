//! Loads the drivers of virtual network interfaces early.
//!
//! udev loads them too, but among the drivers of all other devices, and the early network would have to wait for all of them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::{finit_module, uname};

use crate::os::error::Error;

/// PCI vendor of virtio devices, and PCI class of Ethernet interfaces.
const VIRTIO: &str = "0x1af4";
const ETHERNET: &str = "0x0200";
/// The device type of a network interface on the virtio bus.
const VIRTIO_LINK: &str = "0x0001";
/// The class id of a network interface on the VMBus.
const NETVSC: &str = "{f8615163-df3e-46c5-913f-f2d2f965ed0e}";
/// `MODULE_INIT_COMPRESSED_FILE`: the kernel decompresses the module.
const COMPRESSED: i32 = 4;
/// modprobe configuration. A module that is mentioned there is left to udev, which honours it.
const MODPROBE: [&str; 3] = ["etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d"];
/// Kernel arguments that block modules: in modprobe, and in the kernel itself.
const BLACKLISTS: [&str; 2] = ["modprobe.blacklist=", "module_blacklist="];

/// Loads the drivers of network interfaces without a driver and returns their names.
pub fn load(root: &Path) -> Result<Vec<String>, Error> {
    let wanted = wanted(&root.join("sys/bus"));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let release = uname();
    let folder = root.join("lib/modules").join(release.release().to_string_lossy().as_ref());
    let list = folder.join("modules.dep");
    let text = fs::read_to_string(&list).map_err(|error| Error::io("read", list.display().to_string(), error))?;
    let configured = configured(root);
    let mut loaded = Vec::new();
    for name in wanted {
        let files = files(&text, name);
        if files.iter().any(|file| configured.contains(&module(file))) {
            continue;
        }
        for file in files {
            insert(&folder.join(file))?;
        }
        loaded.push(name.to_owned());
    }
    Ok(loaded)
}

/// The missing drivers.
fn wanted(buses: &Path) -> Vec<&'static str> {
    let devices = |bus: &str| {
        let entries = fs::read_dir(buses.join(bus).join("devices")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|device| !device.join("driver").exists()).collect::<Vec<_>>()
    };
    let has = |device: &Path, file: &str, start: &str| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.starts_with(start))
    };
    if devices("vmbus").iter().any(|device| has(device, "class_id", NETVSC)) {
        return vec!["hv_netvsc"];
    }
    if devices("virtio").iter().any(|device| has(device, "device", VIRTIO_LINK)) {
        return vec!["virtio_net"];
    }
    if devices("pci").iter().any(|device| has(device, "vendor", VIRTIO) && has(device, "class", ETHERNET)) {
        return vec!["virtio_pci", "virtio_net"];
    }
    Vec::new()
}

/// The files of a module and its dependencies, in load order; empty if it is built in.
fn files<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let line = list.lines().find_map(|line| line.split_once(':').filter(|(file, _)| module(file) == name));
    let Some((file, dependencies)) = line else { return Vec::new() };
    // Dependencies are listed in reverse load order.
    let mut files: Vec<&str> = dependencies.split_whitespace().rev().collect();
    files.push(file);
    files
}

/// The module name of a file.
fn module(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    normalized(name.split('.').next().unwrap_or(name))
}

/// A module name with underscores, as the kernel writes it.
fn normalized(text: &str) -> String {
    text.replace('-', "_")
}

fn configured(root: &Path) -> String {
    let entries = MODPROBE.iter().flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten().flatten());
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut all: Vec<String> = lines.filter(|line| !line.trim_start().starts_with('#')).collect();
    let line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let forbidden = words.filter(|word| BLACKLISTS.iter().any(|start| normalized(word).starts_with(start)));
    all.extend(forbidden.map(str::to_owned));
    normalized(&all.join("\n"))
}

fn insert(path: &Path) -> Result<(), Error> {
    let failed = |source: io::Error| Error::io("load", path.display().to_string(), source);
    let file = fs::File::open(path).map_err(failed)?;
    let flags = if path.extension().is_some_and(|kind| kind == "ko") { 0 } else { COMPRESSED };
    match finit_module(&file, c"", flags) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko
kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/core/failover.ko
kernel/drivers/net/hyperv/hv_netvsc.ko.xz:
";

    #[test]
    fn dependencies_are_loaded_first() {
        let expected =
            ["kernel/net/core/failover.ko", "kernel/drivers/net/net_failover.ko", "kernel/drivers/net/virtio_net.ko"];
        assert_eq!(files(LIST, "virtio_net"), expected);
        assert_eq!(files(LIST, "hv_netvsc"), ["kernel/drivers/net/hyperv/hv_netvsc.ko.xz"]);
        assert_eq!(files(LIST, "virtio"), [""; 0], "built in");
    }

    #[test]
    fn only_missing_network_drivers_are_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = |bus: &str, name: &str, files: &[(&str, &str)]| {
            let device = folder.path().join(bus).join("devices").join(name);
            fs::create_dir_all(&device).expect("made");
            for (file, text) in files {
                fs::write(device.join(file), text).expect("written");
            }
            device
        };
        assert_eq!(wanted(folder.path()), [""; 0]);
        device("pci", "disk", &[("vendor", "0x1af4\n"), ("class", "0x010000\n")]);
        device("pci", "other", &[("vendor", "0x8086\n"), ("class", "0x020000\n")]);
        assert_eq!(wanted(folder.path()), [""; 0]);
        let link = device("pci", "link", &[("vendor", "0x1af4\n"), ("class", "0x020000\n")]);
        assert_eq!(wanted(folder.path()), ["virtio_pci", "virtio_net"]);
        fs::create_dir(link.join("driver")).expect("made");
        assert_eq!(wanted(folder.path()), [""; 0]);
        let link = device("virtio", "virtio0", &[("device", "0x0001\n")]);
        assert_eq!(wanted(folder.path()), ["virtio_net"]);
        fs::create_dir(link.join("driver")).expect("made");
        assert_eq!(wanted(folder.path()), [""; 0]);
        device("vmbus", "link", &[("class_id", &format!("{NETVSC}\n"))]);
        assert_eq!(wanted(folder.path()), ["hv_netvsc"]);
    }

    #[test]
    fn configured_modules_are_left_to_udev() {
        let folder = tempfile::tempdir().expect("a folder");
        let modprobe = folder.path().join("etc/modprobe.d");
        fs::create_dir_all(&modprobe).expect("made");
        fs::write(modprobe.join("a.conf"), "# virtio_net\nblacklist hv_netvsc\n").expect("written");
        let text = configured(folder.path());
        assert!(text.contains("hv_netvsc") && !text.contains("virtio_net"), "{text}");
    }

    #[test]
    fn names_are_normalized_and_kernel_arguments_considered() {
        let folder = tempfile::tempdir().expect("a folder");
        let modprobe = folder.path().join("run/modprobe.d");
        fs::create_dir_all(&modprobe).expect("made");
        fs::create_dir_all(folder.path().join("proc")).expect("made");
        fs::write(modprobe.join("a.conf"), "blacklist hv-netvsc\n").expect("written");
        assert!(configured(folder.path()).contains("hv_netvsc"));
        assert_eq!(module("kernel/drivers/net/hv-netvsc.ko.zst"), "hv_netvsc");
        let line = |text: &str| {
            fs::write(folder.path().join("proc/cmdline"), text).expect("written");
            configured(folder.path())
        };
        assert!(!line("root=/dev/virtio_net quiet\n").contains("virtio_net"), "other arguments do not count");
        assert!(line("quiet modprobe.blacklist=floppy,virtio-net rw\n").contains("virtio_net"));
        assert!(line("module_blacklist=net_failover\n").contains("net_failover"));
    }
}
