//! Checks the text of the units: every ordering or dependency line has a comment with its reason.

use std::fs;
use std::path::{Path, PathBuf};

const ORDERING: [&str; 13] = [
    "After",
    "AssertPathExists",
    "Before",
    "BindsTo",
    "ConditionPathExists",
    "Conflicts",
    "PartOf",
    "Requires",
    "RequiresMountsFor",
    "Requisite",
    "Upholds",
    "WantedBy",
    "Wants",
];

/// Settings that restrict devices. `ProtectClock=` and images do so implicitly in some versions of systemd.
const DEVICES: [&str; 7] =
    ["DeviceAllow", "DevicePolicy", "ExtensionImages", "MountImages", "PrivateDevices", "ProtectClock", "RootImage"];

fn units() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
    let (mut files, mut folders) = (Vec::new(), vec![root]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder of units").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let text = fs::read_to_string(&entry).expect("a unit");
                files.push((entry, text));
            }
        }
    }
    files.sort();
    files
}

/// Ordering and dependency lines that are not directly below a comment.
fn unexplained(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let ordering = |line: &str| line.split_once('=').is_some_and(|(name, _)| ORDERING.contains(&name));
    let explained = |index: usize| index > 0 && lines[index - 1].strip_prefix("# ").is_some_and(|why| why.len() > 10);
    (0..lines.len()).filter(|index| ordering(lines[*index]) && !explained(*index)).map(|index| lines[index]).collect()
}

/// The lines that assign one of these settings.
fn assignments<'a>(text: &'a str, names: &[&str]) -> Vec<&'a str> {
    let sets = |line: &&str| line.split_once('=').is_some_and(|(name, _)| names.contains(&name.trim()));
    text.lines().filter(sets).collect()
}

#[test]
fn units_do_not_restrict_access_to_disks() {
    for (path, text) in units() {
        assert_eq!(
            assignments(&text, &DEVICES),
            Vec::<&str>::new(),
            "{}: sfdisk and the growing of file systems need disks",
            path.display()
        );
    }
    let restricted = "# No ProtectClock=: why\nProtectClock=yes\nProtectHome=yes\nDeviceAllow = /dev/null\n";
    assert_eq!(assignments(restricted, &DEVICES), ["ProtectClock=yes", "DeviceAllow = /dev/null"]);
}

/// The other protections of `ProtectClock=`.
#[test]
fn watch_service_cannot_set_the_clock() {
    let (_, watch) = units().into_iter().find(|(path, _)| path.ends_with("kiln-watch.service")).expect("the unit");
    assert!(
        assignments(&watch, &["SystemCallFilter"]).iter().any(|line| line.contains("=~") && line.contains("@clock"))
    );
    let capabilities = assignments(&watch, &["CapabilityBoundingSet"]);
    assert!(capabilities.len() == 1 && !capabilities[0].contains("CAP_SYS_TIME"), "{capabilities:?}");
    assert!(!capabilities[0].contains("CAP_WAKE_ALARM"), "{capabilities:?}");
}

#[test]
fn every_ordering_line_has_a_reason() {
    let units = units();
    assert!(units.len() >= 7, "{units:?}");
    for (path, text) in units {
        assert_eq!(unexplained(&text), Vec::<&str>::new(), "{}", path.display());
    }
}

#[test]
fn ordering_line_without_a_reason_is_found() {
    assert_eq!(unexplained("[Unit]\nAfter=a\n# because of b\nAfter=b\n# short\nWants=c\n"), ["After=a", "Wants=c"]);
    assert_eq!(unexplained("# because of d, twice\nAfter=d\nWants=d\n"), ["Wants=d"]);
}

