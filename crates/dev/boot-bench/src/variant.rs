//! Who configures the node.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::expected::Configured;
use crate::tree::Item;
use crate::{Error, media};

/// Who configures the node, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Nobody: the configuration is baked into the root, and kubelet follows the local file systems. What is above it is the cost of
    /// being configured.
    Floor,
    /// kilnd, with the document on a local medium.
    Kilnd,
    /// kilnd, with the document at the metadata service.
    KilndImds,
    /// kilnd as in `KilndImds`, behind a unit that waits until networkd says that the network is there.
    WaitForNetwork,
    /// A node made by `Kilnd`, at its second start.
    Again,
    /// A copy of that node's disk in another machine: it gets rid of its donor's identity and becomes a node of its own.
    Clone,
    /// As `Kilnd`, with a document that asks for swap and for all of the disk. It proves what needs a kernel of its own, and is not compared.
    Disks,
    /// cloud-init with its datasource pinned and the modules that it does not need turned off; a script then starts kubelet, as the
    /// extension of a scale set does.
    CloudInit,
}

/// The document that makes the node.
pub(crate) const DOCUMENT: &str = include_str!("../document.json");

/// The device of the medium: the third disk.
pub(crate) const MEDIA: &str = "/dev/nvme2n1";

/// What every variant has: a network (the route to the metadata service comes with the lease, as it does on Azure), a kubelet that says when it was started, and a reporter.
const NETWORK: &str = "\
[Match]
Name=e*

[Network]
DHCP=ipv4
LinkLocalAddressing=no

[Route]
Destination=169.254.169.254/32
Gateway=_dhcp4
";

/// It reads the clock before anything else, and stays.
const KUBELET: &str = "\
#!/bin/sh
read clock </proc/uptime
echo \"$clock\" >/run/kubelet-start
echo \"KUBELET $clock\" >/dev/ttyS0
exec sleep infinity
";

const KUBELET_UNIT: &str = "\
[Unit]
Description=Stand-in for kubelet of the boot bench
DefaultDependencies=no
After=local-fs.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
EnvironmentFile=/etc/kiln/current/kubelet.env
EnvironmentFile=/etc/kiln/current/register.env
ExecStart=/usr/local/bin/kubelet $KUBELET_ARGS $KUBELET_REGISTER_ARGS
";

const REPORT_UNIT: &str = "\
[Unit]
Description=Report on this boot and turn the machine off

[Service]
Type=exec
ExecStart=/usr/local/sbin/bench-report
";

impl Variant {
    /// All of them, the cheapest first.
    pub const ALL: [Self; 8] = [
        Self::Floor,
        Self::Kilnd,
        Self::Again,
        Self::Clone,
        Self::Disks,
        Self::KilndImds,
        Self::WaitForNetwork,
        Self::CloudInit,
    ];

    /// Those that are measured where nobody names any.
    pub fn measured() -> Vec<Self> {
        Self::ALL.into_iter().filter(|variant| *variant != Self::Disks).collect()
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Kilnd => "kilnd",
            Self::Again => "again",
            Self::Clone => "clone",
            Self::Disks => "disks",
            Self::KilndImds => "kilnd-imds",
            Self::WaitForNetwork => "wait-for-network",
            Self::CloudInit => "cloud-init",
        }
    }

    /// By its name on the command line.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// Whether it starts from the disk of a node that ran before.
    pub(crate) fn has_donor(self) -> bool {
        matches!(self, Self::Again | Self::Clone)
    }

    /// The id of its machine. A copy is in another one.
    pub(crate) fn vm_id(self) -> &'static str {
        match self {
            Self::Clone => "b1d7c7d0-1f0e-4d0a-8f0b-9d7a3c5e2f14",
            _ => "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02",
        }
    }

    /// The document that makes its node.
    pub(crate) fn document(self) -> String {
        match self {
            Self::Disks => with_disks(DOCUMENT),
            _ => DOCUMENT.to_owned(),
        }
    }

    /// What it puts into the root, given what the node is to have in the end.
    pub(crate) fn items(self, kilnd: &Path, units: &Path, expected: &Configured) -> Result<Vec<Item>, Error> {
        let mut items = common();
        match self {
            Self::Floor => {
                items.extend(baked(expected));
                items.push(Item::enable("kubelet.service"));
            }
            Self::CloudInit => items.extend(cloud_init(expected)),
            Self::Kilnd | Self::Again | Self::Clone | Self::Disks | Self::KilndImds | Self::WaitForNetwork => {
                items.extend(installed(kilnd, units)?);
                items.push(Item::enable("kubelet.service"));
            }
        }
        if matches!(self, Self::Kilnd | Self::Disks) {
            let text = format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd boot --cd {MEDIA}\n");
            items.push(Item::text("/etc/systemd/system/kiln-config.service.d/bench.conf", text));
        }
        if self == Self::WaitForNetwork {
            let wait = "systemd-networkd-wait-online.service";
            let text = format!("[Unit]\nWants={wait}\nAfter={wait}\n");
            items.push(Item::text("/etc/systemd/system/kiln-config.service.d/bench.conf", text));
        }
        if self != Self::CloudInit {
            items.push(Item::text("/etc/cloud/cloud-init.disabled", ""));
        }
        Ok(items)
    }
}

