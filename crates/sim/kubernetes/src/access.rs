//! Client access: a bearer token, and a kubeconfig that contains it.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::json;

/// The bearer token of the clients. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Errors of the token and kubeconfig files.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: invalid token; delete the file to generate a new one", path.display())]
    NoToken { path: PathBuf },
    #[error("the system has no random numbers for a token")]
    Random,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(***)")
    }
}

impl Token {
    /// A new random token.
    pub fn random() -> Result<Self, AccessError> {
        let mut bytes = [0; 24];
        kiln_tls::provider().secure_random.fill(&mut bytes).map_err(|_| AccessError::Random)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The token in a file. A missing file is created with a new token.
    pub fn open(path: &Path) -> Result<Self, AccessError> {
        match fs::read_to_string(path) {
            Ok(text) if text.trim().len() >= 16 => Ok(Self(text.trim().to_owned())),
            Ok(_) => Err(AccessError::NoToken { path: path.to_owned() }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                let token = Self::random()?;
                write(path, &token.0)?;
                Ok(token)
            }
            Err(source) => Err(AccessError::Io { path: path.to_owned(), source }),
        }
    }

    /// Whether a request carries the token.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Some(presented) = presented.strip_prefix("Bearer ").map(str::trim) else { return false };
        // Compares all bytes, so that the time does not depend on how many were right.
        presented.len() == self.0.len()
            && presented.bytes().zip(self.0.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }
}

/// Writes a kubeconfig for the server at `address`, as JSON, which is valid YAML. Only the owner can read it.
pub fn write_kubeconfig(path: &Path, address: SocketAddr, ca_file: &Path, token: &Token) -> Result<(), AccessError> {
    let ca = fs::read(ca_file).map_err(|source| AccessError::Io { path: ca_file.to_owned(), source })?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "kiln",
        "clusters": [{"name": "kiln", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": BASE64_STANDARD.encode(ca),
        }}],
        "users": [{"name": "kiln", "user": {"token": token.0}}],
        "contexts": [{"name": "kiln", "context": {"cluster": "kiln", "user": "kiln", "namespace": "default"}}],
    });
    write(path, &format!("{config:#}\n"))
}

/// Writes a file atomically, readable only by its owner from the start.
fn write(path: &Path, text: &str) -> Result<(), AccessError> {
    let io = |source| AccessError::Io { path: path.to_owned(), source };
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(io(source)),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path)).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn token_is_persistent_comparable_and_not_printable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::open(&path).unwrap();
        assert_eq!(Token::open(&path).unwrap(), token);
        assert_ne!(Token::random().unwrap(), token);
        assert!(token.is_in(&headers(&format!("Bearer {}", token.0))));
        for wrong in [format!("Bearer {}x", token.0), format!("Basic {}", token.0), "Bearer ".to_owned()] {
            assert!(!token.is_in(&headers(&wrong)), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        assert_eq!(format!("{token:?}"), "Token(***)");
        fs::write(&path, "short").unwrap();
        assert!(matches!(Token::open(&path), Err(AccessError::NoToken { .. })));
    }
}
