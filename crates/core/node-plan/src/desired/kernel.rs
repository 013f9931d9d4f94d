//! Kernel settings, both of the running kernel and for every boot.

use std::fmt::Write as _;

use super::draft::Draft;
use super::{Setting, baseline};
use crate::file::DesiredFile;
use crate::layout;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) fn render(draft: &mut Draft<'_>) {
    modules(draft);
    baseline::render(draft);
    settings(draft);
    pages(draft);
    arguments(draft);
}

fn modules(draft: &mut Draft<'_>) {
    let os = &draft.spec.os;
    let mut modules: Vec<&str> = os.kernel_modules.iter().map(String::as_str).collect();
    for module in &modules {
        let good = !module.is_empty() && module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        draft.reject_if(!good, "spec.os.kernelModules", format!("`{module}` is not a module name"));
    }
    let needed = os.sysctl.keys().filter_map(|name| module_of(&path_of(name)));
    for module in needed.chain(baseline::modules(draft.spec)) {
        // The kernel treats both characters as the same.
        if !modules.iter().any(|known| known.replace('-', "_") == module) {
            modules.push(module);
        }
    }
    if !modules.is_empty() {
        let text = modules.join("\n") + "\n";
        draft.elsewhere(DesiredFile::plain("/etc/modules-load.d/90-kiln.conf", text).restarts(layout::MODULES_UNIT));
    }
}

fn settings(draft: &mut Draft<'_>) {
    let os = &draft.spec.os;
    let mut text = String::new();
    for (name, value) in &os.sysctl {
        let _ = writeln!(text, "{name} = {value}");
        let path = path_of(name);
        let optional = !os.kernel_modules.is_empty();
        let module = module_of(&path);
        let path = format!("/proc/sys/{path}");
        draft.desired.kernel.push(Setting { path, value: value.clone(), optional, module });
    }
    if !text.is_empty() {
        draft.elsewhere(DesiredFile::plain("/etc/sysctl.d/90-kiln.conf", text));
    }
}

/// The path of a sysctl below `/proc/sys`. If the first separator of its name is a dot, dots and slashes are swapped, as `sysctl` does.
pub(crate) fn path_of(name: &str) -> String {
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

/// The module that provides a sysctl, by its path below `/proc/sys`; none for settings of every kernel. A setting of a module that is not
/// loaded does not exist, so kilnd loads the module first.
pub(super) fn module_of(path: &str) -> Option<&'static str> {
    const MODULES: [(&str, &str); 6] = [
        ("net/bridge/", "br_netfilter"),
        ("net/netfilter/nf_conntrack_", "nf_conntrack"),
        ("net/nf_conntrack_max", "nf_conntrack"),
        ("net/ipv4/vs/", "ip_vs"),
        ("net/sctp/", "sctp"),
        ("sunrpc/", "sunrpc"),
    ];
    MODULES.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, module)| *module)
}

fn pages(draft: &mut Draft<'_>) {
    let pages = &draft.spec.os.huge_pages;
    let mut set = |path: &str, value: String| {
        draft.desired.kernel.push(Setting { path: path.to_owned(), value, optional: false, module: None });
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
    use super::{module_of, path_of};

    #[test]
    fn sysctl_names_are_mapped_to_paths() {
        assert_eq!(path_of("vm.max_map_count"), "vm/max_map_count");
        assert_eq!(path_of("net.ipv4.conf.eth0/100.forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(path_of("net/ipv4/conf/eth0.100/forwarding"), "net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(path_of("/vm/swappiness"), "vm/swappiness");
    }

    #[test]
    fn settings_of_modules_name_their_module() {
        assert_eq!(module_of(&path_of("net.bridge.bridge-nf-call-iptables")), Some("br_netfilter"));
        assert_eq!(module_of(&path_of("net/netfilter/nf_conntrack_max")), Some("nf_conntrack"));
        assert_eq!(module_of(&path_of("net.ipv4.ip_forward")), None);
    }
}