fn common() -> Vec<Item> {
    let networkd = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service";
    let image = json!({ "kubelets": { "1.34.4": "/usr/local/bin/kubelet" } });
    vec![
        Item::text("/etc/machine-id", ""),
        Item::text("/etc/systemd/network/80-bench.network", NETWORK),
        Item::Link { path: networkd.to_owned(), to: "/lib/systemd/system/systemd-networkd.service".to_owned() },
        Item::Remove("/etc/systemd/system/multi-user.target.wants/ssh.service".to_owned()),
        Item::program("/usr/local/bin/kubelet", KUBELET),
        Item::text("/etc/systemd/system/kubelet.service", KUBELET_UNIT),
        Item::text("/usr/lib/kiln/image.json", image.to_string()),
        Item::program("/usr/local/sbin/bench-report", reporter()),
        Item::text("/etc/systemd/system/bench-report.service", REPORT_UNIT),
        Item::enable("bench-report.service"),
    ]
}

/// Waits for the end of the boot, then puts the capture and the configured paths onto the second disk.
fn reporter() -> String {
    let mut text =
        "#!/bin/sh\nsystemctl is-system-running --wait >/dev/null\nmkdir -p /run/bench/configured && cd /run/bench\n\
         cp /run/kubelet-start start\nsystemctl show >manager.txt\nsystemctl show '*' >units.txt\n\
         journalctl -b -o short-monotonic --no-pager >journal.txt\n\
         if grep -q growRoot /etc/kiln/current/config.json 2>/dev/null; then\n\
         for i in $(seq 100); do grep -q /var/lib/kiln/swapfile /proc/swaps && break; sleep 0.2; done\n\
         fi\n\
         cat /proc/swaps >swaps.txt\ndf --block-size=1M / >df.txt\ncd configured\n"
            .to_owned();
    for path in crate::expected::PATHS() {
        let copy = format!("mkdir -p .{} && cat {path} >.{path} && chmod --reference={path} .{path}", folder_of(path));
        let _ = writeln!(text, "[ -e {path} ] && {copy}");
    }
    text.push_str(
        "cd .. && tar cf /dev/nvme1n1 . && sync\necho BENCH-DONE >/dev/ttyS0\n\
         grep -q bench.donor /proc/cmdline && exec systemctl poweroff\nsystemctl poweroff --force --force\n",
    );
    text
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| folder)
}

/// The configuration as if it had always been there. Settings of the kernel follow from their file.
fn baked(expected: &Configured) -> impl Iterator<Item = Item> + '_ {
    let files = expected.0.iter().filter(|(path, _)| !path.starts_with("/proc/"));
    files.map(|(path, (mode, content))| Item::File { path: path.clone(), mode: *mode, content: content.clone() })
}

/// kilnd and its units, as its package installs them.
fn installed(kilnd: &Path, units: &Path) -> Result<Vec<Item>, Error> {
    let read = |path: &Path| std::fs::read(path).map_err(Error::file(path));
    let mut items = vec![Item::program("/usr/bin/kilnd", read(kilnd)?)];
    for file in files(units)? {
        let name = file.strip_prefix(units).unwrap_or(&file).display();
        items.push(Item::text(&format!("/usr/lib/systemd/system/{name}"), read(&file)?));
    }
    for (target, unit) in [
        ("sysinit.target", "kiln-identity.service"),
        ("multi-user.target", "kiln-config.service"),
        ("multi-user.target", "kiln-watch.service"),
    ] {
        let path = format!("/usr/lib/systemd/system/{target}.wants/{unit}");
        items.push(Item::Link { path, to: format!("../{unit}") });
    }
    Ok(items)
}

