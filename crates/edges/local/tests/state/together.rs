//! Several processes at once. A lock belongs to an open file, so a store that is opened again behaves like another process.

use std::collections::BTreeSet;

use kiln_types::{Factory, FactoryError, Machines, Tags};
use tokio::task::JoinSet;

use crate::support::{Setup, machine_spec, pool, with_pool};

/// Enough to interrupt each other.
const PROCESSES: usize = 8;

#[tokio::test]
async fn only_one_of_several_concurrent_changes_to_a_revision_succeeds() {
    let setup = Setup::new();
    let read = with_pool(&setup.process(), &setup.base()).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..PROCESSES {
        let (local, read) = (setup.process(), read.clone());
        tasks.spawn(async move { local.add_instances(&read, 1).await });
    }
    let ended = tasks.join_all().await;
    assert_eq!(ended.iter().filter(|result| result.is_ok()).count(), 1, "{ended:?}");
    assert!(ended.iter().filter_map(|result| result.as_ref().err()).all(FactoryError::precondition), "{ended:?}");
    assert_eq!(setup.process().instances(&pool()).await.unwrap().len(), 3);
}

#[tokio::test]
async fn no_concurrent_change_is_lost() {
    let setup = Setup::new();
    with_pool(&setup.process(), &setup.base()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..PROCESSES {
        let local = setup.process();
        tasks.spawn(async move {
            loop {
                let read = local.describe_pool(&pool()).await.unwrap();
                match local.tag_pool(&read, &Tags::from([(format!("tag-{number}"), String::new())])).await {
                    Ok(_) => return,
                    Err(error) => assert!(error.precondition(), "{error}"),
                }
            }
        });
    }
    tasks.join_all().await;
    let read = setup.process().describe_pool(&pool()).await.unwrap();
    assert_eq!(read.tags.len(), PROCESSES);
}

#[tokio::test]
async fn machines_created_concurrently_share_no_number_and_no_disk() {
    let setup = Setup::new();
    with_pool(&setup.process(), &setup.base()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..PROCESSES {
        let local = setup.process();
        let spec = machine_spec(&format!("m{}", number / 2), "/local/images/debian", "alice");
        tasks.spawn(async move { local.create(&spec).await.unwrap() });
    }
    tasks.join_all().await;
    let machines = setup.process().machines().await.unwrap();
    assert_eq!(machines.len(), 2 + PROCESSES / 2);
    let numbers: BTreeSet<u16> = machines.iter().map(|machine| machine.number).collect();
    assert_eq!(numbers.len(), machines.len());
    assert_eq!(setup.runner.on().len(), machines.len());
}
