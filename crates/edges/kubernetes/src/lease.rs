//! A lease: one run per pool, one operator per cluster. A holder counts as dead when its lease has not changed for the lease's length, measured on our
//! own clock. Timestamps written by other machines are never compared with ours.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kiln_types::PoolName;
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, sleep_until};

use crate::name::{Namespace, Owner, object_name};
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// Two runs that write at the same time settle it in one round each; more conflicts mean that something writes in a loop.
const ATTEMPTS: u32 = 10;

/// The lease of a pool for one run, or of the operator for one process.
#[derive(Clone)]
pub struct PoolLease {
    cluster: Cluster,
    api: Api<Lease>,
    name: String,
    namespace: Namespace,
    holder: Owner,
    length: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The last observed state of another holder's lease, and since when it has not changed.
    observed: Option<(LeaseSpec, Instant)>,
    held: Option<LeaseTerm>,
    /// When the last renewal was sent. From then on the lease is ours for its length, whenever the response arrived.
    renewed: Option<Instant>,
}

/// Proof that the lease was ours when it was last written or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerm {
    /// The lease's `leaseTransitions`: higher than that of any earlier holder, so it serves as a fencing token.
    pub transitions: i32,
}

/// The next write to a lease.
#[derive(Debug, PartialEq)]
enum Transition {
    Create,
    /// The lease has no holder, or its holder is dead.
    Take {
        term: i32,
    },
    Renew {
        term: i32,
    },
    Wait {
        holder: String,
    },
}

fn decide(lease: Option<&LeaseSpec>, me: &Owner, unchanged_for: Duration, length: Duration) -> Transition {
    let Some(spec) = lease else { return Transition::Create };
    let term = spec.lease_transitions.unwrap_or_default();
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let their_length =
        spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map_or(length, Duration::from_secs);
    if holder == me.as_str() {
        Transition::Renew { term }
    } else if holder.is_empty() || unchanged_for >= their_length {
        Transition::Take { term: term.saturating_add(1) }
    } else {
        Transition::Wait { holder: holder.to_owned() }
    }
}

