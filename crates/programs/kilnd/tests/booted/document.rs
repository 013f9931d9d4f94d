//! Documents, and the provisioning medium that may carry one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_node_config::media;
use serde_json::{Value, json};

/// Enough of a certificate for a document; nobody connects by it.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

/// A document under construction.
#[derive(Clone, Debug)]
pub(crate) struct Document(Value);

impl Document {
    /// A small one with this number, for the stand-ins.
    pub(crate) fn new(generation: u64) -> Self {
        Self(json!({
            "apiVersion": "node.kiln.dev/v1alpha1",
            "kind": "NodeConfig",
            "metadata": {"name": "pool", "generation": generation},
            "spec": {
                "cluster": {"endpoint": "https://127.0.0.1:6443", "certificateAuthority": AUTHORITY},
                "kubelet": {"version": "1.34.4"},
                "health": {
                    "gates": [{"name": "kubelet", "kind": "kubeletHealthy"}],
                    "withinSeconds": 150,
                },
                "update": {"pollSeconds": 1, "spreadSeconds": 0},
            },
        }))
    }

    /// One that is written already.
    pub(crate) fn of(document: Value) -> Self {
        Self(document)
    }

    /// The same with a value at a path, `/spec/kubelet/flags`. Objects on the way are made.
    pub(crate) fn with(mut self, path: &str, value: Value) -> Self {
        let mut place = &mut self.0;
        for name in path.trim_start_matches('/').split('/') {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[name];
        }
        *place = value;
        self
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// As user data and custom data carry it.
    pub(crate) fn encoded(&self) -> String {
        STANDARD.encode(self.bytes())
    }
}

/// A document that can be told from others by what it asks of kubelet.
pub(crate) fn max_pods(generation: u64, number: u32) -> Document {
    Document::new(generation).with("/spec/kubelet/configuration/maxPods", json!(number))
}

/// What the provisioning medium holds: `ovf-env.xml` with a document, or without.
pub(crate) fn medium(host_name: &str, document: Option<&Document>) -> String {
    custom_data(host_name, document.map(Document::encoded).as_deref())
}

/// The same, with what the node joins with beside the document.
pub(crate) fn medium_with(host_name: &str, document: &Document, credential: &str) -> String {
    let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n";
    let document = [b"\n\n", &document.bytes()[..], b"\n--b\n"].concat();
    let (first, second) = (media::NODE_CONFIG, media::CREDENTIAL);
    let mut message = format!("{head}Content-Type: {first}").into_bytes();
    message.extend(document);
    message.extend(format!("Content-Type: {second}\n\n{credential}\n--b--\n").into_bytes());
    custom_data(host_name, Some(&STANDARD.encode(message)))
}

fn custom_data(host_name: &str, encoded: Option<&str>) -> String {
    let data = encoded.map(|encoded| format!("<wa:CustomData>{encoded}</wa:CustomData>"));
    xml(&format!("<wa:HostName>{host_name}</wa:HostName>{}", data.unwrap_or_default()), "false")
}

/// The medium of a machine that was started ahead of need.
pub(crate) fn placeholder() -> String {
    xml("<wa:HostName>placeholder</wa:HostName>", "true")
}

fn xml(inner: &str, ahead: &str) -> String {
    format!(
        "<ovf:Environment xmlns:ovf=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>\
         <wa:LinuxProvisioningConfigurationSet>{inner}</wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection>\
         <wa:PlatformSettingsSection><wa:PlatformSettings><wa:PreprovisionedVm>{ahead}</wa:PreprovisionedVm>\
         </wa:PlatformSettings></wa:PlatformSettingsSection></ovf:Environment>"
    )
}
