//! NodeConfig documents, and the provisioning media that may contain one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_node_config::media;
use serde_json::{Value, json};

/// A placeholder that passes validation; no connection uses it.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

/// Builder for a NodeConfig.
#[derive(Clone, Debug)]
pub(crate) struct Document(Value);

impl Document {
    /// A minimal NodeConfig for a machine with the fake kubelet.
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

    pub(crate) fn from_value(document: Value) -> Self {
        Self(document)
    }

    /// Sets the value at a path such as `/spec/kubelet/flags`, creating missing parents.
    pub(crate) fn with(mut self, path: &str, value: Value) -> Self {
        let mut target = &mut self.0;
        for name in path.trim_start_matches('/').split('/') {
            if !target.is_object() {
                *target = json!({});
            }
            target = &mut target[name];
        }
        *target = value;
        self
    }

    /// Removes the value at a path.
    pub(crate) fn without(mut self, path: &str) -> Self {
        if let Some((parent, name)) = path.rsplit_once('/')
            && let Some(fields) = self.0.pointer_mut(parent).and_then(Value::as_object_mut)
        {
            fields.remove(name);
        }
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// Base64, as in user data and custom data.
    pub(crate) fn encoded(&self) -> String {
        STANDARD.encode(self.bytes())
    }
}

/// A NodeConfig that differs from others in `maxPods`.
pub(crate) fn max_pods(generation: u64, number: u32) -> Document {
    Document::new(generation).with("/spec/kubelet/configuration/maxPods", json!(number))
}

/// The `ovf-env.xml` of the provisioning media, with or without a NodeConfig as custom data.
pub(crate) fn ovf_env(host_name: &str, document: Option<&Document>) -> String {
    custom_data(host_name, document.map(Document::encoded).as_deref())
}

/// The same, with the join credential as a second part next to the NodeConfig.
pub(crate) fn ovf_env_with_credential(host_name: &str, document: &Document, credential: &str) -> String {
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

/// The `ovf-env.xml` of a pre-provisioned VM that has not been assigned yet.
pub(crate) fn placeholder() -> String {
    xml("<wa:HostName>placeholder</wa:HostName>", "true")
}

fn xml(inner: &str, preprovisioned: &str) -> String {
    format!(
        "<ovf:Environment xmlns:ovf=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>\
         <wa:LinuxProvisioningConfigurationSet>{inner}</wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection>\
         <wa:PlatformSettingsSection><wa:PlatformSettings><wa:PreprovisionedVm>{preprovisioned}</wa:PreprovisionedVm>\
         </wa:PlatformSettings></wa:PlatformSettingsSection></ovf:Environment>"
    )
}
