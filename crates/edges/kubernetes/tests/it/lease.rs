//! The lease of a pool.

use std::time::Duration;

use kiln_kubernetes::{Error, LeaseTerm, PoolLease};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fake::{Fake, Fault};

const LENGTH: Duration = Duration::from_secs(30);
const KEY: &str = "leases/kiln-system/kiln-pool-pool-1";

fn lease(fake: &Fake, holder: &str) -> PoolLease {
    let namespace = "kiln-system".parse().unwrap();
    PoolLease::new(&fake.cluster(), &namespace, &"pool-1".parse().unwrap(), holder.parse().unwrap(), LENGTH)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_runs_acquires_the_lease_and_the_other_learns_the_holder() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    let (first, second) = tokio::join!(a.try_acquire(), b.try_acquire());
    let (winner, loser) = if first.is_ok() { ("a", second) } else { ("b", first) };
    assert_eq!(loser.unwrap_err().to_string(), format!("lease `kiln-system/kiln-pool-pool-1` is held by `{winner}`"));
    assert_eq!(fake.get(KEY).unwrap()["spec"]["holderIdentity"], winner);
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_is_not_taken_over_and_a_dead_one_is_after_its_length() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    a.try_acquire().await.unwrap();
    // The wall clock of this test is fixed, so renewals would not change the lease: change the time here.
    let alive = async {
        for term in 0..10 {
            sleep(Duration::from_secs(10)).await;
            let mut object = fake.get(KEY).unwrap();
            object["spec"]["renewTime"] = json!(format!("2026-01-02T03:04:{term:02}.000000Z"));
            fake.put("leases", object);
        }
    };
    let began = Instant::now();
    let ((), taken) = tokio::join!(alive, b.acquire(Duration::from_mins(10)));
    let waited = began.elapsed();
    assert_eq!(taken.unwrap(), LeaseTerm { transitions: 1 });
    assert!(
        waited >= Duration::from_secs(100) + LENGTH,
        "taken over after {waited:?}: the holder was alive, or dead for too short a time"
    );
    assert!(waited < Duration::from_secs(100) + LENGTH * 2);
    let error = a.check().await.unwrap_err();
    assert!(error.to_string().contains("was lost: `b` holds it"), "{error}");
    assert!(matches!(a.renew().await, Err(Error::LeaseLost { .. })));
}

#[tokio::test(start_paused = true)]
async fn check_reads_the_current_holder() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    assert!(a.check().await.is_err(), "a lease that was never acquired is not held");
    let held = a.try_acquire().await.unwrap();
    assert_eq!(a.check().await.unwrap(), held);
    let mut object = fake.get(KEY).unwrap();
    object["spec"]["leaseTransitions"] = json!(2);
    fake.put("leases", object);
    let error = a.check().await.unwrap_err();
    assert!(error.to_string().contains("another run held it in the meantime"), "{error}");
    fake.remove(KEY);
    assert!(a.check().await.unwrap_err().to_string().contains("it was deleted"));
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_free_at_once() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    a.try_acquire().await.unwrap();
    a.release().await.unwrap();
    assert_eq!(b.try_acquire().await.unwrap(), LeaseTerm { transitions: 1 });
    // Releasing another run's lease leaves it alone.
    a.release().await.unwrap();
    b.check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_responses_do_not_lose_the_lease() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    fake.fault("POST", [Fault::LoseResponse]);
    let held = a.try_acquire().await.unwrap();
    fake.fault("PUT", [Fault::Reset, Fault::LoseResponse]);
    assert_eq!(a.renew().await.unwrap(), held);
}

#[tokio::test(start_paused = true)]
async fn keep_renewing_ends_when_the_lease_is_lost() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    a.try_acquire().await.unwrap();
    let thief = async {
        sleep(LENGTH * 5).await;
        let mut object = fake.get(KEY).unwrap();
        object["spec"]["holderIdentity"] = json!("b");
        fake.put("leases", object);
    };
    let (lost, ()) = tokio::join!(a.keep_renewing(), thief);
    assert!(lost.to_string().contains("`b` holds it"), "{lost}");
    assert!(fake.requests("PUT").len() >= 10, "renewed every third of its length");
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_living_run_can_be_taken_over_and_the_run_notices() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    assert_eq!(b.take_over().await.unwrap(), None, "nobody held it");
    b.release().await.unwrap();
    assert_eq!(b.take_over().await.unwrap(), None, "it was free");
    assert_eq!(b.take_over().await.unwrap(), None, "it is already ours");
    b.release().await.unwrap();
    let held = a.try_acquire().await.unwrap();
    assert_eq!(b.take_over().await.unwrap(), Some("a".to_owned()));
    let lost = a.keep_renewing().await;
    assert!(lost.to_string().contains("`b` holds it"), "{lost}");
    assert!(a.check().await.is_err() && a.confirm(Duration::ZERO).await.is_err());
    assert!(b.check().await.unwrap().transitions > held.transitions);
}

#[tokio::test(start_paused = true)]
async fn lease_is_confirmed_only_with_time_left() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    a.try_acquire().await.unwrap();
    a.confirm(LENGTH / 3).await.unwrap();
    // The response to the renewal arrives when most of the lease has passed: it is renewed again.
    let before = fake.requests("PUT").len();
    fake.fault("PUT", [Fault::Hang]);
    a.confirm(LENGTH / 2).await.unwrap();
    assert_eq!(fake.requests("PUT").len() - before, 3, "a renewal without a response, its retry and another one");
    let error = a.confirm(LENGTH * 2).await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
}
