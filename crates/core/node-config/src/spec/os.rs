//! The operating system.

use std::collections::BTreeMap;

use crate::describe::document;

document! {
    /// The operating system.
    pub struct Os {
        /// Settings of the kernel, by their names.
        sysctl: BTreeMap<String, String> = Reload,
        /// A swap file.
        swap: Swap,
        /// Large pages of memory.
        huge_pages: HugePages,
        /// Limits of the runtime's service, by the names that systemd gives them (`LimitNOFILE`).
        limits: BTreeMap<String, String> = Restart,
        /// The clock.
        time: TimeSync,
        /// Proxies.
        proxy: Proxy,
        /// Certificates to trust besides the system's, PEM each.
        certificate_authorities: Vec<String> = Restart,
        /// Arguments of the kernel.
        kernel_arguments: Vec<String> = Reboot,
        /// Modules of the kernel to load.
        kernel_modules: Vec<String> = Reload,
    }
}

document! {
    /// A swap file.
    pub struct Swap {
        /// Its size in MiB; none without it.
        size_mib: u64 = Drain,
    }
}

document! {
    /// Large pages of memory.
    pub struct HugePages {
        /// When they are used by themselves: `always`, `madvise`, `never`.
        transparent: String = Reload,
        /// When room is made for them.
        defrag: String = Reload,
        /// How many of 2 MiB are kept.
        pages_2mi: u64 = Drain,
        /// How many of 1 GiB are kept. Only the start of the kernel finds room for those.
        pages_1gi: u64 = Reboot,
    }
}

document! {
    /// The clock.
    pub struct TimeSync {
        /// Servers; the platform's own clock where none is given.
        servers: Vec<String> = Reload,
        /// The time zone.
        zone: String = None,
    }
}

document! {
    /// Proxies. Their URLs hold no password: where one is needed, a file on the node has it.
    pub struct Proxy {
        /// For HTTP.
        http: String = Restart,
        /// For HTTPS.
        https: String = Restart,
        /// Hosts that are asked without a proxy.
        no_proxy: Vec<String> = Restart,
        /// The certificate that the proxy shows, PEM.
        certificate_authority: String = Restart,
    }
}
