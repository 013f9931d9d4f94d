//! systemd system credentials, which firmware or a container manager passes to the machine.

use std::fs;
use std::io;

use kiln_types::SecretBytes;

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;

/// Reads a system credential; none if it does not exist.
pub fn system_credential(endpoints: &Endpoints, name: &str) -> Result<Option<SecretBytes>, Error> {
    let path = endpoints.credentials.join(name);
    // The name comes from a document and must not lead to another folder.
    if name.is_empty() || name.contains('/') || name == ".." || name == "." {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the name of a credential must not be a path");
        return Err(Error::Read { path, source });
    }
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(SecretBytes::new(bytes))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_is_read_by_name() {
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
    fn names_cannot_leave_the_folder() {
        for name in ["../secret", "", ".", "..", "/etc/shadow"] {
            assert!(system_credential(&Endpoints::default(), name).is_err(), "{name}");
        }
    }
}
