//! The HTTP client under everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use azure_core::http::{HttpClient, Url};

use super::metadata::MetadataRoute;

/// How to reach a cloud.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Where the metadata service is, where it is not at its own address.
    pub metadata_base: Option<Url>,
}

/// A certificate file that cannot be used, or no client at all.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The file cannot be read.
    #[error("cannot read the certificate file `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is not PEM.
    #[error("`{}` holds no certificates in PEM form", path.display())]
    Pem {
        path: PathBuf,
        /// Why, where somebody said so.
        source: Option<reqwest::Error>,
    },
    /// The client cannot be made.
    #[error("cannot make an HTTP client")]
    Client { source: reqwest::Error },
}

/// Makes the client. It follows no redirects: a token must not go where an answer points.
pub fn http_client(options: &HttpOptions) -> Result<Arc<dyn HttpClient>, CaError> {
    kiln_tls::install();
    let certificates = options.ca_file.as_deref().map(certificates).transpose()?.unwrap_or_default();
    let build = |direct: bool| {
        let mut builder = reqwest::Client::builder()
            // What Azure's own clients wait: a connection in 20 s, a silent one given up after a minute.
            .connect_timeout(Duration::from_secs(20))
            .read_timeout(Duration::from_mins(1))
            .redirect(reqwest::redirect::Policy::none());
        if direct {
            builder = builder.no_proxy();
        }
        if !certificates.is_empty() {
            builder = builder.tls_certs_merge(certificates.clone());
        }
        builder.build().map_err(|source| CaError::Client { source })
    };
    Ok(Arc::new(MetadataRoute::new(Arc::new(build(false)?), Arc::new(build(true)?), options.metadata_base.clone())))
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, CaError> {
    let pem = std::fs::read(path).map_err(|source| CaError::Read { path: path.to_owned(), source })?;
    let refused = |source| CaError::Pem { path: path.to_owned(), source };
    let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(|e| refused(Some(e)))?;
    if certificates.is_empty() { Err(refused(None)) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_file_that_is_missing_or_empty_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.pem");
        let options = |path: &Path| HttpOptions { ca_file: Some(path.to_owned()), ..HttpOptions::default() };
        let error = http_client(&options(&missing)).unwrap_err().to_string();
        assert!(error.contains("missing.pem"), "{error}");
        let junk = dir.path().join("junk.pem");
        std::fs::write(&junk, "no certificate").unwrap();
        let error = http_client(&options(&junk)).unwrap_err().to_string();
        assert!(error.contains("junk.pem"), "{error}");
    }
}
