//! The VM id from DMI.
//!
//! Clone detection: kilnd records the VM id of the machine that owns a disk. If the recorded id differs from the id in DMI at boot, the disk was
//! cloned, and the identity has to be reset before anything uses it. An id that is unreadable, or the same on every machine, proves nothing.

use std::fmt;
use std::fs;
use std::str::FromStr;

use kiln_types::hash::splitmix64;
use serde::{Deserialize, Serialize};

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;

/// Readable only by root.
const FILE: &str = "product_uuid";

/// A VM id: a UUID in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VmId(String);

/// Not a UUID, or a placeholder that firmware uses for every machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a VM id: expected a UUID whose digits are not all the same")]
pub struct BadVmId(pub String);

impl VmId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are ids of the same machine. On generation 1 VMs the byte order of the first three groups depends on who reads the id.
    pub fn is_same_machine(&self, other: &Self) -> bool {
        self == other || self.swapped() == *other
    }

    /// The id in the other byte order.
    #[must_use]
    pub fn swapped(&self) -> Self {
        let swapped = self.0.split('-').enumerate().map(|(index, group)| match index {
            0..=2 => group.as_bytes().rchunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect(),
            _ => group.to_owned(),
        });
        Self(swapped.collect::<Vec<String>>().join("-"))
    }

    /// A pseudo-random number for this machine, to spread machines in time.
    pub fn number(&self) -> u64 {
        self.0.bytes().fold(0, |number, byte| splitmix64(number ^ u64::from(byte)))
    }
}

impl FromStr for VmId {
    type Err = BadVmId;

    fn from_str(text: &str) -> Result<Self, BadVmId> {
        let id = text.trim().to_ascii_lowercase();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        let digits: Vec<u8> = id.bytes().filter(|byte| *byte != b'-').collect();
        let fits = lengths == [8, 4, 4, 4, 12] && digits.iter().all(u8::is_ascii_hexdigit);
        // Firmware without an id shows all zeros or all ones.
        let is_placeholder = digits.iter().all(|digit| Some(digit) == digits.first());
        if fits && !is_placeholder { Ok(Self(id)) } else { Err(BadVmId(text.trim().chars().take(64).collect())) }
    }
}

impl TryFrom<String> for VmId {
    type Error = BadVmId;

    fn try_from(text: String) -> Result<Self, BadVmId> {
        text.parse()
    }
}

impl From<VmId> for String {
    fn from(id: VmId) -> Self {
        id.0
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The VM id of this machine.
pub fn vm_id(endpoints: &Endpoints) -> Result<VmId, Error> {
    let path = endpoints.dmi.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|source| Error::VmId { path, source }),
        Err(source) => Err(Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";
    const OLD: &str = "902DA516-5F3C-3E4A-8B57-7F2B4C6D8E90";

    fn id(text: &str) -> VmId {
        text.parse().expect("an id")
    }

    #[test]
    fn both_byte_orders_are_the_same_machine() {
        assert!(id(NEW).is_same_machine(&id(OLD)));
        assert!(id(OLD).is_same_machine(&id(NEW)));
        assert!(id(NEW).is_same_machine(&id(&NEW.to_uppercase())));
        assert!(!id(NEW).is_same_machine(&id("16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e91")));
        assert!(!id(NEW).is_same_machine(&id("16a52d90-5f3c-3e4a-8b57-7f2b4c6d8e90")), "all three groups or none");
    }

    #[test]
    fn placeholders_are_rejected() {
        for bad in ["", "Not Settable", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"]
        {
            assert!(bad.parse::<VmId>().is_err(), "{bad}");
        }
        assert!(NEW.replace('-', "").parse::<VmId>().is_err());
    }

    #[test]
    fn id_is_read_from_the_dmi_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoints = Endpoints { dmi: folder.path().to_owned(), ..Endpoints::default() };
        let missing = vm_id(&endpoints).expect_err("no file");
        assert!(missing.to_string().contains("product_uuid"), "{missing}");
        fs::write(folder.path().join(FILE), format!("{OLD}\n")).expect("written");
        assert_eq!(vm_id(&endpoints).expect("read"), id(OLD));
    }
}
