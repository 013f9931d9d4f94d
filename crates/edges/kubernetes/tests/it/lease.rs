//! The lease of a pool.

use std::time::Duration;

use kiln_kubernetes::{Error, Held, PoolLease};
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
async fn one_of_two_wins_and_the_other_learns_who() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    let (first, second) = tokio::join!(a.try_take(), b.try_take());
    let (winner, loser) = if first.is_ok() { ("a", second) } else { ("b", first) };
    assert_eq!(loser.unwrap_err().to_string(), format!("lease `kiln-system/kiln-pool-pool-1` is held by `{winner}`"));
    assert_eq!(fake.get(KEY).unwrap()["spec"]["holderIdentity"], winner);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_renews_is_not_overtaken_and_a_dead_one_is_after_its_length() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    a.try_take().await.unwrap();
    // The clock that dates renewals stands still: only that they change the lease could tell, so a term changes here.
    let alive = async {
        for term in 0..10 {
            sleep(Duration::from_secs(10)).await;
            let mut object = fake.get(KEY).unwrap();
            object["spec"]["renewTime"] = json!(format!("2026-01-02T03:04:{term:02}.000000Z"));
            fake.put("leases", object);
        }
    };
    let began = Instant::now();
    let ((), taken) = tokio::join!(alive, b.take(Duration::from_mins(10)));
    let waited = began.elapsed();
    assert_eq!(taken.unwrap(), Held { term: 1 });
    assert!(
        waited >= Duration::from_secs(100) + LENGTH,
        "taken after {waited:?}, while the holder lived or too soon after"
    );
    assert!(waited < Duration::from_secs(100) + LENGTH * 2);
    let error = a.check().await.unwrap_err();
    assert!(error.to_string().contains("was lost: `b` holds it"), "{error}");
    assert!(matches!(a.renew().await, Err(Error::LeaseLost { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_read_again_before_each_act() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    assert!(a.check().await.is_err(), "what was never taken is not held");
    let held = a.try_take().await.unwrap();
    assert_eq!(a.check().await.unwrap(), held);
    let mut object = fake.get(KEY).unwrap();
    object["spec"]["leaseTransitions"] = json!(2);
    fake.put("leases", object);
    let error = a.check().await.unwrap_err();
    assert!(error.to_string().contains("went to another holder and back"), "{error}");
    fake.remove(KEY);
    assert!(a.check().await.unwrap_err().to_string().contains("it was deleted"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_up_is_free_at_once() {
    let fake = Fake::new();
    let (a, b) = (lease(&fake, "a"), lease(&fake, "b"));
    a.try_take().await.unwrap();
    a.give_up().await.unwrap();
    assert_eq!(b.try_take().await.unwrap(), Held { term: 1 });
    // Giving up what is somebody else's leaves it alone.
    a.give_up().await.unwrap();
    b.check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_do_not_lose_the_lease() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    fake.fault("POST", [Fault::LoseAnswer]);
    let held = a.try_take().await.unwrap();
    fake.fault("PUT", [Fault::Reset, Fault::LoseAnswer]);
    assert_eq!(a.renew().await.unwrap(), held);
}

#[tokio::test(start_paused = true)]
async fn keeping_a_lease_ends_when_it_is_lost() {
    let fake = Fake::new();
    let a = lease(&fake, "a");
    a.try_take().await.unwrap();
    let thief = async {
        sleep(LENGTH * 5).await;
        let mut object = fake.get(KEY).unwrap();
        object["spec"]["holderIdentity"] = json!("b");
        fake.put("leases", object);
    };
    let (lost, ()) = tokio::join!(a.keep(), thief);
    assert!(lost.to_string().contains("`b` holds it"), "{lost}");
    assert!(fake.asked("PUT").len() >= 10, "renewed every third of its length");
}
