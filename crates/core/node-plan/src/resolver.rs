//! The resolver configuration of a machine.

/// The servers that systemd-resolved itself asks. Pods use them instead of its stub.
pub const UPSTREAM: &str = "/run/systemd/resolve/resolv.conf";

/// Where `/etc/resolv.conf` points if programs ask systemd-resolved's stub.
const STUB: &str = "systemd/resolve/stub-resolv.conf";
/// The addresses of the stub.
const ADDRESSES: [&str; 2] = ["127.0.0.53", "127.0.0.54"];

/// Whether `/etc/resolv.conf` names systemd-resolved's stub: by its link, or by its text if another program copied it. The stub listens on the
/// node's loopback device, which a pod does not have, and `CoreDNS` would forward queries to itself. The link is enough, because at boot its target does
/// not exist yet.
pub fn uses_stub(link: Option<&str>, text: &str) -> bool {
    let servers: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")).map(str::trim).collect();
    link.is_some_and(|target| target.ends_with(STUB))
        || !servers.is_empty() && servers.iter().all(|server| ADDRESSES.contains(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_is_recognised_by_link_and_by_text() {
        assert!(uses_stub(Some("../run/systemd/resolve/stub-resolv.conf"), ""));
        assert!(uses_stub(None, "# managed\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n"));
        assert!(!uses_stub(Some("../run/systemd/resolve/resolv.conf"), "nameserver 168.63.129.16\n"));
        assert!(!uses_stub(None, "nameserver 10.0.0.10\nnameserver 127.0.0.53\n"));
        assert!(!uses_stub(None, "nameserver 127.0.0.1\n"), "another resolver of the image");
        assert!(!uses_stub(None, ""));
    }
}
