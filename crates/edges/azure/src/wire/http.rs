//! The HTTP client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use azure_core::http::{HttpClient, Url};

use super::metadata::MetadataRoute;

/// Options of the HTTP client.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The address of the metadata service, if it is not the standard one.
    pub metadata_base: Option<Url>,
}

/// An error of creating the HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("cannot read the certificate file `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` contains no PEM certificates", path.display())]
    Pem {
        path: PathBuf,
        /// The parser's error, if the file looks like PEM.
        source: Option<reqwest::Error>,
    },
    #[error("cannot create the HTTP client")]
    Client { source: reqwest::Error },
}

/// Creates the client. It follows no redirects, so that a response cannot divert a token to another host.
pub fn http_client(options: &HttpOptions) -> Result<Arc<dyn HttpClient>, CaError> {
    kiln_tls::install();
    let certificates = options.ca_file.as_deref().map(certificates).transpose()?.unwrap_or_default();
    let build = |direct: bool| {
        let mut builder = reqwest::Client::builder()
            // The timeouts of Azure's own clients: 20 s to connect, 1 minute without data.
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
    fn errors_name_the_certificate_file() {
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
