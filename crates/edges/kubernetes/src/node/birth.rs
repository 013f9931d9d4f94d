//! A node that is cordoned before anything can be scheduled onto it.

use std::time::Duration;

use kiln_types::Node;
use tokio::time::{Instant, sleep_until};

use super::hold::HoldWhat;
use crate::call::{Outage, once};
use crate::name::{NodeName, Owner};
use crate::{Cluster, Error};

/// A node is not ready when it registers, and the server gives it a taint that keeps pods away until it is. Kubelet takes some ten seconds
/// from the one to the other.
const POLL: Duration = Duration::from_secs(1);

impl Cluster {
    /// Waits until a node registers and cordons it at once, before it is ready: nothing was scheduled onto it by then. One that is there
    /// already is cordoned too.
    pub async fn cordon_at_birth(&self, name: &NodeName, owner: &Owner, within: Duration) -> Result<Node, Error> {
        let deadline = Instant::now() + within;
        let (api, what) = (self.nodes(), format!("wait for node `{name}` to register"));
        let mut outage = Outage::default();
        loop {
            let reason = match once(&what, api.get_metadata_opt(name.as_str())).await {
                Ok(Some(_)) => return self.hold(name, owner, HoldWhat::CORDON).await,
                Ok(None) => "it has not registered".to_owned(),
                Err(error) if outage.passes(&error, Instant::now()) => error.to_string(),
                Err(error) => return Err(error),
            };
            if Instant::now() >= deadline {
                return Err(Error::NotReady { node: name.clone(), waited: within, reason });
            }
            sleep_until((Instant::now() + POLL).min(deadline)).await;
        }
    }
}
