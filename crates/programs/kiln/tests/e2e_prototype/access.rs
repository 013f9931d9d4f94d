//! `check-access`: one row for each permission.

use crate::golden::golden;
use crate::world::{SMALL, World};

#[test]
fn check_access_lists_each_permission_and_fails_if_one_is_missing() {
    let world = World::instant(SMALL);
    golden("access.txt", &world.ends(0, &["check-access"]).stdout);

    let less = "clients: [{clientId: 11111111-1111-1111-1111-111111111111, clientSecret: s3cret,
        notActions: [Microsoft.Compute/snapshots/write, Microsoft.Compute/virtualMachineScaleSets/delete/action]}]\n";
    let world = World::instant(&format!("{less}{SMALL}"));
    let checked = world.ends(1, &["check-access"]);
    let missing: Vec<&str> = checked.stdout.lines().filter(|line| line.starts_with("MISSING")).collect();
    golden("access-missing.txt", &format!("{}\n{}", missing.join("\n"), checked.stderr));
    let rows = world.ends(1, &["check-access", "--output", "json"]).json();
    let denied = |row: &&serde_json::Value| row["allowed"] == false && row["onlyFor"].is_null();
    let denied: Vec<_> = rows["rows"].as_array().expect("rows").iter().filter(denied).collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(denied[0]["action"], "Microsoft.Compute/snapshots/write");

    // A run is refused before it changes anything.
    let refused = world.ends(1, &["update", "--target-node", &World::donor()]);
    assert!(refused.stdout.contains("Microsoft.Compute/snapshots/write"), "{refused}");
    assert!(refused.stdout.contains("nothing was changed"), "{refused}");
    assert_eq!(world.journal(), "");
}
