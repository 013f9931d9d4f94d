use super::*;
use crate::sample::{definition, definition_name, exact, excluded, instance, marketplace, number, pool, tags, version};

struct World {
    pool: Pool,
    definition: Option<ImageDefinition>,
    versions: Vec<ImageVersion>,
    instances: Vec<Instance>,
    last_set: Option<ImageSource>,
}

fn world() -> World {
    let mut pool = pool();
    pool.recipe.image = ImageSource::Definition(definition_name());
    let mut newest = version("2026.11.15");
    newest.tags = tags([("BuiltFrom", "node3"), ("BuiltAt", "2026-11-15 20:00:00.000000"), ("kiln-kernel", "1036")]);
    World {
        pool,
        definition: Some(definition()),
        versions: vec![version("2026.11.08"), newest],
        instances: vec![instance(0, marketplace()), instance(1, exact("2026.11.15")), instance(2, exact("2026.11.15"))],
        last_set: None,
    }
}

fn status(change: impl FnOnce(&mut World)) -> Status {
    let mut world = world();
    change(&mut world);
    Status::new(StatusInput {
        pool: &world.pool,
        definition_name: &definition_name(),
        definition: world.definition.as_ref(),
        versions: &world.versions,
        instances: &world.instances,
        last_set: world.last_set.as_ref(),
        now: "2026-11-22T20:00:00Z".parse().unwrap(),
    })
}

#[test]
fn status_of_a_pool_after_a_run() {
    assert_eq!(
        status(|_| ()).to_string(),
        "pool: k8s-agentpool1-26100436-vmss in westus2\n\
         definition: SIG_kubernetes_westus2_17813/kamino-k8s-agentpool1-26100436-vmss-prototype\n\
         new nodes get 2026.11.15 (latest), 7 d old\n\
         model: the latest version of the image definition\n\
         2026.11.15: succeeded, new nodes get it; replicated: West US 2 100 %; 7 d old; built from node3; 2 instances\n\
         2026.11.08: succeeded; replicated: West US 2 100 %; 14 d 20 h old; 0 instances\n\
         2 instances run 2026.11.15\n\
         1 instances run microsoft-aks:aks:aks-engine-ubuntu-1804-202007:2020.07.24\n"
    );
}

#[test]
fn incomplete_version_shows_its_replication() {
    let row = status(|w| {
        w.versions[1].state = VersionState::Creating;
        w.versions[1].regions[0].complete = false;
        w.versions[1].regions[0].percent = Some(100);
    });
    assert_eq!(row.versions[0].replication["West US 2"], 99);
    assert_eq!(row.new_nodes, NewNodes::Latest(number("2026.11.08")));
    assert!(row.versions[1].current && !row.versions[0].current);
}

#[test]
fn age_beyond_the_limit_is_not_fresh() {
    let aged = |text: &str| status(|_| ()).max_age(text.parse().unwrap());
    assert!(aged("7d").is_fresh());
    assert!(!aged("6d").is_fresh());
    let text = aged("6d").to_string();
    assert!(text.starts_with("age: 7 d, more than 6 d"), "{text}");
}

#[test]
fn pool_without_a_version_is_not_fresh() {
    let elsewhere = status(|w| w.pool.recipe.image = marketplace());
    assert_eq!(elsewhere.max_age(Span::from_days(1000)), AgeCheck::Unknown);
}

#[test]
fn pool_before_its_first_run_is_unchanged() {
    let first = status(|w| {
        w.pool.recipe.image = marketplace();
        w.versions.clear();
        w.definition = None;
    });
    assert_eq!(first.model, Model::NotYet);
    assert!(first.to_string().contains("(does not exist yet)"));
}

#[test]
fn external_change_of_the_model_is_found_without_a_journal() {
    let back = status(|w| w.pool.recipe.image = marketplace());
    assert!(matches!(&back.model, Model::ChangedExternally { was: None, .. }));
    assert!(back.to_string().contains("changed by another program to microsoft-aks:aks"), "{back}");
}

#[test]
fn external_change_of_the_model_is_shown_with_both_values() {
    let back = status(|w| {
        w.last_set = Some(ImageSource::Definition(definition_name()));
        w.pool.recipe.image = exact("2026.11.08");
    });
    assert!(matches!(&back.model, Model::ChangedExternally { was: Some(was), .. } if was.ends_with("(latest)")));
    assert_eq!(status(|w| w.last_set = Some(ImageSource::Definition(definition_name()))).model, Model::Definition);
}

#[test]
fn excluded_versions_do_not_count_as_an_external_change() {
    let canary = status(|w| {
        w.pool.recipe.image = marketplace();
        w.versions = vec![excluded("2026.11.15")];
    });
    assert_eq!(canary.model, Model::NotYet);
}

#[test]
fn rollback_to_the_original_recipe_is_not_an_external_change() {
    let original = status(|w| {
        w.pool.recipe.image = marketplace();
        w.definition.as_mut().unwrap().tags = tags([("kiln-paused", "to=original; because=rejected")]);
    });
    assert_eq!(original.model, Model::Original);
    assert!(original.to_string().contains("paused, rolled back to original: rejected"), "{original}");
}

#[test]
fn pinned_model_shows_its_version() {
    let pinned = status(|w| w.pool.recipe.image = exact("2026.11.08"));
    assert_eq!(pinned.model, Model::Pinned { version: number("2026.11.08") });
    assert_eq!(pinned.new_nodes, NewNodes::Pinned(number("2026.11.08")));
}

#[test]
fn rejected_versions_and_their_instances_are_marked() {
    let rejected = status(|w| {
        w.versions[1].excluded = true;
        w.definition.as_mut().unwrap().tags =
            tags([("kiln-rejected", "2026.11.15"), ("kiln-paused", "because=rejected")]);
    });
    let text = rejected.to_string();
    assert!(text.contains("2026.11.15: succeeded, excluded, rejected;"), "{text}");
    assert!(text.contains("2 instances run 2026.11.15, which was rejected; `kiln prototype refresh`"), "{text}");
    assert!(text.contains("new nodes get 2026.11.08 (latest)"), "{text}");
}

#[test]
fn definition_without_a_usable_version_creates_no_nodes() {
    let none = status(|w| w.versions.iter_mut().for_each(|version| version.excluded = true));
    assert_eq!(none.new_nodes, NewNodes::NothingUsable);
    assert!(none.to_string().contains("new nodes cannot be created"));
}

#[test]
fn json_has_the_same_contents_as_the_text() {
    let json = serde_json::to_value(status(|_| ())).unwrap();
    assert_eq!(json["newNodes"], serde_json::json!({"kind": "latest", "of": "2026.11.15"}));
    assert_eq!(json["versions"][0]["provenance"]["builtFrom"], "node3");
    assert_eq!((json["age"].as_str(), json["model"]["kind"].as_str()), (Some("7d"), Some("definition")));
    assert_eq!(json["runs"][0]["instances"], 2);
}

#[test]
fn version_rows_have_a_cell_for_each_heading() {
    let status = status(|_| ());
    assert_eq!(status.versions[0].cells().len(), VersionRow::HEADINGS.len());
    assert_eq!(status.versions[0].cells()[5], "1036");
}
