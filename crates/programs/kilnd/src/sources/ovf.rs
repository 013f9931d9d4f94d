//! `ovf-env.xml` on the provisioning media.

use std::fmt;

use kiln_types::SecretBytes;
use roxmltree::{Document, Node};

/// The content of `ovf-env.xml`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OvfEnv {
    /// The admin user.
    pub user_name: Option<String>,
    pub host_name: Option<String>,
    /// Public keys of the admin user.
    pub ssh_keys: Vec<String>,
    /// Custom data in base64. It may contain secrets.
    pub custom_data: Option<SecretBytes>,
    /// The password of the admin user. kilnd does not set it; it is only read to keep it out of logs and reports.
    pub password: Option<SecretBytes>,
    /// The machine is preprovisioned and all other values are placeholders.
    pub preprovisioned: bool,
}

/// Not an `ovf-env.xml`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOvf {
    #[error("not UTF-8")]
    Text,
    /// Only the position is shown, because the text may contain a password.
    #[error("invalid XML at {0}")]
    Xml(String),
    #[error("missing element `{0}`")]
    Missing(&'static str),
}

impl OvfEnv {
    /// Parses the XML.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadOvf> {
        let text = std::str::from_utf8(bytes).map_err(|_| BadOvf::Text)?;
        // By default the parser rejects DTDs, and so entity expansion.
        let document = Document::parse(text.trim_start_matches('\u{feff}').trim())
            .map_err(|error| BadOvf::Xml(position(&error)))?;
        let root = document.root_element();
        let set = below(root, "LinuxProvisioningConfigurationSet")
            .ok_or(BadOvf::Missing("LinuxProvisioningConfigurationSet"))?;
        let kind = value(root, "PreprovisionedVMType").filter(|kind| !kind.eq_ignore_ascii_case("none"));
        let flag = value(root, "PreprovisionedVm").is_some_and(|flag| flag.eq_ignore_ascii_case("true"));
        let keys = set.descendants().filter(|node| node.tag_name().name() == "PublicKey");
        Ok(Self {
            user_name: value(set, "UserName"),
            host_name: value(set, "HostName"),
            ssh_keys: keys.filter_map(|key| value(key, "Value")).collect(),
            custom_data: value(set, "CustomData").map(SecretBytes::new),
            password: value(set, "UserPassword").map(SecretBytes::new),
            preprovisioned: flag || kind.is_some(),
        })
    }
}

impl fmt::Debug for OvfEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OvfEnv")
            .field("user_name", &self.user_name)
            .field("host_name", &self.host_name)
            .field("ssh_keys", &self.ssh_keys.len())
            .field("custom_data", &self.custom_data.as_ref().map(|_| "***"))
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("preprovisioned", &self.preprovisioned)
            .finish()
    }
}

/// Finds an element by local name, because namespace prefixes vary.
fn below<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.descendants().find(|node| node.tag_name().name() == name)
}

fn value(node: Node<'_, '_>, name: &str) -> Option<String> {
    let text = below(node, name)?.text()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The position of a syntax error, without the text.
fn position(error: &roxmltree::Error) -> String {
    let position = error.pos();
    format!("line {}, column {}", position.row, position.col)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xml(inner: &str, platform: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="utf-8"?>
<ns0:Environment xmlns:ns0="http://schemas.dmtf.org/ovf/environment/1" xmlns:ns1="http://schemas.microsoft.com/windowsazure">
  <ns1:ProvisioningSection><ns1:Version>1.0</ns1:Version>
    <ns1:LinuxProvisioningConfigurationSet><ns1:ConfigurationSetType>LinuxProvisioningConfiguration</ns1:ConfigurationSetType>{inner}
    </ns1:LinuxProvisioningConfigurationSet></ns1:ProvisioningSection>
  <ns1:PlatformSettingsSection><ns1:PlatformSettings>{platform}</ns1:PlatformSettings></ns1:PlatformSettingsSection>
</ns0:Environment>"#
        )
    }

    const MACHINE: &str = "<ns1:HostName>node1</ns1:HostName><ns1:UserName>azureuser</ns1:UserName>\
        <ns1:UserPassword>hunter2</ns1:UserPassword><ns1:CustomData>e30=</ns1:CustomData>\
        <ns1:SSH><ns1:PublicKeys><ns1:PublicKey><ns1:Value>ssh-ed25519 AAAA a</ns1:Value></ns1:PublicKey>\
        <ns1:PublicKey><ns1:Value>ssh-rsa BBBB b</ns1:Value></ns1:PublicKey></ns1:PublicKeys></ns1:SSH>";

    #[test]
    fn all_values_are_parsed() {
        let ovf =
            OvfEnv::parse(xml(MACHINE, "<ns1:PreprovisionedVm>false</ns1:PreprovisionedVm>").as_bytes()).expect("read");
        assert_eq!((ovf.user_name.as_deref(), ovf.host_name.as_deref()), (Some("azureuser"), Some("node1")));
        assert_eq!(ovf.ssh_keys, ["ssh-ed25519 AAAA a", "ssh-rsa BBBB b"]);
        assert_eq!(ovf.custom_data.as_ref().map(SecretBytes::expose), Some(b"e30=".as_slice()));
        assert!(!ovf.preprovisioned);
    }

    #[test]
    fn preprovisioning_is_detected_in_both_forms() {
        for platform in [
            "<ns1:PreprovisionedVm>True</ns1:PreprovisionedVm>",
            "<ns1:PreprovisionedVMType>Savable</ns1:PreprovisionedVMType>",
        ] {
            assert!(OvfEnv::parse(xml(MACHINE, platform).as_bytes()).expect("read").preprovisioned, "{platform}");
        }
        for platform in ["", "<ns1:PreprovisionedVMType>None</ns1:PreprovisionedVMType>"] {
            assert!(!OvfEnv::parse(xml(MACHINE, platform).as_bytes()).expect("read").preprovisioned, "{platform}");
        }
    }

    #[test]
    fn password_and_custom_data_are_not_printed() {
        let ovf = OvfEnv::parse(xml(MACHINE, "").as_bytes()).expect("read");
        let broken = OvfEnv::parse(xml(MACHINE, "<hunter2>").as_bytes()).expect_err("not closed");
        for text in [format!("{ovf:?}"), format!("{broken:?} {broken}")] {
            assert!(!text.contains("hunter2") && !text.contains("e30="), "{text}");
        }
    }

    #[test]
    fn entity_expansion_is_rejected() {
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Environment>&b;</Environment>"#;
        assert!(matches!(OvfEnv::parse(bomb.as_bytes()), Err(BadOvf::Xml(_))));
        assert_eq!(OvfEnv::parse(b"<a/>"), Err(BadOvf::Missing("LinuxProvisioningConfigurationSet")));
        assert_eq!(OvfEnv::parse(b"\xff"), Err(BadOvf::Text));
    }
}