#[test]
fn gate_is_a_condition_and_environment_files_are_required() {
    let units = units();
    let text = |name: &str| {
        let found = units.iter().find(|(path, _)| path.ends_with(name));
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    for name in ["kubelet.service.d/zz-kiln.conf", "containerd.service.d/zz-kiln.conf"] {
        let text = text(name);
        let has = |line: &str| text.lines().any(|known| known == line);
        assert!(has("ConditionPathExists=/run/kiln/ready") && has("After=kiln-config.service"), "{name}");
        assert!(
            text.lines().filter(|line| line.starts_with("Requires=")).all(|line| line == "Requires=sysinit.target"),
            "{name}: restarting kiln-config would restart it"
        );
        assert!(!text.contains("EnvironmentFile=-"), "{name}");
    }
    let target = text("kiln-configured.target");
    assert!(
        target.lines().any(|line| line == "AssertPathExists=/run/kiln/ready"),
        "with a condition the target would be reached anyway"
    );
    let pulls = ["Condition", "Requires=", "Wants="];
    assert!(!target.lines().any(|line| pulls.iter().any(|word| line.starts_with(word))), "{target}");
    assert!(text("kiln-config.service").lines().any(|line| line == "Requires=kiln-identity.service"));
}

/// The agents decide by files of the donor whether a clone is a new machine.
#[test]
fn identity_is_reset_before_agents_and_network_managers_read_it() {
    let (_, identity) =
        units().into_iter().find(|(path, _)| path.ends_with("kiln-identity.service")).expect("the unit");
    let lines = assignments(&identity, &["Before"]);
    let later: Vec<&str> = lines.iter().flat_map(|line| line["Before=".len()..].split_whitespace()).collect();
    for unit in [
        "cloud-init-local.service",
        "walinuxagent.service",
        "waagent.service",
        "systemd-networkd.service",
        "NetworkManager.service",
        "ssh.service",
        "sshd.service",
    ] {
        assert!(later.contains(&unit), "{unit}: {later:?}");
    }
}

/// The lines of a section after which a list has only the values that follow them.
#[test]
fn drop_ins_reset_what_the_image_sets_before_they_set_their_own() {
    for (path, text) in units().into_iter().filter(|(path, _)| path.ends_with("zz-kiln.conf")) {
        for (name, first) in [
            ("ConditionPathExists", "/run/kiln/ready"),
            ("EnvironmentFile", "/etc/kiln/current/"),
            ("ExecStart", "/etc/kiln/current/"),
        ] {
            let values: Vec<&str> = assignments(&text, &[name])
                .iter()
                .filter_map(|line| line.split_once('='))
                .map(|(_, value)| value)
                .collect();
            assert_eq!(values.first(), Some(&""), "{name} of {}", path.display());
            assert!(values.len() > 1 && values[1..].iter().all(|value| value.starts_with(first)), "{values:?}");
        }
        for name in ["AssertPathExists", "ExecStartPre"] {
            assert_eq!(assignments(&text, &[name]), [format!("{name}=")], "{}", path.display());
        }
    }
}

/// Drop-ins of packages, of AKS node images and of `systemctl edit` on a node.
#[test]
fn names_of_the_drop_ins_sort_after_those_of_images() {
    let mut names = [
        "10-kubeadm.conf",
        "10-tlsbootstrap.conf",
        "99-local.conf",
        "exec_start.conf",
        "override.conf",
        "zz-kiln.conf",
    ];
    names.sort_unstable();
    assert_eq!(names.last(), Some(&"zz-kiln.conf"));
    let found: Vec<PathBuf> =
        units().into_iter().map(|(path, _)| path).filter(|path| path.to_string_lossy().contains(".d/")).collect();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|path| path.ends_with("zz-kiln.conf")), "{found:?}");
}

/// Settings that systemd 249 (Ubuntu 22.04) ignores or rejects, with the version that introduced them.
const NEWER_THAN_249: [(&str, u32); 12] = [
    ("ConditionCredential", 252),
    ("ConditionMemoryPressure", 250),
    ("DefaultStartupMemoryLow", 252),
    ("ExitType", 250),
    ("ExtensionDirectories", 251),
    ("Kind", 251),
    ("LoadCredentialEncrypted", 250),
    ("OpenFile", 253),
    ("RestartSteps", 254),
    ("StartupAllowedCPUs", 250),
    ("StartupMemoryHigh", 252),
    ("SurviveFinalKillSignal", 255),
];

#[test]
fn units_use_no_setting_that_systemd_249_lacks() {
    let names: Vec<&str> = NEWER_THAN_249.iter().map(|(name, _)| *name).collect();
    for (path, text) in units() {
        assert_eq!(assignments(&text, &names), Vec::<&str>::new(), "{}", path.display());
    }
    assert_eq!(assignments("[Match]\nType=ether\nKind=!*\n", &names), ["Kind=!*"]);
}
