//! `check-access`: one row for each permission.

use crate::golden::assert_golden;
use crate::world::{SMALL, World};

#[test]
fn check_access_lists_each_permission_and_fails_if_one_is_missing() {
    let world = World::instant(SMALL);
    assert_golden("access.txt", &world.exits_with(0, &["check-access"]).stdout);

    let client = "clients: [{clientId: 11111111-1111-1111-1111-111111111111, clientSecret: s3cret,
        notActions: [Microsoft.Compute/snapshots/write, Microsoft.Compute/virtualMachineScaleSets/delete/action]}]\n";
    let world = World::instant(&format!("{client}{SMALL}"));
    let checked = world.exits_with(1, &["check-access"]);
    let missing: Vec<&str> = checked.stdout.lines().filter(|line| line.starts_with("MISSING")).collect();
    assert_golden("access-missing.txt", &format!("{}\n{}", missing.join("\n"), checked.stderr));
    let rows = world.exits_with(1, &["check-access", "--output", "json"]).json();
    let denied = |row: &&serde_json::Value| row["allowed"] == false && row["onlyFor"].is_null();
    let denied: Vec<_> = rows["rows"].as_array().expect("rows").iter().filter(denied).collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(denied[0]["action"], "Microsoft.Compute/snapshots/write");

    // A run is refused before it changes anything.
    let refused = world.exits_with(1, &["update", "--target-node", &World::donor()]);
    assert!(refused.stdout.contains("Microsoft.Compute/snapshots/write"), "{refused}");
    assert!(refused.stdout.contains("nothing was changed"), "{refused}");
    assert_eq!(world.journal(), "");
}
