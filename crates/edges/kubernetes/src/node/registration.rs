//! Cordons a node before any pod can be scheduled onto it.

use std::time::Duration;

use kiln_types::Node;
use tokio::time::{Instant, sleep_until};

use super::hold::HoldScope;
use crate::name::{NodeName, Owner};
use crate::request::{Outage, once};
use crate::{Cluster, Error};

/// A node is not ready when it registers, and a taint keeps pods away until it is. The kubelet needs about ten seconds from registration
/// to ready, so polling every second is early enough.
const POLL: Duration = Duration::from_secs(1);

impl Cluster {
    /// Waits until a node registers and cordons it at once, before it is ready and before any pod is scheduled onto it. A node that already
    /// exists is cordoned too.
    pub async fn cordon_on_registration(
        &self,
        name: &NodeName,
        owner: &Owner,
        within: Duration,
    ) -> Result<Node, Error> {
        let deadline = Instant::now() + within;
        let (api, action) = (self.nodes(), format!("wait for node `{name}` to register"));
        let mut outage = Outage::default();
        loop {
            let reason = match once(&action, api.get_metadata_opt(name.as_str())).await {
                Ok(Some(_)) => return self.hold(name, owner, HoldScope::CORDON).await,
                Ok(None) => "it has not registered".to_owned(),
                Err(error) if outage.should_retry(&error, Instant::now()) => error.to_string(),
                Err(error) => return Err(error),
            };
            if Instant::now() >= deadline {
                return Err(Error::NotReady { node: name.clone(), waited: within, reason });
            }
            sleep_until((Instant::now() + POLL).min(deadline)).await;
        }
    }
}
