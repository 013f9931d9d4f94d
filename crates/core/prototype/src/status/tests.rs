use super::*;
use crate::sample::{definition_name, exact, excluded, instance, line, marketplace, number, pool, tags, version};

struct World {
    pool: Pool,
    line: Option<ImageDefinition>,
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
        line: Some(line()),
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
        line: world.line.as_ref(),
        versions: &world.versions,
        instances: &world.instances,
        last_set: world.last_set.as_ref(),
        now: "2026-11-22T20:00:00Z".parse().unwrap(),
    })
}

#[test]
fn a_pool_that_is_as_the_operation_left_it() {
    assert_eq!(
        status(|_| ()).to_string(),
        "pool: k8s-agentpool1-26100436-vmss in westus2\n\
         line: SIG_kubernetes_westus2_17813/kamino-k8s-agentpool1-26100436-vmss-prototype\n\
         new nodes get 2026.11.15 (latest), 7 d old\n\
         model: follows the line\n\
         2026.11.15: succeeded, new nodes get it; copied: West US 2 100 %; 7 d old; built from node3; 2 instances\n\
         2026.11.08: succeeded; copied: West US 2 100 %; 14 d 20 h old; 0 instances\n\
         2 instances run 2026.11.15\n\
         1 instances run microsoft-aks:aks:aks-engine-ubuntu-1804-202007:2020.07.24\n"
    );
}

#[test]
fn a_version_that_is_still_being_copied_shows_how_far() {
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
fn an_age_beyond_what_was_asked_for_does_not_hold() {
    let aged = |text: &str| status(|_| ()).max_age(text.parse().unwrap());
    assert!(aged("7d").is_fresh());
    assert!(!aged("6d").is_fresh());
    let text = aged("6d").to_string();
    assert!(text.starts_with("age: 7 d, more than 6 d"), "{text}");
}

#[test]
fn a_pool_that_gets_no_version_of_ours_is_not_fresh() {
    let elsewhere = status(|w| w.pool.recipe.image = marketplace());
    assert_eq!(elsewhere.max_age(Span::from_days(1000)), AgeCheck::Unknown);
}

#[test]
fn a_pool_before_its_first_run_is_nobodys_fault() {
    let first = status(|w| {
        w.pool.recipe.image = marketplace();
        w.versions.clear();
        w.line = None;
    });
    assert_eq!(first.model, Model::NotYet);
    assert!(first.to_string().contains("(does not exist yet)"));
}

#[test]
fn a_model_that_somebody_set_back_is_told_even_without_a_journal() {
    let back = status(|w| w.pool.recipe.image = marketplace());
    assert!(matches!(&back.model, Model::ChangedExternally { was: None, .. }));
    assert!(back.to_string().contains("set by somebody else to microsoft-aks:aks"), "{back}");
}

#[test]
fn a_model_that_differs_from_what_the_last_run_set_is_told_with_both() {
    let back = status(|w| {
        w.last_set = Some(ImageSource::Definition(definition_name()));
        w.pool.recipe.image = exact("2026.11.08");
    });
    assert!(matches!(&back.model, Model::ChangedExternally { was: Some(was), .. } if was.ends_with("(latest)")));
    assert_eq!(status(|w| w.last_set = Some(ImageSource::Definition(definition_name()))).model, Model::Definition);
}

#[test]
fn versions_that_nobody_may_get_do_not_make_the_owners_model_look_set_back() {
    let canary = status(|w| {
        w.pool.recipe.image = marketplace();
        w.versions = vec![excluded("2026.11.15")];
    });
    assert_eq!(canary.model, Model::NotYet);
}

#[test]
fn the_original_recipe_after_a_roll_back_was_not_set_by_somebody_else() {
    let original = status(|w| {
        w.pool.recipe.image = marketplace();
        w.line.as_mut().unwrap().tags = tags([("kiln-paused", "to=original; because=rejected")]);
    });
    assert_eq!(original.model, Model::Original);
    assert!(original.to_string().contains("on pause, taken back to original: rejected"), "{original}");
}

#[test]
fn a_pinned_model_names_its_version() {
    let pinned = status(|w| w.pool.recipe.image = exact("2026.11.08"));
    assert_eq!(pinned.model, Model::Pinned { version: number("2026.11.08") });
    assert_eq!(pinned.new_nodes, NewNodes::Pinned(number("2026.11.08")));
}

#[test]
fn bad_versions_and_who_runs_them_are_marked() {
    let rejected = status(|w| {
        w.versions[1].excluded = true;
        w.line.as_mut().unwrap().tags = tags([("kiln-rejected", "2026.11.15"), ("kiln-paused", "because=rejected")]);
    });
    let text = rejected.to_string();
    assert!(text.contains("2026.11.15: succeeded, excluded, taken back;"), "{text}");
    assert!(text.contains("2 instances run 2026.11.15, which was taken back; `kiln prototype refresh`"), "{text}");
    assert!(text.contains("new nodes get 2026.11.08 (latest)"), "{text}");
}

#[test]
fn a_model_that_names_a_line_without_a_usable_version_makes_no_nodes() {
    let none = status(|w| w.versions.iter_mut().for_each(|version| version.excluded = true));
    assert_eq!(none.new_nodes, NewNodes::NothingUsable);
    assert!(none.to_string().contains("new nodes cannot be made"));
}

#[test]
fn the_json_says_what_the_text_says() {
    let json = serde_json::to_value(status(|_| ())).unwrap();
    assert_eq!(json["newNodes"], serde_json::json!({"kind": "latest", "of": "2026.11.15"}));
    assert_eq!(json["versions"][0]["provenance"]["builtFrom"], "node3");
    assert_eq!((json["age"].as_str(), json["model"]["kind"].as_str()), (Some("7d"), Some("line")));
    assert_eq!(json["runs"][0]["instances"], 2);
}

#[test]
fn a_row_has_a_cell_under_every_heading() {
    let status = status(|_| ());
    assert_eq!(status.versions[0].cells().len(), VersionRow::HEADINGS.len());
    assert_eq!(status.versions[0].cells()[5], "1036");
}
