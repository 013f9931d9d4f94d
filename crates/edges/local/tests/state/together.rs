//! Several processes at once. A lock is of the file that was opened, so that a store opened anew is as good as another process.

use std::collections::BTreeSet;

use kiln_types::{Factory, FactoryError, Machines, Tags};
use tokio::task::JoinSet;

use crate::support::{Setup, machine_spec, pool, with_pool};

/// Enough that each comes in the middle of another's work.
const PROCESSES: usize = 8;

#[tokio::test]
async fn of_all_who_saw_the_same_pool_one_adds_to_it() {
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
async fn no_write_of_many_is_lost() {
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
async fn machines_made_at_once_share_no_number_and_no_disk() {
    let setup = Setup::new();
    with_pool(&setup.process(), &setup.base()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..PROCESSES {
        let local = setup.process();
        let spec = machine_spec(&format!("m{}", number / 2), "/local/images/debian", "alice");
        tasks.spawn(async move { local.create(&spec).await.unwrap() });
    }
    tasks.join_all().await;
    let shown = setup.process().machines().await.unwrap();
    assert_eq!(shown.len(), 2 + PROCESSES / 2);
    let numbers: BTreeSet<u16> = shown.iter().map(|machine| machine.number).collect();
    assert_eq!(numbers.len(), shown.len());
    assert_eq!(setup.runner.on().len(), shown.len());
}