impl PoolLease {
    /// The lease of a pool for one run. Other runs take it over after `length` without a renewal.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName, holder: Owner, length: Duration) -> Self {
        Self::named(cluster, namespace, &object_name("kiln-pool", pool), holder, length)
    }

    /// A lease with this name, for work that is not of one pool.
    pub fn named(cluster: &Cluster, namespace: &Namespace, name: &str, holder: Owner, length: Duration) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            name: name.to_owned(),
            namespace: namespace.clone(),
            holder,
            length,
            state: Arc::default(),
        }
    }

    /// Acquires the lease if it is free, already ours, or unchanged for its whole length. Otherwise the error names the holder.
    pub async fn try_acquire(&self) -> Result<LeaseTerm, Error> {
        let action = format!("acquire lease `{self}`");
        for _ in 0..ATTEMPTS {
            let lease = self.read(&action).await?;
            let unchanged = self.unchanged_for(lease.as_ref());
            let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
            let written = match decide(spec, &self.holder, unchanged, self.length) {
                Transition::Wait { holder } => return Err(Error::LeaseHeld { lease: self.to_string(), by: holder }),
                Transition::Create => self.write(&action, None, 0).await,
                Transition::Take { term } | Transition::Renew { term } => self.write(&action, lease, term).await,
            };
            match written {
                Err(error) if error.is_conflict() => {}
                written => return written,
            }
        }
        Err(Error::Contended { action, attempts: ATTEMPTS })
    }

    /// Acquires the lease, waiting up to `within`.
    pub async fn acquire(&self, within: Duration) -> Result<LeaseTerm, Error> {
        let deadline = Instant::now() + within;
        loop {
            let held = self.try_acquire().await;
            let wait = self.cluster.options.jitter.apply(self.length / 5);
            match held {
                Err(Error::LeaseHeld { .. }) if Instant::now() + wait < deadline => sleep(wait).await,
                held => return held,
            }
        }
    }

    /// Takes the lease, also from a living holder, and returns that holder.
    ///
    /// The holder stops when it next renews or checks its lease. It renews every third of the lease's length and does nothing after its
    /// lease could have expired, so it has stopped once that length has passed; until then the caller must not act.
    pub async fn take_over(&self) -> Result<Option<String>, Error> {
        let action = format!("take over lease `{self}`");
        for _ in 0..ATTEMPTS {
            let lease = self.read(&action).await?;
            let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
            let term = spec.lease_transitions.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let is_new = lease.is_none() || holder == self.holder.as_str();
            let term = if is_new { term } else { term.saturating_add(1) };
            let previous = (!is_new && !holder.is_empty()).then_some(holder);
            match self.write(&action, lease, term).await {
                Err(error) if error.is_conflict() => {}
                written => return written.map(|_| previous),
            }
        }
        Err(Error::Contended { action, attempts: ATTEMPTS })
    }

    /// Renews the lease and makes sure that at least `margin` of it is left. Called right before a request that has no precondition of its
    /// own: a process that was suspended since its last check must not act on a lease that another process has taken meanwhile.
    pub async fn confirm(&self, margin: Duration) -> Result<LeaseTerm, Error> {
        for _ in 0..ATTEMPTS {
            let held = self.renew().await?;
            let renewed = self.state().renewed;
            if renewed.is_some_and(|renewed| renewed.elapsed() + margin < self.length) {
                return Ok(held);
            }
        }
        let reason = format!("less than {} s of it were left after {ATTEMPTS} renewals", margin.as_secs());
        Err(Error::LeaseLost { lease: self.to_string(), reason })
    }

    /// Renews the lease. Fails when it is no longer ours.
    pub async fn renew(&self) -> Result<LeaseTerm, Error> {
        let action = format!("renew lease `{self}`");
        for _ in 0..ATTEMPTS {
            let (lease, held) = self.read_own(&action).await?;
            match self.write(&action, Some(lease), held.transitions).await {
                Err(error) if error.is_conflict() => {}
                written => return written,
            }
        }
        Err(Error::Contended { action, attempts: ATTEMPTS })
    }

    /// Reads the lease and fails when it is no longer ours. Called before each change.
    pub async fn check(&self) -> Result<LeaseTerm, Error> {
        let (_, held) = self.read_own(&format!("check lease `{self}`")).await?;
        Ok(held)
    }

    /// Renews until the lease is lost, and returns why. Runs concurrently with the work that the lease protects.
    pub async fn keep_renewing(&self) -> Error {
        loop {
            sleep(self.length / 3).await;
            if let Err(error) = self.renew().await {
                return error;
            }
        }
    }

    /// Waits until the lease could be another process's: its length has passed since the last renewal was sent. A renewal that is retried
    /// during an outage does not notice that.
    pub async fn expired(&self) {
        loop {
            let until = self.state().renewed.map_or_else(Instant::now, |renewed| renewed + self.length);
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Releases the lease, so that the next run need not wait for it to expire. A lease that is no longer ours is left alone.
    pub async fn release(&self) -> Result<(), Error> {
        let action = format!("release lease `{self}`");
        for _ in 0..ATTEMPTS {
            let mut lease = match self.read_own(&action).await {
                Ok((lease, _)) => lease,
                Err(Error::LeaseLost { .. }) => break,
                Err(error) => return Err(error),
            };
            if let Some(spec) = lease.spec.as_mut() {
                spec.holder_identity = None;
            }
            match self.replace(&action, &lease).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        self.state().held = None;
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long another holder's lease has been in its current state.
    fn unchanged_for(&self, lease: Option<&Lease>) -> Duration {
        let spec = lease.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let now = Instant::now();
        let mut state = self.state();
        match &state.observed {
            Some((observed, since)) if *observed == spec => now - *since,
            _ => {
                state.observed = Some((spec, now));
                Duration::ZERO
            }
        }
    }

    async fn read_own(&self, action: &str) -> Result<(Lease, LeaseTerm), Error> {
        let lost = |reason: String| Error::LeaseLost { lease: self.to_string(), reason };
        let held = self.state().held.ok_or_else(|| lost("it was never acquired".to_owned()))?;
        let lease = self.read(action).await?.ok_or_else(|| lost("it was deleted".to_owned()))?;
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder != self.holder.as_str() {
            return Err(lost(if holder.is_empty() {
                "it was released".to_owned()
            } else {
                format!("`{holder}` holds it")
            }));
        }
        if spec.lease_transitions.unwrap_or_default() != held.transitions {
            return Err(lost("another run held it in the meantime".to_owned()));
        }
        Ok((lease, held))
    }

    async fn read(&self, action: &str) -> Result<Option<Lease>, Error> {
        let deadline = Instant::now() + RETRY_FOR;
        self.cluster.retry(action, deadline, || self.api.get_opt(&self.name)).await
    }

    async fn write(&self, action: &str, lease: Option<Lease>, term: i32) -> Result<LeaseTerm, Error> {
        let now = MicroTime(self.cluster.options.clock.now());
        let fresh = lease.is_none();
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.holder.as_str()) {
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.holder.to_string());
        spec.lease_duration_seconds = Some(i32::try_from(self.length.as_secs().max(1)).unwrap_or(i32::MAX));
        spec.lease_transitions = Some(term);
        spec.renew_time = Some(now);
        let sent = Instant::now();
        if fresh {
            let deadline = Instant::now() + RETRY_FOR;
            let params = PostParams::default();
            self.cluster.retry(action, deadline, || self.api.create(&params, &lease)).await?;
        } else {
            self.replace(action, &lease).await?;
        }
        let held = LeaseTerm { transitions: term };
        let mut state = self.state();
        (state.held, state.renewed) = (Some(held), Some(sent));
        Ok(held)
    }

    /// The lease carries the revision that was read, so a concurrent write makes this one fail with a conflict.
    async fn replace(&self, action: &str, lease: &Lease) -> Result<Lease, Error> {
        let deadline = Instant::now() + RETRY_FOR;
        let params = PostParams::default();
        self.cluster.retry(action, deadline, || self.api.replace(&self.name, &params, lease)).await
    }
}

impl fmt::Display for PoolLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for PoolLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolLease({self}, {})", self.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(30);

    fn spec(holder: &str, seconds: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }
    }

    fn me() -> Owner {
        "me".parse().unwrap()
    }

    #[test]
    fn holder_is_dead_after_its_own_length_without_a_change() {
        let held = spec("other", 60);
        assert_eq!(
            decide(Some(&held), &me(), Duration::from_secs(59), LENGTH),
            Transition::Wait { holder: "other".into() }
        );
        assert_eq!(decide(Some(&held), &me(), Duration::from_mins(1), LENGTH), Transition::Take { term: 5 });
    }

    #[test]
    fn free_lease_is_taken_and_own_lease_is_renewed_in_its_term() {
        assert_eq!(decide(None, &me(), Duration::ZERO, LENGTH), Transition::Create);
        assert_eq!(decide(Some(&spec("", 60)), &me(), Duration::ZERO, LENGTH), Transition::Take { term: 5 });
        assert_eq!(decide(Some(&spec("me", 60)), &me(), Duration::ZERO, LENGTH), Transition::Renew { term: 4 });
    }
}
