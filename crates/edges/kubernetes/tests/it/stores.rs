//! The saved recipe of a pool and the records of its image versions.

use std::collections::BTreeMap;

use kiln_kubernetes::{Error, OriginalRecipe, OriginalStore, SaveOutcome, VersionRecords};
use kiln_types::{Extension, ImageSource, MarketplaceImage, SavedExtension, Secret, VersionNumber};
use serde_json::json;

use crate::fake::{Fake, Fault};

const SECRET: &str = "secrets/kiln-system/kiln-original-pool-1";

fn originals(fake: &Fake) -> OriginalStore {
    OriginalStore::new(&fake.cluster(), &"kiln-system".parse().unwrap(), &"pool-1".parse().unwrap())
}

fn recipe(run: &str) -> OriginalRecipe {
    let extension = Extension {
        name: "vmssCSE".to_owned(),
        publisher: "Microsoft.Azure.Extensions".to_owned(),
        kind: "CustomScript".to_owned(),
        ..Extension::default()
    };
    let protected_settings = Some(Secret::new(r#"{"commandToExecute":"join hunter2"}"#));
    OriginalRecipe {
        image: ImageSource::Marketplace(MarketplaceImage {
            publisher: "microsoft-aks".to_owned(),
            offer: "aks".to_owned(),
            sku: "aks-ubuntu-1804".to_owned(),
            version: "2021.01.28".to_owned(),
        }),
        extensions: vec![SavedExtension { extension, protected_settings }],
        custom_data: Some(Secret::new("#cloud-config\ntoken: hunter2\n")),
        saved_by: run.parse().unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn original_recipe_is_saved_once_and_read_back() {
    let fake = Fake::new();
    assert_eq!(originals(&fake).load().await.unwrap(), None);
    assert_eq!(originals(&fake).save(&recipe("run-1")).await.unwrap(), SaveOutcome::Saved);
    assert_eq!(fake.get(SECRET).unwrap()["immutable"], true);
    // A later run, which reads a stripped recipe, does not replace it.
    let stripped = OriginalRecipe { custom_data: None, extensions: Vec::new(), ..recipe("run-2") };
    assert_eq!(originals(&fake).save(&stripped).await.unwrap(), SaveOutcome::AlreadySaved);
    assert_eq!(originals(&fake).load().await.unwrap(), Some(recipe("run-1")));
    assert!(fake.requests("PUT").is_empty() && fake.requests("PATCH").is_empty());
}

#[tokio::test(start_paused = true)]
async fn recipe_with_a_lost_response_counts_as_saved() {
    let fake = Fake::new();
    fake.fault("POST", [Fault::LoseResponse]);
    assert_eq!(originals(&fake).save(&recipe("run-1")).await.unwrap(), SaveOutcome::Saved);
}

#[tokio::test(start_paused = true)]
async fn recipes_and_errors_print_no_secrets() {
    let fake = Fake::new();
    // The bytes are `"hunter2"`: valid JSON, but not a recipe.
    fake.put("secrets", json!({"metadata": {"namespace": "kiln-system", "name": "kiln-original-pool-1"}, "data": {"original.json": "Imh1bnRlcjIi"}}));
    let error = originals(&fake).load().await.unwrap_err();
    assert!(matches!(error, Error::BadSecret { .. }), "{error:?}");
    for text in [error.to_string(), format!("{error:?}"), format!("{:?}", recipe("run-1"))] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

type Facts = BTreeMap<String, String>;

fn records(fake: &Fake, pool: &str) -> VersionRecords<Facts> {
    VersionRecords::new(&fake.cluster(), &"kiln-system".parse().unwrap(), &pool.parse().unwrap())
}

fn version(text: &str) -> VersionNumber {
    text.parse().unwrap()
}

fn packages(bash: &str) -> Facts {
    BTreeMap::from([("bash".to_owned(), bash.to_owned())])
}

#[tokio::test(start_paused = true)]
async fn version_records_are_stored_listed_and_deleted() {
    let fake = Fake::new();
    let store = records(&fake, "Pool_1");
    assert_eq!(store.get(&version("2026.11.15")).await.unwrap(), None);
    store.put(&version("2026.11.15"), &packages("5.2")).await.unwrap();
    store.put(&version("2026.9.30"), &packages("5.1")).await.unwrap();
    store.put(&version("2026.11.15"), &packages("5.3")).await.unwrap();
    records(&fake, "pool-1").put(&version("2026.11.15"), &packages("of another pool")).await.unwrap();
    let listed = store.list().await.unwrap();
    let expected = [(version("2026.9.30"), packages("5.1")), (version("2026.11.15"), packages("5.3"))];
    assert_eq!(listed, expected, "by number, and only of this pool");
    store.delete(&version("2026.9.30")).await.unwrap();
    store.delete(&version("2026.9.30")).await.unwrap();
    assert_eq!(store.list().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn record_with_a_lost_response_is_written_once() {
    let fake = Fake::new();
    fake.fault("POST", [Fault::LoseResponse]);
    records(&fake, "pool-1").put(&version("2026.11.15"), &packages("5.2")).await.unwrap();
    assert!(fake.requests("PUT").is_empty());
}

#[tokio::test(start_paused = true)]
async fn oversized_record_is_rejected_before_it_is_sent() {
    let fake = Fake::new();
    let error =
        records(&fake, "pool-1").put(&version("2026.11.15"), &packages(&"x".repeat(1 << 20))).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(fake.requests("POST").is_empty());
}
