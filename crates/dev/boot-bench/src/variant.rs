//! The variants: the ways in which a node is configured.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::expected::Configured;
use crate::tree::Item;
use crate::{Error, media};

/// The agent that configures the node, and the source of its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// No agent: the configuration is on the disk, and kubelet starts after the local file systems. The difference to another variant is the cost
    /// of configuration.
    Floor,
    /// kilnd, with the document on provisioning media.
    Kilnd,
    /// kilnd, with the document from the metadata service.
    KilndImds,
    /// As `KilndImds`, after a unit that waits until networkd reports that the network is online.
    WaitForNetwork,
    /// The second boot of a `Kilnd` node.
    Again,
    /// The disk of a `Kilnd` node in another machine, which resets the donor's identity.
    Clone,
    /// As `Kilnd`, with swap and a growing root partition in the document. It tests what needs its own kernel, and is not compared.
    Disks,
    /// cloud-init with a pinned datasource and only the modules that the node needs. A script then starts kubelet, as the extension of a scale set
    /// does.
    CloudInit,
}

/// The NodeConfig that every agent applies.
pub(crate) const DOCUMENT: &str = include_str!("../document.json");

/// The device of the provisioning media: the third disk.
pub(crate) const MEDIA: &str = "/dev/nvme2n1";

/// The network of every variant. As on Azure, the route to the metadata service comes with the lease.
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

/// Stands in for kubelet: it reads the clock first, and keeps running.
const KUBELET: &str = "\
#!/bin/sh
read clock </proc/uptime
echo \"$clock\" >/run/kubelet-start
echo \"KUBELET $clock\" >/dev/ttyS0
exec sleep infinity
";

const KUBELET_UNIT: &str = "\
[Unit]
Description=kubelet of the boot bench
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
    /// All variants, the fastest first.
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

    /// The variants that are measured by default.
    pub fn measured() -> Vec<Self> {
        Self::ALL.into_iter().filter(|variant| *variant != Self::Disks).collect()
    }

    /// The name on the command line.
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

    /// The variant with a name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// Whether it starts from the disk of a node that has run before.
    pub(crate) fn has_donor(self) -> bool {
        matches!(self, Self::Again | Self::Clone)
    }

    /// The VM id. A clone has another one than its donor.
    pub(crate) fn vm_id(self) -> &'static str {
        match self {
            Self::Clone => "b1d7c7d0-1f0e-4d0a-8f0b-9d7a3c5e2f14",
            _ => "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02",
        }
    }

    /// The NodeConfig of the variant.
    pub(crate) fn document(self) -> String {
        match self {
            Self::Disks => with_disks(DOCUMENT),
            _ => DOCUMENT.to_owned(),
        }
    }

    /// The changes to the root folder. `expected` are the configured paths of the node.
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

/// The script that waits for the end of the boot, then writes the capture and the configured paths to the second disk.
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
        let copy = format!("mkdir -p .{} && cat {path} >.{path} && chmod --reference={path} .{path}", parent_of(path));
        let _ = writeln!(text, "[ -e {path} ] && {copy}");
    }
    text.push_str(
        "cd .. && tar cf /dev/nvme1n1 . && sync\necho BENCH-DONE >/dev/ttyS0\n\
         grep -q bench.donor /proc/cmdline && exec systemctl poweroff\nsystemctl poweroff --force --force\n",
    );
    text
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| folder)
}

/// The configuration as files on the disk. systemd applies kernel settings from their file.
fn baked(expected: &Configured) -> impl Iterator<Item = Item> + '_ {
    let files = expected.0.iter().filter(|(path, _)| !path.starts_with("/proc/"));
    files.map(|(path, (mode, content))| Item::File { path: path.clone(), mode: *mode, content: content.clone() })
}

/// kilnd and its units, as in its package.
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

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Error> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// A fair configuration of cloud-init: only the modules that the node needs, a pinned datasource, and the same result as kilnd.
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

/// Adds swap and a growing root partition to a document.
fn with_disks(document: &str) -> String {
    let mut document: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
    document["spec"]["os"]["swap"] = json!({ "sizeMib": 64 });
    document["spec"]["platform"]["growRoot"] = json!(true);
    document["spec"]["kubelet"]["configuration"]["failSwapOn"] = json!(false);
    document.to_string()
}

/// The `ovf-env.xml` of the provisioning media.
pub(crate) fn ovf_env() -> String {
    media::ovf_env(DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_unique_name() {
        for variant in Variant::ALL {
            assert_eq!(Variant::from_name(variant.name()), Some(variant));
        }
        assert_eq!(Variant::from_name("systemd"), None);
    }

    #[test]
    fn cloud_init_writes_the_files_of_the_floor() {
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
    fn cloud_init_runs_only_the_needed_modules() {
        let items = cloud_init(&Configured::default());
        let texts: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                Item::File { content, .. } => Some(String::from_utf8_lossy(content)),
                _ => None,
            })
            .collect();
        let has = |word: &str| assert!(texts.iter().any(|text| text.contains(word)), "{word}: {texts:?}");
        has(r#""datasource_list":["NoCloud"]"#);
        has(r#""cloud_config_modules":["runcmd"]"#);
        has(r#""cloud_final_modules":["scripts-user"]"#);
    }

    #[test]
    fn clone_has_another_vm_id_than_its_donor() {
        assert_ne!(Variant::Clone.vm_id(), Variant::Kilnd.vm_id());
        assert_eq!(Variant::Again.vm_id(), Variant::Kilnd.vm_id());
        assert!(!Variant::measured().contains(&Variant::Disks) && Variant::measured().contains(&Variant::Clone));
        assert!(Variant::Disks.document().contains(r#""growRoot":true"#));
    }

    #[test]
    fn provisioning_media_have_the_document() {
        assert!(ovf_env().contains(&STANDARD.encode(DOCUMENT)));
    }
}
