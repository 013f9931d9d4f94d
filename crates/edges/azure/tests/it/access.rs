//! What the caller may do, as Azure's roles say.

use kiln_azure::Azure;
use kiln_azure::role::ACTIONS;
use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{AccessScope, Factory, FactoryError, NeededFor, allowances};

use crate::embedded::Embedded;

/// A client whose role grants and leaves out these patterns.
fn with_role(actions: &[&str], not_actions: &[&str]) -> (Embedded, Azure) {
    let owned = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect();
    let mut spec = WorldSpec::default();
    spec.clients[0].actions = owned(actions);
    spec.clients[0].not_actions = owned(not_actions);
    let world = Embedded::new(spec, Speed::Factor(1.0), "");
    let azure = world.azure();
    (world, azure)
}

async fn missing(azure: &Azure, scope: &AccessScope) -> Vec<&'static str> {
    let grants = azure.permissions(scope).await.unwrap();
    allowances(azure.needs(), &grants).iter().filter(|row| !row.allowed).map(|row| row.need.action).collect()
}

#[tokio::test(start_paused = true)]
async fn each_action_that_a_role_lacks_is_named_and_no_other() {
    for need in &ACTIONS {
        let (_world, azure) = with_role(&["*"], &[need.action]);
        assert_eq!(missing(&azure, &AccessScope::Home).await, [need.action]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_listed_actions_alone_are_a_role_that_lacks_nothing_and_reads_the_pool() {
    let actions = ACTIONS.map(|need| need.action);
    let (world, azure) = with_role(&actions, &[]);
    assert_eq!(missing(&azure, &AccessScope::Home).await, [] as [&str; 0]);
    azure.describe_pool(&world.pool()).await.unwrap();
    let (world, azure) = with_role(&actions[1..], &[]);
    assert_eq!(missing(&azure, &AccessScope::Home).await, [actions[0]]);
    let error = azure.find_gallery(&"SIG_x".parse().unwrap()).await.unwrap_err();
    assert!(error.permission(), "{error}");
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_refers_to_is_asked_for_where_it_is() {
    let (world, azure) = with_role(&["*"], &[]);
    let linked = azure.linked(&world.pool()).await.unwrap();
    let needed: Vec<_> = ACTIONS.iter().filter(|need| need.needed_for == NeededFor::Linked).collect();
    assert!(!linked.is_empty());
    for link in linked {
        assert!(needed.iter().any(|need| need.action == link.action), "{link:?}");
        let scope = AccessScope::Resource(link.resource.clone());
        assert_eq!(missing(&azure, &scope).await, [] as [&str; 0]);
        let path = format!("{}/providers/Microsoft.Authorization/permissions", link.resource);
        assert_eq!(world.count("GET", &path), 1);
    }
    let error = azure.permissions(&AccessScope::Resource("https://elsewhere/x".into())).await.unwrap_err();
    assert!(matches!(error, kiln_azure::Error::Id(_)), "{error}");
}
