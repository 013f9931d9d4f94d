//! A client that does not retry by itself.

use kube::{Client, Config};

use crate::Error;

/// Creates a client without kube's own retries. kube retries each 429, 503 and 504 up to fifteen times and can wait for minutes: an
/// eviction that a budget blocks would look like a slow one, and no deadline would be met. Here the caller sees each response at once.
pub fn connect(mut config: Config) -> Result<Client, Error> {
    kiln_tls::install();
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| Error::from_kube(format!("connect to `{server}`"), error))
}
