//! `check-image` on trees in memory: each finding is present on the tree that has the problem and absent on the tree without it.

mod map_tree;

use std::collections::BTreeSet;
use std::path::Path;

use kiln_node_plan::check_image::agents::provisioning_agent;
use kiln_node_plan::check_image::{Purpose, Report, Severity, UnitFile, check};
use map_tree::MapTree;

const UNITS: &str = "/usr/lib/systemd/system";
const KUBELET: &str = "/usr/lib/systemd/system/kubelet.service";
const KUBELET_OF_KILN: &str = "/usr/lib/systemd/system/kubelet.service.d/50-kiln.conf";
const WAAGENT: &str = "/lib/systemd/system/walinuxagent.service";

/// A drop-in of kiln, as far as the check depends on it. It resets nothing, so that the image's own settings are effective.
fn drop_in(program: &str) -> String {
    format!(
        "[Unit]\nConditionPathExists=/run/kiln/ready\n[Service]\nEnvironmentFile=/etc/kiln/current/{program}.env\n\
         ExecStart=\nExecStart=/etc/kiln/current/{program} $ARGS\n"
    )
}

/// An image without any finding.
fn good() -> MapTree {
    let mut tree = MapTree::default();
    tree.put(KUBELET, "[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n");
    tree.put(&format!("{UNITS}/containerd.service"), "[Service]\nExecStart=/usr/bin/containerd\n");
    tree.put(KUBELET_OF_KILN, &drop_in("kubelet"));
    tree.put(&format!("{UNITS}/containerd.service.d/50-kiln.conf"), &drop_in("containerd"));
    for (unit, target) in [("identity", "sysinit"), ("config", "multi-user"), ("watch", "multi-user")] {
        let unit = format!("kiln-{unit}.service");
        tree.put(&format!("{UNITS}/{unit}"), "[Service]\nExecStart=/usr/bin/kilnd\n");
        tree.symlink(&format!("/etc/systemd/system/{target}.target.wants/{unit}"), &format!("{UNITS}/{unit}"));
    }
    for program in ["kubelet", "containerd", "containerd-shim-runc-v2", "mount", "umount", "kilnd"] {
        tree.program(&format!("/usr/bin/{program}"));
    }
    for program in ["runc", "mkfs.ext4", "iptables", "modprobe", "update-grub"] {
        tree.program(&format!("/usr/sbin/{program}"));
    }
    for plugin in ["loopback", "bridge", "host-local", "portmap"] {
        tree.program(&format!("/opt/cni/bin/{plugin}"));
    }
    tree.put("/etc/resolv.conf", "nameserver 10.0.0.10\n");
    tree.put(
        "/etc/sysctl.d/90-node.conf",
        "net.ipv4.ip_forward = 1\nnet/bridge/bridge-nf-call-iptables=1\n-net.bridge.bridge-nf-call-ip6tables = 1\n",
    );
    tree.put("/etc/modules-load.d/node.conf", "# pods\nbr_netfilter\n");
    tree.put("/etc/machine-id", "uninitialized\n").put("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n");
    tree
}

/// Enables cloud-init as its package does.
fn cloud_init(tree: &mut MapTree) {
    tree.put("/lib/systemd/system/cloud-init-local.service", "[Service]\nExecStart=/usr/bin/cloud-init\n");
    let link = "/etc/systemd/system/cloud-init.target.wants/cloud-init-local.service";
    tree.symlink(link, "/lib/systemd/system/cloud-init-local.service");
    tree.put("/etc/cloud/cloud.cfg", "cloud_init_modules:\n - migrator\n - growpart\n - users-groups\n");
}

fn waagent(tree: &mut MapTree, config: &str) {
    tree.put(WAAGENT, "[Service]\nExecStart=/usr/sbin/waagent -daemon\n").put("/etc/waagent.conf", config);
    tree.symlink("/etc/systemd/system/multi-user.target.wants/walinuxagent.service", WAAGENT);
}

