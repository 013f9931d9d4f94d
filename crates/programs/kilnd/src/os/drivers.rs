//! Drivers of the links that a host gives a virtual machine, loaded ahead of their turn.
//!
//! udev loads them too, somewhere among those of every other device. Whoever waits for the network waits for all of them otherwise.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::{finit_module, uname};

use crate::os::error::Error;

/// The vendor of virtio's devices on a PCI bus, and the class of those that are Ethernet links.
const VIRTIO: &str = "0x1af4";
const ETHERNET: &str = "0x0200";
/// The kind of a link on virtio's own bus, where its devices are once the driver of the bus they came by is there.
const VIRTIO_LINK: &str = "0x0001";
/// The kind of a link on Hyper-V's bus.
const NETVSC: &str = "{f8615163-df3e-46c5-913f-f2d2f965ed0e}";
/// `MODULE_INIT_COMPRESSED_FILE`: the kernel unpacks the module.
const COMPRESSED: i32 = 4;
/// Where people say what is to become of a module. Where one of these names it, nothing is done here: udev knows how to obey.
const OPINIONS: [&str; 3] = ["etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d"];
/// The words of the kernel's command line that forbid modules: the first to those who load them, the second to the kernel itself.
const FORBIDDEN: [&str; 2] = ["modprobe.blacklist=", "module_blacklist="];

/// Loads the drivers of links that have none yet. Says which; those that cannot be loaded are left to udev.
pub fn load(root: &Path) -> Result<Vec<String>, Error> {
    let wanted = wanted(&root.join("sys/bus"));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let release = uname();
    let folder = root.join("lib/modules").join(release.release().to_string_lossy().as_ref());
    let list = folder.join("modules.dep");
    let text = fs::read_to_string(&list).map_err(|error| Error::io("read", list.display().to_string(), error))?;
    let opinions = opinions(root);
    let mut loaded = Vec::new();
    for name in wanted {
        let files = files(&text, name);
        if files.iter().any(|file| opinions.contains(&module(file))) {
            continue;
        }
        for file in files {
            insert(&folder.join(file))?;
        }
        loaded.push(name.to_owned());
    }
    Ok(loaded)
}

/// The drivers of links that nobody drives.
fn wanted(buses: &Path) -> Vec<&'static str> {
    let devices = |bus: &str| {
        let entries = fs::read_dir(buses.join(bus).join("devices")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|device| !device.join("driver").exists()).collect::<Vec<_>>()
    };
    let says = |device: &Path, file: &str, start: &str| {
        fs::read_to_string(device.join(file)).is_ok_and(|text| text.starts_with(start))
    };
    if devices("vmbus").iter().any(|device| says(device, "class_id", NETVSC)) {
        return vec!["hv_netvsc"];
    }
    if devices("virtio").iter().any(|device| says(device, "device", VIRTIO_LINK)) {
        return vec!["virtio_net"];
    }
    if devices("pci").iter().any(|device| says(device, "vendor", VIRTIO) && says(device, "class", ETHERNET)) {
        return vec!["virtio_pci", "virtio_net"];
    }
    Vec::new()
}

/// The files of a module and of what it needs, in the order in which they are loaded; none where the kernel has it built in.
fn files<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let line = list.lines().find_map(|line| line.split_once(':').filter(|(file, _)| module(file) == name));
    let Some((file, needs)) = line else { return Vec::new() };
    // What is needed by what is needed comes later in the list.
    let mut files: Vec<&str> = needs.split_whitespace().rev().collect();
    files.push(file);
    files
}

/// The name of the module in a file.
fn module(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    plain(name.split('.').next().unwrap_or(name))
}

/// A name as the kernel writes it: people and files may write a dash for an underscore.
fn plain(text: &str) -> String {
    text.replace('-', "_")
}

fn opinions(root: &Path) -> String {
    let entries = OPINIONS.iter().flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten().flatten());
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut said: Vec<String> = lines.filter(|line| !line.trim_start().starts_with('#')).collect();
    let line = fs::read_to_string(root.join("proc/cmdline")).unwrap_or_default();
    let words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let forbidden = words.filter(|word| FORBIDDEN.iter().any(|start| plain(word).starts_with(start)));
    said.extend(forbidden.map(str::to_owned));
    plain(&said.join("\n"))
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
    fn what_a_module_needs_is_loaded_before_it() {
        let expected =
            ["kernel/net/core/failover.ko", "kernel/drivers/net/net_failover.ko", "kernel/drivers/net/virtio_net.ko"];
        assert_eq!(files(LIST, "virtio_net"), expected);
        assert_eq!(files(LIST, "hv_netvsc"), ["kernel/drivers/net/hyperv/hv_netvsc.ko.xz"]);
        assert_eq!(files(LIST, "virtio"), [""; 0], "built in");
    }

    #[test]
    fn drivers_are_of_links_that_nobody_drives() {
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
    fn a_module_that_somebody_has_an_opinion_of_is_left_to_udev() {
        let folder = tempfile::tempdir().expect("a folder");
        let opinion = folder.path().join("etc/modprobe.d");
        fs::create_dir_all(&opinion).expect("made");
        fs::write(opinion.join("a.conf"), "# virtio_net\nblacklist hv_netvsc\n").expect("written");
        let said = opinions(folder.path());
        assert!(said.contains("hv_netvsc") && !said.contains("virtio_net"), "{said}");
    }

    #[test]
    fn a_dash_is_an_underscore_and_the_kernel_s_command_line_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let opinion = folder.path().join("run/modprobe.d");
        fs::create_dir_all(&opinion).expect("made");
        fs::create_dir_all(folder.path().join("proc")).expect("made");
        fs::write(opinion.join("a.conf"), "blacklist hv-netvsc\n").expect("written");
        assert!(opinions(folder.path()).contains("hv_netvsc"));
        assert_eq!(module("kernel/drivers/net/hv-netvsc.ko.zst"), "hv_netvsc");
        let line = |text: &str| {
            fs::write(folder.path().join("proc/cmdline"), text).expect("written");
            opinions(folder.path())
        };
        assert!(!line("root=/dev/virtio_net quiet\n").contains("virtio_net"), "other words name no module");
        assert!(line("quiet modprobe.blacklist=floppy,virtio-net rw\n").contains("virtio_net"));
        assert!(line("module_blacklist=net_failover\n").contains("net_failover"));
    }
}
