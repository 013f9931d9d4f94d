//! Audiences of tokens.

use std::net::IpAddr;

/// ARM's names in the public cloud, which clients use unless they know of another cloud.
pub(super) const PUBLIC: [&str; 2] = ["https://management.azure.com/", "https://management.core.windows.net/"];

/// Other resources that exist in every tenant. Entra issues tokens for them, and ARM rejects those.
const OTHERS: [&str; 5] = [
    "https://graph.microsoft.com/",
    "https://graph.windows.net/",
    "https://vault.azure.net/",
    "https://storage.azure.com/",
    // The server application of managed clusters.
    "6dae42f8-4368-4678-94ff-3960e28e3630/",
];

/// A resource that tokens can be requested for, as the client spelled it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audience(String);

impl Audience {
    /// Finds a resource. `host` is the host of the request, which is unknown to the metadata service.
    pub(crate) fn find(resource: &str, host: Option<&str>) -> Option<Self> {
        let known = Self::is_arm(resource, host) || OTHERS.iter().any(|other| same(other, resource));
        known.then(|| Self(resource.to_owned()))
    }

    /// Whether this is a name of ARM: a public one, or the address it is reached at.
    pub(crate) fn is_arm(resource: &str, host: Option<&str>) -> bool {
        if PUBLIC.iter().any(|known| same(known, resource)) {
            return true;
        }
        let Some(named) = authority(resource) else { return false };
        match host {
            None => split(named).1.is_some(),
            Some(host) => {
                let ((name, port), (own, own_port)) = (split(named), split(host));
                port.unwrap_or("443") == own_port.unwrap_or("443")
                    && (name.eq_ignore_ascii_case(own) || (is_loopback(name) && is_loopback(own)))
            }
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a name means this machine without a DNS lookup.
pub(super) fn is_loopback(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Compares resources, ignoring slashes at the end. `//` results from appending `/.default`.
fn same(known: &str, given: &str) -> bool {
    known.trim_end_matches('/').eq_ignore_ascii_case(given.trim_end_matches('/'))
}

/// Returns `host:port` of a URL without a path. Azure's resources have no port, so a port means an embedded Azure.
fn authority(resource: &str) -> Option<&str> {
    let rest =
        resource.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).and_then(|_| resource.get(8..))?;
    let rest = rest.trim_end_matches('/');
    (!rest.is_empty() && !rest.contains(['/', '?', '#', '@'])).then_some(rest)
}

/// Splits name and port. An IPv6 address keeps its brackets.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm_is_found_by_address_and_public_names() {
        for name in [
            "https://localhost:8443",
            "https://localhost:8443/",
            "https://LOCALHOST:8443//",
            "https://127.0.0.1:8443",
            "https://[::1]:8443/",
            "https://management.azure.com",
            "https://management.core.windows.net/",
        ] {
            assert!(Audience::is_arm(name, Some("localhost:8443")), "{name}");
        }
        for name in [
            "https://localhost:8444",
            "https://vault.azure.net",
            "http://localhost:8443",
            "https://evil.example:8443",
            "",
            "https://",
        ] {
            assert!(!Audience::is_arm(name, Some("localhost:8443")), "{name}");
        }
        assert!(Audience::is_arm("https://sim.internal", Some("sim.internal")));
    }

    #[test]
    fn other_resources_are_found_but_are_not_arm() {
        assert!(Audience::find("https://vault.azure.net", None).is_some());
        assert!(!Audience::is_arm("https://vault.azure.net", None));
        assert_eq!(Audience::find("https://nowhere.example/", None), None);
    }
}