fn checked(change: impl Fn(&mut MapTree)) -> Report {
    let mut tree = good();
    change(&mut tree);
    check(&tree, Purpose::Image)
}

/// One problem with the id of its finding, and the path or name that the message contains.
type Problem = (&'static str, Severity, &'static str, fn(&mut MapTree));

const B: Severity = Severity::Blocker;
const W: Severity = Severity::Warning;
const N: Severity = Severity::Note;

const PROBLEMS: &[Problem] = &[
    ("kubelet-unit-missing", B, "kubelet.service", |tree| _ = tree.remove(KUBELET)),
    ("kubelet-unit-missing", B, "masked", |tree| _ = tree.symlink("/etc/systemd/system/kubelet.service", "/dev/null")),
    ("kubelet-drop-in-missing", B, "kubelet.service", |tree| _ = tree.remove(KUBELET_OF_KILN)),
    ("kubelet-exec-overridden", B, "/etc/systemd/system/kubelet.service.d/60-kubeadm.conf", |tree| {
        tree.put(
            "/etc/systemd/system/kubelet.service.d/60-kubeadm.conf",
            "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS\n",
        );
    }),
    // A second command without a reset: systemd refuses the unit.
    ("kubelet-exec-overridden", B, "60-two.conf", |tree| {
        tree.put(&format!("{UNITS}/kubelet.service.d/60-two.conf"), "[Service]\nExecStart=/bin/true\n");
    }),
    ("kubelet-condition", B, "/opt/bin/kubelet", |tree| {
        tree.append(KUBELET, "[Unit]\nConditionPathExists=/opt/bin/kubelet\n");
    }),
    ("kubelet-condition", B, "/etc/sold", |tree| {
        tree.put("/etc/sold", "").append(KUBELET, "[Unit]\nAssertPathExists=!/etc/sold\n");
    }),
    ("kubelet-condition", B, "/etc/a", |tree| {
        tree.append(KUBELET, "[Unit]\nConditionPathExists=|/etc/a\nConditionPathIsDirectory=|/etc/b\n");
    }),
    ("kubelet-environment-file", B, "/etc/default/kubelet", |tree| {
        tree.append(KUBELET, "[Service]\nEnvironmentFile=/etc/default/kubelet\n");
    }),
    ("kubelet-exec-start-pre", B, "/opt/azure/containers/kubelet.sh", |tree| {
        tree.program("/bin/bash");
        tree.append(KUBELET, "[Service]\nExecStartPre=/bin/bash /opt/azure/containers/kubelet.sh\n");
    }),
    ("kubelet-exec-start-pre", B, "/etc/kubernetes/certs/apiserver.crt", |tree| {
        tree.program("/bin/bash");
        tree.append(
            KUBELET,
            "[Service]\nExecStartPre=/bin/bash -c \"true && test -f /etc/kubernetes/certs/apiserver.crt\"\n",
        );
    }),
    ("kubelet-exec-start-pre", B, "/sbin/ebtables", |tree| {
        tree.append(KUBELET, "[Service]\nExecStartPre=+/sbin/ebtables -t nat --list\n");
    }),
    ("kubelet-waits-for-network", N, "network-online.target", |tree| {
        tree.append(KUBELET, "[Unit]\nAfter=network-online.target\n");
    }),
    ("containerd-unit-missing", B, "containerd.service", |tree| {
        tree.remove(&format!("{UNITS}/containerd.service"));
    }),
    ("containerd-drop-in-missing", B, "containerd.service", |tree| {
        tree.remove(&format!("{UNITS}/containerd.service.d/50-kiln.conf"));
    }),
    ("containerd-exec-overridden", B, "exec_start.conf", |tree| {
        let content = "[Service]\nExecStart=\nExecStart=/usr/bin/containerd\n";
        tree.put("/etc/systemd/system/containerd.service.d/exec_start.conf", content);
    }),
    ("containerd-condition", B, "/etc/containerd/config.toml", |tree| {
        tree.append(
            &format!("{UNITS}/containerd.service"),
            "[Unit]\nConditionFileNotEmpty=/etc/containerd/config.toml\n",
        );
    }),
    ("containerd-environment-file", B, "/etc/default/containerd", |tree| {
        tree.append(&format!("{UNITS}/containerd.service"), "EnvironmentFile=/etc/default/containerd\n");
    }),
    ("containerd-exec-start-pre", B, "/sbin/modprobe", |tree| {
        tree.append(&format!("{UNITS}/containerd.service"), "ExecStartPre=/sbin/modprobe overlay\n");
    }),
    ("containerd-waits-for-network", N, "network-online.target", |tree| {
        tree.append(&format!("{UNITS}/containerd.service"), "[Unit]\nAfter=local-fs.target network-online.target\n");
    }),
    ("kiln-unit-disabled", B, "kiln-config.service", |tree| {
        tree.remove("/etc/systemd/system/multi-user.target.wants/kiln-config.service");
    }),
    ("image-file-invalid", B, "/usr/lib/kiln/image.json", |tree| _ = tree.put("/usr/lib/kiln/image.json", "{")),
    ("kubelet-missing", B, "/usr/bin/kubelet", |tree| _ = tree.remove("/usr/bin/kubelet")),
    ("kubelet-missing", B, "/opt/kubelet-1.33.7", |tree| {
        tree.put("/usr/lib/kiln/image.json", r#"{"kubelets": {"1.33.7": "/opt/kubelet-1.33.7"}}"#);
    }),
    // Present, but not executable.
    ("containerd-missing", B, "/usr/bin/containerd", |tree| _ = tree.put("/usr/bin/containerd", "text")),
    ("runc-missing", B, "runc", |tree| _ = tree.remove("/usr/sbin/runc")),
    ("containerd-shim-missing", B, "containerd-shim-runc-v2", |tree| {
        tree.remove("/usr/bin/containerd-shim-runc-v2");
    }),
    ("mount-missing", B, "mount", |tree| _ = tree.remove("/usr/bin/mount")),
    ("umount-missing", B, "umount", |tree| _ = tree.remove("/usr/bin/umount")),
    ("mkfs-missing", W, "mkfs.ext4", |tree| _ = tree.remove("/usr/sbin/mkfs.ext4")),
    ("iptables-missing", W, "iptables", |tree| _ = tree.remove("/usr/sbin/iptables")),
    ("modprobe-missing", W, "modprobe", |tree| _ = tree.remove("/usr/sbin/modprobe")),
    ("cni-plugins-missing", W, "loopback", |tree| _ = tree.remove("/opt/cni/bin/loopback")),
    ("resolv-conf-loop", W, "/etc/resolv.conf", |tree| {
        tree.remove("/etc/resolv.conf").symlink("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
    }),
    ("resolv-conf-loop", W, "/etc/resolv.conf", |tree| {
        tree.put("/etc/resolv.conf", "search x\nnameserver 127.0.0.53\n");
    }),
    ("sysctl-conflict", W, "99-hardening.conf", |tree| {
        tree.put("/usr/lib/sysctl.d/99-hardening.conf", "net.ipv4.ip_forward=0\n");
    }),
    ("sysctl-baseline", N, "net.ipv4.ip_forward", |tree| {
        let rest =
            "net.bridge.bridge-nf-call-iptables=1\nnet.bridge.bridge-nf-call-ip6tables=1\n#net.ipv4.ip_forward=1\n";
        tree.put("/etc/sysctl.d/90-node.conf", rest);
    }),
    ("br-netfilter-not-loaded", N, "br_netfilter", |tree| _ = tree.remove("/etc/modules-load.d/node.conf")),
    ("network-pinned-to-mac", B, "/etc/netplan/60-own.yaml", |tree| {
        let yaml = "network:\n  ethernets:\n    eth0:\n      match:\n        macaddress: \"00:0d:3a:01:02:03\"\n";
        tree.put("/etc/netplan/60-own.yaml", yaml);
    }),
    ("network-pinned-to-mac", B, "10-cloud-init-eth0.network", |tree| {
        let content = "[Match]\nMACAddress=00:0d:3a:01:02:03\nName=eth0\n[Network]\nDHCP=ipv4\n";
        tree.put("/etc/systemd/network/10-cloud-init-eth0.network", content);
    }),
    ("network-pinned-to-mac", B, "70-persistent-net.rules", |tree| {
        let rule = "SUBSYSTEM==\"net\", ATTR{address}==\"00:0d:3a:01:02:03\", NAME=\"eth0\"\n";
        tree.put("/etc/udev/rules.d/70-persistent-net.rules", rule);
    }),
    ("cloud-init", W, "growpart", cloud_init),
    ("waagent-provisioning", W, "/etc/waagent.conf", |tree| waagent(tree, "Provisioning.Agent=auto\n")),
    ("waagent-temporary-disk", W, "ResourceDisk.Format", |tree| {
        waagent(tree, "Provisioning.Agent=disabled\nResourceDisk.Format=y\n");
    }),
    ("unattended-upgrades", W, "20auto-upgrades", |tree| {
        tree.put("/lib/systemd/system/apt-daily-upgrade.timer", "[Timer]\nOnCalendar=daily\n");
        let link = "/etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer";
        tree.symlink(link, "/lib/systemd/system/apt-daily-upgrade.timer");
        tree.put("/etc/apt/apt.conf.d/20auto-upgrades", "APT::Periodic::Unattended-Upgrade \"1\";\n");
    }),
    ("automatic-updates", W, "dnf-automatic.timer", |tree| {
        tree.put(&format!("{UNITS}/dnf-automatic.timer"), "[Timer]\nOnCalendar=daily\n");
        let link = "/etc/systemd/system/timers.target.wants/dnf-automatic.timer";
        tree.symlink(link, &format!("{UNITS}/dnf-automatic.timer"));
    }),
    ("aks-node-controller", W, "aks-node-controller.service", |tree| {
        tree.put("/etc/systemd/system/aks-node-controller.service", "[Service]\nExecStart=/opt/azure/x\n");
        let link = "/etc/systemd/system/basic.target.wants/aks-node-controller.service";
        tree.symlink(link, "/etc/systemd/system/aks-node-controller.service");
    }),
    ("ignition", W, "ignition-firstboot-complete.service", |tree| {
        let unit = "ignition-firstboot-complete.service";
        tree.put(&format!("{UNITS}/{unit}"), "[Service]\nExecStart=/bin/true\n");
        tree.symlink(&format!("{UNITS}/multi-user.target.wants/{unit}"), &format!("../{unit}"));
    }),
    ("kured", W, "/etc/kubernetes/manifests/reboot.yaml", |tree| {
        tree.put("/etc/kubernetes/manifests/reboot.yaml", "spec:\n  containers:\n  - image: kured:1.16\n");
    }),
    ("selinux-unlabelled", B, "/usr/bin/kilnd", |tree| selinux(tree, "enforcing")),
    ("selinux-unlabelled", W, "/usr/bin/kilnd", |tree| selinux(tree, "permissive")),
    ("kernel-argument-tool-missing", W, "update-grub", |tree| {
        // Part of systemd everywhere, and useless without its boot loader.
        tree.remove("/usr/sbin/update-grub").program("/usr/bin/kernel-install");
    }),
    ("pod-network-configured", W, "/etc/cni/net.d/05-old.conflist", |tree| {
        tree.put("/etc/cni/net.d/05-old.conflist", "{}\n");
    }),
    ("pod-network-configured", W, "/etc/cni/net.d/99-loopback.conf", |tree| {
        tree.put("/etc/cni/net.d/99-loopback.conf", "{}\n");
    }),
    ("swap-in-fstab", W, "/etc/fstab", |tree| _ = tree.append("/etc/fstab", "/dev/sda2 none swap sw 0 0\n")),
    ("identity-not-sealed", W, "machine-id", |tree| {
        tree.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    }),
];

/// A policy, and labels of all files of kiln but the program.
fn selinux(tree: &mut MapTree, mode: &str) {
    tree.put("/etc/selinux/config", &format!("# x\nSELINUX={mode}\nSELINUXTYPE=targeted\n"));
    tree.put("/etc/selinux/targeted/contexts/files/file_contexts", "/usr/bin/.* -- system_u:object_r:bin_t:s0\n");
    for unit in ["kiln-identity.service", "kiln-config.service"] {
        tree.set_label(&format!("{UNITS}/{unit}"), "system_u:object_r:systemd_unit_file_t:s0");
    }
}

#[test]
fn image_without_problems_has_no_finding() {
    let report = checked(|_| {});
    assert_eq!(report.to_text(), "0 blockers, 0 warnings, 0 notes\n");
    assert!(report.is_usable() && report.sentence().is_none());
}

#[test]
fn each_problem_gives_exactly_its_finding() {
    for (id, severity, shown, change) in PROBLEMS {
        let report = checked(change);
        let found: Vec<(&str, Severity)> = report.findings.iter().map(|one| (one.id, one.severity)).collect();
        let expected = [(*id, *severity)];
        // If all alternatives of a condition fail, each is a finding.
        let found: Vec<_> = BTreeSet::from_iter(found).into_iter().collect();
        assert_eq!(found, expected, "{id}\n{}", report.to_text());
        assert!(report.findings.iter().any(|one| one.message.contains(shown)), "{id}\n{}", report.to_text());
        assert_eq!(report.is_usable(), *severity != B, "{id}");
    }
}

#[test]
fn settings_that_kiln_resets_or_that_are_satisfied_are_no_problem() {
    let fine: [fn(&mut MapTree); 14] = [
        // The bridge of a node that became an image: systemd-tmpfiles removes it at boot. containerd reads no other files.
        |tree| {
            tree.put("/etc/cni/net.d/10-containerd-net.conflist", "{}\n").put("/etc/cni/net.d/README", "x\n");
        },
        |tree| {
            tree.remove("/usr/sbin/update-grub").program("/usr/bin/kernel-install");
            tree.put("/boot/loader/entries.srel", "type1\n");
        },
        // A drop-in that sorts before kiln's loses.
        |tree| {
            tree.put(
                "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
                "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet\n",
            );
        },
        // A later drop-in that does not change the command.
        |tree| _ = tree.put("/etc/systemd/system/kubelet.service.d/zz-nice.conf", "[Service]\nNice=5\n"),
        // A drop-in that an administrator has masked.
        |tree| {
            tree.put(&format!("{UNITS}/kubelet.service.d/60-a.conf"), "[Service]\nExecStart=\nExecStart=/x\n");
            tree.symlink("/etc/systemd/system/kubelet.service.d/60-a.conf", "/dev/null");
        },
        // Everything that K2 lists, reset by the drop-in of kiln.
        |tree| {
            tree.append(KUBELET, "[Unit]\nConditionPathExists=/opt/bin/kubelet\n[Service]\nEnvironmentFile=/etc/default/kubelet\nExecStartPre=/x\n");
            tree.append(KUBELET_OF_KILN, "[Unit]\nConditionPathExists=\nConditionPathExists=/run/kiln/ready\n[Service]\nEnvironmentFile=\nExecStartPre=\n");
        },
        |tree| _ = tree.append(KUBELET, "[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStartPre=-/sbin/none\n"),
        |tree| _ = tree.append(KUBELET, "[Unit]\nConditionPathExists=|/etc/none\nConditionPathExists=|/etc/fstab\n"),
        // kilnd uses the servers of systemd-resolved instead of its stub.
        |tree| {
            tree.put("/etc/resolv.conf", "search x\nnameserver 127.0.0.53\n");
            tree.put(&format!("{UNITS}/systemd-resolved.service"), "[Service]\nExecStart=/bin/true\n");
            let link = "/etc/systemd/system/multi-user.target.wants/systemd-resolved.service";
            tree.symlink(link, &format!("{UNITS}/systemd-resolved.service"));
        },
        // Whether a condition on the running machine holds is not known.
        |tree| _ = tree.append(KUBELET, "[Unit]\nConditionPathExists=/run/flannel\nConditionVirtualization=vm\n"),
        // The test in `if` does not decide the result, and a pipe cannot be judged.
        |tree| {
            tree.program("/bin/bash");
            tree.append(KUBELET, "[Service]\nExecStartPre=/bin/bash -c \"if [ -f /etc/none ]; then exit 1; fi\"\nExecStartPre=/bin/bash -c \"test -f /none || true\"\n");
        },
        // Logs of packages, also in folders.
        |tree| {
            tree.put("/var/log/dpkg.log", "installed\n").put("/var/log/runit/ssh/current", "started\n");
        },
        // `MACAddress=` in `[Link]` sets an address and matches nothing.
        |tree| {
            tree.put("/etc/systemd/network/10-a.network", "[Match]\nName=eth0\n[Link]\nMACAddress=00:0d:3a:01:02:03\n");
        },
        |tree| {
            cloud_init(tree);
            tree.put("/etc/cloud/cloud-init.disabled", "");
            waagent(tree, "Provisioning.Agent=disabled\nResourceDisk.Format=n\n");
            tree.put("/lib/systemd/system/apt-daily-upgrade.timer", "[Timer]\n");
            tree.put("/etc/apt/apt.conf.d/20auto-upgrades", "APT::Periodic::Unattended-Upgrade \"1\";\n");
        },
    ];
    for (number, change) in fine.iter().enumerate() {
        assert_eq!(checked(change).to_text(), "0 blockers, 0 warnings, 0 notes\n", "change {number}");
    }
}

#[test]
fn identity_matters_in_an_image_and_less_if_the_disk_has_an_owner() {
    let mut tree = good();
    tree.put("/var/lib/kubelet/pki/kubelet-client-current.pem", "key").put("/etc/hostname", "node-1\n");
    let ids = |tree: &MapTree, purpose| -> Vec<(&str, Severity)> {
        check(tree, purpose).findings.iter().map(|one| (one.id, one.severity)).collect()
    };
    assert_eq!(ids(&tree, Purpose::Image), [("identity-kubelet-certificate", B), ("identity-not-sealed", W)]);
    assert_eq!(ids(&tree, Purpose::Node), []);
    tree.put("/var/lib/kiln/vm-id", "11111111-2222-3333-4444-555555555555\n");
    assert_eq!(ids(&tree, Purpose::Image), [("identity-not-sealed", N)]);
    tree.put("/etc/netplan/60-own.yaml", "      macaddress: 00:0d:3a:01:02:03\n");
    assert_eq!(ids(&tree, Purpose::Node), [("network-pinned-to-mac", N)], "a node may match its own address");
    tree.remove("/etc/netplan/60-own.yaml").put("/etc/cni/net.d/10-azure.conflist", "{}\n");
    assert_eq!(ids(&tree, Purpose::Node), [("pod-network-configured", N)], "it may be that of the plugin in use");
}

#[test]
fn drop_ins_are_ordered_by_name_across_folders() {
    let mut tree = MapTree::default();
    tree.put(KUBELET, "[Service]\nExecStart=/a\nEnvironmentFile=/one \\\n  # comment\n  /two\n");
    tree.put("/etc/systemd/system/kubelet.service.d/20-b.conf", "[Service]\nExecStart=/b\n");
    tree.put(&format!("{UNITS}/kubelet.service.d/10-c.conf"), "[Service]\nExecStart=\nExecStart=/c\n");
    tree.put(&format!("{UNITS}/kubelet.service.d/20-b.conf"), "[Service]\nExecStart=/hidden\n");
    tree.put(&format!("{UNITS}/service.d/15-all.conf"), "[Service]\nExecStart=/d\n");
    let unit = UnitFile::read(&tree, "kubelet.service").expect("a unit");
    let commands: Vec<&str> = unit.list("Service", "ExecStart").iter().map(|one| one.value.as_str()).collect();
    assert_eq!(commands, ["/c", "/d", "/b"]);
    assert_eq!(unit.list("Service", "EnvironmentFile")[0].value, "/one /two");
    assert_eq!(UnitFile::read(&tree, "none.service"), None);
}

#[test]
fn provisioning_agent_reports_to_the_platform() {
    let agent = |change: fn(&mut MapTree)| {
        let mut tree = good();
        change(&mut tree);
        provisioning_agent(&tree)
    };
    assert_eq!(agent(|_| {}), None);
    assert_eq!(agent(cloud_init), Some("cloud-init"));
    assert_eq!(agent(|tree| waagent(tree, "Provisioning.Agent=auto\n")), Some("waagent"));
    assert_eq!(agent(|tree| waagent(tree, "Provisioning.Enabled=n\n")), Some("waagent"), "it reports even if disabled");
    // waagent waits for a file of cloud-init, which does not run.
    assert_eq!(agent(|tree| waagent(tree, "Provisioning.Agent=cloud-init\n")), None);
    let both = |tree: &mut MapTree| {
        cloud_init(tree);
        waagent(tree, "Provisioning.Agent=cloud-init\n");
    };
    assert_eq!(agent(both), Some("cloud-init"));
    let disabled = |tree: &mut MapTree| {
        cloud_init(tree);
        tree.put("/etc/cloud/cloud-init.disabled", "");
    };
    assert_eq!(agent(disabled), None);
    let by_argument = |tree: &mut MapTree| {
        cloud_init(tree);
        tree.put("/proc/cmdline", "root=/dev/sda1 cloud-init=disabled\n");
    };
    assert_eq!(agent(by_argument), None);
    let elsewhere = |tree: &mut MapTree| {
        cloud_init(tree);
        tree.put("/etc/cloud/cloud.cfg.d/90.cfg", "datasource_list: [ NoCloud, None ]\n");
    };
    assert_eq!(agent(elsewhere), None, "with another data source it does not report to Azure");
    let azure = |tree: &mut MapTree| {
        cloud_init(tree);
        tree.put("/etc/cloud/cloud.cfg.d/90.cfg", "datasource_list:\n  - NoCloud\n  - Azure\n");
    };
    assert_eq!(agent(azure), Some("cloud-init"));
}

#[test]
fn text_and_json_are_as_documented() {
    let report = checked(|tree| {
        waagent(tree, "Provisioning.Agent=auto\n");
        tree.append(KUBELET, "[Unit]\nConditionPathExists=/opt/bin/kubelet\nAfter=network-online.target\n");
        tree.remove("/usr/sbin/runc");
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (name, text) in [("check-image.txt", report.to_text()), ("check-image.json", report.to_json())] {
        let path = folder.join(name);
        if std::env::var_os("KILN_BLESS").is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
    }
    let sentence = report.sentence().expect("a blocker");
    assert!(
        sentence.contains("/opt/bin/kubelet") && sentence.ends_with("(and 1 more: run `kilnd check-image`)"),
        "{sentence}"
    );
}

/// The ids in the reference page.
#[test]
fn every_id_is_tested_and_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/kilnd.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/kilnd.md");
    let section = page.split("## check-image").nth(1).expect("a section").split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<&str> = rows.filter(|id| id.contains('-') || ["kured", "ignition"].contains(id)).collect();
    let tested: BTreeSet<&str> =
        PROBLEMS.iter().map(|problem| problem.0).chain(["identity-kubelet-certificate"]).collect();
    assert_eq!(documented, tested);
}
