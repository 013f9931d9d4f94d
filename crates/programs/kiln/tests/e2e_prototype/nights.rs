//! Automatic runs, night after night.

use crate::golden::assert_golden;
use crate::world::{POOL, SMALL, World, node};

const REBOOT: &str = "weave.works/kured-reboot-in-progress";
const PATCHED: &str = "weave.works/kured-most-recent-reboot-needed";

fn auto<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["auto-update", "--pending-reboot-annotation", REBOOT, "--last-patch-annotation", PATCHED];
    all.extend(["--minimum-ready-time", "0"]);
    all.extend(more);
    all
}

#[test]
fn best_patched_node_is_chosen_and_a_table_has_the_reasons() {
    let world = World::instant(SMALL);
    world.annotate(&node(0), &[(PATCHED, "2026-11-15T03:00:00Z")]);
    world.annotate(&node(1), &[(PATCHED, "2026-11-15T03:00:00Z"), (REBOOT, "yes")]);
    let dry = world.exits_with(0, &auto(&["--dry-run"]));
    assert_golden("auto-dry.txt", &dry.stdout);
    assert_eq!(world.journal(), "", "a dry run writes nothing");

    let none = world.exits_with(0, &auto(&["--ignore-nodes", &node(0)]));
    assert!(none.stdout.contains("skipped"), "{none}");
    let ran = world.exits_with(0, &auto(&[]));
    assert_golden("auto.txt", &ran.stdout);
    // The second run of the same night finds no newer patch.
    let again = world.exits_with(0, &auto(&["--output", "json"])).json();
    assert_eq!(again["pools"][0]["outcome"], "skipped", "{again}");
}

#[test]
fn rejected_patch_is_not_published_again_for_ten_nights() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    // The first version has the old patches; the second one has the new patches and is rolled back.
    world.exits_with(0, &["update", "--target-node", &node(1), "--now", "2026-11-01T01:00:00Z"]);
    world.annotate(&donor, &[(PATCHED, "2026-11-03T03:00:00Z")]);
    world.exits_with(0, &auto(&["--now", "2026-11-04T01:00:00Z"]));
    world.exits_with(0, &["rollback", "--after", "2026-11-06", "--now", "2026-11-05T01:00:00Z"]);
    for night in 5..15 {
        let now = format!("2026-11-{night:02}T02:00:00Z");
        // Each night the annotation has the date of the day before, but the node's disk does not change.
        world.annotate(&donor, &[(PATCHED, &format!("2026-11-{:02}T03:00:00Z", night - 1))]);
        let finished = world.exits_with(1, &auto(&["--output", "json", "--now", &now]));
        let report = finished.json();
        assert_eq!(report["pools"][0]["outcome"], "skipped", "{night}: {report}");
        let (problem, label) = if night == 5 { ("paused", "paused") } else { ("rejectedPatch", "rejected") };
        assert_eq!(report["pools"][0]["problem"], problem, "{night}: {report}");
        assert_eq!(report["metrics"][0], format!("kiln_pool_skipped_nights{{pool=\"{POOL}\"}} {}", night - 4));
        assert_eq!(report["metrics"][1], format!("kiln_pool_blocked{{pool=\"{POOL}\",reason=\"{label}\"}} 1"));
        assert!(finished.stderr.contains("hint: "), "{finished}");
        let versions = report["status"]["pools"][0]["versions"].as_array().expect("versions");
        let numbers: Vec<_> = versions.iter().map(|version| version["number"].clone()).collect();
        assert_eq!(numbers, ["2026.11.04", "2026.11.01"], "{night}");
        assert_eq!(report["status"]["pools"][0]["newNodes"]["of"], "2026.11.01", "{night}");
    }
    let now = "2026-11-14T03:00:00Z";
    world.exits_with(0, &auto(&["--allow-skipped", "--now", now]));
    let consented = world.exits_with(0, &auto(&["--allow-rejected-patch", "--now", now, "--dry-run"]));
    assert!(consented.stdout.contains("skipped"), "the choice of a donor does not use consents: {consented}");
}

#[test]
fn pool_that_is_skipped_too_often_fails_with_an_event_and_recovers() {
    let world = World::instant(SMALL);
    for night in 1..=3 {
        let now = format!("2026-11-{night:02}T02:00:00Z");
        let code = u8::from(night == 3);
        let skipped = world.exits_with(code.into(), &auto(&["--max-skipped-nights", "3", "--now", &now]));
        assert!(skipped.stdout.contains(&format!("skipped {night} nights in a row, since 2026-11-01")), "{skipped}");
        // A second attempt on the same day is not another night.
        world.exits_with(code.into(), &auto(&["--max-skipped-nights", "3", "--now", &now]));
    }
    assert!(world.events().iter().any(|event| event.contains("PrototypeSkipped")), "{:?}", world.events());
    world.annotate(&node(0), &[(PATCHED, "2026-11-15T03:00:00Z")]);
    world.exits_with(0, &auto(&["--now", "2026-11-16T01:00:00Z"]));
    let again = world.exits_with(0, &auto(&["--max-skipped-nights", "3", "--now", "2026-11-17T01:00:00Z"]));
    assert!(again.stdout.contains("skipped 1 nights in a row, since 2026-11-17"), "{again}");
}
