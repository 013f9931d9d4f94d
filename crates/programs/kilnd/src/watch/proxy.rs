//! Whether kilnd uses a proxy for the API server. The rules are those of the kubelet, which has the same variables in its environment.

use std::net::IpAddr;

use kiln_node_config::NodeConfig;

/// The proxy for the API server of a document; none for a direct connection.
pub(super) fn for_api_server(config: &NodeConfig) -> Option<String> {
    let proxy = &config.spec.os.proxy;
    if proxy.https.is_empty() {
        return None;
    }
    let (host, port) = host(&config.spec.cluster.endpoint)?;
    let direct = is_local(&host) || proxy.no_proxy.iter().any(|entry| covers(entry, &host, &port));
    (!direct).then(|| proxy.https.clone())
}

/// Host and port of a URL.
fn host(url: &str) -> Option<(String, String)> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, port)| (host, port.trim_start_matches(':')))?,
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = if port.is_empty() { "443" } else { port };
    Some((host.to_ascii_lowercase(), port.to_owned()))
}

/// Connections to this machine never use a proxy.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an entry of `NO_PROXY` matches a host: `*`, an address, a network, a domain with its subdomains, or with a leading dot only the
/// subdomains. All but a network may have a port.
fn covers(entry: &str, host: &str, port: &str) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    if entry == "*" {
        return true;
    }
    let address = host.parse::<IpAddr>().ok();
    if let Some((network, bits)) = entry.split_once('/') {
        return match (address, network.parse(), bits.parse()) {
            (Some(address), Ok(network), Ok(bits)) => is_in(address, network, bits),
            _ => false,
        };
    }
    // An IPv6 address contains colons itself.
    let (entry, entry_port) = match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name.to_owned(), Some(port.to_owned())),
        _ => (entry, None),
    };
    let entry = entry.trim_matches(['[', ']']);
    if entry.is_empty() || entry_port.is_some_and(|entry_port| entry_port != port) {
        return false;
    }
    if let (Some(address), Ok(known)) = (address, entry.parse::<IpAddr>()) {
        return address == known;
    }
    let name = entry.strip_prefix("*.").or_else(|| entry.strip_prefix('.'));
    let below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    name.map_or_else(|| host == entry || below(entry), below)
}

fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |a: u128, b: u128, width: u32| bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses_proxy(endpoint: &str, no_proxy: &[&str]) -> bool {
        let mut config = NodeConfig::default();
        endpoint.clone_into(&mut config.spec.cluster.endpoint);
        "http://proxy:3128".clone_into(&mut config.spec.os.proxy.https);
        config.spec.os.proxy.no_proxy = no_proxy.iter().map(|entry| (*entry).to_owned()).collect();
        for_api_server(&config).is_some()
    }

    #[test]
    fn connection_is_direct_for_matching_entries() {
        for (endpoint, entry) in [
            ("https://api.example.com:6443", "api.example.com"),
            ("https://api.example.com:6443", "example.com"),
            ("https://API.example.com", ".EXAMPLE.com"),
            ("https://api.example.com", "*.example.com"),
            ("https://api.example.com", "*"),
            ("https://api.example.com:6443", "example.com:6443"),
            ("https://10.0.0.1:443/", "10.0.0.0/8"),
            ("https://10.0.0.1", "10.0.0.1"),
            ("https://[fd00::1]:6443", "fd00::/8"),
            ("https://[fd00::1]:6443", "fd00::1"),
            ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ] {
            assert!(!uses_proxy(endpoint, &[entry]), "{endpoint} {entry}");
        }
        for local in ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"] {
            assert!(!uses_proxy(local, &[]), "{local}");
        }
    }

    #[test]
    fn other_connections_use_the_proxy() {
        for (endpoint, entry) in [
            ("https://api.example.com", ""),
            ("https://api.example.com", "ple.com"),
            ("https://example.com", ".example.com"),
            ("https://api.example.com:6443", "example.com:443"),
            ("https://11.0.0.1", "10.0.0.0/8"),
            ("https://10.0.0.1", "10.0.0.0/99"),
            ("https://10.0.0.1", "fd00::/8"),
            ("https://10.0.0.1", "10.0.0.10"),
        ] {
            assert!(uses_proxy(endpoint, &[entry]), "{endpoint} {entry}");
        }
        let mut config = NodeConfig::default();
        "https://api.example.com".clone_into(&mut config.spec.cluster.endpoint);
        assert_eq!(for_api_server(&config), None, "no proxy is configured");
    }
}
