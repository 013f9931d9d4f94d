//! The journal in a `ConfigMap`.

use kiln_kubernetes::{Error, JOURNAL_LIMIT, JOURNAL_RESERVE, JournalStore, Room};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fake::{Fake, Fault};

const KEY: &str = "configmaps/kiln-system/kiln-journal-pool-1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    step: String,
}

fn entry(step: &str) -> Entry {
    Entry { step: step.to_owned() }
}

fn store(fake: &Fake, writer: &str) -> JournalStore<Entry> {
    JournalStore::new(
        &fake.cluster(),
        &"kiln-system".parse().unwrap(),
        &"pool-1".parse().unwrap(),
        writer.parse().unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn entries_are_read_back_in_order() {
    let fake = Fake::new();
    let a = store(&fake, "a");
    let mut journal = a.load().await.unwrap();
    assert!(journal.entries().is_empty());
    for step in ["hold", "power off", "snap\nshot"] {
        a.append(&mut journal, entry(step)).await.unwrap();
    }
    let read = store(&fake, "b").load().await.unwrap();
    assert_eq!(read.entries(), [entry("hold"), entry("power off"), entry("snap\nshot")]);
    assert_eq!(fake.get(KEY).unwrap()["data"]["journal.jsonl"].as_str().unwrap().lines().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn conflict_stops_the_loser_and_keeps_the_winners_entries() {
    let fake = Fake::new();
    let (a, b) = (store(&fake, "a"), store(&fake, "b"));
    let (mut journal_a, mut journal_b) = (a.load().await.unwrap(), b.load().await.unwrap());
    a.append(&mut journal_a, entry("a")).await.unwrap();
    // Also when both create the journal, with the same bytes.
    let error = b.append(&mut journal_b, entry("a")).await.unwrap_err();
    assert!(error.to_string().contains("was changed by another process; this run stops"), "{error}");
    assert!(journal_b.entries().is_empty());
    let mut late = b.load().await.unwrap();
    a.append(&mut journal_a, entry("a2")).await.unwrap();
    assert!(matches!(b.append(&mut late, entry("b")).await, Err(Error::JournalConflict { .. })));
    assert_eq!(a.load().await.unwrap().entries(), [entry("a"), entry("a2")]);
}

#[tokio::test(start_paused = true)]
async fn write_with_a_lost_response_is_recognized_as_our_own() {
    let fake = Fake::new();
    let a = store(&fake, "a");
    let mut journal = a.load().await.unwrap();
    fake.fault("POST", [Fault::LoseResponse]);
    a.append(&mut journal, entry("one")).await.unwrap();
    fake.fault("PUT", [Fault::Reset, Fault::LoseResponse, Fault::Reset]);
    a.append(&mut journal, entry("two")).await.unwrap();
    assert_eq!(a.load().await.unwrap().entries(), [entry("one"), entry("two")]);
}

#[tokio::test(start_paused = true)]
async fn deleted_journal_is_not_recreated() {
    let fake = Fake::new();
    let a = store(&fake, "a");
    let mut journal = a.load().await.unwrap();
    a.append(&mut journal, entry("one")).await.unwrap();
    fake.remove(KEY);
    assert!(matches!(a.append(&mut journal, entry("two")).await, Err(Error::JournalConflict { .. })));
}

#[tokio::test(start_paused = true)]
async fn oversized_journal_is_rejected_before_it_is_sent_and_can_be_shortened() {
    let fake = Fake::new();
    let a = store(&fake, "a");
    let mut journal = a.load().await.unwrap();
    a.append(&mut journal, entry("one")).await.unwrap();
    let error = a.append(&mut journal, entry(&"x".repeat(1_000_000))).await.unwrap_err();
    assert!(matches!(error, Error::JournalTooLarge { limit: 851_968, .. }), "{error}");
    assert_eq!(journal.entries(), [entry("one")]);
    a.save(&mut journal, vec![entry("two")], Room::Ordinary).await.unwrap();
    assert_eq!(a.load().await.unwrap().entries(), [entry("two")]);
}

#[tokio::test(start_paused = true)]
async fn full_journal_has_a_reserve_for_releases() {
    let fake = Fake::new();
    let a = store(&fake, "a");
    let mut journal = a.load().await.unwrap();
    let full = entry(&"x".repeat(JOURNAL_LIMIT - JOURNAL_RESERVE - 40));
    a.append(&mut journal, full.clone()).await.unwrap();
    let with = |more: usize| vec![full.clone(), entry(&"r".repeat(more))];
    let error = a.save(&mut journal, with(1_000), Room::Ordinary).await.unwrap_err();
    assert!(matches!(error, Error::JournalTooLarge { .. }), "{error}");
    a.save(&mut journal, with(JOURNAL_RESERVE - 1_000), Room::Release).await.unwrap();
    assert_eq!(a.load().await.unwrap().entries().len(), 2);
    let error = a.save(&mut journal, with(JOURNAL_RESERVE + 1_000), Room::Release).await.unwrap_err();
    assert!(matches!(error, Error::JournalTooLarge { limit: JOURNAL_LIMIT, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn invalid_entry_is_reported_with_its_number() {
    let fake = Fake::new();
    fake.put("configmaps", json!({"metadata": {"namespace": "kiln-system", "name": "kiln-journal-pool-1"}, "data": {"journal.jsonl": "{\"step\":\"x\"}\n{broken\n"}}));
    let error = store(&fake, "a").load().await.unwrap_err();
    assert!(error.to_string().starts_with("journal `kiln-system/kiln-journal-pool-1`, entry 2: "), "{error}");
}
