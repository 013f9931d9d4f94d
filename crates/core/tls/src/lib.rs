//! The cryptography that kiln uses: the rustls provider of every client and server, [sealed messages](seal) and [signatures](SigningKey). To switch the provider,
//! change this crate only.

mod sealed;
mod signing;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use ring::rand::{SecureRandom, SystemRandom};
pub use sealed::{Reader, SealError, seal};
pub use signing::{BadSigningKey, SigningKey};

/// Returns the rustls provider for all of kiln.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Installs [`provider`] as the process default, which reqwest uses. Calling it again has no effect.
pub fn install() {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
