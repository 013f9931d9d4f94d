//! Credentials that systemd was given from outside the machine: by firmware, or by whoever started a container.

use std::fs;
use std::io;

use kiln_types::SecretBytes;

use crate::endpoints::Endpoints;
use crate::error::GuestError;

/// The credential of a name; none where the platform gives none of it.
pub fn system_credential(endpoints: &Endpoints, name: &str) -> Result<Option<SecretBytes>, GuestError> {
    let path = endpoints.credentials.join(name);
    // A document chooses the name, so it must not choose another folder.
    if name.is_empty() || name.contains('/') || name == ".." || name == "." {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "a credential's name is no path");
        return Err(GuestError::Read { path, source });
    }
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(SecretBytes::new(bytes))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(GuestError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_read_by_its_name_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoints = Endpoints { credentials: folder.path().join("@system"), ..Endpoints::default() };
        assert_eq!(system_credential(&endpoints, "kiln.join").expect("no folder"), None);
        fs::create_dir(&endpoints.credentials).expect("made");
        fs::write(endpoints.credentials.join("kiln.join"), "hunter2").expect("written");
        let found = system_credential(&endpoints, "kiln.join").expect("read").expect("some");
        assert_eq!(found.expose(), b"hunter2");
        assert!(!format!("{found:?}").contains("hunter2"));
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../secret", "", ".", "..", "/etc/shadow"] {
            assert!(system_credential(&Endpoints::default(), name).is_err(), "{name}");
        }
    }
}
