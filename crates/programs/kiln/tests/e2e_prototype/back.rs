//! The way back.

use crate::golden::golden;
use crate::world::{POOL, SMALL, World, is_ready};

fn day(number: u32) -> String {
    format!("2026-11-{number:02}T01:00:00Z")
}

/// Half an hour later, so that ages do not depend on seconds.
fn later(number: u32) -> String {
    format!("2026-11-{number:02}T01:30:00Z")
}

#[test]
fn a_bad_version_is_taken_back_in_one_write_and_the_pool_is_on_hold() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    let only = world.run(&["rollback"]);
    assert_eq!(only.code, Some(1), "{only}");
    assert!(only.stderr.contains("has no versions yet"), "{only}");

    world.ends(0, &["update", "--target-node", &donor]);
    let last = world.ends(1, &["rollback"]);
    assert!(last.stderr.contains("is the only usable version"), "{last}");
    world.ends(0, &["update", "--target-node", &donor, "--new-updated-nodes", "1", "--now", &day(17)]);

    let dry = world.ends(0, &["rollback", "--dry-run", "--now", &day(18)]);
    golden("rollback-dry.txt", &dry.stdout);
    let back = world.ends(0, &["rollback", "--reason", "packet loss", "--after", "2026-12-01", "--now", &day(18)]);
    golden("rollback.txt", &format!("{}{}", back.stdout, back.stderr));
    golden("rollback-status.txt", &world.ends(0, &["status", "--now", &later(19)]).stdout);
    let again = world.ends(1, &["rollback", "--now", &day(19)]);
    assert!(again.stderr.contains("already rolled back"), "{again}");

    let lifted = world.ends(0, &["rollback", "--lift-hold", "--now", &day(20)]);
    assert!(lifted.stdout.contains("the hold is lifted"), "{lifted}");
    world.ends(1, &["rollback", "--lift-hold"]);
    let status = world.ends(0, &["status", "--output", "json", "--now", &day(20)]).json();
    assert!(status["pools"][0]["hold"].is_null(), "{status}");
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.16", "{status}");

    // And forward again, by a person.
    world.ends(0, &["rollback", "--to", "2026.11.17", "--now", &day(20)]);
    let status = world.ends(0, &["status", "--output", "json", "--now", &day(20)]).json();
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.17", "{status}");
}

#[test]
fn the_recipe_before_the_first_run_comes_back_with_script_and_custom_data() {
    let world = World::instant(SMALL);
    world.ends(0, &["update", "--target-node", &World::donor()]);
    let back = world.ends(0, &["rollback", "--to", "original", "--now", &day(17)]);
    golden("rollback-original.txt", &back.stdout);
    golden("rollback-original-status.txt", &world.ends(0, &["status", "--now", &later(17)]).stdout);
    // A marketplace image becomes a node by its custom data and script alone.
    world.scale(4);
    world.until("a node of the old recipe joined", || world.nodes().iter().filter(|node| is_ready(node)).count() == 4);
    // The next run takes the same way as the first.
    world.ends(0, &["rollback", "--lift-hold"]);
    let same = world.ends(1, &["plan", "--target-node", &World::donor(), "--now", &day(18)]);
    assert!(same.stdout.contains("has what 2026.11.16 was taken back for"), "{same}");
    let plan = world.ends(0, &["plan", "--target-node", &World::donor(), "--force", "--now", &day(18)]);
    assert!(plan.stdout.contains("remove the script extensions vmssCSE"), "{plan}");
    assert!(plan.stdout.contains(&format!("pool: {POOL}")), "{plan}");
}
