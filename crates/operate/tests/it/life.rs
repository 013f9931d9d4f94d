//! Whole runs.

use std::sync::Arc;

use kiln_operate::{Ending, update};
use tokio::time::Instant;

use crate::world::{Loud, Made, request};

#[tokio::test(start_paused = true)]
async fn a_first_run_makes_every_new_node_a_copy_of_the_donor() {
    let world = Made::quick().start().await;
    let report = update(&world.process(Arc::new(Loud(Instant::now()))), &request(1)).await.unwrap();
    for line in world.wire.seen() {
        println!("{} {} {}", line.0, line.1, line.2);
    }
    assert_eq!(report.ending, Ending::Completed { version: "2026.11.15".parse().unwrap() });
}
