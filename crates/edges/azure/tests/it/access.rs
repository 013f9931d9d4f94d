//! The caller's permissions.

use kiln_azure::Azure;
use kiln_azure::role::ACTIONS;
use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{AccessScope, Factory, FactoryError, NeededFor, allowances};

use crate::embedded::Embedded;

/// Returns a client whose role has these `actions` and `notActions`.
fn with_role(actions: &[&str], not_actions: &[&str]) -> (Embedded, Azure) {
    let owned = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect();
    let mut spec = WorldSpec::default();
    spec.clients[0].actions = owned(actions);
    spec.clients[0].not_actions = owned(not_actions);
    let embedded = Embedded::new(spec, Speed::Factor(1.0), "");
    let azure = embedded.azure();
    (embedded, azure)
}

async fn missing(azure: &Azure, scope: &AccessScope) -> Vec<&'static str> {
    let grants = azure.permissions(scope).await.unwrap();
    allowances(azure.needs(), &grants).iter().filter(|row| !row.allowed).map(|row| row.need.action).collect()
}

#[tokio::test(start_paused = true)]
async fn exactly_the_missing_actions_are_named() {
    for need in &ACTIONS {
        let (_world, azure) = with_role(&["*"], &[need.action]);
        assert_eq!(missing(&azure, &AccessScope::Home).await, [need.action]);
    }
}

#[tokio::test(start_paused = true)]
async fn role_with_the_listed_actions_is_sufficient() {
    let actions = ACTIONS.map(|need| need.action);
    let (embedded, azure) = with_role(&actions, &[]);
    assert_eq!(missing(&azure, &AccessScope::Home).await, [] as [&str; 0]);
    azure.describe_pool(&embedded.pool()).await.unwrap();
    let (embedded, azure) = with_role(&actions[1..], &[]);
    assert_eq!(missing(&azure, &AccessScope::Home).await, [actions[0]]);
    let error = azure.find_gallery(&"SIG_x".parse().unwrap()).await.unwrap_err();
    assert!(error.permission(), "{error}");
    drop(embedded);
}

#[tokio::test(start_paused = true)]
async fn linked_resources_are_checked_in_their_own_scope() {
    let (embedded, azure) = with_role(&["*"], &[]);
    let (_, linked) = azure.describe_linked(&embedded.pool()).await.unwrap();
    let needed: Vec<_> = ACTIONS.iter().filter(|need| need.needed_for == NeededFor::Linked).collect();
    assert!(!linked.is_empty());
    for link in linked {
        assert!(azure.is_home(&link.resource.to_uppercase()) && !azure.is_home("/subscriptions/x/resourceGroups/y"));
        assert!(needed.iter().any(|need| need.action == link.action), "{link:?}");
        let scope = AccessScope::Resource(link.resource.clone());
        assert_eq!(missing(&azure, &scope).await, [] as [&str; 0]);
        let path = format!("{}/providers/Microsoft.Authorization/permissions", link.resource);
        assert_eq!(embedded.count("GET", &path), 1);
    }
    let error = azure.permissions(&AccessScope::Resource("https://elsewhere/x".into())).await.unwrap_err();
    assert!(matches!(error, kiln_azure::Error::Id(_)), "{error}");
}