/// Every file below a folder.
fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A fair opponent: what it does not need is off, its source is known, and it does what kilnd does.
fn cloud_init(expected: &Configured) -> Vec<Item> {
    let files: Vec<serde_json::Value> = expected
        .0
        .iter()
        .filter(|(path, _)| !path.starts_with("/proc/") && !path.starts_with("/home/") && *path != "/etc/hostname")
        .map(|(path, (mode, content))| {
            json!({ "path": path, "permissions": format!("{mode:04o}"), "encoding": "b64", "content": STANDARD.encode(content) })
        })
        .collect();
    let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap_or_default();
    let platform = &document["spec"]["platform"];
    let user = &platform["users"][0];
    let data = json!({
        "hostname": platform["hostName"],
        "users": [{
            "name": user["name"], "shell": "/bin/bash", "sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": user["sshKeys"],
        }],
        "write_files": files,
        "runcmd": ["sysctl --quiet --load /etc/sysctl.d/90-kiln.conf", "systemctl start kubelet.service"],
    });
    let configuration = json!({
        "datasource_list": ["NoCloud"],
        "network": { "config": "disabled" },
        "preserve_hostname": false,
        "ssh_deletekeys": true,
        "ssh_genkeytypes": ["ed25519"],
        "cloud_init_modules": ["write-files", "set_hostname", "users-groups", "ssh"],
        "cloud_config_modules": ["runcmd"],
        "cloud_final_modules": ["scripts-user"],
    });
    let seed = "/var/lib/cloud/seed/nocloud";
    vec![
        Item::text("/etc/cloud/cloud.cfg.d/99-bench.cfg", configuration.to_string()),
        Item::text(&format!("{seed}/meta-data"), "{\"instance-id\": \"bench-node-0\"}"),
        Item::text(&format!("{seed}/user-data"), format!("#cloud-config\n{data}\n")),
    ]
}

/// A document that also asks for swap and for all of the disk.
fn with_disks(document: &str) -> String {
    let mut document: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
    document["spec"]["os"]["swap"] = json!({ "sizeMib": 64 });
    document["spec"]["platform"]["growRoot"] = json!(true);
    document["spec"]["kubelet"]["configuration"]["failSwapOn"] = json!(false);
    document.to_string()
}

/// The medium's file.
pub(crate) fn ovf_env() -> String {
    media::ovf_env(DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_name_of_its_own() {
        for variant in Variant::ALL {
            assert_eq!(Variant::named(variant.name()), Some(variant));
        }
        assert_eq!(Variant::named("systemd"), None);
    }

    #[test]
    fn cloud_init_writes_what_the_floor_has_baked_in() {
        let expected = Configured([("/etc/bench/motd".to_owned(), (0o640, b"hello".to_vec()))].into());
        let items = cloud_init(&expected);
        let Some(Item::File { content, .. }) = items.last() else { panic!("{items:?}") };
        let text = String::from_utf8_lossy(content);
        assert!(text.contains(r#""path":"/etc/bench/motd","permissions":"0640""#), "{text}");
        assert!(text.contains(&STANDARD.encode("hello")), "{text}");
        assert!(
            baked(&expected).any(|item| matches!(item, Item::File { mode: 0o640, content, .. } if content == b"hello"))
        );
    }

    #[test]
    fn cloud_init_has_a_fair_chance() {
        let items = cloud_init(&Configured::default());
        let texts: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                Item::File { content, .. } => Some(String::from_utf8_lossy(content)),
                _ => None,
            })
            .collect();
        let says = |word: &str| assert!(texts.iter().any(|text| text.contains(word)), "{word}: {texts:?}");
        says(r#""datasource_list":["NoCloud"]"#);
        says(r#""cloud_config_modules":["runcmd"]"#);
        says(r#""cloud_final_modules":["scripts-user"]"#);
    }

    #[test]
    fn a_copy_is_in_another_machine_than_its_donor_and_an_ordinary_start_is_not() {
        assert_ne!(Variant::Clone.vm_id(), Variant::Kilnd.vm_id());
        assert_eq!(Variant::Again.vm_id(), Variant::Kilnd.vm_id());
        assert!(!Variant::measured().contains(&Variant::Disks) && Variant::measured().contains(&Variant::Clone));
        assert!(Variant::Disks.document().contains(r#""growRoot":true"#));
    }

    #[test]
    fn the_medium_carries_the_document() {
        assert!(ovf_env().contains(&STANDARD.encode(DOCUMENT)));
    }
}
