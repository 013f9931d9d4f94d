//! The lease of a pool: one run at a time. Whether a holder is dead is told by its renewals, as seen on our own clock: the times that
//! others write are never compared with ours.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kiln_types::PoolName;
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep};

use crate::call::PATIENCE;
use crate::name::{Namespace, Owner, object_name};
use crate::{Cluster, Error};

/// Two runs that write at once settle it in one round each; more is somebody's runaway loop.
const ATTEMPTS: u32 = 10;

/// The lease of a pool, as one run sees it.
#[derive(Clone)]
pub struct PoolLease {
    cluster: Cluster,
    api: Api<Lease>,
    name: String,
    namespace: Namespace,
    holder: Owner,
    length: Duration,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The last state of somebody else's lease, and since when it has not changed.
    seen: Option<(LeaseSpec, Instant)>,
    held: Option<Held>,
}

/// That the lease is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How often the lease went from one holder to another: larger than what any earlier holder had.
    pub term: i32,
}

/// What to do about a lease.
#[derive(Debug, PartialEq)]
enum Move {
    Create,
    /// Nobody holds it, or its holder is dead.
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

fn decide(lease: Option<&LeaseSpec>, me: &Owner, unchanged_for: Duration, length: Duration) -> Move {
    let Some(spec) = lease else { return Move::Create };
    let term = spec.lease_transitions.unwrap_or_default();
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let theirs = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map_or(length, Duration::from_secs);
    if holder == me.as_str() {
        Move::Renew { term }
    } else if holder.is_empty() || unchanged_for >= theirs {
        Move::Take { term: term.saturating_add(1) }
    } else {
        Move::Wait { holder: holder.to_owned() }
    }
}

impl PoolLease {
    /// The lease of a pool for one run. `length` is how long others wait without seeing a renewal before they take it.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName, holder: Owner, length: Duration) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            name: object_name("kiln-pool", pool),
            namespace: namespace.clone(),
            holder,
            length,
            memory: Arc::default(),
        }
    }

    /// Takes the lease if it is free, ours, or was seen unchanged for its whole length. Says who holds it otherwise.
    pub async fn try_take(&self) -> Result<Held, Error> {
        let what = format!("take lease `{self}`");
        for _ in 0..ATTEMPTS {
            let lease = self.read(&what).await?;
            let unchanged = self.unchanged_for(lease.as_ref());
            let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
            let written = match decide(spec, &self.holder, unchanged, self.length) {
                Move::Wait { holder } => return Err(Error::LeaseHeld { lease: self.to_string(), by: holder }),
                Move::Create => self.write(&what, None, 0).await,
                Move::Take { term } | Move::Renew { term } => self.write(&what, lease, term).await,
            };
            match written {
                Err(error) if error.conflict() => {}
                written => return written,
            }
        }
        Err(Error::Contended { what, attempts: ATTEMPTS })
    }

    /// Takes the lease, and waits for it that long.
    pub async fn take(&self, within: Duration) -> Result<Held, Error> {
        let deadline = Instant::now() + within;
        loop {
            let held = self.try_take().await;
            let wait = self.cluster.options.spread.over(self.length / 5);
            match held {
                Err(Error::LeaseHeld { .. }) if Instant::now() + wait < deadline => sleep(wait).await,
                held => return held,
            }
        }
    }

    /// Says again that we live. Fails when the lease is not ours any more.
    pub async fn renew(&self) -> Result<Held, Error> {
        let what = format!("renew lease `{self}`");
        for _ in 0..ATTEMPTS {
            let (lease, held) = self.ours(&what).await?;
            match self.write(&what, Some(lease), held.term).await {
                Err(error) if error.conflict() => {}
                written => return written,
            }
        }
        Err(Error::Contended { what, attempts: ATTEMPTS })
    }

    /// Reads the lease, and fails when it is not ours any more: to be asked before each act.
    pub async fn check(&self) -> Result<Held, Error> {
        let (_, held) = self.ours(&format!("check lease `{self}`")).await?;
        Ok(held)
    }

    /// Renews until the lease is lost, and returns how it was. To be run beside what the lease is for.
    pub async fn keep(&self) -> Error {
        loop {
            sleep(self.length / 3).await;
            if let Err(error) = self.renew().await {
                return error;
            }
        }
    }

    /// Gives the lease back, so that nobody has to wait for it. What is not ours any more is left alone.
    pub async fn give_up(&self) -> Result<(), Error> {
        let what = format!("give up lease `{self}`");
        for _ in 0..ATTEMPTS {
            let mut lease = match self.ours(&what).await {
                Ok((lease, _)) => lease,
                Err(Error::LeaseLost { .. }) => break,
                Err(error) => return Err(error),
            };
            if let Some(spec) = lease.spec.as_mut() {
                spec.holder_identity = None;
            }
            match self.replace(&what, &lease).await {
                Err(error) if error.conflict() => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        self.memory().held = None;
        Ok(())
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long we have seen somebody else's lease as it is now.
    fn unchanged_for(&self, lease: Option<&Lease>) -> Duration {
        let spec = lease.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let now = Instant::now();
        let mut memory = self.memory();
        match &memory.seen {
            Some((seen, since)) if *seen == spec => now - *since,
            _ => {
                memory.seen = Some((spec, now));
                Duration::ZERO
            }
        }
    }

    async fn ours(&self, what: &str) -> Result<(Lease, Held), Error> {
        let lost = |why: String| Error::LeaseLost { lease: self.to_string(), why };
        let held = self.memory().held.ok_or_else(|| lost("it was never taken".to_owned()))?;
        let lease = self.read(what).await?.ok_or_else(|| lost("it was deleted".to_owned()))?;
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder != self.holder.as_str() {
            return Err(lost(if holder.is_empty() {
                "it was given up".to_owned()
            } else {
                format!("`{holder}` holds it")
            }));
        }
        if spec.lease_transitions.unwrap_or_default() != held.term {
            return Err(lost("it went to another holder and back".to_owned()));
        }
        Ok((lease, held))
    }

    async fn read(&self, what: &str) -> Result<Option<Lease>, Error> {
        let deadline = Instant::now() + PATIENCE;
        self.cluster.persist(what, deadline, || self.api.get_opt(&self.name)).await
    }

    async fn write(&self, what: &str, lease: Option<Lease>, term: i32) -> Result<Held, Error> {
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
        if fresh {
            let deadline = Instant::now() + PATIENCE;
            let params = PostParams::default();
            self.cluster.persist(what, deadline, || self.api.create(&params, &lease)).await?;
        } else {
            self.replace(what, &lease).await?;
        }
        let held = Held { term };
        self.memory().held = Some(held);
        Ok(held)
    }

    /// The lease carries the revision that was read: whoever wrote since then wins.
    async fn replace(&self, what: &str, lease: &Lease) -> Result<Lease, Error> {
        let deadline = Instant::now() + PATIENCE;
        let params = PostParams::default();
        self.cluster.persist(what, deadline, || self.api.replace(&self.name, &params, lease)).await
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
    fn a_holder_is_dead_when_its_own_length_passed_without_a_change() {
        let theirs = spec("other", 60);
        assert_eq!(
            decide(Some(&theirs), &me(), Duration::from_secs(59), LENGTH),
            Move::Wait { holder: "other".into() }
        );
        assert_eq!(decide(Some(&theirs), &me(), Duration::from_mins(1), LENGTH), Move::Take { term: 5 });
    }

    #[test]
    fn a_lease_that_nobody_holds_is_free_and_our_own_is_renewed_in_its_term() {
        assert_eq!(decide(None, &me(), Duration::ZERO, LENGTH), Move::Create);
        assert_eq!(decide(Some(&spec("", 60)), &me(), Duration::ZERO, LENGTH), Move::Take { term: 5 });
        assert_eq!(decide(Some(&spec("me", 60)), &me(), Duration::ZERO, LENGTH), Move::Renew { term: 4 });
    }
}
