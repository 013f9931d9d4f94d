//! The line that `kiln sim serve` prints when it is ready.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use kiln_sim_azure::WorldSpec;
use kiln_sim_azure::serve::Listen;
use serde::{Deserialize, Serialize};

/// Addresses and credentials for clients.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Endpoint {
    pub(crate) arm: String,
    pub(crate) authority: String,
    pub(crate) imds: String,
    pub(crate) wire_server: String,
    pub(crate) ca_file: PathBuf,
    pub(crate) tenant_id: String,
    pub(crate) subscription_id: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) resource_group: String,
    pub(crate) location: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl Endpoint {
    /// `host` is used in the URLs of ARM and Entra.
    pub(crate) fn new(spec: &WorldSpec, host: &str, at: Listen, ca_file: &Path) -> Self {
        let arm = format!("https://{}", join(host, at.arm.port()));
        let client = spec.clients.first();
        Self {
            authority: arm.clone(),
            arm,
            imds: http_url(at.imds),
            wire_server: http_url(at.wire),
            ca_file: ca_file.to_owned(),
            tenant_id: spec.tenant_id.clone(),
            subscription_id: spec.subscription_id.clone(),
            client_id: client.map(|client| client.client_id.clone()).unwrap_or_default(),
            client_secret: client.map(|client| client.client_secret.clone()).unwrap_or_default(),
            resource_group: spec.resource_group.clone(),
            location: spec.location.clone(),
            kubeconfig: None,
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("arm", &self.arm).finish_non_exhaustive()
    }
}

/// The host name in URLs: the first name given by the user, `localhost`, or the address.
pub(crate) fn host(names: &[String], address: IpAddr) -> String {
    let is_localhost =
        |address: IpAddr| address == IpAddr::from([127, 0, 0, 1]) || address == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
    match names.first() {
        Some(name) => name.clone(),
        None if is_localhost(address) || address.is_unspecified() => "localhost".to_owned(),
        None => address.to_string(),
    }
}

/// URL of the metadata service or the wire server. The services identify a VM by its address, so this is an address and not a name.
fn http_url(at: SocketAddr) -> String {
    let address = match at.ip() {
        IpAddr::V4(address) if address.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(address) if address.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        address => address,
    };
    format!("http://{}", SocketAddr::new(address, at.port()))
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_given_name_localhost_or_the_address() {
        for (names, address, expected) in [
            (&[][..], "127.0.0.1", "localhost"),
            (&[][..], "::1", "localhost"),
            (&[][..], "0.0.0.0", "localhost"),
            (&[][..], "127.0.0.9", "127.0.0.9"),
            (&["sim.internal".to_owned()][..], "0.0.0.0", "sim.internal"),
        ] {
            assert_eq!(host(names, address.parse().expect("an address")), expected, "{names:?} {address}");
        }
        assert_eq!(join("fd00::1", 1), "[fd00::1]:1");
        assert_eq!(http_url("[::]:80".parse().expect("an address")), "http://[::1]:80");
    }

    #[test]
    fn debug_output_has_no_secret() {
        let listen = "127.0.0.1:1".parse().expect("an address");
        let at = Listen { arm: listen, imds: listen, wire: listen };
        let endpoint = Endpoint::new(&WorldSpec::default(), "localhost", at, Path::new("/ca.pem"));
        assert!(!endpoint.client_secret.is_empty());
        assert!(!format!("{endpoint:?}").contains(&endpoint.client_secret));
    }
}
