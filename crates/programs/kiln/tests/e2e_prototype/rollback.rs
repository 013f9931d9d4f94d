//! `rollback`.

use crate::golden::assert_golden;
use crate::world::{POOL, SMALL, World, is_ready};

fn day(number: u32) -> String {
    format!("2026-11-{number:02}T01:00:00Z")
}

/// Half an hour after [`day`], so that ages do not depend on seconds.
fn later(number: u32) -> String {
    format!("2026-11-{number:02}T01:30:00Z")
}

#[test]
fn rollback_excludes_the_version_and_pauses_the_pool() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    let only = world.run(&["rollback"]);
    assert_eq!(only.code, Some(1), "{only}");
    assert!(only.stderr.contains("has no versions"), "{only}");

    world.exits_with(0, &["update", "--target-node", &donor]);
    let last = world.exits_with(1, &["rollback"]);
    assert!(last.stderr.contains("is its only usable version"), "{last}");
    world.exits_with(0, &["update", "--target-node", &donor, "--new-updated-nodes", "1", "--now", &day(17)]);

    let dry = world.exits_with(0, &["rollback", "--dry-run", "--now", &day(18)]);
    assert_golden("rollback-dry.txt", &dry.stdout);
    let back =
        world.exits_with(0, &["rollback", "--reason", "packet loss", "--after", "2026-12-01", "--now", &day(18)]);
    assert_golden("rollback.txt", &format!("{}{}", back.stdout, back.stderr));
    assert_golden("rollback-status.txt", &world.exits_with(0, &["status", "--now", &later(19)]).stdout);
    let again = world.exits_with(1, &["rollback", "--now", &day(19)]);
    assert!(again.stderr.contains("already rolled back"), "{again}");

    let unpaused = world.exits_with(0, &["rollback", "--unpause", "--now", &day(20)]);
    assert!(unpaused.stdout.contains(": unpaused; "), "{unpaused}");
    world.exits_with(1, &["rollback", "--unpause"]);
    let status = world.exits_with(0, &["status", "--output", "json", "--now", &day(20)]).json();
    assert!(status["pools"][0]["pause"].is_null(), "{status}");
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.16", "{status}");

    // A person can also move forward again.
    world.exits_with(0, &["rollback", "--to", "2026.11.17", "--now", &day(20)]);
    let status = world.exits_with(0, &["status", "--output", "json", "--now", &day(20)]).json();
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.17", "{status}");
}

#[test]
fn original_recipe_is_restored_with_script_and_custom_data() {
    let world = World::instant(SMALL);
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    let back = world.exits_with(0, &["rollback", "--to", "original", "--now", &day(17)]);
    assert_golden("rollback-original.txt", &back.stdout);
    assert_golden("rollback-original-status.txt", &world.exits_with(0, &["status", "--now", &later(17)]).stdout);
    // A marketplace image only becomes a node with its custom data and script.
    world.scale(4);
    world.wait_until("a node of the original recipe joined", || {
        world.nodes().iter().filter(|node| is_ready(node)).count() == 4
    });
    // The next run is a first run again.
    world.exits_with(0, &["rollback", "--unpause"]);
    let same = world.exits_with(1, &["plan", "--target-node", &World::donor(), "--now", &day(18)]);
    assert!(same.stdout.contains("has the changes for which version 2026.11.16 was rejected"), "{same}");
    let plan =
        world.exits_with(0, &["plan", "--target-node", &World::donor(), "--allow-rejected-patch", "--now", &day(18)]);
    assert!(plan.stdout.contains("remove the script extensions vmssCSE"), "{plan}");
    assert!(plan.stdout.contains(&format!("pool: {POOL}")), "{plan}");
}
