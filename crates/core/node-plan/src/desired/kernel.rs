//! Kernel settings, both of the running kernel and for every boot.

use std::fmt::Write as _;

use super::Setting;
use super::draft::Draft;
use crate::file::DesiredFile;
use crate::layout;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) fn render(draft: &mut Draft<'_>) {
    modules(draft);
    settings(draft);
    pages(draft);
    arguments(draft);
}

fn modules(draft: &mut Draft<'_>) {
    let mut text = String::new();
    for module in &draft.spec.os.kernel_modules {
        let good = !module.is_empty() && module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        draft.reject_if(!good, "spec.os.kernelModules", format!("`{module}` is not a module name"));
        let _ = writeln!(text, "{module}");
    }
    if !text.is_empty() {
        draft.elsewhere(DesiredFile::plain("/etc/modules-load.d/90-kiln.conf", text).restarts(layout::MODULES_UNIT));
    }
}

fn settings(draft: &mut Draft<'_>) {
    let os = &draft.spec.os;
    let mut text = String::new();
    for (name, value) in &os.sysctl {
        let _ = writeln!(text, "{name} = {value}");
        let path = format!("/proc/sys/{}", file(name));
        let optional = !os.kernel_modules.is_empty();
        draft.desired.kernel.push(Setting { path, value: value.clone(), optional });
    }
    if !text.is_empty() {
        draft.elsewhere(DesiredFile::plain("/etc/sysctl.d/90-kiln.conf", text));
    }
}

/// The path of a sysctl below `/proc/sys`. If the first separator of its name is a dot, dots and slashes are swapped, as `sysctl` does.
fn file(name: &str) -> String {
    let name = name.trim_start_matches('/');
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'.') => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn pages(draft: &mut Draft<'_>) {
    let pages = &draft.spec.os.huge_pages;
    let mut set = |path: &str, value: String| {
        draft.desired.kernel.push(Setting { path: path.to_owned(), value, optional: false });
    };
    if !pages.transparent.is_empty() {
        set("/sys/kernel/mm/transparent_hugepage/enabled", pages.transparent.clone());
    }
    if !pages.defrag.is_empty() {
        set("/sys/kernel/mm/transparent_hugepage/defrag", pages.defrag.clone());
    }
    if pages.pages_2mi > 0 {
        set("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", pages.pages_2mi.to_string());
    }
    let memory = draft.facts.memory_bytes;
    let kept = pages.pages_2mi.saturating_mul(2 * MIB).saturating_add(pages.pages_1gi.saturating_mul(GIB));
    draft.reject_if(
        memory > 0 && kept >= memory,
        "spec.os.hugePages",
        format!("huge pages need {} MiB and the machine has {} MiB", kept / MIB, memory / MIB),
    );
}

fn arguments(draft: &mut Draft<'_>) {
    let mut arguments = draft.spec.os.kernel_arguments.clone();
    for argument in &arguments {
        // A shell reads the file.
        let good =
            !argument.is_empty() && argument.chars().all(|c| c.is_ascii_alphanumeric() || "-_.,:=/@+%".contains(c));
        draft.reject_if(
            !good,
            "spec.os.kernelArguments",
            format!("`{argument}` contains characters that are not allowed in a kernel argument"),
        );
    }
    let large = draft.spec.os.huge_pages.pages_1gi;
    if large > 0 {
        arguments.extend(["hugepagesz=1G".to_owned(), format!("hugepages={large}")]);
    }
    if !arguments.is_empty() {
        let text = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"\n", arguments.join(" "));
        draft.elsewhere(DesiredFile::plain("/etc/default/grub.d/90-kiln.cfg", text).restarts(layout::BOOT_LOADER_UNIT));
    }
    draft.desired.kernel_arguments = arguments;
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn sysctl_names_are_mapped_to_paths() {
        assert_eq!(file("vm.max_map_count"), "vm/max_map_count");
        assert_eq!(file("net.ipv4.conf.eth0/100.forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(file("net/ipv4/conf/eth0.100/forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(file("/vm/swappiness"), "vm/swappiness");
    }
}
