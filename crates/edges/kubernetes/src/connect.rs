//! A client that repeats nothing by itself.

use kube::{Client, Config};

use crate::Error;

/// Makes a client. kube's own repeats each 429, 503 and 504 up to fifteen times, with waits of minutes: an eviction that a budget forbids
/// would look like a slow one, and no deadline would hold. Here each answer is seen at once.
pub fn connect(mut config: Config) -> Result<Client, Error> {
    kiln_tls::install();
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| Error::of(format!("connect to `{server}`"), error))
}
