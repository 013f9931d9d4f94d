//! Rollback to the recipe that a pool had before the first run.

use kiln_types::{
    DefinitionName, Factory, FactoryError, ImageSource, Instance, Recipe, RecipeChange, SavedExtension, Secret, Storage,
};

use crate::stage::{Stage, day};

const CUSTOM_DATA: &str = "#cloud-config\nruncmd: [join]\n";
const PROTECTED: &str = r#"{"commandToExecute":"/opt/join.sh --token hunter2"}"#;

/// A pool after its first run: the model uses the image definition, custom data is a no-op and the script extension is removed.
async fn stripped(stage: &Stage) -> (Recipe, DefinitionName) {
    let (azure, pool, definition) = (&stage.azure, stage.embedded.pool(), stage.definition());
    let before = stage.pool().await;
    stage.make_definition().await;
    let snapshot = stage.snapshot().await;
    let publication = stage.publication(&snapshot.id, Storage::ZoneRedundant);
    stage.settle(azure.publish(&publication).await.unwrap()).await;
    stage.settle(azure.set_excluded(&definition, &day(), false).await.unwrap()).await;
    let change = RecipeChange {
        image: Some(ImageSource::Definition(definition.clone())),
        custom_data: Some(Secret::new("#cloud-config\n")),
    };
    stage.settle(azure.set_recipe(&pool, &change, before.revision.as_ref().unwrap()).await.unwrap()).await;
    stage.settle(azure.remove_extension(&pool, "vmssCSE").await.unwrap()).await;
    (before.recipe, definition)
}

fn saved(recipe: &Recipe) -> SavedExtension {
    let extension = recipe.extensions.iter().find(|e| e.is_custom_script()).unwrap().clone();
    SavedExtension { extension, protected_settings: Some(Secret::new(PROTECTED)) }
}

async fn grown(stage: &Stage) -> Instance {
    let known: Vec<_> =
        stage.azure.instances(&stage.embedded.pool()).await.unwrap().into_iter().map(|i| i.id).collect();
    let pool = stage.pool().await;
    stage.settle(stage.azure.add_instances(&pool, 1).await.unwrap()).await;
    let now = stage.azure.instances(&stage.embedded.pool()).await.unwrap();
    now.into_iter().find(|i| !known.contains(&i.id)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn original_image_custom_data_and_script_are_restored_by_patches() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let (original, definition) = stripped(&stage).await;
    assert_eq!(grown(&stage).await.runs, ImageSource::ExactVersion(definition, day()));

    let saved = saved(&original);
    stage.settle(azure.put_extension(&pool, &saved).await.unwrap()).await;
    let read = stage.pool().await;
    let back = RecipeChange { image: Some(original.image.clone()), custom_data: Some(Secret::new(CUSTOM_DATA)) };
    stage.settle(azure.set_recipe(&pool, &back, read.revision.as_ref().unwrap()).await.unwrap()).await;

    let mut restored = stage.pool().await.recipe;
    restored.extensions.sort_by_key(|e| e.name.clone());
    let mut expected = original.clone();
    expected.extensions.sort_by_key(|e| e.name.clone());
    assert_eq!(restored, expected);
    assert!(matches!(grown(&stage).await.runs, ImageSource::Marketplace(_)));

    // The patch nulls the other way of naming the image, so that the result does not depend on how Azure merges.
    let seen = stage.embedded.checker.exchanges();
    let patch = seen.iter().rev().find(|e| e.method == "PATCH" && e.request_body.windows(9).any(|w| w == b"publisher"));
    let body: serde_json::Value = serde_json::from_slice(&patch.unwrap().request_body).unwrap();
    let reference = &body["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"];
    assert_eq!(reference.get("id"), Some(&serde_json::Value::Null));
    // The restored extension equals the saved one, and no scale set was PUT.
    let put = seen.iter().find(|e| e.method == "PUT" && e.url.contains("/extensions/vmssCSE")).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&put.request_body).unwrap();
    assert_eq!(body["properties"]["protectedSettings"]["commandToExecute"], "/opt/join.sh --token hunter2");
    assert_eq!(seen.iter().filter(|e| e.method == "PUT" && e.url.contains("virtualMachineScaleSets")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn existing_extension_is_not_overwritten() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let before = stage.pool().await;
    let mut saved = saved(&before.recipe);
    stage.settle(azure.put_extension(&pool, &saved).await.unwrap()).await;
    assert_eq!(stage.embedded.count("PUT", "/extensions/vmssCSE"), 0, "the extension already existed");
    assert_eq!(stage.pool().await.revision, before.revision);

    "Microsoft.Azure.Monitor".clone_into(&mut saved.extension.publisher);
    let error = azure.put_extension(&pool, &saved).await.unwrap_err();
    assert!(error.precondition() && error.to_string().contains("CustomScript"), "{error}");
    assert_eq!(stage.embedded.count("PUT", "/extensions/vmssCSE"), 0);
}

#[tokio::test(start_paused = true)]
async fn saved_extension_never_prints_its_secrets() {
    let stage = Stage::new("");
    let (_, pool) = (&stage.azure, stage.embedded.pool());
    let mut saved = saved(&stage.pool().await.recipe);
    saved.protected_settings = Some(Secret::new("no json: hunter2"));
    let error = stage.azure.put_extension(&pool, &saved).await.unwrap_err();
    for text in [error.to_string(), format!("{error:?}"), format!("{saved:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(error.to_string().contains("protectedSettings"), "{error}");
}
