//! The one place that chooses a TLS provider. Changing it is a change of this file and of its manifest.

mod sealed;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use sealed::{Reader, SealError, seal};

/// The provider of all TLS in kiln.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Makes [`provider`] the process's default, for clients that take theirs from there (reqwest). Doing it twice is harmless.
pub fn install() {
    // An error means that a provider is installed already, which is what was asked for.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
