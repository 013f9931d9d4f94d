//! Operating-system settings.

use std::collections::BTreeMap;

use crate::describe::document;

document! {
    /// Settings of the operating system.
    pub struct Os {
        /// Kernel parameters by name.
        sysctl: BTreeMap<String, String> = Reload,
        /// Swap file.
        swap: Swap,
        /// Huge page settings.
        huge_pages: HugePages,
        /// Resource limits of the container runtime by systemd name, such as `LimitNOFILE`.
        limits: BTreeMap<String, String> = Restart,
        /// Time synchronization.
        time: TimeSync,
        /// HTTP proxies.
        proxy: Proxy,
        /// Additional certificate authorities to trust, each in PEM.
        certificate_authorities: Vec<String> = Restart,
        /// Kernel command-line arguments.
        kernel_arguments: Vec<String> = Reboot,
        /// Kernel modules to load.
        kernel_modules: Vec<String> = Reload,
    }
}

document! {
    /// Swap file of a node.
    pub struct Swap {
        /// Size in MiB. If 0, the node has no swap file.
        size_mib: u64 = Drain,
    }
}

document! {
    /// Huge page settings of the kernel.
    pub struct HugePages {
        /// Transparent huge pages: `always`, `madvise` or `never`.
        transparent: String = Reload,
        /// Defragmentation for transparent huge pages: `always`, `defer`, `defer+madvise`, `madvise` or `never`.
        defrag: String = Reload,
        /// Number of reserved 2 MiB pages.
        pages_2mi: u64 = Drain,
        /// Number of reserved 1 GiB pages. The kernel can reserve them only at boot.
        pages_1gi: u64 = Reboot,
    }
}

document! {
    /// Time synchronization of a node.
    pub struct TimeSync {
        /// NTP servers. If empty, the clock of the platform is used.
        servers: Vec<String> = Reload,
        /// Time zone.
        zone: String = None,
    }
}

document! {
    /// HTTP proxies. Their URLs must not contain passwords.
    pub struct Proxy {
        /// Proxy URL for HTTP requests.
        http: String = Restart,
        /// Proxy URL for HTTPS requests.
        https: String = Restart,
        /// Hosts that are reached without a proxy.
        no_proxy: Vec<String> = Restart,
        /// Certificate authority of the proxy, in PEM.
        certificate_authority: String = Restart,
    }
}
