//! SELinux labels, the tool for kernel arguments, swap, and the identity of a machine.

use super::{EntryKind, Finding, Purpose, Severity, Tree};
use crate::identity::{IDENTITY, Treatment};
use crate::layout::{ETC, FSTAB, VM_ID};

const SELINUX_CONFIG: &str = "/etc/selinux/config";
/// Files of kiln that systemd has to read or execute.
const LABELLED: [&str; 4] = [
    "/usr/bin/kilnd",
    "/usr/lib/systemd/system/kiln-identity.service",
    "/usr/lib/systemd/system/kiln-config.service",
    ETC,
];
/// Tools that change the kernel arguments. `kernel-install` is part of systemd and does nothing without one of [`LOADERS`].
const KERNEL_ARGUMENT_TOOLS: [&str; 3] = ["update-grub", "grubby", "kernel-install"];
/// Folders of boot loaders that `kernel-install` configures.
const LOADERS: [&str; 3] = ["/boot/loader", "/boot/efi/loader", "/efi/loader"];
/// With this item a machine acts as another Node.
const TAKEOVER: &str = "kubelet-pki";

pub(super) fn check(tree: &dyn Tree, purpose: Purpose, findings: &mut Vec<Finding>) {
    selinux(tree, findings);
    let is_usable = |name: &&str| {
        tree.program(name).is_some() && (*name != "kernel-install" || LOADERS.iter().any(|folder| tree.exists(folder)))
    };
    if !KERNEL_ARGUMENT_TOOLS.iter().any(is_usable) {
        findings.push(Finding {
            id: "kernel-argument-tool-missing",
            severity: Severity::Warning,
            path: KERNEL_ARGUMENT_TOOLS[0].to_owned(),
            message: format!(
                "none of `{}` can be used, so `spec.os.kernelArguments` has no effect",
                KERNEL_ARGUMENT_TOOLS.join("`, `")
            ),
            fix: "install the tool of the boot loader, or set kernel arguments in the image".to_owned(),
        });
    }
    let fstab = tree.text(FSTAB).unwrap_or_default();
    let is_swap = |line: &str| !line.trim_start().starts_with('#') && line.split_whitespace().nth(2) == Some("swap");
    if fstab.lines().any(is_swap) {
        findings.push(Finding {
            id: "swap-in-fstab",
            severity: Severity::Warning,
            path: FSTAB.to_owned(),
            message: format!(
                "`{FSTAB}` turns on swap, with which the kubelet does not start unless `failSwapOn` is false"
            ),
            fix: "remove the line, and set `spec.os.swap` if the node shall have swap".to_owned(),
        });
    }
    if purpose == Purpose::Image {
        identity(tree, findings);
    }
}

/// With a policy, systemd cannot execute files without a label.
fn selinux(tree: &dyn Tree, findings: &mut Vec<Finding>) {
    let text = tree.text(SELINUX_CONFIG).unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.rfind(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_lowercase())
    };
    let mode = value("SELINUX").unwrap_or_default();
    let policy = format!("/etc/selinux/{}/contexts/files/file_contexts", value("SELINUXTYPE").unwrap_or_default());
    let severity = match mode.as_str() {
        "enforcing" => Severity::Blocker,
        "permissive" => Severity::Warning,
        _ => return,
    };
    if !tree.exists(&policy) {
        return;
    }
    let is_unlabelled = |path: &&str| {
        tree.exists(path) && tree.label(path).is_none_or(|label| label.is_empty() || label.contains(":unlabeled_t:"))
    };
    let paths: Vec<&str> = LABELLED.into_iter().filter(is_unlabelled).collect();
    if let Some(first) = paths.first() {
        findings.push(Finding {
            id: "selinux-unlabelled",
            severity,
            path: (*first).to_owned(),
            message: format!("SELinux is {mode}, but files of kiln have no label: `{}`", paths.join("`, `")),
            fix: format!("run `setfiles -F {policy} {}`", paths.join(" ")),
        });
    }
}

/// The identity of a machine in an image: all machines created from it would share it.
fn identity(tree: &dyn Tree, findings: &mut Vec<Finding>) {
    let found: Vec<&str> = IDENTITY
        .iter()
        // Edited files are part of every image; those that match one machine are `network-pinned-to-mac`.
        .filter(|item| !matches!(item.treatment, Treatment::Keep | Treatment::Edit))
        // Rules that match one machine are `network-pinned-to-mac`, and every image has logs of its packages.
        .filter(|item| !matches!(item.name, "interface-rules" | "logs"))
        .filter(|item| {
            item.paths.iter().flat_map(|pattern| tree.glob(pattern)).any(|path| has_identity(tree, item.name, &path))
        })
        .map(|item| item.name)
        .collect();
    let has_owner = tree.exists(VM_ID);
    let fix = "run `kilnd seal --yes` on the machine before the image is made";
    if found.contains(&TAKEOVER) && !has_owner {
        findings.push(Finding {
            id: "identity-kubelet-certificate",
            severity: Severity::Blocker,
            path: "/var/lib/kubelet/pki".to_owned(),
            message: "the image contains a kubelet certificate, with which all machines would act as the same Node"
                .to_owned(),
            fix: fix.to_owned(),
        });
    }
    if !found.is_empty() {
        // A recorded owner makes every other machine a clone, whose first boot resets the identity.
        let (severity, consequence) = if has_owner {
            (Severity::Note, "kilnd resets it at the first boot of a clone")
        } else {
            (Severity::Warning, "all machines would share it")
        };
        findings.push(Finding {
            id: "identity-not-sealed",
            severity,
            path: "/".to_owned(),
            message: format!("the image contains the identity of a machine (`{}`): {consequence}", found.join("`, `")),
            fix: fix.to_owned(),
        });
    }
}

/// Whether a path of an item identifies a machine. Empty folders and placeholders do not.
fn has_identity(tree: &dyn Tree, item: &str, path: &str) -> bool {
    match tree.entry(path) {
        None => false,
        Some(entry) if entry.kind == EntryKind::Folder => !tree.names(path).is_empty(),
        Some(_) => {
            let text = tree.text(path).unwrap_or_default();
            match item {
                "machine-id" => !["", "uninitialized"].contains(&text.trim()),
                "iscsi-initiator" => text.lines().any(|line| line.trim_start().starts_with("InitiatorName=")),
                "host-name" => !["", "localhost"].contains(&text.trim()),
                _ => true,
            }
        }
    }
}
