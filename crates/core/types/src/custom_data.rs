//! Custom data found on a disk. Its JSON has only size and hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::secret::SecretBytes;

/// Custom data that a platform wrote to the disk at first boot.
///
/// It usually contains a join credential, so its JSON has only size and hash. A value that was read from JSON has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomData {
    present: bool,
    #[serde(default)]
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip)]
    bytes: Option<SecretBytes>,
}

impl CustomData {
    /// No custom data.
    pub fn absent() -> Self {
        Self::default()
    }

    /// Custom data with these bytes.
    pub fn found(bytes: SecretBytes) -> Self {
        Self {
            present: true,
            size: bytes.expose().len() as u64,
            sha256: Some(sha256_hex(bytes.expose())),
            bytes: Some(bytes),
        }
    }

    /// The same without the bytes, as after a round trip through JSON.
    #[must_use]
    pub fn without_bytes(self) -> Self {
        Self { bytes: None, ..self }
    }

    /// Whether there is any.
    pub fn present(&self) -> bool {
        self.present
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its hash in hexadecimal digits.
    pub fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    /// The bytes; none after a round trip through JSON.
    pub fn bytes(&self) -> Option<&SecretBytes> {
        self.bytes.as_ref()
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_not_printed_or_serialized() {
        let found = CustomData::found(SecretBytes::new("token: abcdef.0123456789abcdef"));
        let json = serde_json::to_string(&found).expect("json");
        for text in [format!("{found:?}"), json.clone()] {
            assert!(!text.contains("abcdef.0123456789abcdef") && !text.contains("token"), "{text}");
        }
        let back: CustomData = serde_json::from_str(&json).expect("read back");
        assert_eq!((back.present(), back.size(), back.bytes()), (true, 30, None));
        assert_eq!(back.sha256(), found.sha256());
    }

    #[test]
    fn hash_is_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(CustomData::found(SecretBytes::new("abc")).sha256(), Some(abc));
    }
}
